"""What the scheduler chooses: which loops, in which order, in which tiles.

``planner`` is the state of scheduling one Scop and the recursion that all strategies share;
``fuse`` says who shares a loop, ``share`` what that loop is like, ``lanes`` which loop is the
vector. Strategies: ``matrix`` (register tiles; ``product`` finds what gains, ``product_costs``
and ``window_costs`` choose the tile, ``cache_tiles`` the tiles for caches, ``blocked`` builds the
loops, ``operand_panels`` and ``product_panels`` pack), ``stencil`` (time tiles and skewed rows),
``single``, ``serial``.
"""
