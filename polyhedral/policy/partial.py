"""Partial results: a serial nest that only folds runs on threads, each with results of its own.

    for i: for j: y[j] += A[i, j] · x[i]
    →
    parallel i_t: P[i_t, :] = 0
    parallel i_t: for i_p: for j: P[i_t, j] += A[i, j] · x[i]
    for i_t: y[:] += P[i_t, :]

Done where all that stands between the iterations of an outermost loop is the order of sums, which
is free. The pieces are long, so that the results of all of them are short beside what they read.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.errors import BudgetError, IllegalScheduleError
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.dependences import dependences, folding
from weft.polyhedral.analysis.hyperplanes import Hyperplanes
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.schedule_tree import Band, Loop, Tree, children
from weft.polyhedral.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.split import split

PIECE = 128  # iterations that fold into one set of partial results


def partial_results(scheduled: Scheduled, kept: Collection[str] = ()) -> Scheduled:
    """``scheduled``, whose outermost serial loops that only fold run in parallel pieces, without
    those that fold into a tensor that is ``kept``."""
    for loop in _outermost(scheduled.tree):
        if loop.kind == "serial":
            try:
                scheduled = _in_pieces(scheduled, loop, kept)
            except (IllegalScheduleError, BudgetError):
                continue  # it stays as it is
    return scheduled


def _outermost(tree: Tree) -> list[Loop]:
    """The first loop of every top-level nest with further loops inside."""
    nests = tree.children if isinstance(tree, TreeSequence) else (tree,)
    return [
        nest.loops[0]
        for nest in nests
        if isinstance(nest, Band)
        and (len(nest.loops) > 1 or any(_loops_in(c) for c in children(nest)))
    ]


def _loops_in(tree: Tree) -> bool:
    return isinstance(tree, Band) or any(_loops_in(child) for child in children(tree))


def _in_pieces(scheduled: Scheduled, loop: Loop, kept: Collection[str]) -> Scheduled:
    scop = scheduled.scop
    folds = [
        s.name
        for s in map(scop.statement, loop.at)
        if s.update and mentions(loop.at[s.name], s.update.dims)
    ]
    folded = {w.tensor for name in folds for w in scop.statement(name).writes}
    inside = [scop.statement(name) for name in loop.at]
    read = {r.tensor for s in inside for r in s.reads}
    overwritten = {w.tensor for s in inside if s.update is None for w in s.writes}
    alone = set(folds) <= folding(scop) and not folded & {*read, *overwritten, *kept}
    if not folds or not alone or not _independent(scheduled, loop):
        return scheduled
    scheduled = split(scheduled, loop.name, PIECE)
    pieces = f"{loop.name}_t"
    for name in folds:
        scheduled = rfactor(scheduled, name, pieces)
    return set_kinds(scheduled, {pieces: "parallel"})


def _independent(scheduled: Scheduled, loop: Loop) -> bool:
    """Whether only the order of sums stands between the iterations of ``loop``."""
    inside = set(loop.at)
    hard = [
        Distances(d)
        for d in dependences(scheduled.scop, implied=False)
        if not d.reduction and {d.source.name, d.sink.name} <= inside
    ]
    plane = Hyperplanes(hard).valid(loop.at)
    return plane is not None and plane.coincident
