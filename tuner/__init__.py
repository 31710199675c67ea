"""The tuner: searches plans, and takes one only where it is faster for sure.

``tune.py`` is the door, ``weft.tune``. ``problem.py``: what is tuned, a loop kernel or a cluster.
``space.py``: plans one step away. ``search.py``: draft by estimate, verify by the clock, knowing
nothing of programs. ``trial.py``: what worker processes do; ``laboratory.py`` asks them, and
outlives what they do. ``confirm.py``: gains with confidence. ``session.py`` puts these together for
one problem, ``model.py`` for a graph. Records are ``weft/runtime/records.py``; who reads them when
compiling is ``weft/driver/advice.py``.
"""
