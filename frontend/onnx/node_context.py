"""The ``NodeContext`` that handlers get: one ONNX node, its values, and the graph being built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.frontend.graph_builder import GraphBuilder
from weft.frontend.onnx.onnx_graph import OnnxNode
from weft.frontend.operators.registry import Definition
from weft.ir.dtypes import DType
from weft.ir.errors import ModelError, UnsupportedError
from weft.ir.operator_graph import Graph, Value
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Size


class NeedsValue(Exception):
    """Import needs the data of ``name``; ``graph`` computes it from the inputs.

    ``index`` is the position of the region's node that asks. ``counted``: it asks how much of its
    results counts, and gives them in their greatest possible sizes where it is the last node.
    """

    def __init__(self, name: str, graph: Graph, index: int, counted: bool = False) -> None:
        super().__init__(name)
        self.name = name
        self.graph = graph
        self.index = index
        self.counted = counted


class NeedsHost(UnsupportedError):
    """``node`` is defined by control flow or sequences, which only a host can run."""

    def __init__(self, node: OnnxNode) -> None:
        super().__init__("WEFT-E0215", f"{node.op_type} needs control flow", where=node.where)
        self.node = node


class ValueUnknown(Exception):
    """A handler asked for the data of a value that is not constant."""

    def __init__(self, value: Value) -> None:
        super().__init__(value.name)
        self.value = value


class CountUnknown(ValueUnknown):
    """The same, for how much of a result counts."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A result in its greatest possible size, of which the first elements along ``axis`` count, as
    many as the scalar ``count`` says."""

    count: Value
    axis: int


@dataclass(slots=True)
class ImportContext:
    """See ``context.NodeContext`` for the contract."""

    node: OnnxNode
    builder: GraphBuilder
    values: Sequence[Value | None]  # one per declared input, None where empty-named
    asked: set[int | str] = field(default_factory=set)  # inputs by number, attributes by name
    may_defer: bool = False  # whether results may be left in their greatest possible sizes
    deferred: dict[str, Counted] = field(default_factory=dict)  # results that were, by name

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def op_type(self) -> str:
        return self.node.op_type

    @property
    def domain(self) -> str:
        return self.node.domain

    @property
    def opset(self) -> int:
        return self.node.opset

    @property
    def n_outputs(self) -> int:
        wanted = [i for i, name in enumerate(self.node.outputs) if name]
        return wanted[-1] + 1 if wanted else 0

    def input(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self.malformed(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        self.asked.add(index)
        return self.values[index] if index < len(self.values) else None

    def inputs(self, count: int) -> tuple[Value | None, ...]:
        return tuple(self.optional(i) for i in range(count))

    def all_inputs(self) -> tuple[Value, ...]:
        return tuple(self.input(i) for i in range(len(self.values)))

    def wants(self, index: int) -> bool:
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def attribute(self, name: str, default: Any = None) -> Any:
        """A default, too, is the float32 that ONNX has for it."""
        self.asked.add(name)
        absent = float(np.float32(default)) if isinstance(default, float) else default
        return self.node.attributes.get(name, absent)

    def required(self, name: str) -> Any:
        self.asked.add(name)
        if name not in self.node.attributes:
            raise self.malformed(f"attribute {name!r} is missing")
        return self.node.attributes[name]

    def static(self, value: Value) -> np.ndarray:
        data = self.builder.known(value)
        if data is None:
            raise ValueUnknown(value)
        return data

    def sizes(self, value: Value) -> np.ndarray:
        found = self.builder.open_elements(value)
        if found is None or self.builder.known(value) is not None:
            return self.static(value)
        result = np.empty(found.shape, object)
        for index, element in np.ndenumerate(found):
            result[index] = self.normal(element)
        return result

    def count(self, found: Value, count: Value, axis: int) -> int | None:
        data = self.builder.known(count)
        if data is not None:
            return int(data)
        if not self.may_defer:
            raise CountUnknown(count)
        self.deferred[found.name] = Counted(count, axis)
        return None

    def normal(self, size: Size) -> Size:
        return self.builder.sizes.normal(size)

    def at_least(self, size: Size, least: int) -> bool:
        return self.builder.sizes.at_least(size, least)

    def assume(self, condition: Expr) -> None:
        self.builder.sizes.assume(condition)

    def assume_at_most(self, size: Size, most: int) -> None:
        self.builder.sizes.assume_at_most(size, most)

    def known(self, value: Value) -> np.ndarray | None:
        return self.builder.known(value)

    def constant(self, data: np.ndarray, dtype: DType | None = None) -> Value:
        return self.builder.constant(data, self.name, dtype)

    def call(self, op: str | Definition, *inputs: Value | None, **attributes: Any) -> Any:
        results = self.builder.call(op, inputs, attributes, self.name, self.node.where)
        return results[0] if len(results) == 1 else results

    @property
    def never_asked(self) -> list[str]:
        """What the node has and its handler did not look at."""
        inputs = [k for k, value in enumerate(self.values) if value is not None]
        return [
            *(f"input {k}" for k in inputs if k not in self.asked),
            *(f"attribute {name}" for name in self.node.attributes if name not in self.asked),
        ]

    def unsupported(self, reason: str) -> Exception:
        return UnsupportedError("WEFT-E0201", reason, where=self.node.where)

    def malformed(self, reason: str) -> Exception:
        return ModelError("WEFT-E0220", reason, where=self.node.where)
