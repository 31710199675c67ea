"""Writes ONNX models node by node, with seeded random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
Shape = tuple[int, ...]
PortShape = tuple[int | str, ...]  # open sizes by name


@dataclass(slots=True)
class ModelBuilder:
    """``random`` draws the weights, in the order in which they are asked for."""

    name: str
    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node and return the name of its one output."""
        output = f"{op_type}_{len(self.nodes)}"
        node = helper.make_node(op_type, inputs, [output], name=output, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, name: str, data: np.ndarray) -> str:
        """An initializer."""
        self.initializers.append(numpy_helper.from_array(data, name))
        return name

    def weight(self, name: str, shape: Shape, deviation: float) -> str:
        """A float32 initializer drawn from a normal distribution around 0."""
        data = self.random.standard_normal(shape, np.float32)
        return self.constant(name, data * np.float32(deviation))

    def model(
        self,
        inputs: Mapping[str, tuple[int, PortShape]],
        outputs: Mapping[str, tuple[str, PortShape]],
    ) -> onnx.ModelProto:
        """``inputs``: name -> (ONNX element type, shape); ``outputs``: name -> (value, shape).

        Outputs are float32 and the result of a node each, which is renamed to the output's name.
        """
        renamed = {value: name for name, (value, _) in outputs.items()}
        for node in self.nodes:
            for names in (node.input, node.output):
                for position, name in enumerate(names):
                    names[position] = renamed.get(name, name)
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
            [_float(name, shape) for name, (_, shape) in outputs.items()],
            self.initializers,
        )
        return helper.make_model(
            graph,
            producer_name="weft.zoo",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,
        )


def _float(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
