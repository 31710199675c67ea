"""The flow of values under a schedule tree, by the easiest way that is right for each read.

1. Where the reader and all writers have a place in the initial order and the tree keeps the
   dependences (``order_check``), a read sees what it sees in the initial order.
2. Where every element is written once at most, contributions to a fold aside (a local buffer, its
   tile indices among its logical indices), and the tree runs each of these writes before all
   contributions and wholly before or wholly after the read, a read sees what touches its element.
3. Otherwise isl finds the last write in the order of the tree, whatever tile loops that has.

Only 3 takes longer the more loops there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import islpy as isl

from weft.polyhedral.analysis.dependences import Dependence
from weft.polyhedral.analysis.flow import FINAL, Flow, Read, flow
from weft.polyhedral.analysis.pair_distance import LoopDistances
from weft.polyhedral.analysis.seen import reads_of
from weft.polyhedral.named_isl import (
    access_map,
    bounded,
    context_set,
    parameter_space,
    paths,
    schedule_map,
    tensor_box,
)
from weft.polyhedral.order_check import keeps_dependences, runs_in_order
from weft.polyhedral.schedule_tree import Tree
from weft.polyhedral.scop import Access, Scop, Statement

Folds = Callable[[Statement], bool]
Use = tuple[Statement, Access]


def flow_under(
    scop: Scop,
    tree: Tree,
    folds: Folds = lambda _: False,
    wanted: Collection[Read] | None = None,
) -> Flow:
    """What ``analysis.flow`` finds under ``tree``, a verified schedule.

    Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    visible = {t.name for t in scop.tensors if t.role not in ("temp", "constant")}
    asked = _all_reads(scop, folds) if wanted is None else dict.fromkeys(wanted)
    reads = [read for read in asked if read.number != FINAL or read.name in visible]
    placed = _Placed(scop, tree)
    by_position = {read for read in reads if placed.orders(read)}
    left = [read for read in reads if read not in by_position]
    with bounded(what="the dataflow analysis"):
        found = [flow(placed.scop, None, folds, by_position)] if by_position else []
        if left:
            direct = _Direct(scop, tree, folds)
            answers = [(read, direct.read(read)) for read in left]
            found += [answer for _, answer in answers if answer is not None]
            left = [read for read, answer in answers if answer is None]
        if left:
            found.append(flow(scop, schedule_map(scop, tree), folds, set(left)))
    sources = {read: seen for part in found for read, seen in part.sources.items()}
    initial = {read: seen for part in found for read, seen in part.initial.items()}
    return Flow(
        {read: sources[read] for read in reads if read in sources},
        {read: initial[read] for read in reads if read in initial},
    )


def _all_reads(scop: Scop, folds: Folds) -> list[Read]:
    reads = [read for s in scop.statements for read in reads_of(s, folds(s))]
    return reads + [Read(t.name, FINAL) for t in scop.tensors]


class _Placed:
    """The part of a Scop whose order the tree keeps."""

    def __init__(self, scop: Scop, tree: Tree) -> None:
        self._kept = keeps_dependences(scop, tree)
        self._named = {s.name: s for s in scop.statements}
        self._elsewhere = {
            write.tensor for s in scop.statements if not s.position for write in s.writes
        }
        self.scop = replace(scop, statements=tuple(s for s in scop.statements if s.position))

    def orders(self, read: Read) -> bool:
        """Whether ``read`` sees under the tree what it sees in the initial order."""
        if not self._kept:
            return False
        if read.number == FINAL:
            return read.name not in self._elsewhere
        reader = self._named[read.name]
        tensor = (*reader.reads, *reader.writes)[read.number].tensor
        return bool(reader.position) and tensor not in self._elsewhere


class _Direct:
    """Reads that see all that touches their element before them. Inside ``bounded``."""

    def __init__(self, scop: Scop, tree: Tree, folds: Folds) -> None:
        self._scop = scop
        self._above, self._distances = paths(tree), LoopDistances()
        self._kills: dict[str, list[Use]] = {}
        self._contributions: dict[str, list[Use]] = {}
        for s in scop.statements:
            for write in s.writes:
                group = self._contributions if folds(s) else self._kills
                group.setdefault(write.tensor, []).append((s, write))
        self._simple: dict[str, bool] = {}

    def read(self, read: Read) -> Flow | None:
        """What ``read`` sees; None where it is not so simple."""
        if read.number == FINAL:
            return self._final(read)
        reader = self._scop.statement(read.name)
        access = (*reader.reads, *reader.writes)[read.number]
        if access.may or not self._once(access.tensor):
            return None
        use = reader, access
        kills = self._kills.get(access.tensor, [])
        contributions = self._contributions.get(access.tensor, [])
        placed = [(write, self._side(write, use)) for write in (*kills, *contributions)]
        if any(side is None for _, side in placed):
            return None
        before = [write for write, side in placed if side]
        hiding = sum(bool(side) for _, side in placed[: len(kills)])
        return self._seen(read, self._touched(use), before, hiding)

    def _final(self, read: Read) -> Flow | None:
        if not self._once(read.name):
            return None
        box = tensor_box(self._scop, read.name).intersect_params(context_set(self._scop))
        every = isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)
        kills = self._kills.get(read.name, [])
        contributions = self._contributions.get(read.name, [])
        return self._seen(read, every, [*kills, *contributions], len(kills))

    def _seen(self, read: Read, touched: isl.Map, before: list[Use], kills: int) -> Flow:
        """``touched``: reading instance → elements; the first ``kills`` of ``before`` hide what was
        there before."""
        sources = isl.UnionMap.empty(parameter_space(self._scop))
        left = touched
        for number, write in enumerate(before):
            writing = self._touched(write)
            sources = sources.union(touched.apply_range(writing.reverse()).to_union_map())
            if number < kills:
                left = left.subtract_range(writing.range())
        return Flow({read: sources}, {read: left.to_union_map()})

    def _once(self, tensor: str) -> bool:
        """Whether each element has one write at most, before all contributions to it."""
        if tensor not in self._simple:
            kills = self._kills.get(tensor, [])
            contributions = self._contributions.get(tensor, [])
            self._simple[tensor] = (
                not any(write.may for _, write in (*kills, *contributions))
                and self._injective(kills)
                and all(self._side(one, two) for one in kills for two in contributions)
            )
        return self._simple[tensor]

    def _injective(self, writes: list[Use]) -> bool:
        union = isl.UnionMap.empty(parameter_space(self._scop))
        for number, write in enumerate(writes):
            if any(write[0] is other[0] for other in writes[:number]):
                return False
            union = union.union(self._touched(write).to_union_map())
        return bool(union.is_injective())

    def _side(self, write: Use, use: Use) -> bool | None:
        """Whether ``write`` runs before ``use`` wherever they touch one element (True), after it
        (False), or now this way, now that (None)."""
        pairs = self._touched(write).apply_range(self._touched(use).reverse())
        if pairs.is_empty():
            return True
        for source, sink, between, answer in (
            (write, use, pairs, True),
            (use, write, pairs.reverse(), False),
        ):
            order = Dependence(source[0], sink[0], source[1], sink[1], "flow", between)
            if runs_in_order(order, self._above, self._distances):
                return answer
        return None

    def _touched(self, use: Use) -> isl.Map:
        return access_map(self._scop, *use)
