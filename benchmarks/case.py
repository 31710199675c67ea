"""What is measured: an ONNX model with its inputs, the answer, and how much work it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = Mapping[str, np.ndarray]
OPSET = 23
WRONG = 1e300  # an error that is no number; JSON has no infinity

# Of the largest element: sums in any order, functions within a few units in the last place.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2e-2, "int8": 0.0}
_ELEMENTS = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int32): TensorProto.INT32,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One row: everybody runs ``model`` on ``inputs``.

    ``group``: the rows with which its geometric mean is taken. ``expected`` computes the outputs in
    float64 (integers exactly); answers may differ from them by ``tolerance`` times the largest
    element. ``operations``: multiplications and additions by the definition. ``limit``: what it is
    measured against, the multiply-add peak of a dtype, or "copy", the bandwidth of copying as many
    bytes, or "" for nothing. ``empty``: the same on single elements, which takes what a call costs.
    ``facts``: measured in other ways, by name. ``saving``: how many of the definition's operations
    a cheaper algorithm may do with one. ``own``: the name of the row beside which Weft is itself
    measured.
    """

    name: str
    group: str
    model: onnx.ModelProto
    inputs: Arrays
    expected: Callable[[], Sequence[np.ndarray]]
    tolerance: float
    operations: float = 0.0
    limit: str = "float32"
    empty: Callable[[], Case] | None = None
    facts: Callable[[], Mapping[str, float]] = dict
    saving: float = 1.0
    own: str = ""

    @property
    def bytes(self) -> int:
        """Compulsory: inputs and constants read once, outputs written once."""
        graph = self.model.graph
        read = sum(a.nbytes for a in self.inputs.values())
        constants = sum(numpy_helper.to_array(t).nbytes for t in graph.initializer)
        written = sum(math.prod(s) * d.itemsize for s, d in outputs_of(self.model))
        return int(read + constants + written)


@dataclass(frozen=True, slots=True)
class Planned:
    """A case that is built when its turn comes: its arrays are large."""

    name: str
    build: Callable[[], Case]


def one_node(
    op: str,
    inputs: Sequence[tuple[str, np.ndarray]],
    output: tuple[Sequence[int], Any],
    *,
    constants: Sequence[str] = (),
    then: Sequence[str] = (),
    attributes: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one operator with its inputs; those named by ``constants`` are initializers.

    ``output``: shape and dtype. ``then``: elementwise operators of one input that follow.
    """
    nodes = [helper.make_node(op, [name for name, _ in inputs], ["y0"], **attributes)]
    nodes += [helper.make_node(o, [f"y{k}"], [f"y{k + 1}"]) for k, o in enumerate(then)]
    nodes[-1].output[0] = "y"
    return model_of(nodes, dict(inputs), {"y": output}, constants)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    values: Arrays,
    outputs: Mapping[str, tuple[Sequence[int], Any]],
    constants: Sequence[str] = (),
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of ``nodes`` over ``values``; those named by ``constants`` are initializers."""
    given = {name: aligned(array) for name, array in values.items() if name not in constants}
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [_port(name, a.shape, a.dtype) for name, a in given.items()],
        [_port(name, shape, np.dtype(dtype)) for name, (shape, dtype) in outputs.items()],
        [numpy_helper.from_array(values[name], name) for name in constants],
    )
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10), given


def _port(name: str, shape: Sequence[int], dtype: np.dtype) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _ELEMENTS[dtype], list(shape))


def outputs_of(model: onnx.ModelProto) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Shape and dtype of each output; of open sizes 0."""
    found = []
    for port in model.graph.output:
        kind = port.type.tensor_type
        shape = tuple(size.dim_value for size in kind.shape.dim)
        found.append((shape, np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))))
    return found


def aligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy at the beginning of a cache line, as allocators of tensors place them."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def random_array(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Standard normal floats; integers 0 … 127, or -127 … 127 where the seed is odd."""
    generator = np.random.default_rng(seed)
    if dtype == "int8":
        if seed % 2:
            return generator.integers(-127, 128, shape).astype(np.int8)
        return generator.integers(0, 128, shape).astype(np.uint8)
    if dtype == "bfloat16":
        return generator.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)
    return generator.standard_normal(shape).astype(dtype)


def error_of(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest element expected; ``WRONG`` for NaN where
    there should be none, infinities, and another shape."""
    if found.shape != expected.shape:
        return WRONG
    gap = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)
    largest = np.abs(expected).max(initial=0.0)
    return float(gap / largest if largest else gap) if np.isfinite(gap) else WRONG


# ---- A matrix product as the peers see it: the two arrays of a case that is nothing else.


_PRODUCTS = ("MatMul", "Gemm", "MatMulInteger")


def operands(case: Case) -> tuple[np.ndarray, np.ndarray] | None:
    """Both sides as they are multiplied, transposed ones as views; None: it is no product."""
    graph = case.model.graph
    if len(graph.node) != 1 or graph.node[0].op_type not in _PRODUCTS:
        return None
    node = graph.node[0]
    flags = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer} | dict(case.inputs)
    a, b = (values[name] for name in node.input[:2])
    return (a.T if flags.get("transA") else a), (b.T if flags.get("transB") else b)


def is_constant(case: Case) -> bool:
    """Whether the right side is known beforehand, so that it may be packed."""
    return case.model.graph.node[0].input[1] in {t.name for t in case.model.graph.initializer}
