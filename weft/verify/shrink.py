"""Shrink: a graph on small sizes, so that slow interpreters can run it.

The small graph has the same operators with the same bodies; sizes, and the constants of index
arithmetic that come from sizes, are smaller. It need not compute what the large one does on some
crop of its data, only be a valid program of the same structure: whatever is wrong with a pass shows
on it just as well. Constants are cropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from weft.ir.errors import WeftError
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Expr, Literal, variable_list
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_axes import symbols_in
from weft.ir.tensor_expr import (
    Program,
    Size,
    as_size,
    operations,
)
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_sizes import Resizing
from weft.ir.tensor_verifier import verify
from weft.verify.small_sizes import (
    FIXED,
    FREE,
    Sizes,
    axes_inside,
    axis_ranges,
    facts_of,
    mapped,
    small_sizes,
)

TRIED = 1 << 24  # points of an operator that is tried out at its own sizes
SYMBOLS = (5, 7, 6, 4)  # values for size symbols, in turn
MORE = (*range(16), -1, -2, -3, -4)  # than these, where they break assumptions


def shrink(graph: Graph) -> Graph:
    """``graph`` on small sizes, on larger ones where its operators leave no choice."""
    facts = [facts_of(node.program) for node in graph.nodes]
    levels = [FREE] * len(graph.nodes)
    symbols = symbol_values(graph)
    while True:
        small = _resized(graph, small_sizes(facts, levels))
        wrong = [n for n, node in enumerate(small.nodes) if not _is_valid(node.program, symbols)]
        if not wrong or all(levels[n] == FIXED for n in wrong):
            return small
        for n in wrong:
            levels[n] = min(levels[n] + 1, FIXED)


def symbol_values(graph: Graph) -> dict[str, int]:
    """A small value for each size symbol of ``graph``, such that its assumptions hold if they do
    for some of those."""
    values = [*graph.inputs, *(v for node in graph.nodes for v in (*node.inputs, *node.outputs))]
    names = [n for v in values for size in v.shape for n in variable_list(as_size(size))]
    for node in graph.nodes:
        names += [n for operation in operations(node.program) for n in symbols_in(operation)]
    first = {name: SYMBOLS[k % len(SYMBOLS)] for k, name in enumerate(dict.fromkeys(names))}
    stated = [a for a in graph.assumptions if {*variable_list(a)} <= first.keys()]
    for more in MORE:
        found = {name: value + more for name, value in first.items()}
        if all(evaluate(condition, found) for condition in stated):
            return found
    return first


def shape_of(shape: Sequence[Size], symbols: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(as_size(size), symbols) for size in shape)


def points(program: Program, symbols: Mapping[str, int]) -> int:
    """About how many scalar expressions the interpretation of ``program`` evaluates."""
    total = 0
    for operation in operations(program):
        axes = axes_inside(operation)
        ranges = axis_ranges(axes, known={name: (n, n) for name, n in symbols.items()})
        extents = [1]
        for low, high in (ranges[axis.name] for axis in axes):
            extents.append(1 if low is None or high is None else max(0, high - low + 1))
        total += prod(extents)
    return total


def _is_valid(program: Program, symbols: Mapping[str, int]) -> bool:
    """Whether ``program`` keeps the rules, and its accesses their bounds on data that is 0."""
    try:
        verify(program)
        if points(program, symbols) <= TRIED:
            zeros = [np.zeros(shape_of(t.shape, symbols), t.dtype.numpy) for t in program.inputs]
            interpret(program, zeros, symbols)
    except WeftError:
        return False
    return True


# ---- rebuilding ---------------------------------------------------------------------------------


def _resized(graph: Graph, sizes: Sizes) -> Graph:
    def value(old: Value) -> Value:
        return replace(old, shape=_shape(old.shape, sizes))

    def node(old: Node) -> Node:
        inputs, outputs = tuple(map(value, old.inputs)), tuple(map(value, old.outputs))
        program = Resizing(leaf, partial(_shape, sizes=sizes)).program(old.program)
        return replace(old, inputs=inputs, outputs=outputs, program=program)

    def leaf(old: Expr) -> Expr | None:
        return mapped(old, sizes) if isinstance(old, Literal) else None

    constants = {name: _crop(data, sizes) for name, data in graph.constants.items()}
    return replace(
        graph,
        inputs=tuple(map(value, graph.inputs)),
        outputs=tuple(map(value, graph.outputs)),
        nodes=tuple(map(node, graph.nodes)),
        constants=constants,
    )


def _shape(shape: Sequence[Size], sizes: Sizes) -> tuple[Size, ...]:
    new = (mapped(as_size(size), sizes) for size in shape)
    return tuple(int(s.value) if isinstance(s, Literal) else s for s in new)


def _crop(data: np.ndarray, sizes: Sizes) -> np.ndarray:
    small = np.array(data[tuple(slice(0, sizes.get(n, n)) for n in data.shape)])
    small.flags.writeable = False
    return small
