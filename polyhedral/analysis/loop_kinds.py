"""Which loops of a schedule may be parallel, and which may be vectorised.

Derived from dependences on the final tree, whatever transformations led to it. ``legality`` asks
the same question of the loops that were made parallel or vector, and refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.polyhedral.analysis.carried import Together
from weft.polyhedral.analysis.dependences import dependences
from weft.polyhedral.named_isl import bounded, paths
from weft.polyhedral.schedule_tree import Band, Loop, Tree, children, walk, with_children
from weft.polyhedral.scop import Scop


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Names of loops. ``vector`` has all of ``parallel``, and loops that carry nothing but
    reductions whose monoid is associative and commutative."""

    parallel: frozenset[str]
    vector: frozenset[str]


def concurrency(scop: Scop, tree: Tree) -> Concurrency:
    """The loops of ``tree``, a legal schedule of ``scop``, whose iterations may run at once.

    Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    above = paths(tree)
    carries: set[str] = set()
    carries_reduction: set[str] = set()
    for dependence in dependences(scop):
        into = carries_reduction if dependence.reduction else carries
        together = Together(dependence)
        source, sink = above[dependence.source.name], above[dependence.sink.name]
        with bounded(what="the search for parallel loops"):
            for one, two in zip(source, sink, strict=False):
                if isinstance(one, Loop):
                    if one.name not in into and together.carried(one) is not None:
                        into.add(one.name)
                    if not together.enter(one):
                        break
                elif one != two:
                    break
    names = {x.name for node in walk(tree) if isinstance(node, Band) for x in node.loops}
    vector = frozenset(names - carries)
    return Concurrency(vector - carries_reduction, vector)


def parallel_loops(scop: Scop, tree: Tree) -> frozenset[str]:
    """Names of the loops whose iterations may run at the same time on several threads."""
    return concurrency(scop, tree).parallel


def vector_loops(scop: Scop, tree: Tree) -> frozenset[str]:
    """Names of the loops whose iterations may run in lockstep."""
    return concurrency(scop, tree).vector


def with_kinds(scop: Scop, tree: Tree) -> Tree:
    """``tree`` with every loop serial that is called parallel or vector and may not be."""
    allowed = concurrency(scop, tree)

    def permitted(loop: Loop) -> Loop:
        forbidden = (loop.kind == "parallel" and loop.name not in allowed.parallel) or (
            loop.kind == "vector" and loop.name not in allowed.vector
        )
        return replace(loop, kind="serial") if forbidden else loop

    return _with_loops(tree, permitted)


def _with_loops(tree: Tree, change: Callable[[Loop], Loop]) -> Tree:
    below = tuple(_with_loops(child, change) for child in children(tree))
    rebuilt = with_children(tree, below)
    if isinstance(rebuilt, Band):
        return replace(rebuilt, loops=tuple(map(change, rebuilt.loops)))
    return rebuilt
