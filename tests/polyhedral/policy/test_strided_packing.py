"""Operands with gaps come from copies where lanes come from far, and sums stay what they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled

SLOW, FAST = 4.0, 64.0  # bytes a cycle
PIXEL = "A[n, k, 2*y, 2*x]"


def image(lanes: int, columns: int = 5, pixel: str = PIXEL) -> Scop:
    text = f"""
    for n in range(1):
        for y in range(2):
            for x in range({columns}):
                for j in range({lanes}):
                    for k in range(40):
                        for t in range({2 if "t" in pixel else 1}):
                            C[n, y, x, j] += {pixel} * B[k, t, j]
    """
    held = f"in 1 40 4 {3 * columns + 2}"
    scop = read(text, "", A=held, B=f"in 40 2 {lanes}", C=f"io 1 2 {columns} {lanes}")
    tensors = (replace(t, role="constant") if t.name == "B" else t for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors))


def scheduled(scop: Scop, speed: float = SLOW, threads: int = 1) -> Scheduled:
    caches = (Cache(1 << 10), Cache(34000, bandwidth=speed, ways=64))
    return schedule_loops(scop, Machine("small", 16, 16, caches), threads=threads)


def copied(found: Scheduled) -> bool:
    return "A_dense" in {t.name for t in found.scop.tensors}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("lanes", "columns"), [(81, 5), (83, 5)])
@pytest.mark.parametrize("pixel", [PIXEL, "A[n, k, y, 3*x + 1]", "A[n, k, 2*y + 1, 3*x]"])
def test_sums_are_what_they_were(lanes: int, columns: int, pixel: str, threads: int) -> None:
    found = scheduled(image(lanes, columns, pixel), threads=threads)
    assert copied(found)
    promise(found, {})


@pytest.mark.parametrize(
    ("scop", "speed"),
    [
        (image(81, pixel="A[n, k, 2*y, x]"), SLOW),
        (image(81, pixel="A[n, k, y, 2*x + t]"), SLOW),
        (image(12), SLOW),
        (image(81), FAST),
    ],
    ids=["no gaps in rows", "a window", "few panels", "a fast last cache"],
)
def test_where_nothing_is_gained(scop: Scop, speed: float) -> None:
    found = scheduled(scop, speed)
    assert not copied(found)
    promise(found, {})
