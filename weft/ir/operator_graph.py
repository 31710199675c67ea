"""IR 2, the operator graph: immutable values, calls of operators, constants.

    Graph  ::= name, inputs: Value…, outputs: Value…, nodes: Node… (topological), constants,
               assumptions: Expr…
    Value  ::= name, shape: Size…, dtype
    Node   ::= name, op, inputs: Value…, outputs: Value…, attributes, program, origin

* A node *is* the tensor program that it calls: ``program.inputs[i]`` stands for ``inputs[i]`` and
  ``program.outputs[i]`` defines ``outputs[i]``. ``op`` and ``attributes`` say how people call it;
  no pass may decide by them. Shapes and dtypes of outputs are those of the program's outputs.
* Every value is defined once: as an input, a constant or one node's output. Names are unique,
  any text, and appear in errors as the user wrote them.
* ``constants`` maps a value's name to its data, read-only arrays in the value's dtype and shape.
* State (a KV cache) is an input/output pair that may share storage: ``in_place``.
* Size symbols are shared by the whole graph. A node whose program's inputs use other symbols or
  sizes than its values is ill-formed.
* ``assumptions`` are conditions (bool) on size symbols: proofs may use them, and a call that breaks
  one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Program, Size


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a graph: its ``name``, unique there; its ``shape``, integers and size symbols;
    its ``dtype``."""

    name: str
    shape: tuple[Size, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One call of an operator.

    ``program`` is what it computes, for each of ``inputs`` and ``outputs`` in order. ``name``,
    ``op`` and ``attributes`` say how people call it; nothing is decided by them. ``origin``: where
    in the user's source it is, "model.onnx node 'conv1' (Conv)".
    """

    name: str
    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, object]
    program: Program
    origin: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A model as a graph of operators, ``name``: what passes take and give (``weft.graph_pass``).

    ``inputs`` and ``outputs`` in the order of a call; ``nodes``, each after those that it reads;
    ``constants``: read-only arrays by the name of their value, in its dtype and shape.
    ``in_place``: (output, input) pairs, by number, that may share storage. ``assumptions``:
    conditions on size symbols that every call keeps.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    in_place: tuple[tuple[int, int], ...] = ()
    assumptions: tuple[Expr, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of all values."""
        made = (value.name for node in self.nodes for value in node.outputs)
        return {*self.constants, *(value.name for value in self.inputs), *made}

    @property
    def producers(self) -> dict[str, Node]:
        """Value name -> the node that defines it."""
        return {value.name: node for node in self.nodes for value in node.outputs}

    @property
    def consumers(self) -> dict[str, list[Node]]:
        """Value name -> the nodes that read it, in order, each once."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(value.name for value in node.inputs):
                found.setdefault(name, []).append(node)
        return found
