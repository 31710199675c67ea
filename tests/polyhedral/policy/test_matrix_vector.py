"""Sums over rows of memory that nothing else uses: a few rows side by side, strips of sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.machine import Cache, Machine, Prefetchers
from weft.ir.schedule_tree import marked_tiles
from weft.ir.scop import Scop
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.schedule_loops import schedule_loops

CACHES = (Cache(512), Cache(8192), Cache(1 << 16))
MACHINE = Machine("test", 16, 8, CACHES, prefetchers=Prefetchers(streams=4))
SIZES = [{"N": n, "M": m} for n, m in ((0, 3), (3, 0), (1, 1), (4, 32), (9, 33), (18, 71))]


def program(update: str, n: str = "N", m: str = "M") -> Scop:
    text = f"""
    for k in range({n}):
        for j in range({m}):
            {update}
    """
    return read(text, "N M", A=f"in {n}", B=f"in {n} {m}", W="in N+M", y=f"io {m}")


@pytest.mark.parametrize("update", ["y[j] += A[k] * B[k, j]", "y[j] += B[k, j]"])
def test_a_few_rows_side_by_side_in_strips_of_sums(update: str) -> None:
    made = schedule_loops(program(update), MACHINE)
    assert outline(made) == "j_t!parallel k_t j_r { k j_p { S0 } }"
    promise(made, *SIZES)
    computes(made, *SIZES[-2:])


@pytest.mark.parametrize(("n", "m"), [("17", "8"), ("18", "32"), ("23", "71")])
def test_known_sizes(n: str, m: str) -> None:
    made = schedule_loops(program("y[j] += A[k] * B[k, j]", n, m), MACHINE)
    assert outline(made).startswith("j_t!parallel k_t" if m == "71" else "k_t")
    computes(made, {"N": 0, "M": 0})


@pytest.mark.parametrize(
    ("update", "n"),
    [
        ("y[j] += A[k] * B[k, j]", "16"),  # so few that one tile takes them all
        ("y[j] += A[k] * W[j + k]", "N"),  # a window, most of which the next step reads again
        ("y[j] += A[j] * B[k, j] * y[k]", "M"),  # sums that the next ones use
    ],
)
def test_others_are_none(update: str, n: str) -> None:
    assert "k_t" not in outline(schedule_loops(program(update, n), MACHINE))


def test_few_rows_of_a_product_share_what_they_read() -> None:
    text = """
    for i in range(2):
        for k in range(39):
            for j in range(171):
                Y[i, j] += X[i, k] * B[k, j]
    """
    scop = read(text, "", X="in 2 39", B="in 39 171", Y="io 2 171")
    made = schedule_loops(scop, replace(MACHINE, vector_bytes=64, vector_registers=32))
    assert outline(made) == "j_t!parallel k_t j_r { k i_p j_p { S0 } }"
    computes(made, {})


def test_two_threads_share_the_strips() -> None:
    scop = program("y[j] += A[k] * B[k, j]", "18", "64")
    made = schedule_loops(scop, MACHINE, threads=2)
    (loop, *_) = made.loops()
    assert loop.kind == "parallel" and "32" in str(loop.at["S0"])  # half of the sums for each
    computes(made, {"N": 0, "M": 0})


@pytest.mark.parametrize(
    ("b", "shape", "panel"),
    [
        ("B[k, j]", "41 64", None),  # rows of whole lines, as they are read
        ("B[k, j]", "41 61", [1, 41, 64]),  # rows that begin within lines
        ("B[j, k]", "61 41", [1, 41, 64]),  # columns
        ("B[k, j]", "9 64", [8, 9, 8]),  # what the second cache holds stays in panels
    ],
)
def test_constants_beyond_the_second_cache_lie_in_rows(
    b: str, shape: str, panel: list[int] | None
) -> None:
    k, j = shape.split() if b == "B[k, j]" else reversed(shape.split())
    text = f"""
    for k in range({k}):
        for j in range({j}):
            y[j] += A[k] * {b}
    """
    scop = read(text, "", A=f"in {k}", B=f"in {shape}", y=f"io {j}")
    constant = replace(scop.tensor("B"), role="constant")
    tensors = tuple(constant if t.name == "B" else t for t in scop.tensors)
    made = schedule_loops(replace(scop, tensors=tensors), MACHINE)
    (packed,) = [t for t in made.scop.tensors if t.name == "B_packed"] or [None]
    assert panel == (packed and [evaluate(size, {}) for size in packed.shape])
    computes(made, {})


def test_rows_of_constants_are_whole_tiles() -> None:
    """So that every tile knows its row: whole lines alone would be 136 for 132 columns."""
    scop = read(
        """
        for k in range(41):
            for j in range(132):
                y[j] += A[k] * B[k, j]
        """, "", A="in 41", B="in 41 132", y="io 132",
    )  # fmt: skip
    constant = replace(scop.tensor("B"), role="constant")
    tensors = tuple(constant if t.name == "B" else t for t in scop.tensors)
    wide = replace(MACHINE, vector_bytes=64, vector_registers=32)
    made = schedule_loops(replace(scop, tensors=tensors), wide)
    computes(made, {})
    (tile,) = marked_tiles(made.tree).values()
    lanes = tile.payload.lanes
    *_, row = (evaluate(size, {}) for size in made.scop.tensor("B_packed").shape)
    assert 136 % lanes and row >= 132 and row % lanes == 0
