"""What an FX graph returns: values that are computed, its inputs, and views of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from weft.frontend.torch.layouts import Layout, layout_of, stored_order
from weft.frontend.torch.node_context import FxNode
from weft.frontend.torch.open_sizes import OpenSizes
from weft.ir.build import shape_of
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Expr
from weft.ir.size_arithmetic import bind

# Operators whose result is, in memory, a part of their first argument.
VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice",
        "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze",
        "view",
    )
)  # fmt: skip


What = Literal["value", "size", "stride", "offset"]
Arguments = Sequence[Any] | Mapping[int, Any]  # tensors, or arrays where strides are not open


@dataclass(frozen=True, slots=True)
class Input:
    """Placeholder ``number`` of the FX graph, stored with its dimensions in ``order``."""

    number: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SizeAt:
    """Where a call says what a number, ``declared``, is: ``what`` of placeholder ``number``, of its
    dimension ``dim``."""

    declared: Expr
    number: int
    what: What
    dim: int = 0

    def of(self, arguments: Arguments) -> int:
        """It in a call with those ``arguments`` for placeholders."""
        found = arguments[self.number]
        match self.what:
            case "value":
                return int(found)
            case "size":
                return int(found.shape[self.dim])
            case "stride":
                return int(found.stride(self.dim))
            case "offset":
                return int(found.storage_offset())


@dataclass(frozen=True, slots=True)
class SizeInput:
    """An input without elements whose first dimension tells the open size at ``place``."""

    place: SizeAt


@dataclass(frozen=True, slots=True)
class Given:
    """A result that is no tensor: a number, an open size, or None."""

    value: object


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that is placeholder ``number``, or a view of it: ``layout``, from the first element
    of the one whose layout is ``of``. ``made``: of what is computed as output ``number``."""

    number: int
    layout: Layout | None = None
    of: Layout | None = None
    made: bool = False


@dataclass(frozen=True, slots=True)
class Computed:
    """A result that is output ``number`` of the graph."""

    number: int


@dataclass(frozen=True, slots=True)
class Counted:
    """A result that is as much of output ``number`` as output ``count``, a scalar, says; None: it
    is the number ``count`` itself."""

    number: int | None
    count: int


Result = Given | Alias | Computed | Counted


@dataclass(frozen=True, slots=True)
class Imported:
    """``graph``, where its inputs come from, how PyTorch wants its outputs to lie in memory, and
    what the FX graph's results are, in order. ``sizes``: where open sizes are."""

    graph: Graph
    inputs: tuple[Input | SizeInput, ...]
    layouts: tuple[Layout, ...]
    results: tuple[Result, ...]
    sizes: tuple[SizeAt, ...] = ()

    def sizes_of(self, arguments: Arguments) -> dict[str, int]:
        """The values of open sizes in a call with those ``arguments`` for placeholders."""
        if not self.sizes:
            return {}
        values = [(place.of(arguments),) for place in self.sizes]
        return bind([(place.declared,) for place in self.sizes], values)


def view_of(number: int, node: FxNode, root: FxNode, sizes: OpenSizes, made: bool = False) -> Alias:
    """``node`` as a view of ``root``, wherever the memory of that begins."""
    layout, of = (layout_of(one.meta["val"], sizes) for one in (node, root))
    (offset,) = shape_of((layout.offset - of.offset,))
    return Alias(number, replace(layout, offset=offset), of, made)


def root_of(node: FxNode) -> FxNode:
    """What ``node`` is a view of in the end: itself if of nothing, a part of several results."""
    while is_part(node) and not is_getitem(node):
        node = node.args[0]
    while is_getitem(node) and is_part(node.args[0]):  # of a view that has several results
        node = root_of(node.args[0])
    return node


def is_dense(node: FxNode, sizes: OpenSizes) -> bool:
    """Whether ``node`` is a tensor that lies in memory without gaps, from the first element on."""
    layout = layout_of(node.meta["val"], sizes)
    return layout.offset == 0 and stored_order(layout) is not None


def is_part(node: FxNode) -> bool:
    """Whether ``node`` is, in memory, a part of its first argument, or one of several results."""
    if node.op != "call_function":
        return False
    name, _, overload = str(node.target).rpartition(".")
    return is_getitem(node) or (name in VIEWS and overload != "dtype")


def is_getitem(node: FxNode) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
