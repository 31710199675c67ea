"""Analyses: pure functions over statements and trees, which any room may import.

Dependences and flow (``dependences``, ``flow``, ``carried``, ``delta_box``), access relations
(``linear``, ``window``, ``tile_domain``), and what a schedule costs before it runs (``costs``,
``counting``, ``traffic``).
"""
