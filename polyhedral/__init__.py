"""Affine statements, their schedules, and the proof that these are legal.

``from_tensor_expr`` makes statements, ``coalesce`` brings them into normal form.
``schedule_loops`` is the scheduler: it chooses with ``policy`` and changes trees by
``transform``. ``map_instruction`` maps loops onto instructions. ``proof`` has the checkers, which
trust none of that and import none of it, and ``launches`` more of them, for GPUs. ``cost`` says
what a schedule costs. ``analysis`` has pure questions, for other rooms as well.
"""
