"""The meaning of scalar expressions, in NumPy: slow, obvious, and the oracle of every back end.

An expression is evaluated for many points at once: variables are arrays that broadcast against each
other. A value of a type that no CPU computes in is held in its ``compute`` type and rounded to the
type after every operation. A ``Select`` whose branches load is lazy: each branch is evaluated only
at the points that take it, so ``load`` never sees an index of a point that does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var
from weft.ir.scalar_paths import SCALAR, operands, walk_scalar

Array = np.ndarray[Any, Any]
LoadFunction = Callable[[Hashable, tuple[Array, ...]], Array]
Extension = Callable[[Expr, dict[str, Array]], Array]
Variables = Mapping[str, Array | int | float | bool]


def evaluate(
    expr: Expr,
    variables: Variables,
    load: LoadFunction | None = None,
    *,
    extend: Extension | None = None,
    precise: bool = False,
) -> Array:
    """The value of ``expr`` in ``expr.dtype.numpy``, of a shape that broadcasts to the variables'.

    ``load(source, indices)`` gives the elements of ``source`` at int64 arrays of indices.
    ``extend(node, variables)`` gives the value of a node that is no scalar expression (``Reduce``)
    at the points where it is needed: those of ``variables``.
    With ``precise`` floats are float64 throughout, and the result too; only a ``Cast`` to fewer
    than 32 bits still rounds, for there the program asks for it. Raises ``KeyError`` for a variable
    without value.
    """
    number = Arithmetic(precise)
    with np.errstate(all="ignore"):
        points = _Points({name: np.asarray(value) for name, value in variables.items()})
        evaluation = _Evaluation(expr, number, load, extend, tuple(variables))
        value = _run(evaluation.region(expr, points))
        return value if precise and expr.dtype.is_float else value.astype(expr.dtype.numpy)


# ---- arithmetic ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operations on held values: floats in their compute type, integers below 8 bits in int8."""

    precise: bool

    def held(self, dtype: DType) -> np.dtype[Any]:
        if dtype.is_float:
            return np.dtype(np.float64) if self.precise else dtype.compute.numpy
        if dtype.bits < 8:
            return np.dtype(np.int8 if dtype.kind == "int" else np.uint8)
        return dtype.numpy

    def literal(self, value: float, dtype: DType) -> Array:
        rounded = np.asarray(value, np.float64).astype(dtype.numpy) if dtype.is_float else value
        return np.asarray(rounded).astype(self.held(dtype))

    def hold(self, value: Array, dtype: DType) -> Array:
        return np.asarray(value).astype(self.held(dtype), copy=False)

    def round(self, value: Array, dtype: DType) -> Array:
        """``value``, computed in the held type, as an element of ``dtype``."""
        if dtype.is_float and dtype.bits < 32 and not self.precise:
            return value.astype(dtype.numpy).astype(np.float32)
        if dtype.is_integer and dtype.bits < 8:
            return _wrap(value, dtype).astype(self.held(dtype))
        return value.astype(self.held(dtype), copy=False)

    def apply(self, op: str, args: list[Array], dtype: DType) -> Array:
        function = _UFUNCS.get(op)
        if op in _BY_KIND:
            function = _BY_KIND[op][1 if dtype.is_float else 0]
        if op in ("shl", "shr", "popcount"):
            return self.round(_bits(op, args, dtype), dtype)
        assert function is not None, op
        value = np.asarray(function(*args))
        return value if value.dtype == np.bool_ else self.round(value, dtype)

    def cast(self, value: Array, source: DType, target: DType, saturate: bool) -> Array:
        if target.kind == "bool":
            return np.asarray(value != 0)
        if target.is_integer:
            if source.is_float:
                return _to_integer(value, target).astype(self.held(target))
            return _wrap(value, target).astype(self.held(target))
        if target.bits <= 8 and saturate:
            value = _saturate(value.astype(np.float64), target)
        if target.bits < 32:
            value = _to_odd(value).astype(target.numpy)
        return value.astype(self.held(target))

    def bitcast(self, value: Array, source: DType, target: DType) -> Array:
        unsigned = np.dtype(f"u{source.itemsize}")
        bits = np.atleast_1d(value.astype(source.numpy)).view(unsigned)
        bits = (bits & unsigned.type((1 << source.bits) - 1)).reshape(value.shape)
        if target.is_integer and target.bits < 8:
            return _wrap(bits, target).astype(self.held(target))
        return np.atleast_1d(bits).view(target.numpy).reshape(value.shape).astype(self.held(target))


def _wrap(value: Array, dtype: DType) -> Array:
    """Integers or bools modulo 2**bits."""
    if dtype.bits >= 8:
        return value.astype(dtype.numpy)
    low = value.astype(np.int64) & ((1 << dtype.bits) - 1)
    if dtype.kind == "int":
        low = low - ((low >> (dtype.bits - 1)) << dtype.bits)
    return low


