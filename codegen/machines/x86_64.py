"""Records of x86-64 processors. A name like "x86-64-v3" stands for all that have its features; its
caches are those of the smaller machines among them."""

from __future__ import annotations

from weft.codegen.architectures import X86_64
from weft.codegen.target import KIB, MIB, Cpu
from weft.polyhedral.machine import Cache

RECORDS = (
    Cpu(name="x86-64", architecture=X86_64, llvm="x86-64"),
    Cpu(
        name="x86-64-v3",  # AVX2 and FMA: Haswell, Zen and later
        architecture=X86_64,
        llvm="x86-64-v3",
        caches=(Cache(32 * KIB), Cache(512 * KIB), Cache(16 * MIB, cores=8)),
        rates={"fma_latency": 5},
    ),
    Cpu(
        name="x86-64-v4",  # AVX-512: Skylake servers, Zen 4 and later
        architecture=X86_64,
        llvm="x86-64-v4",
        caches=(Cache(32 * KIB), Cache(1 * MIB), Cache(16 * MIB, cores=8)),
    ),
    Cpu(
        name="sapphirerapids",  # VNNI, BF16, FP16
        architecture=X86_64,
        llvm="sapphirerapids",
        caches=(Cache(48 * KIB), Cache(2 * MIB, bandwidth=48.0), Cache(60 * MIB, cores=32)),
        cores=32,
    ),
    Cpu(
        name="znver4",  # VNNI, BF16; its 512-bit multiply-add takes both halves of the unit
        architecture=X86_64,
        llvm="znver4",
        caches=(Cache(32 * KIB), Cache(1 * MIB, bandwidth=32.0), Cache(32 * MIB, cores=8)),
        rates={"fma_per_cycle": 1, "loads_per_cycle": 1, "frequency": 3.7e9},
    ),
    Cpu(
        name="znver5",  # VNNI, BF16
        architecture=X86_64,
        llvm="znver5",
        caches=(Cache(48 * KIB), Cache(1 * MIB, bandwidth=64.0), Cache(32 * MIB, cores=8)),
        rates={"frequency": 4.0e9},
    ),
)
