"""Handlers of what is computed element by element: arithmetic, comparisons, functions, choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.frontend.operators.activations import gelu as gelu_of
from weft.frontend.operators.activations import sigmoid
from weft.frontend.operators.broadcast import elementwise
from weft.frontend.torch.context import NodeContext, Operand, Results, handler
from weft.ir import dtypes
from weft.ir.build import maximum, minimum
from weft.ir.dtypes import DType
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, apply, binary, cast, literal, select
from weft.ir.tensor_expr import Tensor

Function = Callable[..., Expr]


def pointwise(
    node: NodeContext,
    function: Function,
    *operands: Operand,
    dtype: DType | None = None,
    to: DType | None = None,
) -> Value:
    """``function`` of the elements of ``operands``, broadcast together, computed in ``dtype`` (that
    of the result) and converted ``to`` that of the result.

    Numbers are literals. Narrow floats are computed in float32 and rounded once.
    """
    inner, outer = dtype or node.dtype, to or node.dtype
    tensors = [x for x in operands if isinstance(x, Value)]
    name = node.target.split(".")[1]

    def body(*elements: Expr) -> Expr:
        rest = iter(elements)
        given = [
            cast(cast(next(rest), inner), inner.compute)
            if isinstance(x, Value)
            else scalar(x, inner.compute)
            for x in operands
        ]
        found = function(*given)
        return cast(cast(found, inner) if found.dtype.is_float else found, outer)

    def definition(*given: Tensor) -> Tensor:
        return elementwise(name, body, *given)

    if not tensors:
        tensors = [node.cast(0, inner)]
        return node.call(lambda t: elementwise(name, lambda _: body(), t), *tensors)  # type: ignore[no-any-return]
    return node.call(definition, *tensors)  # type: ignore[no-any-return]


def scalar(value: Operand, dtype: DType) -> Expr:
    """A number, or what an open size makes of one."""
    assert not isinstance(value, Value)
    return cast(value, dtype) if isinstance(value, Expr) else literal(value, dtype)


# ---- arithmetic ---------------------------------------------------------------------------------


def _sum(a: Expr, b: Expr) -> Expr:
    return a | b if a.dtype.kind == "bool" else a + b


def _product(a: Expr, b: Expr) -> Expr:
    return a & b if a.dtype.kind == "bool" else a * b


def _scaled(value: Expr, factor: float) -> Expr:
    return value if factor == 1 else _product(value, scalar(factor, value.dtype))


@handler("aten.add", "prims.add")
def add(node: NodeContext, a: Operand, b: Operand, *, alpha: float = 1) -> Results:
    return pointwise(node, lambda x, y: _sum(x, _scaled(y, alpha)), a, b)


@handler("aten.sub", "prims.sub")
def sub(node: NodeContext, a: Operand, b: Operand, *, alpha: float = 1) -> Results:
    return pointwise(node, lambda x, y: x - _scaled(y, alpha), a, b)


@handler("aten.rsub")
def rsub(node: NodeContext, a: Operand, b: Operand, alpha: float = 1) -> Results:
    return pointwise(node, lambda x, y: y - _scaled(x, alpha), a, b)


def floor_divided(a: Expr, b: Expr) -> Expr:
    """Python's ``a // b``, as PyTorch computes it of floats: from the remainder."""
    if a.dtype.is_integer:
        return a // b
    rest = binary("rem", a, b)
    quotient = (a - rest) / b
    quotient = select(rest.not_equal(0) & (b < 0).not_equal(rest < 0), quotient - 1, quotient)
    down = apply("floor", quotient)
    down = select(quotient - down > 0.5, down + 1, down)
    down = select(quotient.equal(0), binary("copysign", literal(0, a.dtype), a / b), down)
    return select(b.equal(0), a / b, down)


def truncated(a: Expr, b: Expr) -> Expr:
    return apply("truncdiv", a, b) if a.dtype.is_integer else apply("trunc", a / b)


_MODES: dict[str | None, Function] = {
    None: lambda a, b: a / b,
    "trunc": truncated,
    "floor": floor_divided,
}


