"""Work mapped to an accelerator's instructions, those mappings with the fewest iterations first.

An instruction mapping (``instruction_mapping``) is a mapping of the work if instructions can
initialise its reductions, compute its epilogue and store the results (``instruction_selection``,
``store_results``), and if its tensors have layouts that suit these (``tensor_layouts``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from weft.accel.capabilities import Capabilities, Compute, Transfer
from weft.accel.identity_products import IdentityProduct
from weft.accel.instruction_mapping import InstructionMapping, instruction_mappings
from weft.accel.instruction_selection import InstructionSelector
from weft.accel.instruction_tree import Constant, Held, Node, Tree, leaves, nodes
from weft.accel.mapping import Mapping, View
from weft.accel.mismatches import result_mismatch, sum_step
from weft.accel.refusal import Refusal
from weft.accel.tensor_layouts import Element, TensorLayouts
from weft.accel.work import Read, Work
from weft.ir.accelerator import Accelerator, Memory
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Load, Var, literal
from weft.ir.scalar_match import matches

Selectors = dict[tuple[Expr, str], InstructionSelector]  # of an expression, over sums in a memory
REASONS = 4  # distinct ones that a refusal lists


def map_work(
    work: Work,
    machine: Accelerator,
    found: Capabilities,
    products: tuple[IdentityProduct, ...],
    reasons: dict[str, None],
) -> Iterator[Mapping]:
    """All mappings of ``work`` to ``machine``, those with the fewest iterations first; ``products``
    may be used. ``reasons``: gets those why others are none."""
    selectors: Selectors = {}
    others: dict[str, None] = {}
    every = list(instruction_mappings(work, found, others))
    for choice in sorted(every, key=lambda each: prod(each.extents.values())):
        try:
            yield _Mapper(choice, machine, found, products, selectors).mapping()
        except Refusal as refusal:
            text = str(refusal)
            if not any(told.endswith(text.rpartition(": ")[2]) for told in reasons):
                reasons[text] = None
    if not every:  # reasons of matching instructions are the relevant ones
        told = "; ".join([*list(others)[:REASONS], *["…"] * (len(others) > REASONS)])
        if told and work.start is not None:
            told = f"{sum_step(work)}; {told}"
        reasons |= {told: None} if told else {}


class _Mapper:
    def __init__(
        self,
        choice: InstructionMapping,
        machine: Accelerator,
        found: Capabilities,
        products: tuple[IdentityProduct, ...],
        selectors: Selectors,
    ) -> None:
        self.work, self.compute, self.operands = choice.work, choice.compute, choice.operands
        self.extents = choice.extents
        self.machine, self.found, self.selectors = machine, found, selectors
        self.products = products
        self.selector = self._selector()
        self.views = TensorLayouts(choice, machine, found, self._copies())

    def mapping(self) -> Mapping:
        """Raises ``Refusal`` if there is none."""
        work, compute, extents, views = self.work, self.compute, self.extents, self.views
        selector = self.selector
        begin = None if compute is None else self._begin()
        first = None if compute is None else self._first(compute, begin)
        stored = store_results(work, compute, selector, self.machine, self.found)
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
            start = self._start(begin, selector, compute, element, target)
        reads = {leaf: views.leaf(leaf, element) for leaf in leaves(tree) if leaf != Held(0, own)}
        copies = [view.copy for view in (*operands, *reads.values()) if view.copy is not None]
        used = [leaf for copy in copies for leaf in leaves(copy) if isinstance(leaf, Constant)]
        reads |= {leaf: views.leaf(leaf, element) for leaf in used}
        written = {d for axis in target.axes for d in axis.coefficients}
        folds = tuple(d for d in extents if d not in written)
        return Mapping(
            work, compute, extents, folds, target, operands, start, first, tree, reads, moved,
            write, stored.planes, stored.between,
        )  # fmt: skip

    def _operands(self, compute: Compute) -> tuple[View, ...]:
        """The operands of ``compute``, as tensors in its memories."""
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

    # ---- initial values ---------------------------------------------------------------------

    def _begin(self) -> float:
        """The initial value of the reduction. A minimum or maximum of narrow integers may start
        from their extreme."""
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
        """The instruction that starts the reduction that ``compute`` continues, from the right
        value."""
        for other in self.found.computes:
            if begins(other) == begin and alike(compute, other):
                return other
        return None

    def _start(
        self,
        begin: float,
        selector: InstructionSelector,
        compute: Compute,
        element: Element,
        target: View,
    ) -> Tree | View:
        """How the initial value gets into the target: by operations, or by a load of the largest
        part."""
        memory = compute.target.memory
        tree = selector.fill(begin, memory)
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
        count = min(prod(target.layout.blocks), room)
        return self.views.constant(Constant(begin, memory), element, count)

    def _selector(self) -> InstructionSelector:
        """Trees of expressions; the same for all choices of dims."""
        home = "" if self.compute is None else self.compute.target.memory
        key = self.work.value, home
        if key not in self.selectors:
            held = {0: frozenset({home})} if home else {}
            for number, read in enumerate(self.work.reads):
                held[number + 1] = self._homes(read)
            types = {memory.name: memory.dtype for memory in self.machine.memories}
            loaded = frozenset(t.local.memory for t in self.found.transfers if t.into)
            self.selectors[key] = InstructionSelector(
                self.found.computes, held, types, loaded, self.products
            )
        return self.selectors[key]

    def _copies(self) -> list[Node]:
        """Products that copy to where zeros are filled in."""
        found = []
        for product in self.products:
            zero = self.selector.fill(0, product.compute.target.memory)
            if isinstance(zero, Node) and zero.on is None:
                found.append(product.copy(replace(zero, apart=True)))
        return found

    def _homes(self, read: Read) -> frozenset[str]:
        """Memories that a tensor may be loaded into: of its type, or of a wider one. What products
        add from memories of its type is loaded there."""
        own = self.work.scop.tensor(read.tensor).dtype
        every = frozenset(t.local.memory for t in self.found.transfers if t.into)
        same = frozenset(m for m in every if self.machine.memory(m).dtype == own)
        if same.intersection(product.source for product in self.products):
            return same
        return frozenset(m for m in every if _wider(self.machine.memory(m), own))


def _wider(memory: Memory, dtype: DType) -> bool:
    both = memory.dtype.is_integer and dtype.is_integer and memory.dtype.kind == dtype.kind
    return memory.dtype == dtype or (both and memory.dtype.bits > dtype.bits)


# ---- Instructions that start a reduction: they compute the same terms without the old value.
#
# A machine without an instruction that initialises accumulators may have a flag that disables
# accumulation, which makes two operations of one.


def begins(compute: Compute) -> float | None:
    """The value that ``compute`` starts its reduction from; 0 for one without a reduction; None if
    it accumulates."""
    if compute.step.update is None:
        return 0
    match compute.first:
        case Literal(value=int() | float() as value):
            return value
    return None


def alike(compute: Compute, other: Compute) -> bool:
    """Whether ``other`` has the same terms and target memory as ``compute``."""

    def form(each: Compute) -> object:
        number: dict[str, int] = {}
        for access in (*each.step.writes, *each.step.reads):
            for index in access.indices:
                if isinstance(index, Var):
                    number.setdefault(index.name, len(number))
        places = tuple(
            tuple(number[i.name] if isinstance(i, Var) else -1 for i in access.indices)
            for access in (*each.step.writes, *each.step.reads)
        )
        memories = tuple((a.memory, a.group) for a in (each.target, *each.operands))
        return places, {number[d]: n for d, n in each.extents.items() if d in number}, memories

    summed = compute.step.update is not None and (
        other.step.update is None
        or other.step.update.monoid.combined == compute.step.update.monoid.combined
    )
    if not summed or form(compute) != form(other) or other.words != compute.words:
        return False
    if other.step.update is None and not _only_adds(compute):
        return False
    return other.copies == compute.copies and (other.step.body.results == compute.step.body.results)


def _only_adds(compute: Compute) -> bool:
    """Whether each iteration adds one value, and adding it to 0 is exact."""
    update = compute.step.update
    if update is None or update.dims:
        return False
    match update.monoid.combined[0]:
        case Apply("add", (Var(), Var())):
            return True
    return False


# ---- Stores of results: directly, by copies that operations make, or in parts.


@dataclass(frozen=True, slots=True)
class Stored:
    """``tree`` computes what ``transfer`` stores. ``planes``: parts that are stored in turn;
    ``between`` shifts the next one down."""

    tree: Tree
    transfer: Transfer
    planes: int = 1
    between: Tree | None = None


def store_results(
    work: Work,
    compute: Compute | None,
    selector: InstructionSelector,
    machine: Accelerator,
    found: Capabilities,
) -> Stored:
    """How the value of ``work``, computed from the results of ``compute``, is stored. Raises
    ``Refusal`` if nothing computes or stores it."""
    value = work.value
    for transfer in found.transfers:
        if transfer.into:
            continue
        memory = machine.memory(transfer.local.memory)
        if memory.dtype == value.dtype:
            tree = selector.tree(value, memory.name)
            if tree is not None:
                return Stored(tree, transfer)
        for name, copied in _copies(memory.name, found):
            home = machine.memory(name)
            for match in matches(copied, value):
                tree = selector.tree(match[0], home.name)
                if tree is not None:
                    return Stored(_copied(tree, memory.name, compute, selector), transfer)
            if value.dtype == home.dtype and _is_low_part(copied):
                parts = _in_parts(value, home, memory, compute, selector)
                if parts is not None:
                    planes = home.dtype.bits // memory.dtype.bits
                    return Stored(parts[0], transfer, planes, parts[1])
    homes = {t.local.memory for t in found.transfers if not t.into}
    raise Refusal(result_mismatch(work, compute, selector, homes))


def _in_parts(
    value: Expr,
    home: Memory,
    memory: Memory,
    compute: Compute | None,
    selector: InstructionSelector,
) -> tuple[Tree, Tree] | None:
    """(``value`` in ``home`` with its low part in ``memory``, the operation that shifts the next
    part down); None if there is none."""
    tree = selector.tree(value, home.name)
    down = Load(0, (), home.dtype) >> literal(memory.dtype.bits, home.dtype)
    between = selector.tree(down, home.name)
    if tree is None or between is None:
        return None
    return _copied(tree, memory.name, compute, selector), between


def _copies(memory: str, found: Capabilities) -> list[tuple[str, Expr]]:
    """What operations write to ``memory`` as copies of their targets, and the memory of these."""
    copies = {
        (compute.target.memory, copy.value)
        for compute in found.computes
        for copy in compute.copies
        if copy.memory == memory
    }
    return sorted(copies, key=repr)


def _copied(
    tree: Tree, memory: str, compute: Compute | None, selector: InstructionSelector
) -> Tree:
    """``tree`` followed by an operation that copies its result to ``memory``."""
    last = tree.compute if isinstance(tree, Node) else None
    if isinstance(tree, Held) and tree.number == 0:
        last = compute
    if last is not None and any(copy.memory == memory for copy in last.copies):
        return tree
    home = tree.compute.target.memory if isinstance(tree, Node) else tree.memory
    again = selector.unchanged(tree, home)
    if again is None:
        raise Refusal("nothing moves its results to where they are stored from")
    return again


def _is_low_part(value: Expr) -> bool:
    """Whether ``value`` is the low bits of the copied value."""
    match value:
        case Cast(Load(source=0), dtype):
            return dtype.is_integer
    return False
