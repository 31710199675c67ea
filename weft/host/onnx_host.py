"""What runs on the host between compiled segments: what a host operator sees.

A host operator handles control, containers and strings. Whenever it needs a tensor computed it asks
for a compiled body or operator (``Host.body``, ``Host.tensor``); it never computes one itself.
Host data: arrays, strings as object arrays, sequences as lists, an empty optional as None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from weft.frontend.onnx.onnx_graph import OnnxNode, Port, Region
from weft.ir.errors import ExecutionError, ModelError

Data = Any
HOST_OPSET = 18  # of the operators that host operators ask for


class Frame(Protocol):
    """The values around a node, and the compiler behind them."""

    def run_body(self, body: Region, inputs: Sequence[Data]) -> list[Data]: ...

    def run_tensors(self, region: Region, inputs: Mapping[str, Data]) -> list[np.ndarray]: ...

    def region_of(self, key: object, make: Callable[[], Region]) -> Region: ...


@dataclass(frozen=True, slots=True)
class Host:
    """One host node with its inputs (None: absent, or an empty optional)."""

    node: OnnxNode
    inputs: Sequence[Data]
    frame: Frame

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def input(self, index: int) -> Data:
        """A required input; ``ExecutionError`` where it is an empty optional."""
        if index >= len(self.inputs) or not self.node.inputs[index]:
            raise self.malformed(f"input {index} is missing")
        if self.inputs[index] is None:
            raise self.failed(f"input {index} is an empty optional")
        return self.inputs[index]

    def optional(self, index: int) -> Data | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def sequence(self, index: int) -> list[Data]:
        value = self.input(index)
        if not isinstance(value, list):
            raise self.malformed(f"input {index} is not a sequence")
        return value

    def array(self, index: int) -> np.ndarray:
        value = self.input(index)
        if isinstance(value, list):
            raise self.malformed(f"input {index} is a sequence where a tensor is needed")
        return np.asarray(value)

    def strings(self, index: int) -> np.ndarray:
        array = self.array(index)
        if array.dtype != object:
            raise self.malformed(f"input {index} is not a tensor of strings")
        return array

    def scalar(self, index: int, default: int | None = None) -> int:
        """An integer or bool of one element."""
        if default is not None and self.optional(index) is None:
            return default
        array = self.array(index)
        if array.size != 1 or array.dtype.kind not in "iub":
            raise self.malformed(f"input {index} must be one integer")
        return int(array.reshape(()))

    def body(self, name: str) -> Region:
        region = self.attribute(name)
        if not isinstance(region, Region):
            raise self.malformed(f"the body {name!r} is missing")
        return region

    def run(self, body: Region, inputs: Sequence[Data]) -> list[Data]:
        """The outputs of ``body``, computed by compiled code."""
        if len(inputs) != len(body.inputs):
            given, wanted = len(inputs), len(body.inputs)
            raise self.malformed(f"the body takes {wanted} inputs, it is given {given}")
        return self.frame.run_body(body, inputs)

    def tensor(
        self, op: str, *inputs: np.ndarray, outputs: int = 1, **attributes: object
    ) -> list[np.ndarray]:
        """The results of the standard operator ``op``, computed by compiled code."""
        given = tuple(f"in{i}" for i in range(len(inputs)))
        made = tuple(f"out{i}" for i in range(outputs))

        def make() -> Region:
            node = OnnxNode(
                self.node.name, op, "", HOST_OPSET, given, made, attributes, self.node.where
            )
            return Region(self.node.name, tuple(map(Port, given)), made, (node,), {})

        key = (self.node, op, len(inputs), outputs, tuple(sorted(attributes.items())))
        region = self.frame.region_of(key, make)
        return self.frame.run_tensors(region, dict(zip(given, inputs, strict=True)))

    def itself(
        self,
        inputs: Sequence[np.ndarray | None],
        attributes: Mapping[str, object] | None = None,
    ) -> list[np.ndarray]:
        """This very node on other inputs, and with other attributes, by compiled code."""
        node = self.node
        given = tuple("" if x is None else f"in{i}" for i, x in enumerate(inputs))
        made = tuple(f"out{i}" if name else "" for i, name in enumerate(node.outputs))
        wanted = tuple(filter(None, made))

        def make() -> Region:
            with_ = node.attributes if attributes is None else attributes
            copy = replace(node, inputs=given, outputs=made, attributes=with_)
            return Region(node.name, tuple(map(Port, filter(None, given))), wanted, (copy,), {})

        region = self.frame.region_of((node, given, repr(attributes)), make)
        arrays = {n: x for n, x in zip(given, inputs, strict=True) if x is not None}
        return self.frame.run_tensors(region, arrays)

    def malformed(self, reason: str) -> ModelError:
        return ModelError("WEFT-E0231", reason, where=self.node.where)

    def failed(self, reason: str) -> ExecutionError:
        return ExecutionError("WEFT-E0631", reason, where=self.node.where)


HostOperator = Callable[[Host], Sequence[Data]]
HostTable = Mapping[tuple[str, str], HostOperator]  # (domain, operator)
