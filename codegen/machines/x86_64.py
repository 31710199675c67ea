"""Records of x86-64 processors. A name like "x86-64-v3" covers all processors with its features;
its caches are those of the smaller machines among them."""

from __future__ import annotations

from weft.codegen.architectures import X86_64
from weft.codegen.target import KIB, MIB, Cpu
from weft.ir.machine import Cache


def _mesh(mebibytes: int, cores: int) -> Cache:
    """The last cache of Intel's servers, on a mesh (measured on icelake-server: 4.0 to 4.2 bytes
    per cycle)."""
    return Cache(mebibytes * MIB, bandwidth=5.0, cores=cores)


def _chiplet(
    mebibytes: int,
    cores: int,
    *,
    masked_loads: bool = True,
    side_by_side: int = 1,
    hints_beside_stores: bool = False,
) -> Cache:
    """The last cache of AMD's servers, one for each chiplet. Measured on znver4: memory is read
    sequentially at 26 GB/s, with software prefetches at 21, from 16 streams at 13. Beside busy
    neighbours: rows of 3 KiB, products with a vector, one after the other at 15 GB/s, 2, 4 and 8 of
    them side by side, far apart, at 19, 22 and 20. On znver5: rows
    of 56 bytes at 23 GB/s, under a mask at 9, and at 23 where each row's first line is asked for
    first. On znver3, beside neighbours: sums from one stream at 10.1 to 13.6 GB/s, from 16 at 9 to
    11.8; copies past the caches at 13.7, with prefetches at 16.3; rows of 32 KiB one after the
    other at 10.5, 2, 4 and 8 of them side by side at 12.7, 14.2 and 15.2, out of this cache at 20,
    25, 30 and 38."""
    return Cache(
        mebibytes * MIB,
        cores=cores,
        sequential_prefetcher=True,
        masked_loads=masked_loads,
        side_by_side=side_by_side,
        hints_beside_stores=hints_beside_stores,
    )


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
        name="skylake-avx512",
        architecture=X86_64,
        llvm="skylake-avx512",
        caches=(Cache(32 * KIB), Cache(1 * MIB, bandwidth=48.0), _mesh(27, 20)),
        cores=20,
    ),
    Cpu(
        name="icelake-server",  # VNNI
        architecture=X86_64,
        llvm="icelake-server",
        caches=(Cache(48 * KIB, ways=12), Cache(1280 * KIB, bandwidth=48.0), _mesh(48, 32)),
        cores=32,
    ),
    Cpu(
        name="sapphirerapids",  # VNNI, BF16, FP16, AMX
        architecture=X86_64,
        llvm="sapphirerapids",
        caches=(Cache(48 * KIB, ways=12), Cache(2 * MIB, bandwidth=48.0), _mesh(60, 32)),
        cores=32,
    ),
    Cpu(
        name="znver3",
        architecture=X86_64,
        llvm="znver3",
        stands_for="znver*",
        caches=(
            Cache(32 * KIB),
            Cache(512 * KIB, bandwidth=32.0),
            _chiplet(32, 8, side_by_side=8, hints_beside_stores=True),
        ),
        rates={"frequency": 3.3e9},
    ),
    Cpu(
        name="znver4",  # VNNI, BF16; its 512-bit multiply-add takes both halves of the unit
        architecture=X86_64,
        llvm="znver4",
        stands_for="znver*",
        caches=(Cache(32 * KIB), Cache(1 * MIB, bandwidth=32.0), _chiplet(32, 8, side_by_side=4)),
        rates={"fma_per_cycle": 1, "loads_per_cycle": 1, "frequency": 3.7e9},
    ),
    Cpu(
        name="znver5",  # VNNI, BF16
        architecture=X86_64,
        llvm="znver5",
        stands_for="znver*",
        caches=(
            Cache(48 * KIB, ways=12),
            Cache(1 * MIB, bandwidth=64.0),
            _chiplet(32, 8, masked_loads=False),
        ),
        rates={"frequency": 4.0e9},
    ),
)
