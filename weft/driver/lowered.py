"""A program between its source and machine code, alike for operator graphs and loop kernels.

Source    what is compiled, for those who call it or ask about it
Front     the source as far as affine statements: units to schedule, and how their code is bound
Lowered   kernels in loop IR under one host program
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.driver.assemble import Assembly
from weft.driver.cluster_code import ClusterCode
from weft.driver.passes import Passes
from weft.graph.partition import Partition
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph
from weft.ir.plan import Plan
from weft.ir.program import Program
from weft.ir.schedule_verifier import source_of
from weft.ir.scop import Scop
from weft.polyhedral.transform.scheduled import Scheduled

Codes = Sequence[ClusterCode | None]
"""By cluster; None: a view, which needs no code."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What is scheduled by itself: a cluster of a graph, or a whole loop kernel.

    Units of one ``name`` compute the same and share their code. ``scop`` lowers it.
    """

    name: str
    scop: Callable[[], Scop]


@dataclass(frozen=True, slots=True)
class Source:
    """What is compiled, for those who call it or ask about it.

    ``inputs``, ``outputs``: the names that callers know. ``copied``: (output, input) to copy it to
    at the end of a call. ``numbers``: whether callers pass numbers, which unlike sizes of arrays
    may be so large that indices overflow. ``graph`` and ``partition``: of an operator graph,
    simplified; None for a loop kernel.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    copied: tuple[tuple[int, int], ...] = ()
    numbers: bool = False
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    graph: Graph | None = None
    partition: Partition | None = None

    def without_data(self) -> Source:
        """The same without the data of constants."""
        graph = None if self.graph is None else replace(self.graph, constants={})
        return replace(self, constants={}, graph=graph)


@dataclass(frozen=True, slots=True)
class Front:
    """A source program as far as its affine statements.

    ``units``: those of its clusters in order, None for a view. ``schedules``: what the user gives,
    by name of a unit. ``bind``: the host program of the units' code.
    """

    source: Source
    units: Iterable[Unit | None]
    schedules: Mapping[str, Scheduled]
    bind: Callable[[Codes], Assembly]


@dataclass(frozen=True, slots=True)
class Lowered:
    """Everything between a source program and machine code, for people and for emitters."""

    source: Source
    codes: tuple[ClusterCode | None, ...]
    assembly: Assembly
    plan: Plan
    machine: Machine
    passes: Passes

    @property
    def program(self) -> Program:
        """What calls run."""
        return self.assembly.main

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """What each kernel computes, in the user's terms."""
        return {
            k.kernel.name: tuple(source_of(code.scheduled.scop.statement(s)) for s in k.statements)
            for code in self.distinct
            for k in code.kernels
        }

    @property
    def distinct(self) -> tuple[ClusterCode, ...]:
        """The code of its clusters, that of equal ones once."""
        return tuple({id(code): code for code in self.codes if code is not None}.values())
