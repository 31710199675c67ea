"""Records of AArch64 processors. Vectors are NEON's: wider ones of unknown length are not used."""

from __future__ import annotations

from weft.codegen.architectures import AARCH64
from weft.codegen.target import KIB, MIB, Cpu
from weft.ir.machine import Cache

RECORDS = (
    Cpu(
        name="aarch64",  # Armv8.2 with dot products: servers since 2019, Apple's, Cortex-A76
        architecture=AARCH64,
        llvm="generic",
        more="+v8.2a,+dotprod,+fullfp16",
        caches=(Cache(64 * KIB, ways=4), Cache(512 * KIB), Cache(8 * MIB, cores=8)),
    ),
    Cpu(
        name="neoverse-n1",
        architecture=AARCH64,
        llvm="neoverse-n1",
        caches=(Cache(64 * KIB, ways=4), Cache(1 * MIB), Cache(32 * MIB, cores=64)),
        cores=64,
        rates={"frequency": 2.5e9},
    ),
    Cpu(
        name="neoverse-v2",
        architecture=AARCH64,
        llvm="neoverse-v2",
        caches=(Cache(64 * KIB, ways=4), Cache(2 * MIB), Cache(64 * MIB, cores=64)),
        cores=64,
        rates={"fma_per_cycle": 4, "loads_per_cycle": 3},
    ),
)
