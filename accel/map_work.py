"""Work as loops over an accelerator's instructions: all mappings of it, the shortest first.

One choice of instruction and dims (``choices``) is a mapping where instructions begin its sums,
compute what becomes of its results and store them (``cover``, ``store_results``), and where its
tensors can lie as these want them (``views``).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from weft.accel.abilities import Abilities, Compute
from weft.accel.accelerator import Accelerator, Memory
from weft.accel.beginnings import alike, begins
from weft.accel.choices import Choice, choices
from weft.accel.cover import Cover, Held, Node, Tree, leaves, nodes
from weft.accel.groups import together
from weft.accel.mapping import Mapping, View
from weft.accel.misfits import sum_step
from weft.accel.refusal import Refusal
from weft.accel.store_results import store_results
from weft.accel.views import Element, Views
from weft.accel.work import Read, Work
from weft.dtypes import DType
from weft.frontend.scalar_expr import Expr

Covers = dict[tuple[Expr, str], Cover]  # of an expression, over sums in a memory
REASONS = 4  # that a refusal gives, of each of which there is one


def mappings(work: Work, machine: Accelerator, found: Abilities) -> Iterator[Mapping]:
    """All ways in which ``machine`` computes ``work``, those with the fewest turns first. Raises
    ``Refusal`` where there is none."""
    reasons: dict[str, None] = {}
    some = False
    for one in _made(work, machine, found, reasons):
        some = True
        yield one
    if not some and work.start is not None:
        block = max((n for c in found.computes for n in c.extents.values()), default=1)
        for dense in together(work, block):
            for one in _made(dense, machine, found, reasons):
                some = True
                yield one
    if not some:
        shown = list(reasons)[:REASONS] + ["…"] * (len(reasons) > REASONS)
        raise Refusal("; ".join(shown) or "no instruction computes anything like it")


def _made(
    work: Work, machine: Accelerator, found: Abilities, reasons: dict[str, None]
) -> Iterator[Mapping]:
    covers: Covers = {}
    others: dict[str, None] = {}
    every = list(choices(work, found, others))
    for choice in sorted(every, key=lambda each: prod(each.extents.values())):
        try:
            yield _Mapper(choice, machine, found, covers).mapping()
        except Refusal as refusal:
            text = str(refusal)
            if not any(told.endswith(text.rpartition(": ")[2]) for told in reasons):
                reasons[text] = None
    if not every:  # what is said where an instruction would do is all that matters
        told = "; ".join([*list(others)[:REASONS], *["…"] * (len(others) > REASONS)])
        if told and work.start is not None:
            told = f"{sum_step(work)}; {told}"
        reasons |= {told: None} if told else {}


class _Mapper:
    def __init__(
        self, choice: Choice, machine: Accelerator, found: Abilities, covers: Covers
    ) -> None:
        self.work, self.compute, self.operands = choice.work, choice.compute, choice.operands
        self.extents = choice.extents
        self.machine, self.found, self.covers = machine, found, covers
        self.views = Views(choice, machine, found)

    def mapping(self) -> Mapping:
        """Raises ``Refusal`` where it is none."""
        work, compute, extents, views = self.work, self.compute, self.extents, self.views
        cover = self._cover()
        begin = None if compute is None else self._begin()
        first = None if compute is None else self._first(compute, begin)
        stored = store_results(work, compute, cover, self.machine, self.found)
        tree, transfer = stored.tree, stored.transfer
        root = tree.compute.target.memory if isinstance(tree, Node) else tree.memory
        element = views.results()
        write = views.view(work.write, transfer.local.memory, element, transfer, work.value.dtype)
        own = root if compute is None else compute.target.memory
        target = views.view(work.write, own, element, None, None)
        moved = tuple(
            (node, views.view(work.write, node.compute.target.memory, element, None, None))
            for node in nodes(tree)
            if node.moves
        )
        operands = () if compute is None else self._operands(compute)
        start = None
        if compute is not None and begin is not None and first is None:
            start = self._start(begin, cover, compute, element, target)
        reads = {leaf: views.leaf(leaf, element) for leaf in leaves(tree) if leaf != Held(0, own)}
        written = {d for axis in target.axes for d in axis.coefficients}
        folds = tuple(d for d in extents if d not in written)
        return Mapping(
            work, compute, extents, folds, target, operands, start, first, tree, reads, moved,
            write, stored.planes, stored.between,
        )  # fmt: skip

    def _operands(self, compute: Compute) -> tuple[View, ...]:
        """What ``compute`` sums up, as its memories have it."""
        places = zip(self.operands, compute.operands, compute.step.reads, strict=True)
        found = []
        for (number, dtype), at, access in places:
            read = self.work.operands[number]
            try:
                element = self.views.element(access, at)
                found.append(self.views.loaded(read, at.memory, element, dtype))
            except Refusal as refusal:
                name = compute.operation.name
                raise Refusal(f"{name} takes {read.tensor} from {at.memory}: {refusal}") from None
        return tuple(found)

    # ---- what a sum begins with -------------------------------------------------------------

    def _begin(self) -> float:
        """What the sum begins with. A minimum or maximum of values that have few bits may begin
        with the last of these."""
        begin, update = self.work.start, self.work.statement.update
        assert begin is not None and update is not None, "it begins with something"
        if update.monoid.name not in ("min", "max"):
            return begin
        types = [
            self.work.scop.tensor(self.work.operands[n].tensor).dtype for n, _ in self.operands
        ]
        low = min(int(t.lowest) for t in types)
        high = max(int(t.highest) for t in types)
        return min(max(begin, low), high)

    def _first(self, compute: Compute, begin: float | None) -> Compute | None:
        """The instruction that sums up as ``compute`` does, from the right value on."""
        for other in self.found.computes:
            if begins(other) == begin and alike(compute, other):
                return other
        return None

    def _start(
        self, begin: float, cover: Cover, compute: Compute, element: Element, target: View
    ) -> Tree | View:
        """What leaves what a sum begins with: operations, or a load of as much as there is room
        for at most."""
        memory = compute.target.memory
        tree = cover.fill(begin, memory)
        if tree is not None:
            return tree
        if not any(t.into and t.local.memory == memory for t in self.found.transfers):
            raise Refusal(
                f"{self.work.statement.writes[0].tensor} begins with {begin} in {memory}: nothing "
                f"fills that with it, nor loads it, nor does an operation like "
                f"{compute.operation.name} overwrite what is there"
            )
        depth = self.machine.memory(memory).depth
        assert depth is not None, "a local memory"
        room = depth // element.group(self.machine.memory(memory))
        return self.views.constant(begin, memory, element, min(prod(target.layout.blocks), room))

    def _cover(self) -> Cover:
        """Trees of expressions; the same for all choices of dims."""
        home = "" if self.compute is None else self.compute.target.memory
        key = self.work.value, home
        if key not in self.covers:
            held = {0: frozenset({home})} if home else {}
            for number, read in enumerate(self.work.reads):
                held[number + 1] = self._homes(read)
            types = {memory.name: memory.dtype for memory in self.machine.memories}
            loaded = frozenset(t.local.memory for t in self.found.transfers if t.into)
            self.covers[key] = Cover(self.found.computes, held, types, loaded)
        return self.covers[key]

    def _homes(self, read: Read) -> frozenset[str]:
        """Memories that a tensor may be loaded into: of its type, or of a wider one."""
        own = self.work.scop.tensor(read.tensor).dtype
        return frozenset(
            t.local.memory
            for t in self.found.transfers
            if t.into and _wider(self.machine.memory(t.local.memory), own)
        )


def _wider(memory: Memory, dtype: DType) -> bool:
    both = memory.dtype.is_integer and dtype.is_integer and memory.dtype.kind == dtype.kind
    return memory.dtype == dtype or (both and memory.dtype.bits > dtype.bits)
