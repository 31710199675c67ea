"""Which loops of a piece of work are inside of an accelerator's instruction, and how its tensors
lie in main memory, then.

    Mapping ::= work, compute, extents, target: View, operands: View…, reads: View…, write: View, …
    View    ::= tensor, memory, axes: Axis…, layout, dtype, expand, padded
    Axis    ::= sum(coefficients[dim] * dim) + constant, of size

Loops that the instruction has inside count its issues then: 64 channels are 4 blocks of 16. What
``polyhedral.map_instruction`` finds is all that decides; tensors lie as elements of the memory that
they are moved to, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, replace
from math import prod

from weft.accel.abilities import Abilities, Address, Compute, Transfer
from weft.accel.accelerator import Accelerator, Memory
from weft.accel.artifact import Layout
from weft.accel.beginnings import alike, begins
from weft.accel.cover import Constant, Cover, Held, Node, Tree, leaves, nodes
from weft.accel.groups import together
from weft.accel.refusal import Refusal
from weft.accel.work import Diagonal, Read, Work, widened
from weft.dtypes import DType
from weft.frontend.scalar_expr import Cast, Expr, Literal, Load, Var, literal, rewrite
from weft.frontend.scalar_match import matches
from weft.polyhedral.instruction import Instruction, Operand
from weft.polyhedral.map_instruction import map_instruction
from weft.polyhedral.scop import Access, Statement

REASONS = 4  # that a refusal gives, of each of which there is one


@dataclass(frozen=True, slots=True)
class Axis:
    """In blocks, where it is cut into blocks."""

    coefficients: MappingType[str, int]
    constant: int
    size: int


@dataclass(frozen=True, slots=True)
class Element:
    """``dims``: of the statement, or None, of as many scalars as ``shape`` says."""

    dims: tuple[str | None, ...]
    shape: tuple[int, ...]

    def group(self, memory: Memory) -> int:
        """The addresses that it takes in ``memory``. Raises ``Refusal`` where it is no element of
        that, nor several."""
        outer = len(self.shape) - len(memory.shape)
        if outer < 0 or self.shape[outer:] != memory.shape:
            raise Refusal(f"{memory.name} has elements of {memory.shape}, and no {self.shape}")
        return prod(self.shape[:outer])


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as elements of ``memory``, moved by ``transfer``. ``axes``: of ``layout``.
    ``expand``: so many equal copies before its own axes; ``padded``: 0 outside; ``value``: it is
    this number everywhere; ``group``: addresses of the memory that one element takes."""

    tensor: str
    memory: str
    transfer: Transfer | None
    dtype: DType
    layout: Layout
    axes: tuple[Axis, ...]
    expand: tuple[int, ...] = ()
    padded: bool = False
    value: float | None = None
    diagonal: Diagonal | None = None
    group: int = 1

    @property
    def name(self) -> str:
        """Of what lies in main memory for it: a tensor may lie there in several ways."""
        blocks = ["1"] * len(self.layout.shape)
        for axis, block in self.layout.inner:
            blocks[axis] = str(block)
        around = self.layout.around and f" in {self.layout.around}"
        return f"{self.tensor} in {self.memory} by {' '.join(blocks)}{around or ''}"


@dataclass(frozen=True, slots=True)
class Mapping:
    """``extents``: of the loops over instructions. ``compute``: None where there is nothing to sum
    up; ``folds``: those of its loops that results stay for. ``start`` makes what the sum begins
    with, or is loaded, or ``first`` is the instruction that begins it by itself; ``tree`` makes the
    values that are stored, ``moved`` is where operations leave them that do not work in place.
    Where only a part of a value can be stored, it is stored in ``planes``: the low part, and again
    after each time that ``between`` moved the next part down."""

    work: Work
    compute: Compute | None
    extents: MappingType[str, int]
    folds: tuple[str, ...]
    target: View
    operands: tuple[View, ...]
    start: Tree | View | None
    first: Compute | None
    tree: Tree
    reads: MappingType[Held | Constant, View]
    moved: tuple[tuple[Node, View], ...]
    write: View
    planes: int = 1
    between: Tree | None = None


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
    covers: dict[tuple[Expr, str], Cover] = {}
    others: dict[str, None] = {}
    mappers = [
        _Mapper(one, machine, found, compute, given, operands, covers)
        for one, compute, given, operands in _choices(work, found, others)
    ]
    for mapper in sorted(mappers, key=lambda each: prod(each.extents.values())):
        try:
            yield mapper.mapping()
        except Refusal as refusal:
            reasons[str(refusal)] = None
    reasons |= others  # what is said of it where an instruction would do comes first


