"""The memory suite: operators whose time goes into moving data, from the first cache to memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from onnx import helper

from weft.benchmarks.case import TOLERANCE, Case, Planned, model_of, random_array
from weft.benchmarks.limits import beyond_caches
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.pytorch import Eager
from weft.codegen.machines.host import host_machine

Values = dict[str, np.ndarray]
Shape = tuple[int, ...]

PEERS: tuple[Peer, ...] = (OnnxRuntime(), Eager())
WIDTH = 768  # of the last axis: a transformer's
EPSILON = 1e-5
_LONG = 1 << 16  # elements of a sum, from which on its rounding errors count, as their root
BEYOND = "RAM"  # the level after the last cache
_ERF = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class Operator:
    """``shape(elements)`` of its input x, of about so many elements; ``moved``: how many are read
    and written for each element of x; ``nodes`` of the model, whose constants ``constants(shape)``
    are; ``exact`` in float64; ``result``: the shape of y."""

    name: str
    shape: Callable[[int], Shape]
    nodes: Callable[[], list[onnx.NodeProto]]
    exact: Callable[[Values], np.ndarray]
    constants: Callable[[Shape], Values] = lambda shape: {}
    more: Sequence[str] = ()
    result: Callable[[Shape], Shape] = lambda shape: shape
    moved: int = 2


def rows(elements: int) -> Shape:
    """Rows of ``WIDTH``."""
    return (max(1, elements // WIDTH), WIDTH)


def square(elements: int) -> Shape:
    """A matrix, its sides multiples of 16 and not powers of two."""
    side = max(16, int(elements**0.5) // 16 * 16)
    return (side, side - 16 if side & (side - 1) == 0 else side)


def images(elements: int) -> Shape:
    """(n, c, h, w) of 64 channels."""
    side = max(4, min(56, int((elements / 64) ** 0.5)))
    return (max(1, elements // (64 * side * side)), 64, side, side)


def heads(elements: int) -> Shape:
    """(batch, sequence, heads, 64) of 12 heads."""
    return (1, max(2, elements // WIDTH), 12, 64)


def cube(elements: int) -> Shape:
    """Three axes, the last one not the longest."""
    return (16, max(1, elements // (16 * 96)), 96)


def _node(op: str, *inputs: str, **attributes: object) -> Callable[[], list[onnx.NodeProto]]:
    return lambda: [helper.make_node(op, inputs, ["y"], **attributes)]


def _scales(shape: Shape) -> Values:
    return {
        "scale": random_array(shape[-1:], "float32", 5),
        "bias": random_array(shape[-1:], "float32", 6),
    }


def _softmax(v: Values) -> np.ndarray:
    shifted = np.exp(v["x"] - v["x"].max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def _layer_norm(v: Values) -> np.ndarray:
    centred = v["x"] - v["x"].mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    return np.asarray(centred / deviation * v["scale"] + v["bias"])


def _rms_norm(v: Values) -> np.ndarray:
    size = np.sqrt((v["x"] ** 2).mean(axis=-1, keepdims=True) + EPSILON)
    return np.asarray(v["x"] / size * v["scale"])


def _gelu(v: Values) -> np.ndarray:
    return np.asarray(0.5 * v["x"] * (1.0 + _erf(v["x"] / math.sqrt(2.0))))


def _erf(x: np.ndarray) -> np.ndarray:
    """Of few distinct elements, which is what large inputs here have."""
    distinct, where = np.unique(x, return_inverse=True)
    return np.asarray(_ERF(distinct)[where].reshape(x.shape))


def _chain_nodes() -> list[onnx.NodeProto]:
    """relu((x + r) · scale + bias) + q, as residual branches are joined."""
    return [
        helper.make_node("Add", ["x", "r"], ["joined"]),
        helper.make_node("Mul", ["joined", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["moved"]),
        helper.make_node("Relu", ["moved"], ["rectified"]),
        helper.make_node("Add", ["rectified", "q"], ["y"]),
    ]


def _chain(v: Values) -> np.ndarray:
    return np.asarray(np.maximum((v["x"] + v["r"]) * v["scale"] + v["bias"], 0) + v["q"])


def _transpose(shape: Callable[[int], Shape], *perm: int) -> Operator:
    return Operator(
        f"transpose {''.join(map(str, perm))}",
        shape,
        _node("Transpose", "x", perm=perm),
        lambda v: v["x"].transpose(perm),
        result=lambda size: tuple(size[p] for p in perm),
    )


def _reduction(op: str, fold: Callable[..., np.ndarray], axis: int) -> Operator:
    return Operator(
        f"{op} axis {axis}",
        cube,
        _node(f"Reduce{op.capitalize()}", "x", "axes", keepdims=0),
        lambda v: fold(v["x"], axis=axis),
        constants=lambda size: {"axes": np.array([axis])},
        result=lambda size: tuple(s for d, s in enumerate(size) if d != axis),
        moved=1,
    )


OPERATORS: tuple[Operator, ...] = (
    Operator("softmax", rows, _node("Softmax", "x"), _softmax),
    Operator(
        "layer norm", rows,
        _node("LayerNormalization", "x", "scale", "bias", epsilon=EPSILON), _layer_norm, _scales,
    ),
    Operator(
        "rms norm", rows, _node("RMSNormalization", "x", "scale", epsilon=EPSILON), _rms_norm,
        lambda shape: {"scale": _scales(shape)["scale"]},
    ),
    Operator("gelu", rows, _node("Gelu", "x"), _gelu),
    Operator("residual chain", rows, _chain_nodes, _chain, _scales, ("r", "q"), moved=4),
    _transpose(square, 1, 0),
    _transpose(images, 0, 2, 3, 1),
    _transpose(heads, 0, 2, 1, 3),
    *(_reduction("sum", np.sum, axis) for axis in (0, 1, 2)),
    _reduction("max", np.max, 2),
)  # fmt: skip


QUICK = {
    "L1": ("softmax", "layer norm", "gelu", "transpose 10", "sum axis 1"),
    "L2": ("softmax", "layer norm", "gelu"),
    BEYOND: ("softmax", "residual chain", "transpose 10", "sum axis 0"),
}
"""Level -> names of operators."""


def sizes() -> dict[str, int]:
    """Level -> bytes moved in all: half of each cache, and more than the last one holds."""
    inside = {f"L{k}": cache.size // 2 for k, cache in enumerate(host_machine().caches, start=1)}
    return {**inside, BEYOND: beyond_caches()}


def cases(quick: bool) -> Iterator[Planned]:
    """Every operator at every size (quick: some)."""
    for level, size in sizes().items():
        for operator in OPERATORS:
            if not quick or operator.name in QUICK.get(level, ()):
                name = _name(operator, level, size)
                yield Planned(name, partial(case, operator, level, size))


def _shape(operator: Operator, size: int) -> Shape:
    """Of x, where ``size`` bytes are moved; of those of one element, a single one."""
    elements = max(1, size // (4 * operator.moved))
    shape = operator.shape(elements)
    return shape if elements > 1 else (1,) * len(shape)


def _name(operator: Operator, level: str, size: int) -> str:
    return f"memory {level} {operator.name} {'x'.join(map(str, _shape(operator, size)))}"


def case(operator: Operator, level: str, size: int) -> Case:
    """``operator`` on arrays of about ``size`` bytes in all, of float32."""
    shape = _shape(operator, size)
    constants = operator.constants(shape)
    variables = {name: _data(shape, seed) for seed, name in enumerate(("x", *operator.more))}
    values = {**variables, **constants}
    result = operator.result(shape)
    port = {"y": (result, np.float32)}
    model, inputs = model_of(operator.nodes(), values, port, list(constants))
    return Case(
        _name(operator, level, size),
        level,
        model,
        inputs,
        lambda: [operator.exact({name: _wide(v) for name, v in values.items()})],
        TOLERANCE["float32"] * max(1.0, math.prod(shape) / math.prod(result) / _LONG) ** 0.5,
        limit="copy",
        empty=lambda: case(operator, level, 1),
    )


def _data(shape: Shape, seed: int) -> np.ndarray:
    """Normal numbers; a large array repeats some thousands, which is as good and soon there."""
    count = math.prod(shape)
    some = random_array((min(count, 9973),), "float32", seed)
    return np.resize(some, shape)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array
