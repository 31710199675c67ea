"""The meaning of affine statements: one instance after the other, in NumPy, without isl.

Slow and obvious. Memory that was never written holds garbage (NaN, or a large number), so that a
schedule that reads it too early gives a visibly wrong result.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from weft.ir.dtypes import DType
from weft.ir.errors import CallError, ExecutionError, InternalError
from weft.ir.scalar_affine import Affine, Range, to_affine
from weft.ir.scalar_condition import narrow
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scalar_interpreter import Array, evaluate
from weft.ir.scalar_point import PointEvaluator
from weft.ir.schedule_tree import Band, Leaf, Mark, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Access, Constraint, Scop, Statement, Tensor

Point = dict[str, int]
MAX_POINTS = 1 << 24  # of the box around a domain


def interpret(
    scop: Scop,
    inputs: Mapping[str, Array],
    parameters: Mapping[str, int] | None = None,
    *,
    tree: Tree | None = None,
) -> dict[str, Array]:
    """The output tensors of ``scop`` by name, as new arrays.

    ``inputs`` has an array for every tensor of role 'input' or 'constant'; their shapes give the
    parameters that ``parameters`` does not. Instances run in the order of ``tree``, by default in
    the initial order. Raises ``CallError`` (E0690) for arrays that do not fit, ``ExecutionError``
    (E0140) for a data-dependent index out of range, and ``InternalError`` (E0940) where the Scop
    breaks its own rules.
    """
    values = bind_parameters(scop, inputs, parameters)
    memory = {t.name: _Memory(t, _shape(t, values), inputs.get(t.name)) for t in scop.tensors}
    evaluator = PointEvaluator()
    points = [domain_points(s, values) for s in scop.statements]
    every = [
        _Instances(s, memory, values, p, evaluator)
        for s, p in zip(scop.statements, points, strict=True)
    ]
    with np.errstate(all="ignore"):
        for number, k in _in_order(scop, values, points, tree):
            every[number].run(k)
    return {t.name: memory[t.name].data for t in scop.tensors if t.role in ("output", "inout")}


def bind_parameters(
    scop: Scop, inputs: Mapping[str, Array], parameters: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The value of every parameter; ``CallError`` (E0690) where the inputs disagree."""
    values = dict(parameters or {})
    given = [t for t in scop.tensors if t.role in ("input", "inout", "constant")]
    for tensor in given:
        array = inputs.get(tensor.name)
        if array is None or array.ndim != len(tensor.shape) or array.dtype != tensor.dtype.numpy:
            raise CallError("WEFT-E0690", f"no array fits {tensor.name}", where=scop.name)
        for size, n in zip(tensor.shape, array.shape, strict=True):
            if isinstance(size, Var):
                values.setdefault(size.name, n)
    for name, value in scop.derived:
        values[name] = int(evaluate(value, values))
    missing = [name for name in scop.parameters if name not in values]
    if missing:
        raise CallError("WEFT-E0690", f"no value for {', '.join(missing)}", where=scop.name)
    wrong = [t.name for t in given if _shape(t, values) != inputs[t.name].shape]
    if wrong or not all(_holds(c, values) for c in scop.context):
        what = f"the shape of {wrong[0]} does not fit" if wrong else "the context does not hold"
        raise CallError("WEFT-E0690", what, where=scop.name)
    return values


def _shape(tensor: Tensor, values: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(evaluate(size, values)) for size in tensor.shape)


def _holds(constraint: Constraint, values: Mapping[str, int]) -> bool:
    value = evaluate(constraint.expr, values)
    return bool(value == 0 if constraint.equality else value >= 0)


# ---- instances ----------------------------------------------------------------------------------


def instances(
    scop: Scop, parameters: Mapping[str, int], tree: Tree | None = None
) -> Iterator[tuple[Statement, Point]]:
    """Every instance of every statement, in order."""
    points = [domain_points(s, parameters) for s in scop.statements]
    for number, k in _in_order(scop, parameters, points, tree):
        statement = scop.statements[number]
        yield statement, {d: int(points[number][d][k]) for d in statement.dims}


def _in_order(
    scop: Scop,
    parameters: Mapping[str, int],
    points: Sequence[Mapping[str, Array]],
    tree: Tree | None,
) -> list[tuple[int, int]]:
    """The numbers of statements, and of their ``points``, in the order in which they run."""
    paths = {s.name: _textual_path(s) for s in scop.statements} if tree is None else _paths(tree)
    everything: list[tuple[tuple[int, ...], int, int]] = []
    for number, (statement, own) in enumerate(zip(scop.statements, points, strict=True)):
        columns = [_column(entry, parameters, own) for entry in paths[statement.name]]
        times = zip(*columns, strict=True) if columns else [()] * _count(own)
        everything += ((time, number, k) for k, time in enumerate(times))
    everything.sort()
    return [(number, k) for _, number, k in everything]


