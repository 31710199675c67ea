"""Analyses: pure functions over statements and trees, which any room may import.

Distances of dependences (``delta_box``, ``hyperplanes``), access relations (``linear``, ``window``,
``tile_domain``), and what a schedule costs before it runs (``costs``, ``counting``, ``traffic``).
Dependences and flow themselves are the proof's (``proof/dependences.py``, ``proof/flow.py``).
"""