Given = MappingType[str, str]  # the instruction's dims -> the statement's


def _choices(
    work: Work, found: Abilities, reasons: dict[str, None]
) -> Iterator[tuple[Work, Compute | None, Given, tuple[tuple[int, DType], ...]]]:
    """Instructions, with dims for theirs, and with the reads that their operands are."""
    if work.start is None:
        for given in _elementwise(work, found):
            yield work, None, given, ()
        return
    for compute in found.computes:
        if compute.step.update is None:
            continue
        if compute.first is not None:
            reasons[f"{compute.operation.name} alone cannot go on with a sum"] = None
            continue
        one = _as_wide(work, compute)
        mapped = map_instruction(one.scop, one.statement, _instruction(compute))
        if not mapped.assignments:
            reasons.update(dict.fromkeys(mapped.refusals))
        for each in mapped.assignments:
            operands = [_read_of(each.operands[name]) for name in _names(compute)]
            if None in operands:
                reasons[f"operands of {compute.operation.name} are computed"] = None
                continue
            chosen = {name: dims[0] for name, dims in each.dims.items()}
            yield one, compute, chosen, tuple(o for o in operands if o is not None)


def _as_wide(work: Work, compute: Compute) -> Work:
    """A minimum or maximum in the type that ``compute`` has."""
    update, own = work.statement.update, compute.step.update
    assert update is not None and own is not None, "both fold"
    wide, narrow = own.monoid.dtypes[0], update.monoid.dtypes[0]
    same = update.monoid.name == own.monoid.name and update.monoid.name in ("min", "max")
    fits = wide.kind == narrow.kind == "int" and wide.bits > narrow.bits
    return widened(work, wide) if same and fits else work


def _elementwise(work: Work, found: Abilities) -> Iterator[Given]:
    """Dims for the elements of memories, where nothing is summed up: channels first of all."""
    sizes = {n: s for c in found.computes for n, s in _inner(c).items()}
    wide = [name for name, size in sizes.items() if size > 1]
    ranked = sorted(work.statement.dims, key=lambda d: -work.extents[d])
    for first in [*work.statement.dims[1:2], *ranked]:
        others = [d for d in work.statement.dims if d != first]
        if len(wide) <= 1 + len(others):
            yield dict(zip(reversed(wide), [first, *others], strict=False))


def _inner(compute: Compute) -> dict[str, int]:
    return {
        d: n
        for d, n in compute.extents.items()
        if any(Var(d) == i for i in compute.step.writes[0].indices)
    }


def _names(compute: Compute) -> tuple[str, ...]:
    return tuple(read.tensor for read in compute.step.reads)


def _read_of(expr: Expr) -> tuple[int, DType] | None:
    """The read that an operand is, and the dtype that it is stored in."""
    match expr:
        case Load(source=int() as number):
            return number, expr.dtype
        case Cast(Load(source=int() as number)) if expr.dtype.is_integer:
            return number, expr.dtype
    return None


def _instruction(compute: Compute) -> Instruction:
    """``compute`` as the mapper wants it, without dims of one value."""
    unit = {d for d, n in compute.extents.items() if n == 1}
    own = compute.step

    def without(access: Access) -> Access:
        kept = tuple(i for i in access.indices if not (isinstance(i, Var) and i.name in unit))
        return replace(access, indices=kept)

    step: Statement = replace(
        own,
        dims=tuple(d for d in own.dims if d not in unit),
        position=(),
        writes=tuple(map(without, own.writes)),
        reads=tuple(map(without, own.reads)),
    )
    accesses = (*step.writes, *step.reads)
    places = {a.tensor: Operand(a.indices or (literal(0),), a.tensor) for a in accesses}
    extents = {d: n for d, n in compute.extents.items() if d not in unit}
    return Instruction(compute.operation.name, step, extents, places, 0, 1.0)


@dataclass(frozen=True, slots=True)
class _Stored:
    tree: Tree
    transfer: Transfer
    planes: int = 1
    between: Tree | None = None


