"""What a handler sees of the node that it imports, and the table of handlers.

    @handler("Conv", since=1)
    def conv(node: NodeContext) -> Results:
        x, w, b = node.inputs(3)
        return node.call("conv", x, w, b, strides=..., pads=...)

A handler turns one ONNX node into calls of Weft's operators. It reads attributes, normalises them
(defaults, auto_pad, opset differences), and returns the values of the node's outputs in order.
Everything about shapes and element types comes from the operator definitions themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from weft.ir.dtypes import DType
from weft.ir.operator_graph import Value

Results = Any  # Value | Sequence[Value | None]: what ``call`` gives, or several of it
Handler = Callable[["NodeContext"], Results]


class NodeContext(Protocol):
    """One ONNX node during import. All shapes are known: integers or size symbols."""

    @property
    def name(self) -> str: ...

    @property
    def op_type(self) -> str: ...

    @property
    def opset(self) -> int:
        """Of the node's domain, as the model imports it."""
        ...

    @property
    def n_outputs(self) -> int:
        """Declared outputs, trailing absent ones left out."""
        ...

    def input(self, index: int) -> Value:
        """A required input; ``ModelError`` where it is absent."""
        ...

    def optional(self, index: int) -> Value | None:
        """An input that may be absent or empty-named."""
        ...

    def inputs(self, count: int) -> tuple[Value | None, ...]:
        """The first ``count`` inputs, None where absent."""
        ...

    def all_inputs(self) -> tuple[Value, ...]:
        """Every input of a variadic operator."""
        ...

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is asked for."""
        ...

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as Python data: int, float, str, list, ndarray; ``default`` where absent."""
        ...

    def required(self, name: str) -> Any:
        """An attribute that the operator must have; ``ModelError`` where absent."""
        ...

    def static(self, value: Value) -> np.ndarray:
        """The data of ``value``, which import needs (a shape, axes, a scale mode).

        Where it is not known yet, import stops here, the value is computed by compiled code for
        the inputs of the call at hand, and import starts again with it known.
        """
        ...

    def known(self, value: Value) -> np.ndarray | None:
        """The data of ``value`` if it happens to be constant, else None. Never stops import."""
        ...

    def constant(self, data: np.ndarray, dtype: DType | None = None) -> Value:
        """A new constant."""
        ...

    def call(self, op: str, *inputs: Value | None, **attributes: Any) -> Any:
        """Call a Weft operator: its one result as a Value, several as a tuple of Values."""
        ...

    def unsupported(self, reason: str) -> Exception:
        """The exception to raise for something that Weft does not do; collected over the model."""
        ...

    def malformed(self, reason: str) -> Exception:
        """The exception to raise where the node breaks ONNX's own rules."""
        ...


@dataclass(frozen=True, slots=True)
class Registered:
    since: int
    function: Handler


HANDLERS: dict[tuple[str, str], list[Registered]] = {}


def handler(op_type: str, *, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Register the handler of ``op_type`` from opset ``since`` on, until a later one takes over."""

    def register(function: Handler) -> Handler:
        rows = HANDLERS.setdefault((domain, op_type), [])
        rows.append(Registered(since, function))
        rows.sort(key=lambda row: row.since)
        return function

    return register


def find_handler(domain: str, op_type: str, opset: int) -> Handler | None:
    """The newest handler that is not newer than ``opset``."""
    rows = HANDLERS.get((domain, op_type), [])
    return next((row.function for row in reversed(rows) if row.since <= opset), None)