def _to_integer(value: Array, dtype: DType) -> Array:
    """Truncate and saturate; NaN is 0."""
    whole = np.trunc(value.astype(np.float64))
    low, high = int(dtype.lowest), int(dtype.highest)
    too_low, too_high = whole < float(low), whole >= float(high + 1)
    inside = ~(too_low | too_high | np.isnan(whole))
    wide = np.uint64 if dtype.kind == "uint" else np.int64
    result = np.where(inside, whole, 0.0).astype(wide)
    return np.asarray(np.where(too_high, wide(high), np.where(too_low, wide(low), result)))


def _saturate(value: Array, dtype: DType) -> Array:
    largest = float(ml_dtypes.finfo(dtype.numpy).max)
    low = -np.inf if dtype == dtypes.float8_e8m0fnu else -largest
    return np.asarray(np.clip(value, low, largest))


def _to_odd(value: Array) -> Array:
    """A float32 that rounds on to any smaller type as ``value`` itself would (Boldo, Melquiond)."""
    exact = value.astype(np.longdouble)
    single = np.asarray(exact.astype(np.float32))
    finite = np.isfinite(single)
    outward = np.abs(single.astype(np.longdouble)) > np.abs(exact)
    inside = np.where(finite & outward, np.nextafter(single, np.float32(0)), single)
    inexact = finite & (inside.astype(np.longdouble) != exact)
    bits = inside.astype(np.float32).view(np.uint32) | inexact.astype(np.uint32)
    return np.asarray(bits.view(np.float32))


def _integer_floordiv(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.floor_divide(a, b))


def _integer_mod(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.mod(a, b))


def _truncdiv(a: Array, b: Array) -> Array:
    quotient = _integer_floordiv(a, b)
    inexact = (b != 0) & (a - quotient * b != 0)
    return np.asarray(quotient + (inexact & ((a < 0) != (b < 0))).astype(quotient.dtype))


def _integer_rem(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.fmod(a, b))


def _integer_pow(a: Array, b: Array) -> Array:
    """A negative exponent gives 1 / power, rounded to zero."""
    odd = (b & 1).astype(bool)
    inverse = np.where(a == 1, 1, np.where((a != 0) & (a + 1 == 0), np.where(odd, a, 1), 0))
    power = np.power(a, np.where(b < 0, 0, b).astype(a.dtype))
    return np.where(b < 0, inverse.astype(a.dtype), power)


def _bits(op: str, args: list[Array], dtype: DType) -> Array:
    unsigned = np.dtype(f"u{args[0].dtype.itemsize}")
    if op == "popcount":
        low = args[0].view(unsigned) if args[0].ndim else args[0].astype(unsigned)
        return np.asarray(np.bitwise_count(low & unsigned.type((1 << dtype.bits) - 1)))
    value, amount = args
    inside = (amount >= 0) & (amount < dtype.bits)
    safe = np.where(inside, amount, 0).astype(value.dtype)
    if op == "shl":
        return np.where(inside, np.left_shift(value, safe), 0)
    filled = np.where(value < 0, np.asarray(-1).astype(value.dtype), 0)
    return np.where(inside, np.right_shift(value, safe), filled)


def _erf(value: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(value.astype(np.float64)), dtype=np.float64)


