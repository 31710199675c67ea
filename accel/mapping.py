"""A mapping: the loops of a piece of work inside of an instruction, and its tensors' layouts.

    Mapping ::= work, compute, extents, target: View, operands: View…, reads: View…, write: View, …
    View    ::= tensor, memory, axes: Axis…, layout, dtype, expand, padded
    Axis    ::= sum(coefficients[dim] * dim) + constant, of size

Loops that are partly inside count instructions: 64 channels are 4 blocks of 16. Tensors are blocked
into elements of the memory that they are transferred to. ``map_work`` finds mappings.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from math import prod

from weft.accel.artifact import Layout
from weft.accel.capabilities import Compute, Transfer
from weft.accel.instruction_tree import Constant, Held, Node, Tree, iteration_cycles
from weft.accel.work import BlockDiagonal, Columns, Work
from weft.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Axis:
    """In blocks, if it is blocked."""

    coefficients: MappingType[str, int]
    constant: int
    size: int


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as elements of ``memory``, transferred by ``transfer``. ``axes``: of ``layout``.
    ``expand``: leading axes of equal copies; ``padded``: 0 outside; ``value``: a constant
    everywhere or, with a ``diagonal``, along these axes of an element, and 0 elsewhere; ``group``:
    addresses of the memory per element. ``copy`` copies it from ``source``, for which
    ``Held(0, …)`` stands, if no transfer loads it."""

    tensor: str
    memory: str
    transfer: Transfer | None
    dtype: DType
    layout: Layout
    axes: tuple[Axis, ...]
    expand: tuple[int, ...] = ()
    padded: bool = False
    value: float | None = None
    diagonal: tuple[int, int] | None = None
    made: BlockDiagonal | Columns | None = None
    group: int = 1
    source: View | None = None
    copy: Node | None = None

    @property
    def name(self) -> str:
        """Of its copy in main memory: a tensor may have several layouts."""
        blocks = ["1"] * len(self.layout.shape)
        for axis, block in self.layout.inner:
            blocks[axis] = str(block)
        around = f" in {self.layout.around}" if self.layout.around else ""
        along = f" along {self.diagonal}" if self.diagonal else ""
        made = f", made by {self.made}" if self.made is not None else ""
        return f"{self.tensor} in {self.memory} by {' '.join(blocks)}{around}{along}{made}"


@dataclass(frozen=True, slots=True)
class Mapping:
    """``extents``: of the loops over instructions. ``compute``: None if there is no reduction;
    ``folds``: its reduction loops. ``start`` computes the initial value, or is loaded, or ``first``
    is the instruction that starts the reduction; ``tree`` computes the stored values, ``moved``:
    places of results that are not computed in place. If values are wider than a store, they are
    stored in ``planes``: the low part, and again each time that ``between`` has shifted the next
    part down."""

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

    @property
    def way(self) -> str:
        """In words, how it computes its work."""
        made = [view.made for view in self.operands if view.made is not None]
        merged = {" ".join(each.together) for each in made if isinstance(each, Columns)}
        found = [f"im2col of {dims}" for dims in sorted(merged)]
        if any(isinstance(each, BlockDiagonal) for each in made):
            found.append("block-diagonal weights")
        if any(view.diagonal is not None for view in self.reads.values()):
            found.append("products with the identity")
        return ", ".join(found) or "as it is"

    @property
    def least_cycles(self) -> float:
        """Cycles of the reduction's own terms, without zeros between groups; 0 without a
        reduction."""
        if self.compute is None:
            return 0.0
        at_once = prod(self.compute.extents.values()) / iteration_cycles(self.compute)
        made = [view.made for view in self.operands]
        zeros = prod(each.groups for each in made if isinstance(each, BlockDiagonal))
        return prod(self.work.extents.values()) / zeros / at_once
