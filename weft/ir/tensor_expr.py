"""IR 1, tensor expressions: what a program computes, with no word on how.

    Program   ::= name, inputs: Tensor…, outputs: Tensor…, in_place: (output, input)…
    Tensor    ::= name, shape: Size…, dtype, operation (none: placeholder), index among its results
    Operation ::= Compute(name, axes, values, scan, written)    result_c[axes] = values_c
                | Scatter(name, base, axes, indices, value, combine, condition, written)
                | Reshape(name, source)                         same elements in row-major order
    Size      ::= int | Expr over size symbols (Var)
    Expr      ::= scalar_expr.Expr, with
                  Load(Tensor, indices)                     element of another tensor
                  Load(Itself(c), indices)                  element of this operation's own result c
                  Axis                                      an index variable with its range
                  Reduce(monoid, axes, values, index)       fold over a box or a triangle
    Monoid    ::= name, left: Var…, right: Var…, combined: Expr…, identity: Number…, laws

Semantics:

* ``Compute`` defines every element of every result exactly once, ``axes`` spanning the shape. All
  results share the axes. ``values`` may load ``Itself`` only at indices that come strictly earlier
  in the lexicographic order of the ``scan`` axes (a prefix of ``axes``), or within the same point
  never; the order of evaluation along scan axes is ascending.
* ``Scatter`` copies ``base`` and then, for the points of ``axes`` in lexicographic order, sets
  ``result[indices] = combine(result[indices], value)``; ``combine`` is None to replace. Points
  whose ``condition`` is false are skipped. Indices out of range are an execution error.
* ``Reduce`` folds the tuple ``values`` over ``axes`` in lexicographic order, starting from
  ``identity``, and gives component ``index`` of the result; points where ``condition`` is false are
  left out. Where the monoid declares 'associative' and 'commutative' the order may be changed
  unless ``strict``. Its axes may depend on outer axes (triangles).
* A ``Load`` may have data-dependent indices (it contains another ``Load``); they are checked at run
  time. Other loads must be inside their tensor wherever they are evaluated, which is verified.

Tensors, operations and axes are compared by identity; scalar nodes by structure.
"""

from __future__ import annotations

import itertools
import linecache
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Number, Var, literal, select, walk

Size = int | Expr
Index = Expr | int


@dataclass(frozen=True, slots=True)
class Line:
    """Where in the user's source something is: a file, '' for none, and the number of a line."""

    file: str
    number: int

    def __str__(self) -> str:
        """``layers.py:12: c = weft.compute((m, n), lambda i, j: a[i] * b[j], name="c")``"""
        text = linecache.getline(self.file, self.number).strip()
        return f"{Path(self.file).name}:{self.number}: {text}".rstrip(": ")


NOWHERE = Line("", 0)


@dataclass(frozen=True, slots=True)
class Axis(Var):
    """An index variable, int64 as its ``dtype`` says, over ``lower <= name < upper``; bounds are
    affine in outer axes and sizes. ``weft.reduce_axis`` makes one."""

    lower: Expr = field(default_factory=lambda: literal(0))
    upper: Expr = field(default_factory=lambda: literal(0))

    @property
    def extent(self) -> Expr:
        """How many values it takes."""
        return self.upper - self.lower


@dataclass(frozen=True, slots=True)
class Itself:
    """Result number ``index`` of the operation in whose values this stands."""

    index: int


@dataclass(frozen=True, slots=True)
class Monoid:
    """(left, right) -> combined over tuples of scalars, ``name`` in texts: for ``weft.reduce``.

    ``left`` and ``right`` are variables of the components' dtypes; ``combined`` has one expression
    per component. ``identity``: one number for each, where folds begin. ``laws``: a subset of
    {'associative', 'commutative'}; the order of a fold may change where it has both.
    """

    name: str
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combined: tuple[Expr, ...]
    identity: tuple[Number, ...]
    laws: frozenset[str] = frozenset({"associative", "commutative"})

    def __repr__(self) -> str:
        """The same in every process, as the order of a set is not: cache keys are made of it."""
        parts = (self.name, self.left, self.right, self.combined, self.identity, sorted(self.laws))
        return f"Monoid({', '.join(map(repr, parts))})"

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Those of the components."""
        return tuple(v.dtype for v in self.left)

    @property
    def is_sum(self) -> bool:
        """Whether it is an addition of scalars in any order, under any name."""
        if len(self.left) != 1 or not {"associative", "commutative"} <= self.laws:
            return False
        (left,), (right,), (combined,) = self.left, self.right, self.combined
        sums = (Apply("add", (left, right)), Apply("add", (right, left)))
        return combined in sums and self.identity == (0,)


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """Component ``index`` of the fold of ``values`` over ``axes``."""

    monoid: Monoid
    axes: tuple[Axis, ...]
    values: tuple[Expr, ...]
    condition: Expr | None = None
    index: int = 0

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.values[self.index].dtype

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.values if self.condition is None else (*self.values, self.condition)

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        n = len(self.values)
        condition = None if self.condition is None else children[n]
        return Reduce(self.monoid, self.axes, children[:n], condition, self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor, ``name``, of ``shape`` (integers and int64 expressions over size symbols) and
    ``dtype``: a placeholder (``operation`` is None) or result ``index`` of an operation.

    ``x[i, j]`` is the element there, an expression; nothing is computed before ``weft.compile``.
    ``serial`` grows from each tensor made to the next: the order of a program's arguments.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: DType
    operation: Operation | None = None
    index: int = 0
    serial: int = field(default_factory=itertools.count().__next__)

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Expr:
        """The element at ``indices``: one integer or int64 expression per dimension. Raises
        ``ExpressionError``: WEFT-E0111 for another number of them, E0112 for other kinds."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != self.rank:
            raise ExpressionError(
                "WEFT-E0111",
                f"{self.name} has {self.rank} dimensions, got {len(given)} indices",
                where=self.name,
            )
        return Load(self, tuple(_as_index(i, self.name) for i in given), self.dtype)

    def __call__(self, *indices: Index) -> Expr:
        return self[indices]

    def __iter__(self) -> NoReturn:  # Python would try 0, 1, 2 … for ever
        raise ExpressionError(
            "WEFT-E0108",
            f"{self.name} cannot be iterated over",
            where=self.name,
            hint="index it in the body of a compute",
        )

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.shape}, {self.dtype})"


