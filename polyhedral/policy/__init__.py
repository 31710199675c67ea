"""What the scheduler chooses: which loops, in which order, in which tiles.

``planner`` is the state of scheduling one Scop and the recursion that all strategies share;
``fuse`` decides on loop fusion (``row_tiles`` and ``strips`` on tiles that several nests share),
``share`` on what a fused loop is like, ``lanes`` on which loop is the vector.

``matrix`` is the strategy for products: ``product`` finds those that gain from register tiles,
``product_costs`` and ``window_costs`` choose the tile, ``cache_tiles`` kc, mc and nc, ``blocked``
builds the loops. ``operand_panels`` says when packing pays, ``pack_once`` and ``pack_per_tile``
where it happens; ``streamed_operand`` and ``stationary_operand`` are other loop orders,
``matrix_vector`` is for products without reuse.

The other strategies: ``stencil`` (time tiles), ``skewed_rows``, ``single``, ``serial``
(carrying loops, shift-and-fuse).
"""
