"""What the scheduler chooses: which loops, in which order, in which tiles.

``planner`` is the state of scheduling one Scop and the recursion that all strategies share;
``fuse`` decides on loop fusion (``row_tiles`` on tiles and strips that several nests share),
``share`` on what a fused loop is like, ``lanes`` on which loop is the vector.

``matrix`` is the strategy for products: ``product`` finds those that gain from register tiles
(``instruction_choice``: by which instruction), ``product_costs`` and ``window_costs`` choose the
tile, ``cache_tiles`` kc, mc and nc, ``blocked`` builds the loops. ``operand_panels`` says what is
packed and where, ``loop_orders`` has other loop orders, ``tile_ends`` is about what shares tiles
with the sums. ``operand_transposition`` comes before.

The other strategies: ``stencil`` (time tiles, by ``time_costs``), ``skewed_rows``, ``single``,
``serial`` (carrying loops, shift-and-fuse). ``large_arrays`` marks finished loops, ``versions`` are
asked for by plans. ``gpu`` and ``gpu_product`` are the scheduler for GPUs.
"""
