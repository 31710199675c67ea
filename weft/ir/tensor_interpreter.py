"""The meaning of tensor expressions, in NumPy: the oracle that every later stage is compared with.

Operations run one after the other, each over a grid of its axes at once; reductions add one
dimension to that grid. Grids are cut into blocks, so that memory stays bounded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.ir.errors import ExecutionError, ExpressionError
from weft.ir.scalar_expr import Apply, Expr, Var, literal, select
from weft.ir.scalar_interpreter import Array, evaluate
from weft.ir.size_arithmetic import solve
from weft.ir.tensor_expr import (
    Compute,
    Itself,
    Monoid,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Size,
    Tensor,
    as_size,
    operations,
)

BLOCK = 1 << 22  # elements of one intermediate array

Values = dict[str, Array]


def interpret(
    program: Program,
    inputs: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    *,
    precise: bool = False,
) -> tuple[Array, ...]:
    """The outputs of ``program`` on ``inputs``, as new arrays.

    Size symbols take their values from the inputs' shapes, and from ``sizes`` where no input has
    them. With ``precise`` all float arithmetic is in float64, as are results of float dtypes;
    inputs of float dtypes may be.
    Raises ``ExpressionError`` (E0121, E0122) for inputs that do not fit the placeholders and
    ``ExecutionError`` (E0140) for an index out of range.
    """
    run = _Run(bind_sizes(program, inputs, sizes, precise=precise), precise)
    values = {
        tensor: run.stored(np.asarray(data), tensor)
        for tensor, data in zip(program.inputs, inputs, strict=True)
    }
    order = operations(program)
    last_use = {t.operation: n for n, op in enumerate(order) for t in op.reads if t.operation}
    kept = {t.operation for t in program.outputs}
    results: dict[Operation, tuple[Array, ...]] = {}

    def value(tensor: Tensor) -> Array:
        if tensor.operation is not None:
            found = results[tensor.operation][tensor.index]
            return _reshaped(found, run.shape(tensor.shape), tensor)  # a Reshape hands it through
        if tensor not in values:
            raise ExpressionError(
                "WEFT-E0121",
                f"placeholder {tensor.name} is not an input of the program",
                where=program.name,
            )
        return values[tensor]

    for number, operation in enumerate(order):
        results[operation] = run.operation(operation, value)
        for tensor in operation.reads:
            source = tensor.operation
            if source is not None and last_use[source] == number and source not in kept:
                results.pop(source, None)
    return tuple(np.array(value(tensor)) for tensor in program.outputs)


def _reshaped(array: Array, shape: tuple[int, ...], tensor: Tensor) -> Array:
    if math.prod(shape) != array.size:
        raise ExpressionError(
            "WEFT-E0132", f"a reshape of {array.size} elements to {list(shape)}", where=tensor.name
        )
    return array.reshape(shape)


def bind_sizes(
    program: Program,
    inputs: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    *,
    precise: bool = False,
) -> dict[str, int]:
    """The values of the size symbols of ``program``; ``ExpressionError`` if the inputs disagree."""
    bound = dict(sizes or {})
    if len(inputs) != len(program.inputs):
        raise _misfit(program, f"{len(program.inputs)} inputs expected, {len(inputs)} given")
    pairs: list[tuple[Tensor, Size, int]] = []
    for tensor, data in zip(program.inputs, inputs, strict=True):
        array = np.asarray(data)
        wide = precise and tensor.dtype.is_float and array.dtype == np.float64
        if array.ndim != tensor.rank or not (wide or array.dtype == tensor.dtype.numpy):
            raise _misfit(
                program,
                f"{tensor.name} is {tensor.dtype} of rank {tensor.rank}, "
                f"got {array.dtype} of rank {array.ndim}",
            )
        pairs += [(tensor, size, n) for size, n in zip(tensor.shape, array.shape, strict=True)]
    for _, size, n in pairs:
        if isinstance(size, Var):
            bound.setdefault(size.name, n)
    for _, size, n in pairs:
        solve(as_size(size), n, bound)
    for tensor, size, n in pairs:
        if _size(size, bound) != n:
            raise _misfit(program, f"a dimension of {tensor.name} is {_size(size, bound)}, got {n}")
    return bound


def _misfit(program: Program, what: str) -> ExpressionError:
    return ExpressionError("WEFT-E0121", what, where=program.name)


def _size(size: Size, bound: Mapping[str, int]) -> int:
    try:
        return int(evaluate(as_size(size), bound))
    except KeyError as missing:
        raise ExpressionError(
            "WEFT-E0122",
            f"size symbol {missing.args[0]} has no value",
            why="no input has it as a dimension",
            hint="pass sizes={...}",
        ) from None


@dataclass(frozen=True, slots=True)
class _Run:
    sizes: dict[str, int]
    precise: bool

    def stored(self, value: Array, like: Tensor | Expr) -> Array:
        """``value`` in the dtype that tensors like ``like`` are kept in."""
        wide = self.precise and like.dtype.is_float
        return value.astype(np.float64 if wide else like.dtype.numpy, copy=False)

    def shape(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return tuple(_size(size, self.sizes) for size in sizes)

    def operation(
        self, operation: Operation, value: Callable[[Tensor], Array]
    ) -> tuple[Array, ...]:
        match operation:
            case Compute():
                return _ComputeRun(self, operation, value).results()
            case Scatter():
                return (self.scatter(operation, value),)
            case Reshape(_, source):
                return (value(source),)

    def scatter(self, operation: Scatter, value: Callable[[Tensor], Array]) -> Array:
        reader = _Reader(self, operation.name, value)
        result = value(operation.base).copy()
        for variables in self._scattered_points(operation, reader):
            indices = [reader.values(index, variables) for index in operation.indices]
            data = np.broadcast_to(reader.values(operation.value, variables), variables[""].shape)
            _check(operation.name, operation.base.name, indices, result.shape)
            flat = np.zeros(data.shape, np.int64)
            for index, size in zip(indices, result.shape, strict=True):
                flat = flat * size + index
            self._combine_in_order(operation, result.reshape(-1), flat, data)
        return result

    def _scattered_points(self, operation: Scatter, reader: _Reader) -> Iterator[Values]:
        """Blocks of the points that are not skipped, in order; '' holds their numbers."""
        lowers = self.shape([axis.lower for axis in operation.axes])
        uppers = self.shape([axis.upper for axis in operation.axes])
        extents = [max(0, u - low) for low, u in zip(lowers, uppers, strict=True)]
        total = math.prod(extents)
        for start in range(0, total, BLOCK):
            flat = np.arange(start, min(start + BLOCK, total))
            places = np.unravel_index(flat, extents) if extents else ()
            variables: Values = {"": flat}
            for axis, place, low in zip(operation.axes, places, lowers, strict=True):
                variables[axis.name] = np.asarray(place) + low
            if operation.condition is not None:
                taken = np.broadcast_to(
                    reader.values(operation.condition, variables), flat.shape
                ).copy()
                variables = {name: column[taken] for name, column in variables.items()}
            yield variables

    def _combine_in_order(
        self, operation: Scatter, result: Array, flat: Array, data: Array
    ) -> None:
        """Write ``data`` at ``flat``: the first to every place, then the second, and so on."""
        order = np.argsort(flat, kind="stable")
        place, data = flat[order], data[order]
        first = np.r_[True, place[1:] != place[:-1]][: place.size]
        starts = np.flatnonzero(first)
        turn = np.arange(place.size) - np.repeat(starts, np.diff(np.r_[starts, place.size]))
        by_turn = np.argsort(turn, kind="stable")
        for group in np.split(by_turn, np.flatnonzero(np.diff(turn[by_turn])) + 1):
            at = place[group]
            if operation.combine is None:
                result[at] = data[group]
            else:
                (result[at],) = combine(
                    operation.combine, (result[at],), (data[group],), precise=self.precise
                )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Evaluates the expressions of one operation."""

    run: _Run
    where: str
    value: Callable[[Tensor], Array]
    own: Callable[[int, tuple[Array, ...]], Array] | None = None

    def values(self, expr: Expr, variables: Values) -> Array:
        return evaluate(
            expr,
            {name: np.asarray(n) for name, n in self.run.sizes.items()} | variables,
            self.load,
            extend=self.reduce,
            precise=self.run.precise,
        )

    def load(self, source: Hashable, indices: tuple[Array, ...]) -> Array:
        if isinstance(source, Itself):
            assert self.own is not None
            return self.own(source.index, indices)
        assert isinstance(source, Tensor)
        data = self.value(source).reshape(self.run.shape(source.shape))
        _check(self.where, source.name, indices, data.shape)
        return np.asarray(data[indices])

    def reduce(self, node: Expr, variables: Values) -> Array:
        """Component ``index`` of a fold at every point of ``variables``."""
        assert isinstance(node, Reduce)
        points = np.broadcast_shapes(*(v.shape for v in variables.values()))
        lows, extents, guard = self._box(node, variables)
        lifted = {name: v[..., None] if v.ndim else v for name, v in variables.items()}
        total = math.prod(extents)
        step = max(1, BLOCK // max(1, math.prod(points)))
        monoid, precise = node.monoid, self.run.precise
        identity = [literal(v, d) for v, d in zip(monoid.identity, monoid.dtypes, strict=True)]
        folded = tuple(evaluate(one, {}, precise=precise) for one in identity)
        for start in range(0, total, step):
            flat = np.arange(start, min(start + step, total))
            places = np.unravel_index(flat, extents)
            for axis, place, low in zip(node.axes, places, lows, strict=True):
                lifted[axis.name] = np.asarray(place) + low
            block = []
            for value, neutral in zip(node.values, identity, strict=True):
                chosen = value if guard is None else select(guard, value, neutral)
                part = self.values(chosen, lifted)
                block.append(np.broadcast_to(part, np.broadcast_shapes(part.shape, flat.shape)))
            folded = fold(monoid, folded, tuple(block), precise=precise)
        return folded[node.index]

    def _box(self, node: Reduce, variables: Values) -> tuple[list[int], list[int], Expr | None]:
        """A box around the points of ``node``, and the condition that leaves out what is not."""
        lows: list[int] = []
        extents: list[int] = []
        guard = node.condition
        known = dict(variables)
        for axis in node.axes:
            known = {name: v[..., None] if v.ndim else v for name, v in known.items()}
            lower, upper = self.values(axis.lower, known), self.values(axis.upper, known)
            low, high = (
                (int(lower.min()), int(upper.max())) if lower.size and upper.size else (0, 0)
            )
            if (lower != low).any() or (upper != high).any():
                inside = (axis >= axis.lower) & (axis < axis.upper)
                guard = inside if guard is None else select(inside, guard, False)
            lows.append(low)
            extents.append(max(0, high - low))
            known[axis.name] = np.arange(low, low + extents[-1])
        return lows, extents, guard


class _ComputeRun:
    """One ``Compute``: blocks of its grid, in the order of its scan axes."""

    def __init__(self, run: _Run, operation: Compute, value: Callable[[Tensor], Array]) -> None:
        self.run, self.operation = run, operation
        self.reader = _Reader(run, operation.name, value, self._own)
        self.lowers = run.shape([axis.lower for axis in operation.axes])
        uppers = run.shape([axis.upper for axis in operation.axes])
        self.extents = tuple(max(0, u - low) for low, u in zip(self.lowers, uppers, strict=True))
        self.step: tuple[int, ...] = ()
        self.arrays = tuple(
            run.stored(np.zeros(self.extents, np.int8), value) for value in operation.values
        )

    def results(self) -> tuple[Array, ...]:
        scan, axes = self.operation.scan, self.operation.axes
        for step in itertools.product(*(range(n) for n in self.extents[:scan])):
            self.step = step
            triples = zip(axes, step, self.lowers, strict=False)
            now = {a.name: np.asarray(s + low) for a, s, low in triples}
            for block in blocks(self.extents[scan:], BLOCK):
                variables = now | self._grid(block)
                for array, value in zip(self.arrays, self.operation.values, strict=True):
                    place: tuple[int | slice, ...] = (*step, *block)
                    array[place] = self.reader.values(value, variables)
        return self.arrays

    def _grid(self, block: tuple[slice, ...]) -> Values:
        scan, rank = self.operation.scan, len(block)
        return {
            axis.name: np.arange(part.start + low, part.stop + low).reshape(
                [-1 if d == at else 1 for at in range(rank)]
            )
            for d, (axis, part, low) in enumerate(
                zip(self.operation.axes[scan:], block, self.lowers[scan:], strict=True)
            )
        }

    def _own(self, component: int, indices: tuple[Array, ...]) -> Array:
        name = f"{self.operation.name} itself"
        _check(self.operation.name, name, indices, self.extents)
        earlier = np.asarray(False)
        same = np.asarray(True)
        for index, now in zip(indices, self.step, strict=False):
            earlier = earlier | (same & (index < now))
            same = same & (index == now)
        if not earlier.all():
            raise _out_of_range(self.operation.name, name, "it reads a point not yet computed")
        return np.asarray(self.arrays[component][indices])


def blocks(extents: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most ``limit`` elements that cover a box of ``extents`` in order."""
    if 0 in extents:
        return
    inner, cut = 1, len(extents)
    while cut > 0 and inner * extents[cut - 1] <= limit:
        cut -= 1
        inner *= extents[cut]
    whole = tuple(slice(0, n) for n in extents[cut:])
    if cut == 0:
        yield whole
        return
    step = max(1, limit // inner)
    for outer in itertools.product(*(range(n) for n in extents[: cut - 1])):
        for start in range(0, extents[cut - 1], step):
            part = slice(start, min(start + step, extents[cut - 1]))
            yield (*(slice(n, n + 1) for n in outer), part, *whole)


def _check(where: str, name: str, indices: Sequence[Array], shape: tuple[int, ...]) -> None:
    for dim, (index, size) in enumerate(zip(indices, shape, strict=True)):
        if index.size and (index.min() < 0 or index.max() >= size):
            wrong = index[(index < 0) | (index >= size)].flat[0]
            raise _out_of_range(
                where, name, f"index {wrong} in dimension {dim}, whose size is {size}"
            )


def _out_of_range(where: str, name: str, why: str) -> ExecutionError:
    return ExecutionError(
        "WEFT-E0140", f"an access to {name} is out of range", where=where, why=why
    )


# ---- Folds over tuples of arrays: what a ``Monoid`` means, in NumPy.


_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def combine(
    monoid: Monoid, left: Sequence[Any], right: Sequence[Any], *, precise: bool = False
) -> tuple[Array, ...]:
    """``monoid`` applied elementwise to two tuples of arrays."""
    variables = {v.name: a for v, a in zip(monoid.left, left, strict=True)}
    variables |= {v.name: a for v, a in zip(monoid.right, right, strict=True)}
    return tuple(evaluate(one, variables, precise=precise) for one in monoid.combined)


def fold(
    monoid: Monoid, start: Sequence[Array], parts: Sequence[Array], *, precise: bool = False
) -> tuple[Array, ...]:
    """Fold ``parts`` along their last dimension, after ``start``, keeping the order.

    An associative monoid folds neighbours in pairs, another one element after the other.
    """
    ufunc = _ufunc(monoid)
    native = monoid.dtypes[0].numpy.isbuiltin == 1 and monoid.dtypes[0].compute is monoid.dtypes[0]
    kept = native or (precise and monoid.dtypes[0].is_float)
    if ufunc is not None and kept and "associative" in monoid.laws:
        with np.errstate(all="ignore"):
            folded = ufunc.reduce(parts[0], axis=-1, dtype=parts[0].dtype)
        return combine(monoid, start, (folded,), precise=precise)
    if "associative" not in monoid.laws:
        for k in range(parts[0].shape[-1]):
            start = combine(monoid, start, [part[..., k] for part in parts], precise=precise)
        return tuple(start)
    while (n := max(part.shape[-1] for part in parts)) > 1:
        even = n - n % 2
        paired = combine(
            monoid,
            [part[..., 0:even:2] for part in parts],
            [part[..., 1:even:2] for part in parts],
            precise=precise,
        )
        rest = [part[..., even:] for part in parts]
        parts = [_append(p, r, even // 2) for p, r in zip(paired, rest, strict=True)]
    return combine(monoid, start, [part[..., 0] for part in parts], precise=precise)


def _append(paired: Array, rest: Array, count: int) -> Array:
    """``paired``, as long as it should be, and the odd one out."""
    lead = np.broadcast_shapes(paired.shape[:-1], rest.shape[:-1])
    paired = np.broadcast_to(paired, (*lead, count))
    return np.concatenate([paired, np.broadcast_to(rest, (*lead, rest.shape[-1]))], axis=-1)


def _ufunc(monoid: Monoid) -> np.ufunc | None:
    match monoid.combined:
        case (Apply(op, (left, right)),) if (left, right) == (monoid.left[0], monoid.right[0]):
            return _UFUNCS.get(op)
    return None
