"""Which results stream: those of vector loops, by what is accessed beside the last cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import read
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import Streamed, payloads
from weft.polyhedral.policy.large_arrays import stream_large
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import vectorize

MACHINE = Machine("m", 16, 16, (Cache(256), Cache(4096)))


def chain(n: str = "N", m: str = "N") -> Scheduled:
    text = f"""
    for i in range({m}):
        Y[i] = X[i] + 1
    for i in range({m}):
        Z[i] = Y[i] * 2
    """
    return initial(read(text, "N", X=f"in {n}", Y=f"io {m}", Z=f"io {m}"))


def streamed(now: Scheduled) -> list[str]:
    made = stream_large(now, MACHINE)
    claims = payloads(made.tree)
    assert all(isinstance(c, Streamed) and (c.nest, c.own) == (4096, 512) for c in claims)
    return [c.tensor for c in claims if isinstance(c, Streamed)]


def both(now: Scheduled) -> Scheduled:
    return vectorize(vectorize(now, "i"), "i_2")


def test_sizes_that_are_not_known() -> None:
    assert streamed(both(chain())) == ["Y", "Z"]
    assert streamed(vectorize(chain(), "i")) == ["Y"]
    assert streamed(chain()) == []
    assert streamed(vectorize(fuse(chain(), "i", "i_2"), "i")) == ["Z"]


@pytest.mark.parametrize(
    ("n", "m", "wanted"),
    [("256", "256", []), ("257", "257", ["Y", "Z"]), ("4000", "64", []), ("4000", "65", ["Y"])],
)
def test_known_sizes(n: str, m: str, wanted: list[str]) -> None:
    """Of 8 bytes an element: more than 4096 in all, and more than 512 by itself."""
    assert streamed(both(chain(n, m))) == wanted


def test_a_machine_without_caches() -> None:
    now = both(chain())
    assert stream_large(now, replace(MACHINE, caches=())) is now
