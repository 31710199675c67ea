"""Loop IR and host programs as LLVM IR.

``builder`` writes text, ``frame`` is what is known at one point of a kernel. ``kernel`` →
``statements`` → ``expressions``, ``memory`` and ``store``; ``vector`` has vector loops, ``tiles``
matrix units. ``program`` is the entry point over ``runtime``'s thread pool (``launch``,
``barrier``, ``region``).
"""