_Function = Callable[..., Any]
_UFUNCS: dict[str, _Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
    "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "neg": np.negative, "abs": np.abs, "sign": np.sign, "not": np.invert,
    "atan2": np.arctan2, "copysign": np.copysign, "truncdiv": _truncdiv, "round": np.rint,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sqrt": np.sqrt, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip

# (on integers, on floats)
_BY_KIND: dict[str, tuple[_Function, _Function]] = {
    "floordiv": (_integer_floordiv, lambda a, b: np.floor(a / b)),
    "mod": (_integer_mod, np.mod),
    "rem": (_integer_rem, np.fmod),
    "pow": (_integer_pow, np.power),
}


# ---- points -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Points:
    """The points at which something is evaluated: all of them, or those that a branch chose.

    ``chosen`` indexes ``shape``, the grid of the parent's points.
    """

    variables: dict[str, Array]
    parent: _Points | None = None
    shape: tuple[int, ...] = ()
    chosen: tuple[Array, ...] = ()
    values: dict[int, Array] = field(default_factory=dict)

    def variable(self, name: str) -> Array:
        if self.parent is not None and name not in self.variables:
            self.variables[name] = self._choose(self.parent.variable(name))
        return self.variables[name]

    def find(self, node: Expr) -> Array | None:
        """The value of ``node``, if it was evaluated here or before this branch was taken."""
        value, key = self.values.get(id(node)), id(node)
        if value is None and self.parent is not None:
            found = self.parent.find(node)
            value = None if found is None else self._choose(found)
            if value is not None:
                self.values[key] = value
        return value

    def _choose(self, value: Array) -> Array:
        return np.asarray(np.broadcast_to(value, self.shape)[self.chosen]) if value.ndim else value


Region = Generator[Any, Array, Array]


def _run(region: Region) -> Array:
    """Run nested regions on a stack of our own: selects nest deeper than Python may recurse."""
    stack, value = [region], None  # a generator starts on None
    while stack:
        try:
            stack.append(stack[-1].send(value))  # type: ignore[arg-type]
            value = None
        except StopIteration as finished:
            stack.pop()
            value = finished.value
    return np.asarray(value)


class _Evaluation:
    """One expression: which of its nodes load, and in which order they are evaluated."""

    def __init__(
        self,
        expr: Expr,
        number: Arithmetic,
        load: LoadFunction | None,
        extend: Extension | None,
        names: tuple[str, ...],
    ) -> None:
        self.number, self.load, self.extend, self.names = number, load, extend, names
        self.order: dict[int, int] = {}
        self.loads: set[int] = set()
        for position, node in enumerate(walk_scalar(expr)):
            self.order[id(node)] = position
            loads = isinstance(node, Load) or not isinstance(node, SCALAR)
            if loads or any(id(child) in self.loads for child in node.children):
                self.loads.add(id(node))

    def region(self, expr: Expr, points: _Points) -> Region:
        """Evaluate what ``expr`` needs at all ``points``, and branches where they are taken.

        What is needed at all points comes first, so that branches reuse it.
        """
        for node in self._needed(expr, points):
            if isinstance(node, Select) and self._is_lazy(node):
                value = yield from self._select(node, points)
            else:
                value = self._value(node, points)
            points.values[id(node)] = value
        return points.values[id(expr)]

    def _is_lazy(self, node: Select) -> bool:
        return id(node.if_true) in self.loads or id(node.if_false) in self.loads

    def _needed(self, expr: Expr, points: _Points) -> list[Expr]:
        found: dict[int, Expr] = {}
        stack = [expr]
        while stack:
            node = stack.pop()
            if id(node) in found or points.find(node) is not None:
                continue
            found[id(node)] = node
            if isinstance(node, Select) and self._is_lazy(node):
                stack.append(node.condition)
            else:
                stack.extend(operands(node))
        return sorted(found.values(), key=lambda node: self.order[id(node)])

    def _select(self, node: Select, points: _Points) -> Region:
        condition = points.find(node.condition)
        assert condition is not None
        held = self.number.held(node.dtype)
        if condition.all() or not condition.any():
            if condition.size == 0:
                return np.zeros(condition.shape, held)
            value = yield self.region(node.if_true if condition.all() else node.if_false, points)
            return value
        names = self._names(node)
        shape = np.broadcast_shapes(condition.shape, *(points.variable(n).shape for n in names))
        result = np.zeros(shape, held)
        full = np.broadcast_to(condition, shape)
        for branch, mask in ((node.if_true, full), (node.if_false, ~full)):
            chosen = np.nonzero(mask)
            if chosen[0].size:
                inner = _Points({}, points, shape, chosen)
                result[chosen] = yield self.region(branch, inner)
        return result

    def _names(self, node: Select) -> tuple[str, ...]:
        """Variables on which ``node`` may depend; extensions may depend on any."""
        inner = list(walk_scalar(node))
        if not all(isinstance(n, SCALAR) for n in inner):
            return self.names
        return tuple(dict.fromkeys(n.name for n in inner if isinstance(n, Var)))

    def _value(self, node: Expr, points: _Points) -> Array:
        number = self.number
        if not isinstance(node, SCALAR):
            assert self.extend is not None, f"{type(node).__name__} is not a scalar expression"
            variables = {name: points.variable(name) for name in self.names}
            return number.hold(self.extend(node, variables), node.dtype)
        found = [points.find(child) for child in operands(node)]
        args = [value for value in found if value is not None]
        match node:
            case Literal(value, dtype):
                return number.literal(value, dtype)
            case Var(name):
                return number.hold(points.variable(name), node.dtype)
            case Load(source):
                assert self.load is not None, "a load without tensors"
                return number.hold(self.load(source, tuple(args)), node.dtype)
            case Apply(op):
                return number.apply(op, args, node.args[0].dtype)
            case Cast():
                return number.cast(args[0], node.arg.dtype, node.dtype, node.saturate)
            case Bitcast(arg, dtype):
                return number.bitcast(args[0], arg.dtype, dtype)
        return np.where(args[0], args[1], args[2])
