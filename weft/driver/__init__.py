"""The stages of the compiler, in order, and what runs around each of them.

``compiler`` reads top to bottom: ``graph_front`` or ``loop_front`` gives affine statements,
``cluster_code`` a legal schedule and kernels in loop IR, ``lowered`` is all there is then.
``passes`` verifies, times and dumps every stage, ``options`` is all that a user may choose,
``targets`` the processor as a record. ``assemble`` makes the host program, ``object_code`` and
``program_code`` the machine code, ``explain`` says why. ``schedule_value`` is the schedule
language.
"""
