"""Weight-stationary loops inside those over panels of constants that L2 does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import Band, walk
from weft.ir.scop import Scop
from weft.polyhedral.policy.weight_stationary import footprint_bytes
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled

HELD, FAR = 1 << 13, 3400  # bytes of second caches that hold 2440 bytes of constants, and do not


def sums(images: int, rows: int, depth: int, lanes: int) -> Scop:
    text = f"""
    for n in range({images}):
        for y in range({rows}):
            for x in range(8):
                for j in range({lanes}):
                    for k in range({depth}):
                        C[n, y, x, j] += A[n, k, 2*y, 2*x] * B[k, j]
    """
    image = f"in {images} {depth} {2 * rows} 16"
    scop = read(text, "", A=image, B=f"in {depth} {lanes}", C=f"io {images} {rows} 8 {lanes}")
    roles = {"B": "constant"}
    tensors = (replace(t, role=roles.get(t.name, t.role)) for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors))


def scheduled(scop: Scop, near: int, threads: int = 1) -> Scheduled:
    machine = Machine("small", 16, 16, (Cache(1 << 10), Cache(near, bandwidth=4.0)))
    return schedule_loops(scop, machine, threads=threads)


def order(found: Scheduled) -> list[str]:
    """The loops around the sums as far as their register tiles, by what they are named after."""
    loops = [loop for node in walk(found.tree) if isinstance(node, Band) for loop in node.loops]
    names = [loop.name for loop in loops if "S0" in loop.at]
    return names[: names.index("k")]


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_go_inside_where_the_image_stays_near(threads: int) -> None:
    found = scheduled(sums(2, 2, 5, 90), FAR, threads)
    assert order(found) == ["n", "x_t", "j_t", "y", "j_r", "x_r"]


def test_constants_that_a_cache_holds_are_read_again() -> None:
    assert order(scheduled(sums(2, 2, 5, 61), HELD))[:2] == ["n", "y"]


def test_an_image_that_would_be_read_again_for_each_panel_stays_outside() -> None:
    assert order(scheduled(sums(2, 60, 5, 90), FAR))[:2] == ["n", "y"]


@pytest.mark.parametrize("near", [HELD, FAR])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("images", "rows", "lanes"), [(1, 1, 61), (2, 2, 90), (1, 2, 66)])
def test_sums_are_what_they_were(
    images: int, rows: int, lanes: int, threads: int, near: int
) -> None:
    promise(scheduled(sums(images, rows, 5, lanes), near, threads), {})


@pytest.mark.parametrize(
    ("pixel", "expected"),
    [
        ("A[n, k, y, x]", 3 * 4 * 5 * 8 * 8),  # all of it, no row with a line of its own
        ("A[n, k, y, 4*x]", 3 * 4 * 5 * 32 * 8),  # all the way from row to row
        ("A[n, k, 9*y, x]", 3 * 4 * 5 * (7 * 8 + 64)),
        ("A[n, 0, 0, x]", 3 * (7 * 8 + 64)),
        ("A[n, 0, 0, 0]", 3 * 64),
    ],
)
def test_bytes_of_rows_that_lie_one_after_the_other(pixel: str, expected: int) -> None:
    text = f"""
    for n in range(3):
        for k in range(4):
            for y in range(5):
                for x in range(8):
                    C[n, k, y, x] = {pixel}
    """
    rows, columns = 37 if "9*y" in pixel else 5, 32 if "4*x" in pixel else 8
    scop = read(text, "", A=f"in 3 4 {rows} {columns}", C="out 3 4 5 8")
    (s,) = scop.statements
    found = footprint_bytes(scop, s.reads[0], {"n": 3, "k": 4, "y": 5, "x": 8}, 64)
    assert found == expected
