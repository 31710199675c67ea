"""Requantisation in floating point as shifts, where both give the same integers, always.

    y = int8(min(max(round(float(a) * 0.125), -128), 127))        a: int32, |a| <= 2**24
    →
    t = (a >> 3) + 1                                              odd where a >> 3 is even
    y = int8(min(max((a + 4 + ((t << 31) >> 31)) >> 3, -128), 127))

(t << 31) >> 31 is -1 where a >> 3 is even and 0 where it is odd: ties go to even, as ``round`` has
them. It holds where everything before the rounding is exact in floating point: scales are powers of
two, addends multiples of what an integer stands for, and no number needs more than 24 bits, which
is proved by the weights that are summed up. All else stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import frexp

import numpy as np

from weft.graph.axes import tensor_of
from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.factors import factors
from weft.graph.fixed_point import shifted
from weft.graph.known import Constants, NotIntegral, elements
from weft.graph.rebuild import fresh_name
from weft.graph.split_node import with_makers
from weft.ir import dtypes
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Apply, Cast, Expr, Load, apply, cast, literal, substitute
from weft.ir.tensor_expr import (
    Compute,
    Program,
    Reduce,
    Tensor,
    operations,
    tensors_read,
)

EXACT = 1 << 24  # magnitude of integers that float32 holds, each
MAX_MAKERS = 8  # operations between a sum and its rounding
MOST_ROUNDED = 24  # bits that a shift may take away


class _Inexact(Exception):
    """Floating point and integers may differ."""


@dataclass(frozen=True, slots=True)
class Exact:
    """``value`` * 2**``exponent`` with ``low`` <= value <= ``high``."""

    value: Expr
    exponent: int
    low: int
    high: int

    def __post_init__(self) -> None:
        if max(-self.low, self.high) > EXACT:
            raise _Inexact


def exact_rounding(graph: Graph) -> Graph:
    """``graph`` with integers, scaled and rounded to few bits, shifted where that is the same."""
    final = {v.name for v in graph.outputs}
    taken = graph.names
    consumers = graph.consumers
    peaks: dict[str, int] = {}  # of sums, by value
    makers: dict[str, Node] = {}  # of what sums become on their way to few bits
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        peak = sum_peak(node, graph.constants)
        if peak is not None:
            peaks[node.outputs[0].name] = peak
        single = len(node.outputs) == 1 and len(operations(node.program)) == 1
        if single and any(v.name in peaks or v.name in makers for v in node.inputs):
            whole = with_makers(node, makers)
            output = node.outputs[0]
            alone = len(consumers.get(output.name, [])) == 1 and output.name not in final
            if output.dtype.is_integer and output.dtype.bits <= 8:
                node = _shifted(whole, peaks, graph.constants, constants, taken) or node
            elif alone and len(operations(whole.program)) <= MAX_MAKERS:
                makers[output.name] = whole
        nodes.append(node)
    return eliminate_dead(replace(graph, nodes=tuple(nodes), constants=constants))


def sum_peak(node: Node, known: Mapping[str, np.ndarray]) -> int | None:
    """The greatest magnitude of ``node``'s sum of integers times constants; None if it is none."""
    match operations(node.program):
        case (Compute(_, _, (Reduce(monoid, axes, (value,), None),), 0),) if monoid.is_sum:
            parts = factors(value)
        case _:
            return None
    data = {t: known[v.name] for t, v in _pairs(node) if v.name in known}
    moving = [p for p in parts if not set(tensors_read([p])) <= set(data)]
    fixed = [p for p in parts if p not in moving]
    match moving:
        case [Cast(Load(_, _, small))] if small.is_integer and small.bits <= 8:
            largest = max(abs(int(small.lowest)), int(small.highest))
        case _:
            return None
    if len(fixed) != 1:
        return None
    try:
        weights = Constants(data).evaluated(fixed[0])
    except NotIntegral:
        return None
    along = tuple(d for d, axis in enumerate(weights.axes) if axis in axes)
    others = elements([axis.extent for axis in axes if axis not in weights.axes])
    total = float(np.abs(weights.array).sum(axis=along).max(initial=0.0))
    return None if others is None else int(total) * others * largest


def _pairs(node: Node) -> list[tuple[Tensor, Value]]:
    return list(zip(node.program.inputs, node.inputs, strict=True))


def _shifted(
    node: Node,
    peaks: Mapping[str, int],
    known: Mapping[str, np.ndarray],
    made: dict[str, np.ndarray],
    taken: set[str],
) -> Node | None:
    """``node``, which rounds a sum, in integers; None where that is not the same."""
    data = {t: known[v.name] for t, v in _pairs(node) if v.name in known}
    sums = {t: peaks[v.name] for t, v in _pairs(node) if v.name in peaks}
    (output,) = node.program.outputs
    last = output.operation
    assert isinstance(last, Compute)
    reading = _Exactly(Constants(data), sums)
    try:
        value = reading.integer(last.values[0])
    except (_Inexact, NotIntegral):
        return None
    own = tuple(replace(axis) for axis in last.axes)
    result = tensor_of(last.name, own, cast(value, output.dtype))
    read = dict.fromkeys(t for t in tensors_read([value]) if t.operation is None)
    values = dict(_pairs(node))
    for tensor, array in reading.constants.made.items():
        array.flags.writeable = False
        name = fresh_name(f"{node.outputs[0].name}.{tensor.name}", taken)
        made[name] = array
        values[tensor] = Value(name, tensor.shape, tensor.dtype)
    program = Program(node.program.name, tuple(read), (result,))
    return replace(node, inputs=tuple(values[t] for t in read), program=program)


