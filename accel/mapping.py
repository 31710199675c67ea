"""Which loops of a piece of work are inside of an accelerator's instruction, and how its tensors
lie in main memory, then.

    Mapping ::= work, compute, extents, target: View, operands: View…, reads: View…, write: View, …
    View    ::= tensor, memory, axes: Axis…, layout, dtype, expand, padded
    Axis    ::= sum(coefficients[dim] * dim) + constant, of size

Loops that the instruction has inside count its issues then: 64 channels are 4 blocks of 16. Tensors
lie as elements of the memory that they are moved to, block by block. ``map_work`` finds mappings.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from math import prod

from weft.accel.artifact import Layout
from weft.accel.capabilities import Compute, Transfer
from weft.accel.instruction_selection import Constant, Held, Node, Tree, iteration_cycles
from weft.accel.work import BlockDiagonal, Work
from weft.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Axis:
    """In blocks, where it is cut into blocks."""

    coefficients: MappingType[str, int]
    constant: int
    size: int


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as elements of ``memory``, moved by ``transfer``. ``axes``: of ``layout``.
    ``expand``: so many equal copies before its own axes; ``padded``: 0 outside; ``value``: it is
    this number everywhere; ``group``: addresses of the memory that one element takes. ``copy``
    brings it from ``source``, where no transfer does."""

    tensor: str
    memory: str
    transfer: Transfer | None
    dtype: DType
    layout: Layout
    axes: tuple[Axis, ...]
    expand: tuple[int, ...] = ()
    padded: bool = False
    value: float | None = None
    diagonal: BlockDiagonal | None = None
    group: int = 1
    source: View | None = None
    copy: Compute | None = None

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

    @property
    def least_cycles(self) -> float:
        """Cycles of its sums if the machine multiplied nothing but their terms, no zeros between
        groups either; 0 where there is no sum."""
        if self.compute is None:
            return 0.0
        at_once = prod(self.compute.extents.values()) / iteration_cycles(self.compute)
        zeros = prod(view.diagonal.groups for view in self.operands if view.diagonal)
        return prod(self.work.extents.values()) / zeros / at_once
