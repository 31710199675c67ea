"""What an FX graph returns: values that are computed, its inputs, and views of both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.frontend.torch.layouts import Layout, layout_of, stored_order
from weft.frontend.torch.node_context import FxNode
from weft.ir.operator_graph import Graph

# Operators whose result is, in memory, a part of their first argument.
VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice",
        "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze",
        "view",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Input:
    """Placeholder ``number`` of the FX graph, stored with its dimensions in ``order``."""

    number: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A result that is no tensor: a number or None."""

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
class Imported:
    """``graph``, where its inputs come from, how PyTorch wants its outputs to lie in memory, and
    what the FX graph's results are, in order."""

    graph: Graph
    inputs: tuple[Input, ...]
    layouts: tuple[Layout, ...]
    results: tuple[Given | Alias | Computed, ...]


def view_of(number: int, node: FxNode, root: FxNode, made: bool = False) -> Alias:
    """``node`` as a view of ``root``, wherever the memory of that begins."""
    layout, of = layout_of(node.meta["val"]), layout_of(root.meta["val"])
    return Alias(number, replace(layout, offset=layout.offset - of.offset), of, made)


def root_of(node: FxNode) -> FxNode:
    """What ``node`` is a view of in the end: itself if of nothing, a part of several results."""
    while is_part(node) and not is_getitem(node):
        node = node.args[0]
    while is_getitem(node) and is_part(node.args[0]):  # of a view that has several results
        node = root_of(node.args[0])
    return node


def is_dense(node: FxNode) -> bool:
    """Whether ``node`` is a tensor that lies in memory without gaps, from the first element on."""
    layout = layout_of(node.meta["val"])
    return layout.offset == 0 and stored_order(layout) is not None


def is_part(node: FxNode) -> bool:
    """Whether ``node`` is, in memory, a part of its first argument, or one of several results."""
    if node.op != "call_function":
        return False
    name, _, overload = str(node.target).rpartition(".")
    return is_getitem(node) or (name in VIEWS and overload != "dtype")


def is_getitem(node: FxNode) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
