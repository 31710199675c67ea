"""The operator graph as text: one line per node, as people call it.

graph two(x: float32[n, 4]) -> (y)
  constant w: float32[4, 4]
  h: float32[n, 4] = matmul(x, w)
  y: float32[n, 4] = relu(h)  # node 'r' (Relu)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.ir.dtypes import as_dtype
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_printer import scalar_text
from weft.ir.tensor_expr import as_size
from weft.ir.tensor_printer import program_text

_SHOWN = 8  # elements of an array attribute that are worth a line


def print_graph(graph: Graph, *, programs: bool = False) -> str:
    """``graph`` as deterministic text, with what each node computes where ``programs``."""
    inputs = ", ".join(value_text(v) for v in graph.inputs)
    outputs = ", ".join(name_text(v.name) for v in graph.outputs)
    lines = [f"graph {name_text(graph.name)}({inputs}) -> ({outputs})"]
    for name, data in graph.constants.items():
        sizes = ", ".join(map(str, data.shape))
        lines.append(f"  constant {name_text(name)}: {as_dtype(data.dtype)}[{sizes}]")
    for node in graph.nodes:
        lines.append(f"  {node_text(node)}")
        if programs:
            lines += [f"    | {line}" for line in program_text(node.program).splitlines()]
    for output, given in graph.in_place:
        pair = graph.outputs[output].name, graph.inputs[given].name
        lines.append(f"  {name_text(pair[0])} may share storage with {name_text(pair[1])}")
    lines += [f"  assumed: {scalar_text(condition)}" for condition in graph.assumptions]
    return "\n".join(lines) + "\n"


def node_text(node: Node) -> str:
    """``y: float32[n] = relu(x, alpha=0.1)  # origin``."""
    results = ", ".join(value_text(v) for v in node.outputs)
    arguments = [name_text(v.name) for v in node.inputs] + _attributes(node.attributes)
    origin = f"  # {_one_line(node.origin)}" if node.origin else ""
    return f"{results} = {node.op}({', '.join(arguments)}){origin}"


def value_text(value: Value) -> str:
    """``x: float32[n, 4]``."""
    sizes = ", ".join(scalar_text(as_size(size)) for size in value.shape)
    return f"{name_text(value.name)}: {value.dtype}[{sizes}]"


def name_text(name: str) -> str:
    """A name as the user wrote it; quoted where it would not read as one word."""
    plain = name.replace(".", "_").replace("/", "_").replace(":", "_").replace("-", "_")
    return name if plain.isidentifier() or plain.replace("_", "").isalnum() else repr(name)


def _attributes(attributes: Mapping[str, object]) -> list[str]:
    return [f"{name}={_value(value)}" for name, value in sorted(attributes.items())]


def _value(value: object) -> str:
    if isinstance(value, np.ndarray):
        shown = ", ".join(map(str, value.reshape(-1)[:_SHOWN].tolist()))
        return f"[{shown}{', …' if value.size > _SHOWN else ''}]"
    return _one_line(repr(value) if isinstance(value, str) else str(value))


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)
