"""The stages of the compiler, in order, and what runs around each of them.

``compiler`` (operator graphs) and ``kernel_code`` (loop kernels) read top to bottom; both meet in
``cluster_code``: affine statements → legal schedule → kernels in loop IR. ``passes`` verifies,
times and dumps every stage, ``options`` is all that a user may choose, ``targets`` the processor
as a record. ``assemble`` makes the host program, ``object_code`` and ``program_code`` the machine
code, ``explain`` says why. ``schedule_value`` is the schedule language.
"""
