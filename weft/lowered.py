"""What lies between an operator graph and machine code: one record, for people and for emitters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.assemble import Assembly
from weft.cluster_code import ClusterCode
from weft.graph.operator_graph import Graph
from weft.graph.partition import Partition
from weft.passes import Passes
from weft.polyhedral.machine import Machine


@dataclass(frozen=True, slots=True)
class Lowered:
    """Everything between the graph and machine code, for people and for code generation."""

    graph: Graph
    partition: Partition
    codes: tuple[ClusterCode | None, ...]  # by cluster; None: a view, which needs no code
    assembly: Assembly
    constants: Mapping[str, np.ndarray]
    machine: Machine
    passes: Passes
