"""Loop kernels: plain Python functions of affine loops, executed symbolically from their syntax
trees.

``lower`` walks blocks; ``source`` has trees, names and places in files; ``signature``, ``frame``
and ``values`` say what names stand for, ``expressions`` and ``functions`` what expressions mean.
``affine`` and ``conditions`` tell indices from data; ``loop_range``, ``assign`` and ``builder``
make the statements.
"""
