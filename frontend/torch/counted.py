"""Operators whose results have sizes that depend on data, each as a program of its own.

    @counting("aten.nonzero.default")
    def nonzero(node, x):
        …
        return found, count

Such a definition gives a result that is as long as it can get, and an int64 scalar, how many of its
rows count; or None for arguments that Weft leaves to PyTorch. The graph is cut around the operator
(``aot.py``), or behind it (``parts.py``): what follows has the count as an open size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.frontend.graph_builder import GraphBuilder
from weft.frontend.operators.arguments import total
from weft.frontend.operators.broadcast import at, broadcast_shape
from weft.frontend.torch.context import NodeContext
from weft.frontend.torch.node_context import FxNode, ImportContext, checked_dtype
from weft.frontend.torch.open_sizes import OpenSizes
from weft.frontend.torch.size_places import told
from weft.frontend.torch.tensors import array_of, tensor_of
from weft.frontend.torch.torch_module import torch
from weft.ir import dtypes
from weft.ir.build import compute
from weft.ir.operator_graph import Graph, Value
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Tensor

Counting = Callable[..., tuple[Value, Value] | None]
_COUNTING: dict[str, Counting] = {}


def counting(target: str) -> Callable[[Counting], Counting]:
    """Register how the overload ``target`` is computed."""

    def register(function: Counting) -> Counting:
        _COUNTING[target] = function
        return function

    return register


def depends_on_data(node: FxNode) -> bool:
    """Whether a result of ``node`` has a size, or is a number, that data decide."""
    return bool(node.meta.get("unbacked_bindings"))


@dataclass(frozen=True, slots=True)
class CountedProgram:
    """``graph``: one input for each tensor among the arguments of an operator, in their order;
    outputs are rows and their number."""

    graph: Graph

    def calling(self, program: Callable[..., Sequence[np.ndarray]]) -> Callable[..., Any]:
        """From those tensors to the rows that count, as ``program``, compiled, finds them."""

        def call(*tensors: Any) -> Any:
            found, count = program(*map(array_of, tensors))
            return tensor_of(found[: int(count)].copy())

        return call


def find_counting(target: str) -> Counting | None:
    """How the overload ``target`` is computed, None where Weft knows no bound of its results."""
    return _COUNTING.get(target)


def import_counted(node: FxNode) -> CountedProgram | None:
    """The program of ``node``, or None where there is none. Raises ``CompileError``."""
    definition = find_counting(str(node.target))
    if definition is None:
        return None
    sizes, builder = OpenSizes(), GraphBuilder()
    tensors = node.all_input_nodes
    if not all(isinstance(n.meta.get("val"), torch().Tensor) for n in tensors):
        return None
    sizes.declare(
        (size, name) for n in tensors for size, name, what, _ in told(n) if what == "size"
    )
    builder.reserve(n.name for n in tensors)
    values: dict[FxNode, Value] = {}
    for given in tensors:
        shape = [sizes.size(size) for size in given.meta["val"].shape]
        values[given] = builder.input(given.name, shape, checked_dtype(given.meta["val"]))
    arguments, named = torch().fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
    outputs = definition(ImportContext(node, builder, sizes), *arguments, **named)
    if outputs is None:
        return None
    return CountedProgram(builder.graph("counted", values.values(), outputs))


# ---- the operators ------------------------------------------------------------------------------


@counting("aten.nonzero.default")
def nonzero(node: NodeContext, x: Value) -> tuple[Value, Value]:
    """Coordinates of what is not 0, a row each."""
    coordinates, count = node.call("nonzero", x)
    return node.call("transpose", coordinates, perm=(1, 0)), count


@counting("aten.masked_select.default")
def masked_select(node: NodeContext, x: Value, mask: Value) -> tuple[Value, Value]:
    """The elements of ``x`` where ``mask`` holds, each broadcast to the other."""

    def definition(values: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        shape = broadcast_shape([values.shape, where.shape], "masked_select")
        return (
            compute(shape, lambda *i: at(values, i, shape), name="values"),
            compute(shape, lambda *i: at(where, i, shape), name="mask"),
        )

    values, where = node.call(definition, x, mask)
    return _rows(node, values, where)


@counting("aten.index.Tensor")
def masked(
    node: NodeContext, x: Value, indices: Sequence[Value | None]
) -> tuple[Value, Value] | None:
    """What of ``x`` is where a mask over its first dimensions holds; not with other indices."""
    mask = indices[0]
    alone = len(indices) == 1 and mask is not None and mask.dtype == dtypes.bool_
    return _rows(node, x, mask) if alone and mask is not None else None


def _rows(node: NodeContext, x: Value, mask: Value) -> tuple[Value, Value]:
    """The parts of ``x`` at the places of ``mask``, over its first dimensions, that hold."""
    flat = node.call("reshape", mask, shape=(total(node.sizes(mask)),))
    places, count = node.call("nonzero", flat)
    rest = node.sizes(x)[len(mask.shape) :]
    rows = node.call("reshape", x, shape=(total(node.sizes(mask)), *rest))

    def definition(source: Tensor, where: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            return source[(where[0, i[0]], *i[1:])]

        return compute(source.shape, body, name="chosen")

    return node.call(definition, rows, places), count
