"""What the record of this processor takes from those of others: how fast the last cache is."""

import pytest

from weft.codegen.llvm_target import LlvmTarget
from weft.codegen.machines.host import with_rate
from weft.codegen.machines.named import target_named
from weft.codegen.target import KIB, MIB
from weft.polyhedral.machine import Cache


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
        # What has a server's instructions, and not its caches:
        ("rocketlake", "rocketlake", (48 * KIB, 512 * KIB, 16 * MIB), "x86-64-v3"),
    ],
)
def test_the_last_cache_is_as_fast_as_that_of_the_record(
    name: str, features: str, sizes: tuple[int, ...], like: str
) -> None:
    caches = _caches(*sizes)
    found = with_rate(caches, _host(name, features))
    assert [c.size for c in found] == list(sizes)
    assert found[:-1] == caches[:-1]
    assert found[-1].bandwidth == target_named(like).machine.caches[-1].bandwidth


def test_caches_of_which_no_record_is_part_stay_as_they_are() -> None:
    small = _caches(16 * KIB, 256 * KIB, 2 * MIB)
    assert with_rate(small, _host("haswell", "haswell")) == small
    two = _caches(32 * KIB, 512 * KIB)
    assert with_rate(two, _host("sapphirerapids", "sapphirerapids")) == two
