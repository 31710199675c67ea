"""Layouts of tensors for an instruction mapping: blocked along the axes of the loops inside of the
instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.accel.artifact import Layout
from weft.accel.capabilities import Address, Capabilities, Transfer
from weft.accel.instruction_mapping import InstructionMapping
from weft.accel.instruction_selection import is_copy
from weft.accel.instruction_tree import Constant, Held, Node, leaves
from weft.accel.mapping import Axis, View
from weft.accel.refusal import Refusal
from weft.accel.work import Read
from weft.ir.accelerator import Accelerator, Memory
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Literal, Var
from weft.ir.scop import Access


@dataclass(frozen=True, slots=True)
class Element:
    """``dims``: of the statement, or None, with extents ``shape``."""

    dims: tuple[str | None, ...]
    shape: tuple[int, ...]

    def group(self, memory: Memory) -> int:
        """The addresses per element of ``memory``. Raises ``Refusal`` if it is no whole number of
        them."""
        outer = len(self.shape) - len(memory.shape)
        if outer < 0 or self.shape[outer:] != memory.shape:
            raise Refusal(f"{memory.name} has elements of {memory.shape}, and no {self.shape}")
        return prod(self.shape[:outer])


class TensorLayouts:
    """The layouts for one instruction mapping. All methods raise ``Refusal`` if there is none."""

    def __init__(
        self,
        choice: InstructionMapping,
        machine: Accelerator,
        found: Capabilities,
        copies: Sequence[Node],
    ) -> None:
        """``copies``: of ``Held(0, …)``, used where they keep tensors in their own type."""
        self.choice, self.machine, self.found = choice, machine, found
        self.copies = copies
        self.scop, self.extents = choice.work.scop, choice.work.extents
        self.blocks = choice.blocks

    # ---- elements -----------------------------------------------------------------------------

    def results(self) -> Element:
        """The elements of the results."""
        like = self.choice.like
        return self.element(like.step.writes[0], like.target)

    def element(self, access: Access, at: Address) -> Element:
        """The elements at ``at``, which ``access`` of an instruction reads or writes."""
        shape = self.machine.memory(at.memory).shape
        count = len(access.indices) - len(shape)
        assert self.choice.compute is not None or count == 0, "elements of sums take addresses"
        names = [i.name if isinstance(i, Var) else None for i in access.indices]
        sizes = [self.choice.sizes[name] for name in names[:count] if name is not None]
        dims = tuple(None if n is None else self.choice.given.get(n) for n in names)
        return Element(dims, (*sizes, *shape))

    # ---- tensors ----------------------------------------------------------------------------

    def loaded(self, read: Read, memory: str, element: Element, dtype: DType) -> View:
        """``read`` in ``memory``, in main memory as ``dtype``: loaded there, or copied from where
        it is loaded."""
        return self._loaded(read, memory, element, dtype, frozenset())

    def _loaded(
        self, read: Read, memory: str, element: Element, dtype: DType, passed: frozenset[str]
    ) -> View:
        own = self.scop.tensor(read.tensor).dtype
        for copy in self.copies:
            if own != dtype and self.machine.memory(_origin(copy)).dtype == own:
                found = self._copied(read, memory, element, own, passed, copy)
                if found is not None:
                    return found
        if self._loads(memory):
            return self.view(read, memory, element, self._load(memory), dtype)
        for compute in filter(is_copy, self.found.computes):
            copy = Node(compute, {}, None, (Held(0, compute.operands[0].memory),))
            found = self._copied(read, memory, element, dtype, passed, copy)
            if found is not None:
                return found
        raise Refusal(f"nothing loads {memory}, nor copies what is loaded into it")

    def _copied(
        self,
        read: Read,
        memory: str,
        element: Element,
        dtype: DType,
        passed: frozenset[str],
        copy: Node,
    ) -> View | None:
        """``read`` in ``memory`` by ``copy``; None if that leaves it elsewhere, or loads nothing
        to copy."""
        origin = _origin(copy)
        if copy.compute.target.memory != memory or origin in {memory, *passed}:
            return None
        try:
            group = element.group(self.machine.memory(memory))
            source = self._loaded(read, origin, element, dtype, passed | {memory})
        except Refusal:
            return None
        return replace(source, memory=memory, transfer=None, group=group, source=source, copy=copy)

    def leaf(self, leaf: Held | Constant, element: Element) -> View:
        """A leaf of the epilogue."""
        if isinstance(leaf, Constant):
            return self.constant(leaf, element, 1)
        dtype = self.machine.memory(leaf.memory).dtype
        return self.loaded(self.choice.work.reads[leaf.number - 1], leaf.memory, element, dtype)

    def constant(self, leaf: Constant, element: Element, count: int) -> View:
        """``count`` elements of ``leaf``, as large as ``element`` if they have no diagonal."""
        memory = leaf.memory
        if leaf.diagonal is not None:
            shape = self.machine.memory(memory).shape
            element = Element((None,) * len(shape), shape)
        shape = element.shape
        layout = Layout((count, *shape), tuple((n + 1, size) for n, size in enumerate(shape)))
        axes = (Axis({}, 0, count), *(Axis({}, 0, 1) for _ in shape))
        dtype = self.machine.memory(memory).dtype
        return View(
            f"constant {leaf.value}", memory, self._load(memory), dtype, layout, axes,
            value=leaf.value, diagonal=leaf.diagonal,
            group=element.group(self.machine.memory(memory)),
        )  # fmt: skip

    def view(
        self,
        read: Read,
        memory: str,
        element: Element,
        transfer: Transfer | None,
        dtype: DType | None,
    ) -> View:
        """``read`` as elements of ``memory``, transferred by ``transfer``, if any. ``dtype``: in
        main memory, if not the tensor's own."""
        tensor = self.scop.tensor(read.tensor)
        group = element.group(self.machine.memory(memory))
        sizes = [int(s.value) for s in tensor.shape if isinstance(s, Literal)]
        if read.made is not None:
            sizes = list(read.made.made)
        axes, at = self._axes(read, sizes, element)
        missing = [n for n, dim in enumerate(element.dims) if dim not in at]
        expand = tuple(element.shape[n] for n in missing)
        inner = tuple(
            (missing.index(n) if n in missing else len(missing) + at[dim], size)
            for n, (dim, size) in enumerate(zip(element.dims, element.shape, strict=True))
        )
        around = [self._around(axis) for axis in axes]
        padded = read.padded and not read.outside and _surrounds(transfer, around)
        stored: list[tuple[int, int]] = []
        if read.padded and not padded:
            cut = {number: self.blocks[dim] for dim, number in at.items() if dim is not None}
            stored = [(0, 0) for _ in expand]
            stored += [
                _scalars(both, axis, size, cut.get(n, 1))
                for n, (both, axis, size) in enumerate(zip(around, axes, sizes, strict=True))
            ]
            axes = [
                Axis(axis.coefficients, axis.constant + before, before + axis.size + after)
                for axis, (before, after) in zip(axes, around, strict=True)
            ]
        fill = read.outside if stored else 0
        layout = Layout((*expand, *sizes), inner, around=tuple(stored), fill=fill)
        whole = (*(Axis({}, 0, 1) for _ in expand), *axes)
        return View(
            read.tensor, memory, transfer, dtype or tensor.dtype, layout, whole, expand, padded,
            made=read.made, group=group,
        )  # fmt: skip

    def _loads(self, memory: str) -> bool:
        return any(t.into and t.local.memory == memory for t in self.found.transfers)

    def _load(self, memory: str) -> Transfer:
        for transfer in self.found.transfers:
            if transfer.into and transfer.local.memory == memory:
                return transfer
        raise Refusal(f"nothing loads {memory}")

    # ---- axes -------------------------------------------------------------------------------

    def _axes(
        self, read: Read, sizes: list[int], element: Element
    ) -> tuple[list[Axis], dict[str | None, int]]:
        """The axes of the tensor, and the blocked axis of each dim."""
        axes: list[Axis] = []
        at: dict[str | None, int] = {}
        for number, (form, size) in enumerate(zip(read.indices, sizes, strict=True)):
            coefficients = {str(term): c for term, c in form.terms}
            cut = [d for d in coefficients if d in self.blocks]
            if not cut:
                axes.append(Axis(coefficients, form.constant, size))
                continue
            (dim, *more) = cut
            axes.append(self._cut(read.tensor, dim, coefficients, form.constant, size))
            if more or dim not in element.dims or dim in at:
                raise Refusal(f"{read.tensor} does not have {dim} where the instruction has it")
            at[dim] = number
        return axes, at

    def _cut(
        self, tensor: str, dim: str, coefficients: Mapping[str, int], constant: int, size: int
    ) -> Axis:
        """A blocked axis."""
        block = self.blocks[dim]
        others = {d: c for d, c in coefficients.items() if d != dim}
        whole = constant % block == 0 and all(c % block == 0 for c in others.values())
        if coefficients[dim] != 1 or not whole or (constant < 0):
            raise Refusal(
                f"{tensor} does not go through {dim} in blocks of {block}"
                if block > 1
                else f"{tensor} has other things than {dim} along an axis of elements"
            )
        if block > 1 and others and self.extents[dim] % block:
            raise Refusal(f"{self.extents[dim]} along {dim} are no blocks of {block}")
        scaled = {dim: 1, **{d: c // block for d, c in others.items()}}
        return Axis(scaled, constant // block, -(-size // block))

    def _around(self, axis: Axis) -> tuple[int, int]:
        """Padding that is read before and after ``axis``, in blocks if it is blocked."""
        low = high = axis.constant
        for dim, c in axis.coefficients.items():
            most = -(-self.extents[dim] // self.blocks.get(dim, 1)) - 1
            low, high = low + min(0, c * most), high + max(0, c * most)
        return max(0, -low), max(0, high + 1 - axis.size)


def _origin(copy: Node) -> str:
    """The memory of what ``copy`` copies."""
    return next(leaf.memory for leaf in leaves(copy) if isinstance(leaf, Held))


def _scalars(around: tuple[int, int], axis: Axis, size: int, block: int) -> tuple[int, int]:
    """The padding ``around`` a blocked axis of ``size`` scalars, in scalars: the last block is
    padded."""
    before, after = around
    return before * block, (axis.size + after) * block - size if after else 0


def _surrounds(transfer: Transfer | None, around: list[tuple[int, int]]) -> bool:
    """Whether ``transfer`` pads with that many zeros on all sides: it pads rows and columns
    only."""
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
