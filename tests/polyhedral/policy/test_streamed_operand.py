"""Streamed lane operands: each panel once, for all rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.policy.products import product
from tests.polyhedral.transform.integer_programs import promise, read
from weft.ir.machine import TYPICAL, Cache, Machine
from weft.ir.scalar_expr import Literal
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.schedule_tree import Band, marked_tiles, walk
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled, loops_above

SLOW, ENOUGH, FAST = 4.0, 16.0, 64.0  # bytes a cycle; tiles use 8
FIRST_SIZE = 1 << 13  # bytes


def image(size: tuple[int, int, int], depth: int, lanes: int, taps: int = 1) -> Scop:
    images, rows, columns = size
    text = f"""
    for n in range({images}):
        for y in range({rows}):
            for x in range({columns}):
                for j in range({lanes}):
                    for k in range({depth}):
                        for t in range({taps}):
                            C[n, y, x, j] += A[n, k, 2*y + t, 2*x] * B[k, t, j]
    """
    held = f"in {images} {depth} {2 * rows + taps} {2 * columns}"
    kept = f"io {images} {rows} {columns} {lanes}"
    scop = read(text, "", A=held, B=f"in {depth} {taps} {lanes}", C=kept)
    tensors = (replace(t, role="constant") if t.name == "B" else t for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors))


def scheduled(scop: Scop, near: int, speed: float = SLOW, threads: int = 1) -> Scheduled:
    caches = (Cache(1 << 10, ways=4), Cache(near, bandwidth=speed, ways=64))
    return schedule_loops(scop, Machine("small", 16, 16, caches), threads=threads)


def marked(found: Scheduled) -> bool:
    """Whether tiles ask for the next lanes."""
    return any(tile.payload.shared for tile in marked_tiles(found.tree).values())


def order(found: Scheduled) -> list[str]:
    loops = [loop for node in walk(found.tree) if isinstance(node, Band) for loop in node.loops]
    names = [loop.name for loop in loops if any("S0" in n for n in loop.at)]
    return names[: names.index("k")]


@pytest.mark.parametrize("constant", ["B", ""])
def test_lanes_come_in_once_for_all_rows(constant: str) -> None:
    found = scheduled(product(9, 40, 300, constant=constant), 20000)
    assert marked(found) and order(found) == ["k_t", "j_r", "i_r"]


def test_one_tile_of_rows_asks_for_the_next_panel() -> None:
    found = scheduled(product(2, 40, 300, constant="B"), 20000)
    assert marked(found) and order(found) == ["k_t", "j_r"]


def test_a_short_stream_is_not_cut() -> None:
    found = scheduled(product(9, 200, 40, constant="B"), 20000)
    assert marked(found) and order(found)[0] == "j_t" and order(found)[-1] == "i_r"


def test_rows_that_do_not_stay_beside_a_panel_are_read_in_parts() -> None:
    found = scheduled(product(60, 90, 560, constant="B"), 400000)
    assert marked(found) and order(found) == ["k_t", "j_r", "i_r"]
    assert not marked(scheduled(product(60, 90, 520, constant="B"), 400000))
    assert not marked(scheduled(product(66, 90, 560, constant="B"), 400000))


@pytest.mark.long
@pytest.mark.parametrize(("place", "held"), [("k, i", "300 9"), ("i, k", "9 300")])
def test_lines_that_tiles_share_stay_in_the_first_cache(place: str, held: str) -> None:
    text = f"""
    for i in range(9):
        for j in range(40):
            for k in range(300):
                C[i, j] += A[{place}] * B[k, j]
    """
    scop = read(text, "", A=f"in {held}", B="in 300 40", C="io 9 40")
    scop = replace(scop, tensors=tuple(
        replace(t, role="constant") if t.name == "B" else t for t in scop.tensors
    ))  # fmt: skip
    caches = (Cache(FIRST_SIZE), Cache(50000, bandwidth=SLOW, ways=64))
    found = schedule_loops(scop, Machine("small", 16, 16, caches))
    (part,) = (loop.at["S0"] for loop in loops_above(found.tree, "S0") if loop.name == "k_t")
    steps = next(n.value for n in walk_expr(part) if isinstance(n, Literal))
    assert marked(found) and isinstance(steps, int)
    shared = place == "k, i"
    assert (steps * (2 * 8 + 64) <= FIRST_SIZE) == shared, "a vector of lanes and a line of rows"
    promise(found, {})


@pytest.mark.parametrize(
    ("depth", "apart"), [(300, TYPICAL.page), (300, 305), (40, 0)], ids=["pages", "lines", "whole"]
)
def test_many_rows_use_copies_of_lanes_in_rows_of_memory(depth: int, apart: int) -> None:
    def of(rows: int, apart: int, constant: str = "") -> Scheduled:
        return scheduled(product(rows, 304, depth, constant=constant, apart=apart), 40000)

    found = of(40, apart)
    around = loops_above(found.tree, "copy_B_packed")
    assert not marked(found)
    assert [x.name for x in around if "S0" in x.at] == order(found)[:-1]
    assert order(found)[-1] == "i_r"
    few = of(30, apart)
    assert marked(few) and "copy_B_packed" not in [s.name for s in few.scop.statements]
    assert marked(of(40, apart, "B"))
    assert marked(of(40, 0)) == (apart > 0)


@pytest.mark.parametrize(
    ("scop", "near", "speed"),
    [
        (product(9, 40, 300, constant="B"), 20000, FAST),
        (product(9, 40, 300, constant="B"), 1 << 20, SLOW),
        (product(2, 40, 300), 20000, SLOW),
    ],
    ids=["a fast last cache", "lanes stay near", "one tile of rows in memory"],
)
def test_where_nothing_is_gained(scop: Scop, near: int, speed: float) -> None:
    assert not marked(scheduled(scop, near, speed))


@pytest.mark.parametrize(("near", "asked"), [(20000, True), (30000, False)])
def test_a_fast_last_cache_does_not_hand_out_a_great_deal_in_time(near: int, asked: bool) -> None:
    scop = product(9, 40, 300, constant="B")  # 96,000 bytes, more or less than four times near
    assert marked(scheduled(scop, near, SLOW))
    assert marked(scheduled(scop, near, ENOUGH)) == asked


def test_pixels_go_inside_as_far_as_their_image_stays_near() -> None:
    whole = scheduled(image((3, 2, 8), 64, 90), 60000)
    assert marked(whole) and order(whole) == ["n", "j_t", "y", "x_r"]
    parts = scheduled(image((3, 2, 8), 64, 64), 30000)
    assert marked(parts) and order(parts) == ["n", "k_t", "j_r", "y", "x_r"]
    rows = scheduled(image((3, 2, 8), 64, 64), 20000)
    assert marked(rows) and order(rows) == ["n", "y", "k_t", "j_r", "x_r"]


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("rows", "lanes", "depth"), [(1, 1, 1), (7, 36, 33), (9, 13, 97), (8, 34, 35)]
)
@pytest.mark.parametrize("constant", ["B", ""])
def test_products_are_what_they_were(
    rows: int, lanes: int, depth: int, constant: str, threads: int
) -> None:
    found = scheduled(
        product(rows, lanes, depth, constant=constant if depth > 1 else ""), 12500, SLOW, threads
    )
    assert marked(found) or rows == 1
    promise(found, {})


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "lanes", "depth", "threads"), [(33, 41, 97, 1), (40, 65, 65, 2), (37, 97, 43, 1)]
)
def test_products_of_copies_are_what_they_were(
    rows: int, lanes: int, depth: int, threads: int
) -> None:
    found = scheduled(product(rows, lanes, depth, apart=TYPICAL.page), 42000, SLOW, threads)
    assert not marked(found) and order(found)[-1] == "i_r" and "i_t" not in order(found)
    assert "copy_B_packed" in [s.name for s in found.scop.statements]
    promise(found, {})


@pytest.mark.parametrize("threads", [1, 2])
def test_windows_are_what_they_were(threads: int) -> None:
    found = scheduled(image((1, 2, 7), 16, 36, 2), 12800, SLOW, threads)
    assert marked(found)
    promise(found, {})


def open_image(depth: int, lanes: int) -> Scop:
    """Any number of images, rimmed with zeros before each is read nine times."""
    text = f"""
    for n in range(N):
        for k in range({depth}):
            for y in range(4):
                for x in range(4):
                    P[n, k, y, x] = A[n, k, y, x] * 2
    for n in range(N):
        for y in range(3):
            for x in range(3):
                for j in range({lanes}):
                    for k in range({depth}):
                        for t in range(2):
                            for u in range(2):
                                C[n, y, x, j] += P[n, k, y + t, x + u] * B[k, t, u, j]
    """
    held, between, kept = f"in N {depth} 4 4", f"tmp N {depth} 4 4", f"io N 3 3 {lanes}"
    scop = read(text, A=held, P=between, B=f"in {depth} 2 2 {lanes}", C=kept)
    tensors = (replace(t, role="constant") if t.name == "B" else t for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_number_of_images_is_taken_in_blocks(threads: int) -> None:
    """Lanes come in once for a block: no image has a loop around them, for padding least of all.
    An open number is in no register tile: it may be 1."""
    found = scheduled(open_image(40, 32), 20000, SLOW, threads)
    loops = [loop for loop in loops_above(found.tree, "S1") if loop.name]
    names = [loop.name for loop in loops]
    assert marked(found)
    assert names.index("n_t") < names.index("j_r") < names.index("n_2")
    (tile,) = marked_tiles(found.tree).values()
    assert not any("n" in name for name in names[-len(tile.payload.rows) - 1 :])
    promise(found, *({"N": n} for n in (0, 1, 2, 5, 11)))