@dataclass(slots=True)
class _Exactly:
    """Reads expressions of ``sums``, int32 of known magnitude, and of constants."""

    constants: Constants
    sums: Mapping[Tensor, int]

    def moves(self, expr: Expr) -> bool:
        stack = list(tensors_read([expr]))
        while stack:
            tensor = stack.pop()
            if tensor in self.sums:
                return True
            stack += tensor.operation.reads if tensor.operation is not None else ()
        return False

    def integer(self, expr: Expr) -> Expr:
        """``expr``, of few bits, as int32."""
        match expr:
            case Cast(arg, dtype) if dtype.is_integer and arg.dtype.is_float:
                found = self.exact(arg)
                if found.exponent == 0 and dtype.lowest <= found.low <= found.high <= dtype.highest:
                    return found.value
        raise _Inexact

    def exact(self, expr: Expr) -> Exact:
        match expr:
            case Load(Tensor(operation=Compute(_, axes, (value,), 0)), indices):
                places = {a.name: i for a, i in zip(axes, indices, strict=True)}
                return self.exact(substitute(value, places))
            case Load(Tensor() as source) if source in self.sums:
                return Exact(expr, 0, -self.sums[source], self.sums[source])
            case Cast(arg, dtypes.float32) if arg.dtype == dtypes.int32:
                return self.exact(arg)
            case Apply("round", (arg,)):
                return rounded_to_even(self.exact(arg))
            case Apply("add", sides):
                return self.sum(*self.sides(*sides))
            case Apply("max" | "min" as op, sides):
                return self.bounded(op, *self.sides(*sides))
            case Apply("mul" | "div", (left, right)):
                number, other = self.sides(left, right)
                if isinstance(expr, Apply) and expr.op == "div" and other is left:
                    raise _Inexact
                sign = 1 if expr.op == "mul" else -1
                return replace(number, exponent=number.exponent + sign * self.power(other))
        raise _Inexact

    def sides(self, left: Expr, right: Expr) -> tuple[Exact, Expr]:
        """What moves, and what is constant."""
        if self.moves(left) == self.moves(right):
            raise _Inexact
        return (self.exact(left), right) if self.moves(left) else (self.exact(right), left)

    def power(self, expr: Expr) -> int:
        """The one power of two that ``expr`` is everywhere."""
        array = self.constants.evaluated(expr).array
        first = float(array.flat[0]) if array.size else 0.0
        if first <= 0 or frexp(first)[0] != 0.5 or not (array == first).all():
            raise _Inexact
        if not -100 <= frexp(first)[1] <= 100:
            raise _Inexact
        return frexp(first)[1] - 1

    def at(self, expr: Expr, exponent: int) -> tuple[Expr, int, int]:
        """Constants as int32 at ``exponent``, the least and the greatest."""
        known = self.constants.evaluated(expr)
        array = np.ldexp(known.array, -exponent)
        if not (np.abs(array) <= EXACT).all() or (array != np.rint(array)).any():
            raise _Inexact
        load = self.constants.load(known, array.astype(np.int32), "addend")
        return load, int(array.min(initial=0)), int(array.max(initial=0))

    def sum(self, number: Exact, constant: Expr) -> Exact:
        value, low, high = self.at(constant, number.exponent)
        low, high = number.low + low, number.high + high
        return Exact(number.value + value, number.exponent, low, high)

    def bounded(self, op: str, number: Exact, constant: Expr) -> Exact:
        value, low, high = self.at(constant, number.exponent)
        pick = min if op == "min" else max
        low, high = pick(number.low, low), pick(number.high, high)
        return Exact(apply(op, number.value, value), number.exponent, low, high)


def rounded_to_even(number: Exact) -> Exact:
    """``number`` as the nearest integer, exactly."""
    bits = -number.exponent
    if bits <= 0:
        if -bits > MOST_ROUNDED:
            raise _Inexact
        low, high = number.low << -bits, number.high << -bits
        return Exact(shifted("shl", number.value, -bits), 0, low, high)
    if bits > MOST_ROUNDED:
        raise _Inexact
    value = number.value
    even = shifted("shr", value, bits) + literal(1, value.dtype)
    down = shifted("shr", shifted("shl", even, 31), 31)
    half = literal(1 << (bits - 1), value.dtype)
    low, high = (number.low >> bits, (number.high >> bits) + 1)
    return Exact(shifted("shr", value + half + down, bits), 0, low, high)
