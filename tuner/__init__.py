"""The tuner: searches plans, and takes one only where it is faster for sure; who runs which part.

Plans: ``tune.py`` is the door, ``weft.tune``. ``problem.py``: what is tuned, a loop kernel or a
cluster. ``space.py``: plans one step away. ``search.py``: draft by estimate, verify by the clock,
knowing nothing of programs. ``trial.py``: what worker processes do, ``workplace.py`` and
``cluster.py`` where; ``laboratory.py`` asks them, and outlives what they do. ``confirm.py``: gains
with confidence. ``session.py`` puts these together for one problem, ``model.py`` for a graph,
``sizes.py`` for calls of several sizes. Records are ``weft/runtime/records.py``; who reads them
when compiling is ``weft/driver/advice.py``.

Who runs which part of a model: ``place.py`` is the door, ``combine.py`` measures and decides,
``placement.py`` finds the best combination by prices alone. ``providers/`` has libraries that run
parts, ``runners.py`` holds them to their word, ``watched.py`` outlives them; ``subgraphs.py`` cuts,
``pipeline.py`` runs. ``turns.py``: times side by side.
"""
