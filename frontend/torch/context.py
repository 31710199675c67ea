"""What a handler sees of the node that it imports, and the table of handlers.

    @handler("aten.addmm.default")
    def addmm(node, addend, a, b, *, beta=1, alpha=1):
        return node.call("gemm", a, b, addend, alpha=alpha, beta=beta)

A handler turns one call of a PyTorch operator into calls of Weft's. Its parameters are those of the
operator's schema, with the schema's defaults: tensors come as values of the graph, everything else
as PyTorch has it. It returns the results in order; their shapes and dtypes must be those that
PyTorch says (``node.results``). It is registered for one overload, "aten.add.Tensor", or for all of
an operator, "aten.add".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from weft.frontend.operators.registry import Definition
from weft.ir.dtypes import DType
from weft.ir.operator_graph import Value
from weft.ir.registry import Place, Registry, calling
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Size

Results = Any  # Value | Sequence[Value | None]
Handler = Callable[..., Results]
Operand = Value | Expr | int | float | bool


@dataclass(frozen=True, slots=True)
class Result:
    """What PyTorch says of one result. Open sizes are expressions."""

    shape: tuple[Size, ...]
    dtype: DType


class NodeContext(Protocol):
    """One call of a PyTorch operator during import.

    Sizes are integers, or where they are open expressions over size symbols; so are arguments that
    PyTorch computes from sizes.
    """

    @property
    def target(self) -> str:
        """The operator, "aten.add.Tensor" say."""
        ...

    @property
    def results(self) -> tuple[Result | None, ...]:
        """What PyTorch says of each result, None for one that is no tensor."""
        ...

    @property
    def shape(self) -> tuple[Size, ...]:
        """That of the first result."""
        ...

    @property
    def dtype(self) -> DType:
        """That of the first result."""
        ...

    def common(self, left: Operand, right: Operand) -> DType:
        """The dtype to which PyTorch promotes two operands of this node."""
        ...

    def sizes(self, value: Value) -> tuple[Size, ...]:
        """The shape of ``value``."""
        ...

    def known(self, size: Size, what: str) -> int:
        """``size``, which is ``what``, as an integer. Raises WEFT-E0273 where it is open."""
        ...

    def normal(self, size: Size) -> Size:
        """``size`` such that equal ones look equal."""
        ...

    def at_least(self, size: Size, least: int) -> bool:
        """Whether ``size`` is known to be at least that much."""
        ...

    def assume_at_least(self, size: Size, least: int) -> bool:
        """The same where PyTorch took it for granted when it traced the model: calls keep it."""
        ...

    def is_used(self, result: int) -> bool:
        """Whether anything reads this result of several."""
        ...

    def is_contiguous(self, argument: int) -> bool:
        """Whether the tensor that is this argument lies in row-major order from its memory's first
        element on."""
        ...

    def call(self, op: str | Definition, *inputs: Value | None, **attributes: Any) -> Any:
        """Call operator ``op``, a name or a definition, on ``inputs`` (None: absent) with these
        ``attributes``: its one result as a Value, several as a tuple of Values."""
        ...

    def cast(self, value: Operand, dtype: DType) -> Value:
        """``value`` in ``dtype``; a number becomes a constant."""
        ...

    def constant(self, data: np.ndarray) -> Value:
        """A new constant."""
        ...

    def unsupported(self, reason: str) -> Exception:
        """The exception to raise for something that Weft does not do."""
        ...


def _adopt(name: str, found: object, place: Place) -> None:
    HANDLERS.add(name, found, place)  # type: ignore[arg-type]


HANDLERS: Registry[str, Handler] = Registry("handler", "weft.torch_operators", _adopt)


def handler(*targets: str) -> Callable[[Handler], Handler]:
    """Register the handler of ``targets``: overloads, or operators with all of theirs."""
    place = calling(1)

    def register(function: Handler) -> Handler:
        for target in targets:
            HANDLERS.add(target, function, place)
        return function

    return register


def find_handler(target: str) -> Handler | None:
    """The handler of the overload ``target``, or of its operator."""
    return HANDLERS.known(target) or HANDLERS.known(target.rpartition(".")[0])


def dimension(axis: int, rank: int) -> int:
    """``axis`` counted from the front; a scalar counts as one dimension."""
    return axis % max(rank, 1)


def dimensions(axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """The same of several, all of them where none is named."""
    if isinstance(axes, int):
        axes = (axes,)
    if not rank:
        return ()
    return tuple(dimension(axis, rank) for axis in axes) if axes else tuple(range(rank))
