"""A graph for some of its open sizes fixed.

    x: (n, 3, h), assumed n >= 1     with n = 1     →     x: (1, 3, h)

Nothing else changes: later passes do better where they see numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.ir.build import shape_of
from weft.ir.errors import CompileError
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Expr, Literal, Var, literal, substitute, variable_list
from weft.ir.scalar_printer import scalar_text
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import Size, as_size
from weft.ir.tensor_sizes import Resizing


def specialize(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """``graph`` with ``sizes``, by name, fixed. Raises ``CompileError``: WEFT-E0033 for one that it
    does not have, E0034 where they break an assumption."""
    names = symbols_of(graph)
    for name, size in sizes.items():
        if name not in names:
            raise CompileError(
                "WEFT-E0033",
                f"{graph.name} has no open size {name!r}",
                hint=f"open sizes: {', '.join(names) or 'none'}",
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise CompileError("WEFT-E0033", f"{name} cannot be {size!r}", hint="an integer from 0")
    fixed: dict[str, Expr] = {name: literal(size) for name, size in sizes.items()}
    stated = {a: simplify(substitute(a, fixed)) for a in graph.assumptions}
    for assumption, left in stated.items():
        if isinstance(left, Literal) and not left.value:
            given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise CompileError(
                "WEFT-E0034", f"{graph.name} is for {scalar_text(assumption)}", where=given
            )

    def shape(old: Sequence[Size]) -> tuple[Size, ...]:
        return shape_of([simplify(substitute(as_size(size), fixed)) for size in old])

    def value(old: Value) -> Value:
        return replace(old, shape=shape(old.shape))

    def node(old: Node) -> Node:
        program = Resizing(leaf, shape).program(old.program)
        inputs, outputs = tuple(map(value, old.inputs)), tuple(map(value, old.outputs))
        return replace(old, inputs=inputs, outputs=outputs, program=program)

    def leaf(old: Expr) -> Expr | None:
        return fixed.get(old.name) if type(old) is Var else None

    return replace(
        graph,
        inputs=tuple(map(value, graph.inputs)),
        outputs=tuple(map(value, graph.outputs)),
        nodes=tuple(map(node, graph.nodes)),
        assumptions=tuple(a for a in stated.values() if not isinstance(a, Literal)),
    )


def symbols_of(graph: Graph) -> tuple[str, ...]:
    """The open sizes of the inputs of ``graph``, by name."""
    sizes = (size for value in graph.inputs for size in value.shape)
    return tuple(dict.fromkeys(n for size in sizes for n in variable_list(as_size(size))))
