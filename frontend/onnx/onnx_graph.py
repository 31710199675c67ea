"""ONNX as read: what the importer and the host runner share, with everything decoded once.

    Region ::= name, inputs: Port…, outputs: name…, nodes: OnnxNode… (topological), constants
    OnnxNode ::= name, op_type, domain, opset, inputs: name…, outputs: name…, attributes, where
    Port ::= name, type: TypeProto | None

A region is a model's main graph or the body of If, Loop or Scan. A body may read names of the
regions around it (``captures``). Model-local functions are already inlined. An attribute is Python
data: int, float, str, a list of those, an array, a ``TypeProto`` or a ``Region``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx


@dataclass(frozen=True, slots=True)
class Port:
    """An input of a region with the type that the model declares, None where it declares none."""

    name: str
    type: onnx.TypeProto | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """One node; ``where`` names it for people."""

    name: str
    op_type: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    where: str
    opsets: Mapping[str, int] = field(default_factory=dict)  # of the graph or function around it
    proto: onnx.NodeProto | None = None  # as it was read, where it has bodies and no formal names

    @property
    def bodies(self) -> tuple[Region, ...]:
        """The subgraphs among the attributes."""
        return tuple(a for a in self.attributes.values() if isinstance(a, Region))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names that must exist before this node: inputs, and what its bodies capture."""
        found = dict.fromkeys(name for name in self.inputs if name)
        for body in self.bodies:
            found.update(dict.fromkeys(body.captures))
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, np.ndarray]
    captures: tuple[str, ...] = ()
    output_types: tuple[onnx.TypeProto | None, ...] = ()


def captured(
    inputs: tuple[Port, ...],
    constants: Mapping[str, np.ndarray],
    nodes: tuple[OnnxNode, ...],
    outputs: tuple[str, ...],
) -> tuple[str, ...]:
    """Names that a region reads and does not define, in order of first use."""
    defined = {port.name for port in inputs} | set(constants)
    found: dict[str, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(name for name in node.reads if name not in defined))
        defined.update(node.outputs)
    found.update(dict.fromkeys(name for name in outputs if name and name not in defined))
    return tuple(found)


def all_nodes(region: Region) -> Iterator[OnnxNode]:
    """Every node of ``region`` and of the bodies inside it, in order."""
    stack = [iter(region.nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        stack.extend(iter(body.nodes) for body in reversed(node.bodies))
