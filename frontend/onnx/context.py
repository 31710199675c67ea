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
from typing import Any, Protocol

import numpy as np

from weft.frontend.operators.registry import Definition, register_operator
from weft.ir.dtypes import DType
from weft.ir.operator_graph import Value
from weft.ir.registry import Place, Registry, calling
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Size

Results = Any  # Value | Sequence[Value | None]: what ``call`` gives, or several of it
Handler = Callable[["NodeContext"], Results]


class NodeContext(Protocol):
    """One ONNX node during import. All shapes are known: integers or expressions over size
    symbols."""

    @property
    def name(self) -> str:
        """The node's, as errors have it."""
        ...

    @property
    def op_type(self) -> str:
        """The operator's, "Conv" say."""
        ...

    @property
    def opset(self) -> int:
        """The version of the node's domain that the model imports."""
        ...

    @property
    def n_outputs(self) -> int:
        """Declared outputs, trailing absent ones left out."""
        ...

    def input(self, index: int) -> Value:
        """A required input, by number. Raises ``ModelError`` where it is absent."""
        ...

    def optional(self, index: int) -> Value | None:
        """An input, by number, that may be absent or empty-named: then None."""
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
        """Attribute ``name`` as Python data: int, float, str, list, ndarray; ``default`` where it
        is absent."""
        ...

    def required(self, name: str) -> Any:
        """An attribute that the operator must have. Raises ``ModelError`` where it is absent."""
        ...

    def static(self, value: Value) -> np.ndarray:
        """The data of ``value``, which import needs (a shape, axes, a scale mode).

        Where it is not known yet, import stops here, the value is computed by compiled code for
        the inputs of the call at hand, and import starts again with it known.
        """
        ...

    def sizes(self, value: Value) -> np.ndarray:
        """The elements of ``value``, integers, as sizes: an array of integers, and of expressions
        over size symbols where open sizes lead to them. Stops import as ``static`` does where they
        depend on data."""
        ...

    def count(self, found: Value, count: Value, axis: int) -> int | None:
        """How many elements of the result ``found`` along ``axis`` count, which the scalar
        ``count`` says; None where the handler shall return ``found`` whole, and whoever runs it
        takes the rest away. Stops import as ``static`` does where neither is possible."""
        ...

    def normal(self, size: Size) -> Size:
        """``size`` such that equal ones look equal."""
        ...

    def at_least(self, size: Size, least: int) -> bool:
        """Whether ``size`` is known to be ``least`` or more."""
        ...

    def assume(self, condition: Expr) -> None:
        """Let the import be for calls whose sizes meet ``condition`` alone."""
        ...

    def assume_at_most(self, size: Size, most: int) -> None:
        """Let the import be for calls in which ``size`` is ``most`` or less."""
        ...

    def known(self, value: Value) -> np.ndarray | None:
        """The data of ``value`` if it happens to be constant, else None. Never stops import."""
        ...

    def constant(self, data: np.ndarray, dtype: DType | None = None) -> Value:
        """A new constant: ``data``, converted to ``dtype`` where one is given."""
        ...

    def call(self, op: str | Definition, *inputs: Value | None, **attributes: Any) -> Any:
        """Call operator ``op``, a name or a definition, on ``inputs`` (None: absent) with these
        ``attributes``: its one result as a Value, several as a tuple of Values. Raises
        ``ExpressionError`` where they do not fit."""
        ...

    def unsupported(self, reason: str) -> Exception:
        """The exception to raise for something that Weft does not do; collected over the model."""
        ...

    def malformed(self, reason: str) -> Exception:
        """The exception to raise where the node breaks ONNX's own rules."""
        ...


def _words(key: tuple[str, str, int]) -> str:
    domain, op_type, since = key
    return f"{domain or 'ai.onnx'}.{op_type} since {since}"


def _adopt(name: str, found: object, place: Place) -> None:
    """What an entry point names that is no handler yet is an operator."""
    register_operator(name, found, place)


HANDLERS: Registry[tuple[str, str, int], Handler] = Registry(
    "handler", "weft.operators", _adopt, _words
)
_SINCE: dict[tuple[str, str], set[int]] = {}


def handler(op_type: str, *, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Register the handler of ``op_type`` from opset ``since`` on, until a later one takes over."""
    place = calling(1)

    def register(function: Handler) -> Handler:
        register_handler((domain, op_type, since), function, place)
        return function

    return register


def register_handler(
    key: tuple[str, str, int], function: Handler, place: Place, replace: bool = False
) -> None:
    """``key``: domain, "" for ONNX's own; operator; the first opset. Raises ``CompileError``
    (WEFT-E0005) where there is one."""
    HANDLERS.add(key, function, place, replace)
    _SINCE.setdefault(key[:2], set()).add(key[2])


def find_handler(domain: str, op_type: str, opset: int) -> Handler | None:
    """The newest handler that is not newer than ``opset``."""
    fitting = [since for since in _SINCE.get((domain, op_type), ()) if since <= opset]
    return HANDLERS.known((domain, op_type, max(fitting))) if fitting else None
