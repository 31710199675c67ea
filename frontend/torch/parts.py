"""A graph cut behind the operators whose results have sizes that depend on data.

    chosen = x[x > 0]          part 1: gives ``chosen`` as long as it can get, and its length
    y = chosen * 2 + x.sum()   part 2: reads it, with an open size, and what else it needs

A part is as early as can be: all that what it reads allows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.frontend.torch.counted import depends_on_data
from weft.frontend.torch.node_context import FxNode
from weft.frontend.torch.torch_module import torch

GraphModule = Any  # torch.fx.GraphModule


@dataclass(frozen=True, slots=True)
class Part:
    """``module`` computes the values ``gives`` from ``reads``, which are its placeholders: names of
    nodes of the whole graph."""

    module: GraphModule
    reads: tuple[str, ...]
    gives: tuple[str, ...]


def in_parts(module: GraphModule) -> list[Part]:
    """``module`` as parts, each after those whose values it reads; the last may only check."""
    nodes = list(module.graph.nodes)
    level: dict[FxNode, int] = {}
    for node in nodes:
        earlier = (level[n] + _is_cut_behind(n) for n in node.all_input_nodes)
        level[node] = max(earlier, default=0)
    *_, output = nodes
    wanted = set(output.all_input_nodes)
    found = []
    for number in reversed(range(max(level.values()) + 1)):
        gives = [n for n in nodes if level[n] == number and n in wanted]
        checks = [n for n in nodes if level[n] == number and n.op == "call_function" and _checks(n)]
        body = _needed((*gives, *checks), number, level)
        reads = [n for n in nodes if n in body and not body[n]]
        wanted.update(reads)
        if gives or checks:
            inner = [n for n in nodes if body.get(n)]
            found.append(_part(module, reads, inner, gives))
    return found[::-1]


def _is_cut_behind(node: FxNode) -> bool:
    """A float, which is no size, is a tensor of one element to those that read it."""
    return depends_on_data(node) and not isinstance(node.meta.get("val"), torch().SymFloat)


def _checks(node: FxNode) -> bool:
    return not node.users and bool(node.is_impure())


def _needed(roots: Iterable[FxNode], number: int, level: dict[FxNode, int]) -> dict[FxNode, bool]:
    """What the part ``number``, of ``roots``, consists of, True, and what it reads, False.
    Arithmetic on sizes is done wherever it is needed."""
    found: dict[FxNode, bool] = {}
    left = list(roots)
    while left:
        node = left.pop()
        if node in found:
            continue
        inside = node.op != "placeholder" and (level[node] == number or _is_size(node))
        found[node] = inside
        left += node.all_input_nodes if inside else []
    return found


def _is_size(node: FxNode) -> bool:
    """Whether ``node`` is a size, or a condition on sizes, that other sizes say."""
    kinds = (torch().SymInt, torch().SymBool)
    return isinstance(node.meta.get("val"), kinds) and not depends_on_data(node)


def _part(
    module: GraphModule, reads: Sequence[FxNode], body: Sequence[FxNode], gives: Sequence[FxNode]
) -> Part:
    graph = torch().fx.Graph()
    made: dict[FxNode, FxNode] = {}
    for node in reads:
        made[node] = graph.placeholder(node.name)
        made[node].meta = copy.copy(node.meta)
        made[node].meta.pop("unbacked_bindings", None)
    for node in body:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(tuple(made[node] for node in gives))
    part = torch().fx.GraphModule(module, graph)
    return Part(part, tuple(n.name for n in reads), tuple(n.name for n in gives))
