"""What a scheduled program costs on a machine, before it runs: an estimate, and a bound.

``price.py`` is the door. ``forms.py`` reads many candidates that differ in numbers at once;
``nest.py`` has a statement's loops as coordinates, ``traffic.py`` what passes between memories,
``compute.py`` what the core does, ``bound.py`` what nothing can avoid.
"""
