"""Which arrays are asked for ahead: large ones that are only read, on machines that need it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.policy.test_stream_large import MACHINE, both, chain
from weft.ir.machine import Cache
from weft.ir.schedule_tree import Prefetched, payloads
from weft.polyhedral.policy.large_arrays import prefetch_large
from weft.polyhedral.transform.scheduled import Scheduled


def asked(now: Scheduled, first: int = 256) -> list[Prefetched]:
    caches = (Cache(first), *MACHINE.caches[1:])
    tree = prefetch_large(now, replace(MACHINE, caches=caches)).tree
    return [claim for claim in payloads(tree) if isinstance(claim, Prefetched)]


@pytest.mark.parametrize(
    ("n", "m", "wanted"),
    [
        ("257", "257", ["X", "Y"]),
        ("256", "256", []),  # all of it stays in the last cache
        ("700", "100", ["X"]),  # the second nest does
        ("70", "600", ["Y"]),  # X is a small part
        ("N", "N", []),
    ],
)
def test_known_sizes(n: str, m: str, wanted: list[str]) -> None:
    """Of 8 bytes an element: more than 4096 in all, and more than an eighth of that."""
    assert [claim.tensor for claim in asked(both(chain(n, m)))] == wanted


@pytest.mark.parametrize(("first", "ahead"), [(256, 32), (8192, 1024), (1 << 17, 2048)])
def test_an_eighth_of_the_first_cache_or_half_a_page(first: int, ahead: int) -> None:
    assert {claim.ahead for claim in asked(both(chain("257", "257")), first)} == {ahead}


def test_where_nothing_is_gained() -> None:
    now = chain("257", "257")
    assert asked(now) == []  # without vectors
    foreseen = tuple(replace(c, sequential_prefetcher=True) for c in MACHINE.caches)
    for caches in ((), foreseen):
        assert prefetch_large(both(now), replace(MACHINE, caches=caches)) == both(now)


def test_a_prefetcher_that_stores_get_in_the_way_of() -> None:
    """Hints only in nests whose result is large."""
    foreseen = tuple(
        replace(c, sequential_prefetcher=True, hints_beside_stores=True) for c in MACHINE.caches
    )
    machine = replace(MACHINE, caches=foreseen)
    for n, m, wanted in (("257", "257", ["X", "Y"]), ("4000", "65", ["X"]), ("4000", "64", [])):
        tree = prefetch_large(both(chain(n, m)), machine).tree
        assert [c.tensor for c in payloads(tree) if isinstance(c, Prefetched)] == wanted
    assert len(asked(both(chain("4000", "64")))) == 1