def _column(expr: Expr, parameters: Mapping[str, int], points: Mapping[str, Array]) -> list[int]:
    """An affine expression at every one of ``points``."""
    column = evaluate(expr, {**parameters, **points})
    found: list[int] = np.broadcast_to(column, _count(points)).tolist()
    return found


def domain_points(statement: Statement, parameters: Mapping[str, int]) -> dict[str, Array]:
    """The points of the domain, one column for each dim and one, called '', that counts them."""
    box = _box(statement, parameters)
    extents = _extents(box)
    total = prod(extents)
    if total > MAX_POINTS:
        raise InternalError("WEFT-E0940", f"statement {statement.name} has {total} instances")
    columns: dict[str, Array] = {"": np.arange(total)}
    places = (
        np.unravel_index(columns[""], extents) if extents and total else [columns[""]] * len(box)
    )
    for dim, (low, _), place in zip(statement.dims, box, places, strict=True):
        columns[dim] = np.asarray(place) + low
    inside = np.ones(total, bool)
    for constraint in statement.domain:
        value = evaluate(constraint.expr, {**parameters, **columns})
        inside &= value == 0 if constraint.equality else value >= 0
    return {name: column[inside] for name, column in columns.items()}


def instances_at_most(scop: Scop, parameters: Mapping[str, int]) -> int:
    """How many instances all statements have, or more: the points of boxes around their domains."""
    return sum(prod(_extents(_box(s, parameters))) for s in scop.statements)


def _extents(box: Sequence[tuple[int, int]]) -> list[int]:
    return [max(0, high - low + 1) for low, high in box]


def _count(points: Mapping[str, Array]) -> int:
    return int(points[""].size)


def _box(statement: Statement, parameters: Mapping[str, int]) -> list[tuple[int, int]]:
    """An interval for every dim, by propagating the constraints."""
    facts: list[Affine] = []
    for constraint in statement.domain:
        form = to_affine(constraint.expr)
        if form is not None:
            facts += [form, form.scaled(-1)] if constraint.equality else [form]
    if any(fact.is_constant and fact.constant < 0 for fact in facts):
        return [(0, -1)] * len(statement.dims)
    ranges: dict[str, Range] = {name: (value, value) for name, value in parameters.items()}
    for _ in range(len(statement.dims) + 1):
        ranges = narrow(ranges, facts)
        if any(
            low is not None and high is not None and low > high for low, high in ranges.values()
        ):
            return [(0, -1)] * len(statement.dims)
    found = []
    for dim in statement.dims:
        low, high = ranges.get(dim, (None, None))
        if low is None or high is None:
            raise InternalError("WEFT-E0940", f"dim {dim} of {statement.name} is not bounded")
        found.append((low, high))
    return found


def _textual_path(statement: Statement) -> list[Expr]:
    if not statement.position:
        what = "it has no place in the initial order"
        raise InternalError("WEFT-E0940", what, where=statement.name)
    return [Var(p) if isinstance(p, str) else literal(p) for p in statement.position]


def _paths(tree: Tree) -> dict[str, list[Expr]]:
    """For every statement what orders its instances: loop values, and places in sequences."""
    found: dict[str, list[Expr]] = {}
    stack: list[tuple[Tree, tuple[Mapping[str, Expr] | int, ...]]] = [(tree, ())]
    while stack:
        node, above = stack.pop()
        match node:
            case Leaf(name):
                found[name] = [literal(e) if isinstance(e, int) else e[name] for e in above]
            case Band(loops, child):
                stack.append((child, (*above, *(loop.at for loop in loops))))
            case Mark(_, child):
                stack.append((child, above))
            case TreeSequence(children):
                stack += [(child, (*above, place)) for place, child in enumerate(children)]
    return found


# ---- execution ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Memory:
    """The elements of a tensor; of a contracted one those of the tile that was last at work."""

    tensor: Tensor
    shape: tuple[int, ...]
    given: Array | None
    data: Array = field(init=False)
    tile: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.given is not None:
            self.data = np.array(self.given)
        else:
            stored = tuple(max(0, n) for n in self.shape[self.tensor.contracted :])  # n - 1, say
            self.data = _garbage(stored, self.tensor.dtype)

    def at(self, indices: tuple[int, ...]) -> tuple[int, ...]:
        """Where the element is in ``data``, after another tile's elements are gone."""
        tile, rest = indices[: self.tensor.contracted], indices[self.tensor.contracted :]
        if tile != self.tile:
            self.data, self.tile = _garbage(self.data.shape, self.tensor.dtype), tile
        return rest


