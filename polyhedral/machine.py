"""Machines as data: what a scheduler needs to know of the processor it schedules for.

Records of real machines live in ``codegen/machines/`` and ``accel/machines/``.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.dtypes import DType


@dataclass(frozen=True, slots=True)
class Cache:
    """One level: ``size`` and ``line`` in bytes, as one core sees it."""

    size: int
    line: int = 64


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU core with its caches, smallest first.

    ``vector_bytes`` and ``vector_registers`` describe the register file; ``fma_latency`` is in
    cycles, ``fma_per_cycle`` and ``loads_per_cycle`` count vector instructions.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    caches: tuple[Cache, ...]
    fma_latency: int = 4
    fma_per_cycle: int = 2
    loads_per_cycle: int = 2

    def lanes(self, dtype: DType) -> int:
        """Elements of ``dtype`` in one vector register."""
        return max(1, self.vector_bytes // dtype.itemsize)
