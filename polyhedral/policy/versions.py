"""Versions by size: all statements once for each range of sizes, with decisions of their own.

    NAME.versions = "N >= 64; N >= 512"        for N < 64, for 64 <= N < 512, and beyond

A plan asks for them; guards on the sizes choose when the program runs. After Halide's
``specialize`` (Ragan-Kelley and others 2013) and the symbolic buckets of DietCode (Zheng and others
2022).
"""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from itertools import combinations

import networkx as nx

from weft.ir.named_isl import domain_set
from weft.ir.plan import Decisions
from weft.ir.schedule_tree import Sequence, Tree
from weft.ir.scop import Scop
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.transform.cut import cut
from weft.polyhedral.transform.scheduled import Scheduled, added


def with_versions(scheduled: Scheduled, decisions: Decisions) -> Scheduled:
    """``scheduled`` with its statements once for each range, where a plan says so. Raises
    ``IllegalScheduleError`` as ``cut`` does."""
    name = f"{scheduled.original.name}.versions"
    conditions = decisions.planned(name)
    if conditions is None:
        return scheduled
    decisions.choose(name, [conditions], conditions)
    where = [text.strip() for text in str(conditions).split(";")]
    for statement in scheduled.scop.statements:
        some = _some(scheduled, statement.name, where)
        scheduled = cut(scheduled, statement.name, some) if some else scheduled
    return scheduled


def _some(scheduled: Scheduled, statement: str, where: Sequence_[str]) -> list[str]:
    """The conditions of ``where`` but those without which ``statement`` has a version less, that
    would run at no size. Raises as ``cut`` does."""
    some: list[str] = []
    for condition in where:
        made = cut(scheduled, statement, [*some, condition])
        version = made.scop.statement(added(scheduled, made)[-1])
        if not domain_set(made.scop, version).is_empty():
            some.append(condition)
    return some


def nests(planner: Planner) -> Tree:
    """The loops of all statements; those that no size runs together share none."""
    everything = planner.everything()
    if planner.decisions.planned(f"{planner.scop.name}.versions") is None:
        return planner.nest(everything)
    parts = (everything.part(names) for names in _ranges(planner.scop))
    return Sequence(tuple(planner.nest(part) for part in parts))


def _ranges(scop: Scop) -> list[tuple[str, ...]]:
    """The statements of ``scop``, those together that run for some of the same sizes."""
    sizes = {s.name: domain_set(scop, s).params() for s in scop.statements}
    together: nx.Graph[str] = nx.Graph()
    together.add_nodes_from(sizes)
    for one, other in combinations(sizes, 2):
        if not sizes[one].is_disjoint(sizes[other]):
            together.add_edge(one, other)
    return [tuple(n for n in sizes if n in found) for found in nx.connected_components(together)]