def _as_index(index: Index, name: str) -> Expr:
    if isinstance(index, Expr):
        if index.dtype == dtypes.int64:
            return index
        raise ExpressionError(
            "WEFT-E0112",
            f"{name} is indexed by an expression of dtype {index.dtype}",
            where=name,
            hint="indices are int64: use .astype('int64')",
        )
    try:
        return literal(operator.index(index))
    except TypeError:
        raise ExpressionError(
            "WEFT-E0112",
            f"{name} is indexed by a {type(index).__name__}",
            where=name,
            hint=f"write {name}[(*i, k)]: each index is one number"
            if isinstance(index, tuple)
            else "indices are integers and int64 expressions; slices are computes of their own",
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    name: str
    axes: tuple[Axis, ...]
    values: tuple[Expr, ...]
    scan: int = 0  # how many leading axes the operation may read itself along
    written: Line = NOWHERE  # its body

    @property
    def reads(self) -> tuple[Tensor, ...]:
        return tensors_read(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    name: str
    base: Tensor
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    value: Expr
    combine: Monoid | None = None
    condition: Expr | None = None
    written: Line = NOWHERE  # its body

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All that is evaluated at each of its points."""
        extra = () if self.condition is None else (self.condition,)
        return (*self.indices, self.value, *extra)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        found = tensors_read(self.expressions)
        return found if self.base in found else (self.base, *found)


@dataclass(frozen=True, slots=True, eq=False)
class Reshape:
    """Row-major reinterpretation; the product of sizes is the same on both sides."""

    name: str
    source: Tensor

    @property
    def reads(self) -> tuple[Tensor, ...]:
        return (self.source,)


Operation = Compute | Scatter | Reshape


@dataclass(frozen=True, slots=True)
class Program:
    """``outputs`` as functions of ``inputs``, the placeholders, under a ``name``: ``weft.program``
    makes it. ``in_place``: (output, input) pairs, by number, that may share storage."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    in_place: tuple[tuple[int, int], ...] = ()


def tensors_read(expressions: Iterable[Expr]) -> tuple[Tensor, ...]:
    """The tensors that ``expressions`` load from, in order of first appearance."""
    found: dict[Tensor, None] = {}
    for expr in expressions:
        for node in walk(expr):
            if isinstance(node, Load) and isinstance(node.source, Tensor):
                found.setdefault(node.source)
    return tuple(found)


def operations(program: Program) -> tuple[Operation, ...]:
    """Every operation that the outputs need, producers before consumers."""
    done: dict[Operation, None] = {}
    stack: list[tuple[Tensor, bool]] = [(t, False) for t in reversed(program.outputs)]
    while stack:
        tensor, expanded = stack.pop()
        operation = tensor.operation
        if operation is None or operation in done:
            continue
        if expanded:
            done[operation] = None
        else:
            stack.append((tensor, True))
            stack.extend((t, False) for t in reversed(operation.reads))
    return tuple(done)


def size_symbols(program: Program) -> tuple[str, ...]:
    """Names of the size symbols in the inputs' shapes, in order of first appearance."""
    found: dict[str, None] = {}
    for tensor in program.inputs:
        for size in tensor.shape:
            for node in walk(size) if isinstance(size, Expr) else ():
                if isinstance(node, Var):
                    found.setdefault(node.name)
    return tuple(found)


def as_size(size: Size) -> Expr:
    """A size as an int64 expression."""
    return size if isinstance(size, Expr) else literal(size)


def constant_size(size: Size) -> int | None:
    """The integer that a size is, or None where it is symbolic."""
    if isinstance(size, Literal):
        return int(size.value)
    return size if isinstance(size, int) else None


def axes_of(expr: Expr) -> Iterator[Axis]:
    """The axes that ``expr`` mentions, reduction axes included, each once."""
    seen: set[Axis] = set()
    for node in walk(expr):
        if isinstance(node, Axis) and node not in seen:
            seen.add(node)
            yield node


__all__ = [
    "Axis", "Compute", "Expr", "Index", "Itself", "Monoid", "Operation", "Program", "Reduce",
    "Reshape", "Scatter", "Size", "Tensor", "as_size", "axes_of", "constant_size", "operations",
    "select", "size_symbols", "tensors_read",
]  # fmt: skip
