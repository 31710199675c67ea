"""A processor to compile for: what LLVM and the schedulers need to know of it, as one record.

Records of processors are in ``codegen/machines/``. A record has what LLVM's tables lack (memory
levels, cores, rates); features and vectors follow from LLVM's tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from weft.codegen.architectures import Architecture, architecture_of
from weft.codegen.llvm.cpus import cpu_features
from weft.codegen.llvm.target import LlvmTarget, llvm_target
from weft.codegen.machines.dot_products import dot_products
from weft.codegen.machines.matrix_units import matrix_units
from weft.ir.errors import CompileError, short
from weft.ir.gpu import Gpu
from weft.ir.machine import CORES, TYPICAL, Cache, Machine

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """``name`` as users write it; ``llvm`` for emitters; ``machine``, one core, for schedulers;
    ``cores``: threads of a program by default. ``gpu``: what runs the kernels, if the processor
    does not; then ``machine`` is one of its threads. Part of every cache key."""

    name: str
    llvm: LlvmTarget
    machine: Machine
    cores: int
    gpu: Gpu | None = None


RATES: Mapping[str, type] = {
    "fma_latency": int,
    "fma_per_cycle": int,
    "loads_per_cycle": int,
    "frequency": float,
    "memory_bandwidth": float,
    "barrier": float,
    "misses": int,
    "stores_per_cycle": int,
    "issue": int,
    "window": int,
    "mispredict": float,
    "memory_latency": float,
    "shared_bandwidth": float,
    "wake": float,
    "overlap": float,
    "launch": float,
    "operations": float,
    "page": int,
}
_MORE = r"([+-][\w.-]+(,[+-][\w.-]+)*)?"


def _is_rate(value: object, kind: type) -> bool:
    """Whether ``value`` is a positive number, and a whole one if ``kind`` is int."""
    allowed = (int,) if kind is int else (int, float)
    return type(value) in allowed and 0 < value < float("inf")  # type: ignore[operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A record: a processor as data, which ``target=`` takes (docs/targets.md).

    ``name``: as users write it. ``architecture``: its family, ``weft.X86_64`` or ``weft.AARCH64``.
    ``llvm``: LLVM's name of it, whose features it has, and ``more`` besides ("+dotprod,-bf16").
    ``stands_for``: which of LLVM's names it may lend its caches to, where these have no record, a
    pattern: what a maker's prefetchers do says nothing of another's.
    ``caches``: smallest first. ``cores``: threads of a program whose number nobody gives.
    ``rates``, where they are known, those of ``RATES``: ``frequency`` in Hz, ``fma_latency`` in
    cycles, ``fma_per_cycle`` and ``loads_per_cycle`` in vector instructions, ``memory_bandwidth``
    in bytes per second, ``barrier`` in seconds, ``misses`` in cache lines, and those that costs
    alone go by (``weft/ir/machine.py``). Raises ``CompileError`` (WEFT-E0023) for what is no such
    thing.
    """

    name: str
    architecture: Architecture
    llvm: str
    more: str = ""
    stands_for: str = "*"
    caches: tuple[Cache, ...] = TYPICAL.caches
    cores: int = CORES
    rates: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("name", "llvm", "stands_for"):
            value = getattr(self, name)
            self._check(isinstance(value, str) and value, f"{name} is {short(value)}, not a name")
        family = self.architecture
        self._check(
            isinstance(family, Architecture),
            f"architecture is {short(family)}, not weft.X86_64 or weft.AARCH64",
        )
        more = isinstance(self.more, str) and re.fullmatch(_MORE, self.more)
        self._check(more, f"more is {short(self.more)}, not features like '+dotprod'")
        self._check(
            _is_rate(self.cores, int), f"cores is {short(self.cores)}, not a number of cores"
        )
        self._check_caches()
        good = isinstance(self.rates, Mapping)
        self._check(good, f"rates is a {type(self.rates).__name__}, not a mapping")
        for name, rate in self.rates.items():
            kind = RATES.get(name)
            self._check(kind, f"there is no rate {name!r}; rates: {', '.join(RATES)}")
            what = "a whole number from 1 on" if kind is int else "a positive number"
            self._check(_is_rate(rate, kind or float), f"{name} is {short(rate)}, not {what}")

    def _check_caches(self) -> None:
        caches = self.caches
        good = isinstance(caches, tuple) and caches and all(isinstance(c, Cache) for c in caches)
        self._check(good, f"caches is {short(caches)}, not a tuple of Cache")
        for level, cache in enumerate(caches, 1):
            whole = (cache.size, cache.line, cache.cores, cache.ways)
            good = all(_is_rate(n, int) for n in whole) and _is_rate(cache.bandwidth, float)
            self._check(good, f"cache {level} is {cache}, not of positive numbers")
        sizes = [cache.size for cache in caches]
        good = all(one < other for one, other in pairwise(sizes))
        self._check(good, f"caches have {sizes} bytes, not the smallest first")

    def _check(self, good: object, what: str) -> None:
        if not good:
            raise CompileError(
                "WEFT-E0023",
                "this is no record of a processor",
                where=f"Cpu {short(self.name)}",
                why=what,
                hint="docs/targets.md shows one",
            )

    def may_stand_for(self, llvm: str) -> bool:
        """Whether the processor that LLVM calls ``llvm`` may have these caches."""
        return fnmatchcase(llvm, self.stands_for)

    @property
    def features(self) -> frozenset[str]:
        """What LLVM knows this processor to have."""
        return cpu_features(self.architecture, self.llvm, self.more)


def target_of(cpu: Cpu) -> Target:
    """``cpu`` as a target, its features from LLVM's tables."""
    llvm = llvm_target(cpu.architecture.triple, cpu.llvm, cpu.features)
    machine = replace(machine_of(llvm, cpu.caches, **cpu.rates), name=cpu.name)
    return Target(cpu.name, llvm, machine, cpu.cores)


def machine_of(
    target: LlvmTarget, caches: tuple[Cache, ...] = TYPICAL.caches, **rates: Any
) -> Machine:
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
