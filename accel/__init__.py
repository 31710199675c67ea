"""Accelerators: from statements to a stream of instructions, and a checker of streams.

``read_semantics`` derives from an instruction's semantics what it can compute (``capabilities``).
Then, in this order: ``work`` (a reduction and its epilogue), ``mappings`` (ways to compute it) and
``map_work`` (which loops are inside an instruction, layouts), ``rank_tilings`` (tiles, loop order,
buffers; ``tile_costs`` ranks thousands in closed form), ``emit`` and ``place`` (the stream, main
memory). ``check`` proves a stream, ``timing`` says how long it takes.
"""
