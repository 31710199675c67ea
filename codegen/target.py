"""A processor to compile for: what LLVM must know of it and what schedulers must, as one record.

Records of processors stand in ``codegen/machines/``. A record says what LLVM's tables do not
(memory levels, cores, rates) and leaves to them what they do (features, and so vectors).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft.codegen.architectures import Architecture, architecture_of
from weft.codegen.llvm.cpus import cpu_features
from weft.codegen.llvm.target import LlvmTarget, llvm_target
from weft.codegen.machines.dot_products import dot_products
from weft.codegen.machines.matrix_units import matrix_units
from weft.ir.machine import Cache, Machine

KIB, MIB = 1024, 1024 * 1024
TYPICAL = (Cache(32 * KIB), Cache(MIB), Cache(16 * MIB))


@dataclass(frozen=True, slots=True)
class Target:
    """``name`` as users write it; ``llvm`` for emitters, ``machine``, one core, for schedulers;
    ``cores``: threads of a program whose number nobody gives. Part of every cache key."""

    name: str
    llvm: LlvmTarget
    machine: Machine
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A record: a processor as data.

    ``llvm``: LLVM's name of it, whose features it has, and ``more`` besides. ``rates`` are fields
    of ``Machine``: frequency, latencies and vector instructions per cycle, where they are known.
    """

    name: str
    architecture: Architecture
    llvm: str
    more: str = ""
    caches: tuple[Cache, ...] = TYPICAL
    cores: int = 8
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def features(self) -> frozenset[str]:
        """What LLVM knows this processor to have."""
        return cpu_features(self.architecture, self.llvm, self.more)


def target_of(cpu: Cpu) -> Target:
    """``cpu`` as a target, its features from LLVM's tables."""
    llvm = llvm_target(cpu.architecture.triple, cpu.llvm, cpu.features)
    machine = replace(machine_of(llvm, cpu.caches, **cpu.rates), name=cpu.name)
    return Target(cpu.name, llvm, machine, cpu.cores)


def machine_of(target: LlvmTarget, caches: tuple[Cache, ...] = TYPICAL, **rates: Any) -> Machine:
    """The scheduler's view of an LLVM target."""
    family = architecture_of(target.triple)
    fitting = (v for v in family.vectors if v.bytes <= target.vector_bytes)
    registers = next(fitting, family.vectors[-1]).count
    return Machine(
        target.cpu or target.triple,
        target.vector_bytes,
        registers,
        caches,
        features=tuple(sorted(target.enabled & family.instructions)),
        extensions=(*matrix_units(target), *dot_products(target, registers)),
        **rates,
    )
