"""Random ONNX models that look like real ones, each with inputs and the results to expect.

A model grows node by node: each new node runs alone in onnxruntime, on the values that it reads.
That gives its shape and its expected value, unfused; nodes that onnxruntime refuses, and values
that are too large to compare, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

OPSET, IR_VERSION = 18, 10
SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 32, 37, 48, 64, 67, 96, 101, 128)
LARGEST_VALUE, MOST_ELEMENTS = 5_000.0, 100_000
F32, F64, F16, I64 = (np.dtype(t) for t in (np.float32, np.float64, np.float16, np.int64))
FLOATS = (F32, F64, F16)


class Refused(Exception):
    """A node that cannot be part of the model."""


@dataclass(frozen=True, slots=True)
class RandomModel:
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]

    @property
    def summary(self) -> str:
        return " ".join(node.op_type for node in self.model.graph.node)


@dataclass
class Growing:
    """A model under construction: values by name, and those that nodes may read."""

    rng: np.random.Generator
    values: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def choice(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def size(self, most: int = 23) -> int:
        return int(self.choice(*(n for n in SIZES if n <= most)))

    def integers(self, low: int, high: int, count: int) -> list[int]:
        """``count`` numbers from ``low`` to ``high``, both included."""
        return [int(n) for n in self.rng.integers(low, high + 1, count)]

    def array(self, shape: Sequence[int], dtype: np.dtype = F32, scale: float = 1.0) -> np.ndarray:
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.kind in "iu":
            return self.rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def input(self, shape: Sequence[int], dtype: np.dtype = F32) -> str:
        name = f"x{len(self.inputs)}"
        self.values[name] = self.array(shape, dtype)
        self.inputs.append(name)
        return name

    def constant(self, array: Any, dtype: np.dtype = F32) -> str:
        name = f"c{len(self.constants)}"
        self.values[name] = np.asarray(array, dtype)
        self.constants.append(name)
        return name

    def weight(self, shape: Sequence[int], fan_in: int = 1, dtype: np.dtype = F32) -> str:
        """A constant, or now and then an input, that keeps products of ``fan_in`` terms small."""
        array = self.array(shape, dtype, max(fan_in, 1) ** -0.5)
        if self.chance(0.9):
            return self.constant(array, dtype)
        name = self.input(shape, dtype)
        self.values[name] = array
        return name

    def pick(self, accept: Callable[[np.ndarray], bool] = lambda a: a.dtype == F32) -> str:
        """A value that ``accept`` likes, a recent one more likely."""
        names = [
            n for n, a in self.values.items() if n not in self.constants and a.size and accept(a)
        ]
        if not names:
            raise Refused("no value of that kind")
        return names[-1 - min(int(self.rng.exponential(2.0)), len(names) - 1)]

    def add(self, op_type: str, *reads: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """A new node and the names of its outputs; raises ``Refused``."""
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        node = helper.make_node(op_type, reads, names, f"n{len(self.nodes)}", **attributes)
        for name, array in zip(names, self._alone(node), strict=True):
            floats = array.dtype.kind == "f"
            if array.size > MOST_ELEMENTS or array.ndim > 6:
                raise Refused("too large")
            if floats and array.size and not np.abs(array).max() <= LARGEST_VALUE:
                raise Refused("values that cannot be compared")
            self.values[name] = array
        self.nodes.append(node)
        return names

    def _alone(self, node: onnx.NodeProto) -> list[np.ndarray]:
        """``node`` by itself in onnxruntime."""
        reads = {name: self.values[name] for name in node.input if name}
        constants = [name for name in reads if name in self.constants]
        given = {name: array for name, array in reads.items() if name not in constants}
        model = _model([node], given, {n: reads[n] for n in constants}, dict.fromkeys(node.output))
        return run_onnxruntime(model, given)

    def finished(self, keep: float = 0.15) -> RandomModel:
        """Outputs: all that nothing reads, and now and then something that is read too."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output if self.values[name].size]
        outputs = [n for n in made if n not in read or self.chance(keep)]
        inputs = {n: self.values[n] for n in self.inputs if n in read}
        constants = {n: self.values[n] for n in self.constants if n in read}
        expected = {n: self.values[n] for n in outputs}
        model = _model(self.nodes, inputs, constants, expected)
        onnx.checker.check_model(model)
        return RandomModel(model, inputs, expected)


def _info(name: str, array: np.ndarray | None) -> onnx.ValueInfoProto:
    if array is None:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    outputs: dict[str, Any],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "random",
        [_info(n, a) for n, a in inputs.items()],
        [_info(n, a) for n, a in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def run_onnxruntime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """One thread, no graph optimisations. Raises ``Refused`` with onnxruntime's own message."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(a) for a in session.run(None, inputs)]
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise Refused(str(error)) from error
