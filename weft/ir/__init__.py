"""The whole vocabulary: every IR with its printer, verifier and interpreter beside it.

Each IR is one file of frozen dataclasses that reads as a grammar, with its semantics on the page.
In the order in which a program goes through them:

1. ``scalar_expr``       the leaf language that all others embed; ``scalar_affine`` is its normal
form of indices 2. ``tensor_expr``       what a program computes; ``build`` is how people write it
3. ``operator_graph``    calls of operators on immutable values 4. ``scop``              affine
statements; ``named_isl`` is isl behind names 5. ``schedule_tree``     in which order their
instances run 6. ``loop_ir``           one kernel as loops over buffers 7. ``program``
kernels in order over one arena 8. ``instruction_stream``  what an accelerator runs

``machine``, ``instruction`` and ``accelerator`` are hardware as data. Nothing here imports
anything but this folder.
"""
