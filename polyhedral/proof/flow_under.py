"""The flow of values under a schedule tree, by the easiest way that is right for each read.

1. Where the reader and all writers have a place in the initial order and the tree keeps the
   dependences (``order_check``), a read sees what it sees in the initial order.
2. Where every element is written once at most, contributions to a fold aside (a local buffer, its
   tile indices among its logical indices), and the tree runs each of these writes before all
   contributions and wholly before or wholly after the read, a read sees what touches its element.
3. A copy into such a buffer sees what its readers would see of the copied tensor in the initial
   order, if all writes of an element that come before a reader there run before the copy, and all
   that come after it run after the copy: then these are the same writes. What nobody reads of the
   buffer is left out.
4. Otherwise isl finds the last write in the order of the tree, whatever tile loops that has.

Only 4 takes longer the more loops there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    context_set,
    domain_set,
    parameter_space,
    tensor_box,
    tuple_names,
    union_maps,
)
from weft.ir.schedule_times import paths, schedule_map
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.proof.dependences import Dependence, in_initial_order
from weft.polyhedral.proof.flow import FINAL, Flow, Read, flow, flow_of, reads_of
from weft.polyhedral.proof.loop_distances import LoopDistances
from weft.polyhedral.proof.order_check import keeps_dependences, runs_in_order

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
            for ways in (direct, _Copies(direct, placed))[: 1 + placed.kept]:
                answers = {read: ways.read(read) for read in left}
                found += [answer for answer in answers.values() if answer is not None]
                left = [read for read, answer in answers.items() if answer is None]
        if left:
            found.append(flow(scop, schedule_map(scop, tree), folds, set(left)))
    return Flow.of(found, reads)


def _all_reads(scop: Scop, folds: Folds) -> list[Read]:
    reads = [read for s in scop.statements for read in reads_of(s, folds(s))]
    return reads + [Read(t.name, FINAL) for t in scop.tensors]


class _Placed:
    """The part of a Scop whose order the tree keeps."""

    def __init__(self, scop: Scop, tree: Tree) -> None:
        self.kept = keeps_dependences(scop, tree)
        self._named = {s.name: s for s in scop.statements}
        self.elsewhere = {
            write.tensor for s in scop.statements if not s.position for write in s.writes
        }
        self.scop = replace(scop, statements=tuple(s for s in scop.statements if s.position))

    def orders(self, read: Read) -> bool:
        """Whether ``read`` sees under the tree what it sees in the initial order."""
        if not self.kept:
            return False
        if read.number == FINAL:
            return read.name not in self.elsewhere
        reader = self._named[read.name]
        tensor = reader.accesses[read.number].tensor
        return bool(reader.position) and tensor not in self.elsewhere


class _Direct:
    """Reads that see all that touches their element before them. Inside ``bounded``."""

    def __init__(self, scop: Scop, tree: Tree, folds: Folds) -> None:
        self.scop, self.folds = scop, folds
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
        reader = self.scop.statement(read.name)
        access = reader.accesses[read.number]
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
        box = tensor_box(self.scop, read.name).intersect_params(context_set(self.scop))
        every = isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)
        kills = self._kills.get(read.name, [])
        contributions = self._contributions.get(read.name, [])
        return self._seen(read, every, [*kills, *contributions], len(kills))

    def _seen(self, read: Read, touched: isl.Map, before: list[Use], kills: int) -> Flow:
        """``touched``: reading instance → elements; the first ``kills`` of ``before`` hide what was
        there before."""
        sources = isl.UnionMap.empty(parameter_space(self.scop))
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
        union = isl.UnionMap.empty(parameter_space(self.scop))
        for number, write in enumerate(writes):
            if any(write[0] is other[0] for other in writes[:number]):
                return False
            union = union.union(self._touched(write).to_union_map())
        return union.is_injective()

    def before(self, source: Use, sink: Use, pairs: isl.Map) -> bool:
        """Whether the tree runs all ``pairs`` in order."""
        order = Dependence(source[0], sink[0], source[1], sink[1], "flow", pairs)
        return runs_in_order(order, self._above, self._distances)

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
            if self.before(source, sink, between):
                return answer
        return None

    def _touched(self, use: Use) -> isl.Map:
        return access_map(self.scop, *use)


class _Copies:
    """Reads of statements that fill a buffer, seen from those who read the buffer."""

    def __init__(self, direct: _Direct, placed: _Placed) -> None:
        self._direct, self._placed, self._scop = direct, placed, direct.scop

    def read(self, read: Read) -> Flow | None:
        """What ``read`` sees, as far as anybody reads what it becomes; None where that is not so
        simple."""
        if read.number == FINAL:
            return None
        copy = self._scop.statement(read.name)
        if copy.position or len(copy.writes) != 1 or read.number >= len(copy.reads):
            return None
        access, [write] = copy.reads[read.number], copy.writes
        if access.may or access.tensor in self._placed.elsewhere:
            return None
        readers = self._readers(write.tensor)
        if readers is None:
            return None
        empty = isl.UnionMap.empty(parameter_space(self._scop))
        sources, initial = empty, empty
        for reader, number in readers:
            through = self._through(Read(reader.name, number), reader, copy)
            if through is None or not self._kept_apart(reader, through, (copy, access)):
                return None
            elements = through.apply_range(access_map(self._scop, copy, access))
            seen, first = flow_of(self._scop, reader, elements, self._direct.folds)
            back = through.reverse().to_union_map()
            sources = sources.union(back.apply_range(seen))
            initial = initial.union(back.apply_range(first))
        return Flow({read: sources}, {read: initial})

    def _readers(self, buffer: str) -> list[tuple[Statement, int]] | None:
        """Who reads ``buffer``, all in the initial order; None where somebody else does."""
        found = []
        for s in self._scop.statements:
            for number, access in enumerate(s.accesses):
                implicit = number >= len(s.reads)
                if access.tensor == buffer and not (implicit and s.update is None):
                    if not s.position or implicit:
                        return None
                    found.append((s, number))
        visible = self._scop.tensor(buffer).role not in ("temp", "constant")
        return None if visible else found

    def _through(self, read: Read, reader: Statement, copy: Statement) -> isl.Map | None:
        """Instances of ``reader`` → the instances of ``copy`` that they see in the buffer."""
        seen = self._direct.read(read)
        if seen is None:
            return None
        for part in union_maps(seen.sources[read]):
            if tuple_names(part)[1] == copy.name:
                return part
        space = access_map(self._scop, reader, reader.reads[read.number]).domain().get_space()
        return isl.Map.empty(
            space.map_from_domain_and_range(domain_set(self._scop, copy).get_space())
        )

    def _kept_apart(self, reader: Statement, through: isl.Map, use: Use) -> bool:
        """Whether the tree runs the writes that come before ``reader`` before the copy, the others
        after it."""
        copy, access = use
        elements = through.apply_range(access_map(self._scop, copy, access))
        for s in self._scop.statements:
            for write in s.writes:
                if write.tensor != access.tensor:
                    continue
                pairs = access_map(self._scop, s, write).apply_range(elements.reverse())
                first = in_initial_order(self._scop, s, reader, pairs)
                later = pairs.subtract(first).reverse()
                if not self._direct.before((s, write), use, first.apply_range(through)):
                    return False
                if not self._direct.before(use, (s, write), through.reverse().apply_range(later)):
                    return False
        return True