def _garbage(shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        return np.full(shape, np.nan, np.float32).astype(dtype.numpy)
    return np.full(shape, dtype.highest, np.uint64 if dtype.bits == 64 else np.int64).astype(
        dtype.numpy
    )


@dataclass(slots=True)
class _Place:
    """Where an access goes, at every point of its statement: affine indices are found for all
    points at once. ``known`` is None where data decides, ``wrong`` where none is out of range.
    """

    access: Access
    memory: _Memory
    known: list[tuple[int, ...]] | None
    wrong: list[bool] | None

    @staticmethod
    def of(
        access: Access,
        memory: Mapping[str, _Memory],
        parameters: Mapping[str, int],
        points: Mapping[str, Array],
    ) -> _Place:
        own = memory[access.tensor]
        if access.may or len(access.indices) != len(own.shape):
            return _Place(access, own, None, None)
        count = _count(points)
        columns = [_column(index, parameters, points) for index in access.indices]
        outside = np.zeros(count, bool)
        for column, size in zip(columns, own.shape, strict=True):
            indices = np.array(column, np.int64)
            outside |= (indices < 0) | (indices >= size)
        known: list[tuple[int, ...]] = [()] * count
        known = list(zip(*columns, strict=True)) if columns else known
        return _Place(access, own, known, outside.tolist() if outside.any() else None)


class _Instances:
    """All instances of a statement, to be run one by one."""

    def __init__(
        self,
        statement: Statement,
        memory: Mapping[str, _Memory],
        parameters: Mapping[str, int],
        points: Mapping[str, Array],
        evaluator: PointEvaluator,
    ) -> None:
        self.statement, self.evaluator = statement, evaluator
        self.parameters = parameters
        self.columns = [(d, points[d].tolist()) for d in statement.dims]
        self.reads = [_Place.of(a, memory, parameters, points) for a in statement.reads]
        self.writes = [_Place.of(a, memory, parameters, points) for a in statement.writes]
        self.k = 0
        self.values: dict[str, Any] = {}

    def run(self, k: int) -> None:
        """The ``k``-th."""
        statement, update, value = self.statement, self.statement.update, self.evaluator.value
        self.k, self.values = k, dict(self.parameters)
        for dim, column in self.columns:
            self.values[dim] = column[k]
        for name, expr in statement.body.lets:
            self.values[name] = value(expr, self.values, self.read)
        results = [value(result, self.values, self.read) for result in statement.body.results]
        if update is not None:
            if not all(self.holds(write.access) for write in self.writes):
                return
            sides = dict(zip((v.name for v in update.monoid.right), results, strict=True))
            for left, write in zip(update.monoid.left, self.writes, strict=True):
                where = self.place(write)  # it may begin another tile, in other memory
                sides[left.name] = write.memory.data[where]
            results = [value(part, sides) for part in update.monoid.combined]
        for write, result in zip(self.writes, results, strict=True):
            if update is not None or self.holds(write.access):
                where = self.place(write)
                write.memory.data[where] = result

    def holds(self, access: Access) -> bool:
        for constraint in access.guard:
            value = self.evaluator.value(constraint.expr, self.values, self.read)
            if not (value == 0 if constraint.equality else value >= 0):
                return False
        return True

    def read(self, source: Hashable, _: tuple[Any, ...]) -> Any:
        assert isinstance(source, int)
        place = self.reads[source]
        if place.access.guard and not self.holds(place.access):
            raise self.broken(f"the guard of operand {source} is false where it is used")
        where = self.place(place)
        return place.memory.data[where]

    def place(self, place: _Place) -> tuple[int, ...]:
        """Where in its memory's data this instance goes."""
        if place.known is None or (place.wrong is not None and place.wrong[self.k]):
            indices = self.examined(place)
        else:
            indices = place.known[self.k]
        return place.memory.at(indices) if place.memory.tensor.contracted else indices

    def examined(self, place: _Place) -> tuple[int, ...]:
        """The indices, if they are in range."""
        access, shape = place.access, place.memory.shape
        if place.known is not None:
            indices = place.known[self.k]
        else:
            value = self.evaluator.value
            indices = tuple(int(value(x, self.values, self.read)) for x in access.body_indices)
        if len(indices) != len(shape):
            raise self.broken(f"{access.tensor} has {len(shape)} dimensions")
        for dim, (index, size) in enumerate(zip(indices, shape, strict=True)):
            if not 0 <= index < size:
                what = f"index {index} in dimension {dim} of {access.tensor}, whose size is {size}"
                if not access.may:
                    raise self.broken(f"{what}, is out of range")
                where = self.statement.origin.source if self.statement.origin else ""
                raise ExecutionError("WEFT-E0140", f"{what}, is out of range", where=where)
        return indices

    def broken(self, what: str) -> InternalError:
        point = {dim: int(self.values[dim]) for dim in self.statement.dims}
        return InternalError("WEFT-E0940", what, where=f"{self.statement.name} at {point}")