@handler("aten.div", "aten.true_divide")
def div(node: NodeContext, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Results:
    return pointwise(node, _MODES[rounding_mode], a, b)


@handler("prims.div")
def prims_div(node: NodeContext, a: Operand, b: Operand) -> Results:
    return pointwise(node, _MODES["trunc" if node.dtype.is_integer else None], a, b)


def remainder(a: Expr, b: Expr) -> Expr:
    """With the sign of ``b``."""
    if a.dtype.is_integer:
        return a % b
    rest = binary("rem", a, b)
    return select(rest.not_equal(0) & (b < 0).not_equal(rest < 0), rest + b, rest)


def _to_number(x: Expr, exponent: float) -> Expr | None:
    """``x ** exponent`` where a few operations do."""
    one = literal(1, x.dtype)
    match exponent:
        case 0:
            return one
        case 1:
            return x
        case 2:
            return x * x
        case 3:
            return x * x * x
        case 0.5 if x.dtype.is_float:
            return apply("sqrt", x)
        case -0.5 if x.dtype.is_float:
            return one / apply("sqrt", x)
        case -1 if x.dtype.is_float:
            return one / x
        case -2 if x.dtype.is_float:
            return one / (x * x)
    return None


@handler("aten.pow", "prims.pow")
def power(node: NodeContext, base: Operand, exponent: Operand) -> Results:
    if node.dtype == dtypes.bool_:
        raise node.unsupported("powers of bools")
    if not isinstance(exponent, Value | Expr):
        short = pointwise_power(node, base, exponent)
        if short is not None:
            return short
    return pointwise(node, lambda x, y: binary("pow", x, y), base, exponent)


def pointwise_power(node: NodeContext, base: Operand, exponent: float) -> Value | None:
    if _to_number(literal(1, node.dtype.compute), exponent) is None:
        return None
    return pointwise(node, lambda x: _to_number(x, exponent), base)  # type: ignore[arg-type, return-value]


def hypot(a: Expr, b: Expr) -> Expr:
    """√(a² + b²) without overflow."""
    a, b = abs(a), abs(b)
    large, small = maximum(a, b), minimum(a, b)
    ratio = small / large
    simple = large.equal(0) | apply("isinf", large)
    infinite = apply("isinf", a) | apply("isinf", b)  # whatever the other side
    found = select(simple, large, large * apply("sqrt", ratio * ratio + 1))
    return select(infinite, float("inf"), found)


def _other_if_nan(choose: Function) -> Function:
    def chosen(a: Expr, b: Expr) -> Expr:
        if not a.dtype.is_float:
            return choose(a, b)
        best = select(apply("isnan", b), a, choose(a, b))
        return select(apply("isnan", a), b, best)

    return chosen


_BINARY: dict[str, Function] = {
    "mul": _product,
    "remainder": remainder,
    "fmod": lambda a, b: binary("rem", a, b),
    "floor_divide": floor_divided,
    "maximum": maximum,
    "minimum": minimum,
    "fmax": _other_if_nan(maximum),
    "fmin": _other_if_nan(minimum),
    "atan2": lambda a, b: binary("atan2", a, b),
    "copysign": lambda a, b: binary("copysign", a, b),
    "hypot": hypot,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def _same(name: str, function: Function) -> None:
    """Operands and result in one dtype."""

    @handler(f"aten.{name}", f"prims.{name}")
    def import_(node: NodeContext, *operands: Operand) -> Results:
        return pointwise(node, function, *operands)


for _name, _function in _BINARY.items():
    _same(_name, _function)


def _shift(name: str, op: str) -> None:
    @handler(name)
    def import_(node: NodeContext, a: Operand, b: Operand) -> Results:
        return pointwise(node, lambda x, y: binary(op, x, y), a, b)


for _name, _op in {
    "aten.bitwise_left_shift": "shl",
    "aten.bitwise_right_shift": "shr",
    "aten.__lshift__": "shl",
    "aten.__rshift__": "shr",
    "prims.shift_left": "shl",
    "prims.shift_right_arithmetic": "shr",
}.items():
    _shift(_name, _op)


# ---- comparisons and logic ----------------------------------------------------------------------

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _comparison(op: str) -> None:
    @handler(f"aten.{op}", f"prims.{op}")
    def import_(node: NodeContext, a: Operand, b: Operand) -> Results:
        common = node.common(a, b)
        return pointwise(node, lambda x, y: binary(op, x, y), a, b, dtype=common)


for _name in _COMPARISONS:
    _comparison(_name)

_LOGIC: dict[str, Function] = {
    "logical_and": lambda a, b: a & b,
    "logical_or": lambda a, b: a | b,
    "logical_xor": lambda a, b: a ^ b,
    "logical_not": lambda a: ~a,
}


def _logical(name: str, function: Function) -> None:
    @handler(f"aten.{name}")
    def import_(node: NodeContext, *operands: Operand) -> Results:
        return pointwise(node, function, *operands, dtype=dtypes.bool_)


for _name, _function in _LOGIC.items():
    _logical(_name, _function)


@handler("aten.bitwise_not", "prims.bitwise_not")
def bitwise_not(node: NodeContext, a: Value) -> Results:
    return pointwise(node, lambda x: ~x, a)


def _test(name: str, of_float: Function, of_integer: bool) -> None:
    @handler(f"aten.{name}", f"prims.{name}")
    def import_(node: NodeContext, a: Value) -> Results:
        if a.dtype.is_float:
            return pointwise(node, of_float, a, dtype=a.dtype)
        return pointwise(node, lambda _: literal(of_integer, dtypes.bool_), a, dtype=a.dtype)


_test("isnan", lambda x: apply("isnan", x), False)
_test("isinf", lambda x: apply("isinf", x), False)
_test("isfinite", lambda x: apply("isfinite", x), True)
_test("isposinf", lambda x: x.equal(math.inf), False)
_test("isneginf", lambda x: x.equal(-math.inf), False)


@handler("aten.signbit", "prims.signbit")
def signbit(node: NodeContext, a: Value) -> Results:
    def body(x: Expr) -> Expr:
        if x.dtype.is_float:
            return binary("copysign", literal(1, x.dtype), x) < 0
        return x < 0 if x.dtype.kind == "int" else literal(False, dtypes.bool_)

    return pointwise(node, body, a, dtype=a.dtype)


@handler("aten.where.self", "prims.where.default")
def where(node: NodeContext, condition: Value, a: Value, b: Value) -> Results:
    inner = node.dtype

    def body(c: Expr, x: Expr, y: Expr) -> Expr:
        return select(cast(c, dtypes.bool_), cast(x, inner), cast(y, inner))

    return node.call(lambda *t: elementwise("where", body, *t), condition, a, b)


# ---- functions of one number --------------------------------------------------------------------


def _log10(x: Expr) -> Expr:
    return apply("log", x) * (1 / math.log(10))


def _whole(op: str) -> Function:
    """Integers and bools are whole numbers already."""
    return lambda x: apply(op, x) if x.dtype.is_float else x


_UNARY: dict[str, Function] = {
    **{
        name: lambda x, name=name: apply(name, x)
        for name in (
            "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2",
            "expm1", "log", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
        )
    },
    "abs": lambda x: abs(x) if x.dtype.kind in ("int", "float") else x,
    "ceil": _whole("ceil"),
    "floor": _whole("floor"),
    "log10": _log10,
    "neg": lambda x: -x,
    "reciprocal": lambda x: literal(1, x.dtype) / x,
    "relu": lambda x: maximum(x, 0),
    "rsqrt": lambda x: literal(1, x.dtype) / apply("sqrt", x),
    "sgn": lambda x: apply("sign", x) if x.dtype.kind != "bool" else x,
    "sigmoid": sigmoid,
    "sign": lambda x: apply("sign", x) if x.dtype.kind != "bool" else x,
    "trunc": _whole("trunc"),
}  # fmt: skip

for _name, _function in _UNARY.items():
    _same(_name, _function)


@handler("aten.round.default", "prims.round.default")
def round_(node: NodeContext, a: Value) -> Results:
    return pointwise(node, _whole("round"), a)


@handler("aten.angle.default")
def angle(node: NodeContext, a: Value) -> Results:
    """0 or π; NaN stays."""

    def body(x: Expr) -> Expr:
        found = select(x < 0, literal(math.pi, x.dtype), literal(0, x.dtype))
        return select(apply("isnan", x), x, found)

    return pointwise(node, body, a)


@handler("aten.gelu.default")
def gelu(node: NodeContext, a: Value, *, approximate: str = "none") -> Results:
    return pointwise(node, lambda x: gelu_of(x, approximate=approximate), a)


@handler("aten.clamp")
def clamp(
    node: NodeContext, a: Value, low: Operand | None = None, high: Operand | None = None
) -> Results:
    bounds = [b for b in (low, high) if b is not None]

    def body(x: Expr, *limits: Expr) -> Expr:
        rest = list(limits)
        if low is not None:
            x = maximum(x, rest.pop(0))
        return minimum(x, rest.pop(0)) if high is not None else x

    return pointwise(node, body, a, *bounds)


@handler("aten.clamp_min")
def clamp_min(node: NodeContext, a: Value, low: Operand) -> Results:
    return pointwise(node, maximum, a, low)


@handler("aten.clamp_max")
def clamp_max(node: NodeContext, a: Value, high: Operand) -> Results:
    return pointwise(node, minimum, a, high)


# ---- conversions --------------------------------------------------------------------------------


@handler("aten._to_copy.default", "prims.convert_element_type.default")
def converted(node: NodeContext, a: Value, *_: Any, **__: Any) -> Results:
    return node.cast(a, node.dtype)


@handler("aten.view.dtype")
def view_dtype(node: NodeContext, a: Value, _dtype: Any) -> Results:
    if a.dtype.bits != node.dtype.bits or dtypes.bool_ in (a.dtype, node.dtype):
        raise node.unsupported(f"a view of {a.dtype} as {node.dtype}")
    return node.call("bit_cast", a, to=node.dtype)
