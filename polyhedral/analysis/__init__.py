"""Analyses: pure functions over statements and trees, which any room may import.

Dependences and flow (``dependences``, ``flow``, ``carried``, ``delta_box``), access relations
(``linear``, ``window``, ``tile_domain``), and how many points there are (``counting``).
"""
