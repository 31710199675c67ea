"""Accelerators: from statements to a stream of instructions, and whether it can be trusted.

``read_semantics`` reads off an instruction's semantics what it is good for (``capabilities``).
Then, in this order: ``work`` (a sum and what becomes of its results), ``map_work`` (loops inside of
instructions, layouts), ``rank_tilings`` (tiles, order, slots; ``tile_costs`` ranks thousands in
closed form), ``emit`` and ``place`` (the stream, main memory). ``check`` proves a stream,
``timing`` says how long it takes.
"""
