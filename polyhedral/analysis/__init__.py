"""Analyses: pure functions over statements and trees, which any room may import.

Distances of dependences (``delta_box``, ``hyperplanes``), access relations (``linear``, ``window``,
``tile_domain``), and how many points there are (``counting``). Dependences and flow themselves are
the proof's (``proof/dependences.py``, ``proof/flow.py``).
"""
