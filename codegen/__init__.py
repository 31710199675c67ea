"""Schedule trees → loop IR → LLVM IR → object code.

``from_schedule`` lets isl scan the tree (``register_tile`` writes tiles in closed form),
``optimise_kernel`` lists the passes over loops, one file each; ``llvm`` writes LLVM IR,
``math_functions`` and its like the functions that hardware lacks, ``objects`` links. ``machines``
has processors and their instructions as records; ``target`` and ``architectures`` have what LLVM
needs to know of them.
"""
