"""Where a call tells what open sizes are, and which of them its tensors do not tell a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.frontend.torch.node_context import FxNode
from weft.frontend.torch.results import SizeAt, What
from weft.frontend.torch.torch_module import torch
from weft.ir.operator_graph import Graph, Value
from weft.ir.scalar_expr import Expr, Var, variable_list
from weft.ir.scalar_polynomial import polynomial
from weft.ir.tensor_axes import symbols_in
from weft.ir.tensor_expr import Size, as_size, operations


def told(node: FxNode) -> list[tuple[Any, str, What, int]]:
    """The numbers that the placeholder ``node`` tells of a call, with names for them, and what they
    are."""
    found = node.meta.get("val")
    if isinstance(found, torch().SymInt):
        return [(found, str(found), "value", 0)]
    if not isinstance(found, torch().Tensor):
        return []
    numbers: list[tuple[Any, str, What, int]] = [
        (size, f"{node.name}_{d}", "size", d) for d, size in enumerate(found.shape)
    ]
    if any(isinstance(n, torch().SymInt) for n in (*found.stride(), found.storage_offset())):
        strides = enumerate(found.stride())
        numbers += [(stride, f"{node.name}_stride_{d}", "stride", d) for d, stride in strides]
        numbers.append((found.storage_offset(), f"{node.name}_offset", "offset", 0))
    return numbers


def is_open(node: FxNode) -> bool:
    """Whether open sizes come into ``node``."""
    tensors = [n.meta.get("val") for n in node.all_input_nodes]
    symbols = (torch().SymInt, torch().SymFloat)
    return any(
        isinstance(t, symbols) or any(isinstance(n, symbols) for n in getattr(t, "shape", ()))
        for t in tensors
    )


def symbols_of(values: Iterable[Value]) -> dict[str, None]:
    """The size symbols of the shapes of ``values``."""
    sizes = (size for v in values for size in v.shape if isinstance(size, Expr))
    return dict.fromkeys(name for size in sizes for name in variable_list(size))


def size_places(places: Iterable[SizeAt]) -> tuple[SizeAt, ...]:
    """Those of ``places`` that it takes to know all open sizes: each symbol once where that is
    plain."""
    known = tuple(places)
    plain: dict[str, SizeAt] = {}
    for place in sorted(known, key=lambda place: not isinstance(place.declared, Var)):
        for name in _told_by(place.declared):
            plain.setdefault(name, place)
    others = (p for p in known if any(name not in plain for name in variable_list(p.declared)))
    return (*dict.fromkeys(plain.values()), *others)


def _told_by(size: Size) -> list[str]:
    """The symbol that follows from ``size``: it is that, or a multiple of it and a number more."""
    names = variable_list(as_size(size))
    if len(names) != 1:
        return []
    multiple = (Var(names[0]),)
    monomials = polynomial(as_size(size)).keys()
    return names if multiple in monomials and monomials <= {multiple, ()} else []


def untold(graph: Graph, inputs: Sequence[Value], places: Sequence[SizeAt]) -> list[SizeAt]:
    """Which of ``places`` have the open sizes that ``graph`` depends on and no shape of ``inputs``
    says."""
    said = {name for v in inputs for size in v.shape for name in _told_by(size)}
    used = symbols_of(v for node in graph.nodes for v in (*node.inputs, *node.outputs))
    for node in graph.nodes:
        for operation in operations(node.program):
            used |= dict.fromkeys(symbols_in(operation))
    found = {}
    for place in places:
        if any(name in used and name not in said for name in variable_list(place.declared)):
            found[place.declared] = place
    return list(found.values())
