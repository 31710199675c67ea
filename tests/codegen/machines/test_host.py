"""What the record of this processor takes from those of others: rate and size of the last cache."""

import pytest

from weft.codegen.llvm.target import LlvmTarget
from weft.codegen.machines.host import as_recorded
from weft.codegen.machines.named import target_named
from weft.codegen.target import KIB, MIB
from weft.ir.machine import Cache


def _host(name: str, like: str) -> LlvmTarget:
    """A processor that LLVM calls ``name`` and that has the features of ``like``."""
    own = target_named(like).llvm
    return LlvmTarget(own.triple, name, own.features, own.vector_bytes)


def _caches(*sizes: int) -> tuple[Cache, ...]:
    return tuple(Cache(size) for size in sizes)


@pytest.mark.parametrize(
    ("name", "features", "sizes", "like"),
    [
        ("icelake-server", "icelake-server", (48 * KIB, 1280 * KIB, 54 * MIB), "icelake-server"),
        # The names of others, as hypervisors make LLVM find them, and one that no record has:
        ("rocketlake", "sapphirerapids", (48 * KIB, 2 * MIB, 480 * MIB), "sapphirerapids"),
        ("graniterapids", "graniterapids", (48 * KIB, 2 * MIB, 480 * MIB), "sapphirerapids"),
        ("cascadelake", "cascadelake", (32 * KIB, MIB, 36 * MIB), "skylake-avx512"),
        ("znver4", "znver4", (32 * KIB, MIB, 32 * MIB), "znver4"),
        # What has a server's instructions, and not its caches:
        ("rocketlake", "rocketlake", (48 * KIB, 512 * KIB, 16 * MIB), "x86-64-v3"),
    ],
)
def test_the_last_cache_is_as_fast_as_that_of_the_record(
    name: str, features: str, sizes: tuple[int, ...], like: str
) -> None:
    caches = _caches(*sizes)
    found = as_recorded(caches, _host(name, features))
    assert found[:-1] == caches[:-1]
    assert found[-1].size == min(sizes[-1], 60 * MIB)
    recorded = target_named(like).machine.caches[-1]
    assert found[-1].bandwidth == recorded.bandwidth
    assert (
        found[-1].sequential_prefetcher
        == recorded.sequential_prefetcher
        == like.startswith("znver")
    )
    assert found[-1].masked_loads == recorded.masked_loads


def test_a_cache_of_a_whole_package_counts_as_large_as_that_of_the_record() -> None:
    def last(mebibytes: int) -> int:
        caches = _caches(48 * KIB, 2 * MIB, mebibytes * MIB)
        return as_recorded(caches, _host("sapphirerapids", "sapphirerapids"))[-1].size // MIB

    assert [last(n) for n in (60, 105, 240, 241, 480)] == [60, 105, 240, 60, 60]


def test_caches_of_which_no_record_is_part_stay_as_they_are() -> None:
    small = _caches(16 * KIB, 256 * KIB, 2 * MIB)
    assert as_recorded(small, _host("haswell", "haswell")) == small
    two = _caches(32 * KIB, 512 * KIB)
    assert as_recorded(two, _host("sapphirerapids", "sapphirerapids")) == two
