"""Random nodes of each operator: here those element by element, and along axes.

``OPERATORS`` has, by domain and name, a function that adds a node of that operator to a model; the
``random_*`` files beside this one add theirs. Choices are random but plausible; whatever the oracle
refuses is dropped by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import defs, helper

from tests.end_to_end.random_models import F16, F64, I64, Growing
from tests.end_to_end.random_types import is_float

OPERATORS: dict[tuple[str, str], Callable[[Growing], Any]] = {}


def makes(*op_types: str, domain: str = "") -> Callable[[Any], Any]:
    """Register ``function(g, op_type)`` for each of ``op_types``."""

    def register(function: Any) -> Any:
        for op_type in op_types:
            OPERATORS[domain, op_type] = partial(function, op_type=op_type)
        return function

    return register


def number(dtype: np.dtype) -> int:
    """ONNX's number of an element type."""
    return helper.np_dtype_to_tensor_dtype(dtype)


DOMAINS = {"Acos": ("Tanh",), "Asin": ("Tanh",), "Atanh": ("Tanh",), "Acosh": ("Sigmoid", "Exp"),
           "Log": ("Abs",), "Sqrt": ("Abs",), "Reciprocal": ("Exp",)}  # fmt: skip


@makes("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu",
       "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
       "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round",
       "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish",
       "Tan", "Tanh", "ThresholdedRelu", "Size", "Det", "NonZero", "Hardmax", "Softmax",
       "LogSoftmax", "Flatten", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
       "LpNormalization", "Shape", "Unique")  # fmt: skip
def unary(g: Growing, op_type: str) -> None:
    """One input, and attributes that are a number, a flag, an axis or one of a few words."""
    schema = g._schema(op_type, "")
    x = g.tensor(op_type, low=3 if op_type.startswith("Global") else 0)
    for before in DOMAINS.get(op_type, ()) if g.chance(0.8) else ():
        (x,) = g.add(before, x)
    if op_type == "Det":
        square = g.shape(2) + [g.size(4)] * 2
        x = g.weight(square[g.choice(0, 1, 2) :], 2, g.values[x].dtype)
    words = {"approximate": ("none", "tanh")}
    attributes: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if name in words:
            attributes[name] = g.choice(*words[name])
        elif name in ("axis", "start", "end"):
            attributes[name] = g.axis(x)
        elif name == "p":
            attributes[name] = g.choice(1, 2)
        elif attribute.type == defs.OpSchema.AttrType.FLOAT:
            attributes[name] = g.choice(0.1, 0.5, 1.0, 1.3, 2)
        elif attribute.type == defs.OpSchema.AttrType.INT:
            attributes[name] = int(g.chance(0.5))
    n = int(g.rng.integers(1, 5)) if op_type == "Unique" else 1
    g.add(op_type, x, outputs=n, **g.some(**attributes))


def partner(g: Growing, x: str, dtype: np.dtype | None = None) -> str:
    """What broadcasts with ``x``: a value that is there, or one that is fixed."""
    a = g.values[x]
    dtype = dtype or a.dtype
    if g.chance(0.4):
        return g.pick(lambda b: b.dtype == dtype and _broadcast(a, b))
    shape = [n if g.chance(0.6) else 1 for n in a.shape]
    shape = shape[int(g.rng.integers(0, len(shape) + 1)) :]
    return g.weight(
        g.shape(1) + shape if len(shape) == a.ndim and g.chance(0.1) else shape, 1, dtype
    )


def _broadcast(a: np.ndarray, b: np.ndarray) -> bool:
    pairs = zip(a.shape[::-1], b.shape[::-1], strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


@makes("Add", "Sub", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal",
       "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "PRelu", "SwiGLU")  # fmt: skip
def binary(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    reads = [x, partner(g, x)]
    g.add(op_type, *(reads if op_type == "PRelu" else g.rng.permutation(reads).tolist()))


@makes("Div", "Mod", "Pow", "BitShift")
def partial_binary(g: Growing, op_type: str) -> None:
    """What is not defined everywhere: divisors are not 0, shifts and powers are small."""
    x = g.tensor(op_type)
    dtype = g.values[x].dtype
    limits = {"BitShift": (0, 8), "Pow": (0, 4)}.get(op_type, (1, 9))
    shape = [n if g.chance(0.6) else 1 for n in g.values[x].shape]
    other = g.rng.integers(*limits, shape[int(g.rng.integers(0, len(shape) + 1)) :])
    if dtype.kind == "i" and op_type in ("Div", "Mod") and g.chance(0.5):
        other = -other
    kind = g.choice(*g.types("Pow", 1)) if op_type == "Pow" and g.chance(0.3) else dtype
    exact = op_type == "Pow" or not is_float(dtype)
    y = g.fixed(other if exact else other * 0.7, kind)
    if op_type == "Mod":
        g.add(op_type, x, y, **({"fmod": 1} if is_float(dtype) else g.some(fmod=1)))
    elif op_type == "BitShift":
        g.add(op_type, x, y, direction=g.choice("LEFT", "RIGHT"))
    else:
        g.add(op_type, x, y)


@makes("Max", "Min", "Sum", "Mean")
def variadic(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    g.add(op_type, x, *(partner(g, x) for _ in range(g.choice(0, 1, 1, 2))))


@makes("Clip")
def clip(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    low, high = g.array((), g.values[x].dtype), g.array((), g.values[x].dtype)
    if g.chance(0.8) and low > high:
        low, high = high, low
    g.add(op_type, x, **g.some(min=low, max=high))


@makes("Where")
def where(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 1)
    g.add(op_type, partner(g, x, np.dtype(bool)), x, partner(g, x))


@makes("Cast", "CastLike", "BitCast")
def cast(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    dtype = g.choice(*g.types("CastLike", 1)) if g.opset >= 15 else g.choice(F16, F64, I64)
    if op_type == "BitCast":
        same = [d for d in g.types(op_type) if d.itemsize == g.values[x].dtype.itemsize]
        g.add(op_type, x, to=number(g.choice(*same)))
    elif op_type == "CastLike" and is_float(dtype):
        g.add(op_type, x, g.weight(g.shape(1), 1, dtype))
    elif dtype.kind == "V" and is_float(dtype) and "8" in dtype.name and g.chance(0.5):
        g.add(op_type, x, to=number(dtype), saturate=int(g.chance(0.5)))
    else:
        g.cast(x, dtype)


@makes("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd",
       "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip
def reduction(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    if op_type == "ReduceLogSum":
        (x,) = g.add("Abs", x)
    flags = {"keepdims": int(g.chance(0.5)), "axes": g.axes(x)}
    if "noop_with_empty_axes" in g._schema(op_type, "").attributes and g.chance(0.3):
        flags["noop_with_empty_axes"] = 1
    g.add(op_type, x, **g.some(**flags))


@makes("ArgMax", "ArgMin")
def argument(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    flags = {"keepdims": int(g.chance(0.5)), "axis": g.axis(x)}
    if g.opset >= 12:
        flags["select_last_index"] = int(g.chance(0.5))
    g.add(op_type, x, **g.some(**flags))


@makes("CumSum", "CumProd")
def cumulative(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    flags = g.some(exclusive=int(g.chance(0.5)), reverse=int(g.chance(0.5)))
    g.add(op_type, x, axis=g.axis(x), **flags)
