"""The operator graph: passes from graph to graph, then clusters.

In the order of ``weft/driver/graph_front.py``, ``graph_stages``: ``fold_constants``,
``inline_scalars``, ``simplify``, ``differences``, ``eliminate_dead``, ``winograd`` (correlations by
fewer multiplications), ``online`` (sums of exponentials in one pass), ``ruled_out`` (what a mask
rules out is not computed), ``own_outputs`` (each output a value of its own), ``layouts`` (channels
last, by a minimum cut); then ``partition`` (acyclic clusters; ``fusion_rules`` says what may and
should fuse).
``cluster_program`` makes one tensor program of a cluster, ``canonical`` is its identity,
``memory_plan`` places intermediates. ``quantize`` stands apart: graphs in integers of graphs in
floating point.
"""