class _Mapper:
    def __init__(
        self,
        work: Work,
        machine: Accelerator,
        found: Abilities,
        compute: Compute | None,
        given: Given,
        operands: tuple[tuple[int, DType], ...],
        covers: dict[tuple[Expr, str], Cover],
    ) -> None:
        self.work, self.machine, self.found = work, machine, found
        self.compute, self.given, self.operands = compute, given, operands
        self.covers = covers
        sizes = (
            dict(compute.extents)
            if compute
            else {n: s for c in found.computes for n, s in _inner(c).items()}
        )
        self.sizes = sizes
        self.blocks = {dim: sizes[name] for name, dim in given.items()}

    @property
    def extents(self) -> dict[str, int]:
        """Of the loops over instructions."""
        blocks = self.blocks
        return {d: -(-n // blocks.get(d, 1)) for d, n in self.work.extents.items()}

    def mapping(self) -> Mapping:
        """Raises ``Refusal`` where it is none."""
        work, compute, extents = self.work, self.compute, self.extents
        cover = self._cover()
        begin = None if compute is None else self._begin()
        first = None if compute is None else self._first(compute, begin)
        stored = self._stored(cover)
        tree, transfer = stored.tree, stored.transfer
        root = tree.compute.target.memory if isinstance(tree, Node) else tree.memory
        element = self._element(compute)
        write = self._view(work.write, transfer.local.memory, element, transfer, work.value.dtype)
        own = root if compute is None else compute.target.memory
        target = self._view(work.write, own, element, None, None)
        moved = tuple(
            (node, self._view(work.write, node.compute.target.memory, element, None, None))
            for node in nodes(tree)
            if node.moves
        )
        operands: tuple[View, ...] = ()
        if compute is not None:
            operands = tuple(
                self._view(
                    work.operands[number],
                    at.memory,
                    self._element_of(access, at),
                    self._load(at.memory),
                    dtype,
                )
                for (number, dtype), at, access in zip(
                    self.operands, compute.operands, compute.step.reads, strict=True
                )
            )
        start = None
        if compute is not None and begin is not None and first is None:
            start = self._start(begin, cover, compute, element, target)
        reads = {leaf: self._leaf(leaf, element) for leaf in leaves(tree) if leaf != Held(0, own)}
        written = {d for axis in target.axes for d in axis.coefficients}
        folds = tuple(d for d in extents if d not in written)
        return Mapping(
            work, compute, extents, folds, target, operands, start, first, tree, reads, moved,
            write, stored.planes, stored.between,
        )  # fmt: skip

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
                f"nothing fills {memory} with {begin}, nor loads it, nor does any "
                f"operation like {compute.operation.name} begin with it"
            )
        depth = self.machine.memory(memory).depth
        assert depth is not None, "a local memory"
        room = depth // element.group(self.machine.memory(memory))
        return self._constant(begin, memory, element, min(prod(target.layout.blocks), room))

    def _cover(self) -> Cover:
        """Trees of expressions; the same for all choices of dims."""
        home = "" if self.compute is None else self.compute.target.memory
        key = self.work.value, home
        if key not in self.covers:
            held = {0: frozenset({home})} if home else {}
            for number, read in enumerate(self.work.reads):
                held[number + 1] = self._homes(read)
            self.covers[key] = Cover(self.found.computes, held)
        return self.covers[key]

    # ---- what is stored ---------------------------------------------------------------------

    def _stored(self, cover: Cover) -> _Stored:
        """How the results come to be stored: as they are, as what operations copy of them, or in
        parts. Raises ``Refusal``."""
        value = rewrite(self.work.value, _widened)
        for transfer in self.found.transfers:
            if transfer.into:
                continue
            memory = self.machine.memory(transfer.local.memory)
            if memory.dtype == value.dtype:
                tree = cover.tree(value, memory.name)
                if tree is not None:
                    return _Stored(tree, transfer)
            for home, copied in self._copies(memory.name):
                for found in matches(copied, value):
                    tree = cover.tree(found[0], home.name)
                    if tree is not None:
                        return _Stored(self._copied(tree, memory.name, cover), transfer)
                if value.dtype == home.dtype and _is_low_part(copied):
                    tree = cover.tree(value, home.name)
                    bits = memory.dtype.bits
                    down = Load(0, (), home.dtype) >> literal(bits, home.dtype)
                    between = cover.tree(down, home.name)
                    if tree is not None and between is not None:
                        tree = self._copied(tree, memory.name, cover)
                        return _Stored(tree, transfer, home.dtype.bits // bits, between)
        raise Refusal("no instructions compute what becomes of its results")

    def _copies(self, memory: str) -> list[tuple[Memory, Expr]]:
        """What operations leave in ``memory`` beside what they compute, and of what memory."""
        found = {
            (compute.target.memory, copy.value)
            for compute in self.found.computes
            for copy in compute.copies
            if copy.memory == memory
        }
        return [(self.machine.memory(name), value) for name, value in sorted(found, key=repr)]

    def _copied(self, tree: Tree, memory: str, cover: Cover) -> Tree:
        """``tree`` with an operation last that leaves its copy in ``memory``."""
        last = tree.compute if isinstance(tree, Node) else None
        if isinstance(tree, Held) and tree.number == 0:
            last = self.compute
        if last is not None and any(copy.memory == memory for copy in last.copies):
            return tree
        home = tree.compute.target.memory if isinstance(tree, Node) else tree.memory
        again = cover.unchanged(tree, home)
        if again is None:
            raise Refusal("nothing moves its results to where they are stored from")
        return again

    # ---- tensors ----------------------------------------------------------------------------

    def _element(self, compute: Compute | None) -> Element:
        """The dims inside of an element of results."""
        if compute is None:
            compute = next((c for c in self.found.computes if c.target.group == 1), None)
        if compute is None:
            raise Refusal("no instruction goes through results one by one")
        return self._element_of(compute.step.writes[0], compute.target)

    def _element_of(self, access: Access, at: Address) -> Element:
        """What an element of ``at`` has inside."""
        shape = self.machine.memory(at.memory).shape
        count = len(access.indices) - len(shape)
        assert self.compute is not None or count == 0, "elements of sums alone take addresses"
        sizes = [self.sizes[i.name] for i in access.indices[:count] if isinstance(i, Var)]
        return Element(self._names_in(access), (*sizes, *shape))

    def _names_in(self, access: Access) -> tuple[str | None, ...]:
        names = [i.name if isinstance(i, Var) else None for i in access.indices]
        return tuple(None if n is None else self.given.get(n) for n in names)

    def _homes(self, read: Read) -> frozenset[str]:
        """Memories that a tensor may be loaded into: of its type, or of a wider one."""
        own = self.work.scop.tensor(read.tensor).dtype
        return frozenset(
            t.local.memory
            for t in self.found.transfers
            if t.into and _wider(self.machine.memory(t.local.memory), own)
        )

    def _load(self, memory: str) -> Transfer:
        for transfer in self.found.transfers:
            if transfer.into and transfer.local.memory == memory:
                return transfer
        raise Refusal(f"nothing loads {memory}")

    def _leaf(self, leaf: Held | Constant, element: Element) -> View:
        if isinstance(leaf, Held):
            read = self.work.reads[leaf.number - 1]
            dtype = self.machine.memory(leaf.memory).dtype
            return self._view(read, leaf.memory, element, self._load(leaf.memory), dtype)
        return self._constant(leaf.value, leaf.memory, element, 1)

    def _constant(self, value: float, memory: str, element: Element, count: int) -> View:
        """``count`` elements of ``value``."""
        shape = element.shape
        layout = Layout((count, *shape), tuple((n + 1, size) for n, size in enumerate(shape)))
        axes = (Axis({}, 0, count), *(Axis({}, 0, 1) for _ in shape))
        dtype = self.machine.memory(memory).dtype
        return View(
            f"constant {value}", memory, self._load(memory), dtype, layout, axes, value=value,
            group=element.group(self.machine.memory(memory)),
        )  # fmt: skip

    def _view(
        self,
        read: Read,
        memory: str,
        element: Element,
        transfer: Transfer | None,
        dtype: DType | None,
    ) -> View:
        """``read`` as elements of ``memory`` with those dims inside."""
        tensor = self.work.scop.tensor(read.tensor)
        shape = element.shape
        group = element.group(self.machine.memory(memory))
        sizes = [int(s.value) for s in tensor.shape if isinstance(s, Literal)]
        if read.diagonal is not None:
            sizes = list(read.diagonal.made)
        axes: list[Axis] = []
        at: dict[str, int] = {}  # blocked dim -> axis
        for number, form in enumerate(read.indices):
            coefficients = {str(term): c for term, c in form.terms}
            cut = [d for d in coefficients if d in self.blocks]
            if not cut:
                axes.append(Axis(coefficients, form.constant, sizes[number]))
                continue
            (dim, *more) = cut
            axes.append(self._cut(tensor.name, dim, coefficients, form.constant, sizes[number]))
            if more or dim not in element.dims or dim in at:
                raise Refusal(f"{tensor.name} does not have {dim} where the instruction has it")
            at[dim] = number
        expand: list[int] = []
        inner: list[tuple[int, int]] = []
        missing = [n for n, dim in enumerate(element.dims) if dim not in at]
        for n, inside in enumerate(element.dims):
            if inside not in at:
                inner.append((len(expand), shape[n]))
                expand.append(shape[n])
            else:
                inner.append((len(missing) + at[inside], shape[n]))
        around: list[tuple[int, int]] = [self._around(axis) for axis in axes]
        padded = read.padded and not read.outside and _surrounds(transfer, around)
        if read.padded and not padded:
            axes = [
                Axis(axis.coefficients, axis.constant + before, before + axis.size + after)
                for axis, (before, after) in zip(axes, around, strict=True)
            ]
            around = [*((0, 0) for _ in expand), *around]
        else:
            around = []
        layout = Layout(
            (*expand, *sizes),
            tuple(inner),
            around=tuple(around),
            fill=read.outside if around else 0,
        )
        whole = (*(Axis({}, 0, 1) for _ in expand), *axes)
        return View(
            read.tensor, memory, transfer, dtype or tensor.dtype, layout, whole, tuple(expand),
            padded, diagonal=read.diagonal, group=group,
        )  # fmt: skip

    def _around(self, axis: Axis) -> tuple[int, int]:
        """How far outside of ``axis`` is read, before and after it. In blocks nothing is: an axis
        in blocks begins at 0."""
        low = high = axis.constant
        for dim, c in axis.coefficients.items():
            most = -(-self.work.extents[dim] // self.blocks.get(dim, 1)) - 1
            low, high = low + min(0, c * most), high + max(0, c * most)
        return max(0, -low), max(0, high + 1 - axis.size)

    def _cut(
        self, tensor: str, dim: str, coefficients: MappingType[str, int], constant: int, size: int
    ) -> Axis:
        """An axis in blocks."""
        block = self.blocks[dim]
        others = {d: c for d, c in coefficients.items() if d != dim}
        whole = constant % block == 0 and all(c % block == 0 for c in others.values())
        if coefficients[dim] != 1 or not whole or (constant < 0):
            raise Refusal(
                f"{tensor} does not go through {dim} in blocks of {block}"
                if block > 1
                else f"{tensor} has other things than {dim} along an axis of elements"
            )
        if block > 1 and others and self.work.extents[dim] % block:
            raise Refusal(f"{self.work.extents[dim]} along {dim} are no blocks of {block}")
        scaled = {dim: 1, **{d: c // block for d, c in others.items()}}
        return Axis(scaled, constant // block, -(-size // block))


def _surrounds(transfer: Transfer | None, around: list[tuple[int, int]]) -> bool:
    """Whether ``transfer`` fills with that many zeros on all sides: of rows and columns alone."""
    if transfer is None:
        return True
    if any(both != (0, 0) for both in around[:-2]):
        return False
    (rows, columns) = [*[(0, 0)] * 2, *around][-2:]
    holds = transfer.operation.holds
    return all(
        name is not None and holds(name, count)
        for span, both in ((transfer.rows, rows), (transfer.columns, columns))
        for name, count in zip((span.before, span.after), both, strict=True)
    )


def _wider(memory: Memory, dtype: DType) -> bool:
    both = memory.dtype.is_integer and dtype.is_integer and memory.dtype.kind == dtype.kind
    return memory.dtype == dtype or (both and memory.dtype.bits > dtype.bits)


def _widened(node: Expr) -> Expr | None:
    """Reads that are converted are stored converted."""
    match node:
        case Cast(Load(source, indices), dtype) if dtype.is_integer and source != 0:
            return Load(source, indices, dtype)
    return None


def _is_low_part(value: Expr) -> bool:
    """Whether ``value`` is the low bits of what is copied."""
    match value:
        case Cast(Load(source=0), dtype):
            return dtype.is_integer
    return False
