"""Temporaries that would be larger than anything the caller has live in strips of a loop.

    for i: for j: s[i, j] = …     all i, then all i again: s is N x N, the arguments N x D
    for i: for j: … = s[i, j]     →   parallel i_t: { for i, j: s[i, j] = …; for i, j: … = s[i, j] }

Expansion has given every iteration elements of its own; here some of that is taken back, so that
``contract`` finds a loop around all uses. Within a strip there is as much reuse as in cache tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.scop import Scop, Tensor

STRIP = 192  # iterations; a multiple of the sizes of register tiles


def confined(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """The statements of ``group`` around temporaries of unusual size, and the strips in which they
    may run; None if there are none that nothing crosses."""
    found: tuple[Group, Hyperplane] | None = None
    known: dict[str, Expr] = {}
    for tensor in planner.scop.tensors:
        if tensor.role != "temp" or not _unusual(planner.scop, tensor):
            continue
        rows = known | rows_of(planner, group, tensor.name)
        if rows == known:
            continue
        inside = group.part(between(group, list(rows)))
        own = {n: tuple(map(Var, planner.free(group, n))) for n in inside.names}
        plane = inside.search().complete(rows, own)
        if plane is not None and plane.coincident:
            known, found = rows, (inside, plane)
    if found is None:
        return None
    inside, plane = found
    strips = {name: value // STRIP for name, value in plane.at.items()}
    return inside, Hyperplane(strips, plane.carries, True)


def _unusual(scop: Scop, tensor: Tensor) -> bool:
    """Whether no argument grows with the sizes as ``tensor`` does."""
    own = _sizes(tensor)
    others = [_sizes(t) for t in scop.tensors if t.role != "temp"]
    return len(own) > 1 and not any(_within(own, other) for other in others)


def _sizes(tensor: Tensor) -> list[frozenset[str]]:
    """The parameters of each size that has any."""
    found: list[frozenset[str]] = []
    for size in tensor.shape[tensor.contracted :]:
        form = to_affine(size)
        found.append(frozenset() if form is None else frozenset(form.variables()))
    return [names for names in found if names]


def _within(small: Sequence[frozenset[str]], large: Sequence[frozenset[str]]) -> bool:
    """Whether each size of the one can be told a size of the other that depends on as much."""
    graph = nx.Graph()
    left = [("small", k) for k in range(len(small))]
    graph.add_nodes_from(left)
    for k, names in enumerate(small):
        graph.add_edges_from(
            (("small", k), ("large", m)) for m, others in enumerate(large) if names <= others
        )
    matching = nx.bipartite.maximum_matching(graph, top_nodes=left)
    return all(node in matching for node in left)


def rows_of(planner: Planner, group: Group, tensor: str, place: int = 0) -> dict[str, Expr]:
    """The loop along dimension ``place`` of ``tensor``, by statement; none where it is not one."""
    found: dict[str, Expr] = {}
    for s in planner.statements(group):
        values = {a.indices[place] for a in (*s.reads, *s.writes) if a.tensor == tensor}
        if len(values) > 1:
            return {}
        for value in values:
            if not isinstance(value, Var) or value.name not in planner.free(group, s.name):
                return {}
            found[s.name] = value
    return found


def between(group: Group, names: Sequence[str]) -> list[str]:
    """``names`` and what depends on some of them while others depend on it."""
    graph = nx.DiGraph()
    graph.add_nodes_from(group.names)
    graph.add_edges_from((a.dependence.source.name, a.dependence.sink.name) for a in group.active)
    after = set(names).union(*(nx.descendants(graph, n) for n in names))
    before = set(names).union(*(nx.ancestors(graph, n) for n in names))
    return [n for n in group.names if n in after & before]
