"""Search and measuring.

Who runs which part of a model: ``place.py`` is the door, ``combine.py`` measures and decides,
``placement.py`` finds the best combination by prices alone. ``providers/`` has libraries that run
parts, ``runners.py`` holds them to their word, ``watched.py`` outlives them; ``subgraphs.py`` cuts,
``pipeline.py`` runs. ``turns.py``: times side by side. Cost models are in ``polyhedral/policy``.
"""
