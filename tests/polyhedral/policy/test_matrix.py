"""Register tiles: which updates get them, how in-place updates are split, what is packed."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent, indent

import pytest

from tests.polyhedral.policy import products
from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.named_isl import domain_set
from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import (
    Band,
    RegisterTile,
    marked_tiles,
    payloads,
    statements_below,
)
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.policy import blocked, cache_tiles, matrix
from weft.polyhedral.policy.cache_tiles import CacheTiles
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled, loops_above

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))
MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(8192), Cache(1 << 16)))


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"PANEL": 3, "MANY": 9}.items():
        monkeypatch.setattr(matrix, name, size)
    monkeypatch.setattr(blocked, "BESIDE", 2)
    sizes = CacheTiles(5, 12, 8, 4, 12)
    for module in (blocked, matrix):
        monkeypatch.setattr(module, "cache_tiles", lambda machine, itemsize: sizes)
    for module in (blocked, matrix, cache_tiles):
        monkeypatch.setattr(module, "kc_of", lambda machine: sizes.kc)


def product(update: str, *, k: str = "N", j: str = "N") -> Scop:
    text = f"""
    for i in range(N):
        for k in range({k}):
            for j in range({j}):
                {update}
    """
    return read(text, A="in N N", B="in N N", C="io N N")


PRODUCTS = {
    "plain": product("C[i, j] += A[i, k] * B[k, j]"),
    "transposed": product("C[i, j] += A[i, k] * B[j, k]"),
    "lower": product("C[i, j] += A[i, k] * B[j, k]", j="i + 1"),
    "ragged": product("C[i, j] -= A[i, k] * B[k, j]", k="i"),
    "two terms": product("C[i, j] += A[i, k] * B[j, k] + B[i, k] * A[j, k]"),
    "scaled": product("C[i, j] += 3 * A[i, k] * B[k, j]"),
    "squared": product("C[i, j] += A[i, k] * (B[k, j] * B[k, j])"),
}


def in_registers(made: Scheduled) -> set[str]:
    return set(marked_tiles(made.tree))


@pytest.mark.long
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_run_in_registers_and_stay_what_they_are(name: str) -> None:
    made = schedule_loops(PRODUCTS[name], MACHINE)
    assert in_registers(made) == {"S0", "S0_few_rows"}  # for many rows, and for few
    promise(made, *({"N": n} for n in (0, 1, 2, 7, 9, 13)))
    computes(made, {"N": 7}, {"N": 11}, {"N": 25})


@pytest.mark.long
@pytest.mark.parametrize("name", PRODUCTS)
def test_two_threads_share_the_rows(name: str) -> None:
    made = schedule_loops(PRODUCTS[name], MACHINE, threads=2)
    assert in_registers(made) == {"S0"}
    promise(made, *({"N": n} for n in (0, 1, 7, 13)))
    computes(made, {"N": 11}, {"N": 25})


def copies(made: Scheduled) -> list[str]:
    return [s.name for s in made.scop.statements if s.name.startswith("copy_")]


def test_what_jumps_along_the_lanes_is_packed() -> None:
    made = schedule_loops(PRODUCTS["transposed"], MACHINE, threads=2)
    assert copies(made) == ["copy_B_packed"]


def test_panels_of_many_rows_take_the_arithmetic() -> None:
    made = schedule_loops(PRODUCTS["squared"], MACHINE)
    operands = {t.name: t.scope for t in made.scop.tensors if t.role == "temp"}
    assert operands["S0_operand_packed"] == "global"
    assert "S0_operand" not in operands  # the copy works it out
    assert operands["S0_few_rows_operand_packed"] == "local"  # few rows: tile by tile


@pytest.mark.parametrize(("rows", "scope"), [(8, "local"), (9, "global")])
def test_a_known_number_of_rows_decides_beforehand(rows: int, scope: str) -> None:
    text = f"""
    for i in range({rows}):
        for j in range(N):
            for k in range(N):
                C[i, j] += A[i, k] * B[j, k]
    """
    scop = read(text, A=f"in {rows} N", B="in N N", C=f"io {rows} N")
    made = schedule_loops(scop, MACHINE)
    assert in_registers(made) == {"S0"}
    assert copies(made) == ["copy_B_packed"]
    assert made.scop.tensor("B_packed").scope == scope
    promise(made, {"N": 7}, {"N": 13})
    computes(made, {"N": 11}, {"N": 25})


@pytest.mark.parametrize("update", ["C[k, k] += A[i, j] * B[i, j]", "C[i, j] = A[k, j]"])
def test_no_reuse_no_registers(update: str) -> None:
    assert not in_registers(schedule_loops(product(update), MACHINE))


LU = """
    for i in range(N):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] = A[i, j] * A[j, j]
        for j in range(i, N):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]
"""


@pytest.mark.long
def test_an_update_in_place_is_split_twice() -> None:
    made = schedule_loops(read(LU, A="io N N"), MACHINE)
    assert in_registers(made) == {"S0", "S0_edge", "S2", "S2_edge"}
    promise(made, *({"N": n} for n in (0, 1, 12, 13, 14)))
    computes(made, {"N": 11}, {"N": 25})


@pytest.mark.long
def test_lanes_of_an_update_in_place_are_copied_where_many_rows_use_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not copies(schedule_loops(read(LU, A="io N N"), MACHINE))
    monkeypatch.setattr(blocked, "AGAIN", 1)
    made = schedule_loops(read(LU, A="io N N"), MACHINE)
    assert copies(made)
    promise(made, *({"N": n} for n in (0, 1, 12, 13, 14)))
    computes(made, {"N": 11}, {"N": 25})


def test_steps_that_meet_the_tile_are_none_of_its_registers() -> None:
    """Column k is eliminated by step k itself: what runs step by step is no sum in registers."""
    text = """
    for k in range(N):
        for i in range(k + 1, N):
            F[k, i] = A[i, k] * A[k, k]
            for j in range(k, N + 1):
                A[i, j] -= F[k, i] * A[k, j]
    """
    made = schedule_loops(read(text, A="io N N+1", F="tmp N N"), MACHINE)
    assert "S1" in in_registers(made)
    for name in in_registers(made):
        steps = [x for x in loops_above(made.tree, name) if mentions(x.at[name], ("k",))]
        assert len(steps) == 2  # blocks of steps, and steps
    promise(made, *({"N": n} for n in (0, 1, 12, 13)))
    computes(made, {"N": 11}, {"N": 25})


@pytest.mark.long
def test_an_update_by_its_own_rows_and_columns_goes_in_panels() -> None:
    text = """
    for k in range(N):
        for i in range(N):
            for j in range(N):
                P[i, j] += P[i, k] * P[k, j]
    """
    made = schedule_loops(read(text, P="io N N"), MACHINE)
    assert len(in_registers(made)) == 4  # before and after the block, in rows and in columns
    promise(made, *({"N": n} for n in (0, 1, 2, 3, 7)))
    computes(made, {"N": 11}, {"N": 19})


WINDOWS = {
    "row": "for i in range(N - 2):\n for k in range(3):\n  y[i] += x[i + k] * w[k]",
    "any length": "for i in range(N):\n for k in range(i, N):\n  y[i] += x[i + N - k - 1] * w[k]",
    "from one on": "for i in range(1, N - 1):\n for k in range(3):\n  y[i] += x[i + k - 1] * w[k]",
}


@pytest.mark.parametrize("name", WINDOWS)
def test_sums_over_windows_stay_in_registers(name: str) -> None:
    scop = read(WINDOWS[name], x="in N", w="in N", y="io N")
    made = schedule_loops(scop, MACHINE)
    assert in_registers(made) == {"S0"}
    promise(made, *({"N": n} for n in (0, 1, 2, 3, 9)))
    computes(made, {"N": 11}, {"N": 24}, {"N": 41})


def test_windows_use_vectors_of_their_weights_for_several_rows() -> None:
    text = """
    for h in range(3):
        for w in range(11):
            for c in range(21):
                for r in range(3):
                    for s in range(3):
                        y[h, w, c] += x[h + r, w + s, c] * f[c, s, r]
    """
    scop = read(text, "", x="in 5 13 21", f="in 21 3 3", y="io 3 11 21")
    made = schedule_loops(scop, WIDE)
    (mark,) = (p for p in payloads(made.tree) if isinstance(p, RegisterTile))
    assert isinstance(mark, RegisterTile)
    assert (mark.rows, mark.lanes) == ((11,), 8)  # a row of the image shares what it loads
    assert any(t.name.startswith("f_packed") for t in made.scop.tensors)  # vectors jump in f
    computes(made, {})


@pytest.mark.parametrize(("size", "tile"), [(2, (2, 2)), (3, (3, 3)), (9, (5, 9)), (32, (6, 32))])
def test_tiles_are_no_larger_than_their_products(size: int, tile: tuple[int, int]) -> None:
    text = f"""
    for b in range(N):
        for i in range({size}):
            for j in range({size}):
                for k in range({size}):
                    C[b, i, j] += A[b, i, k] * B[b, k, j]
    """
    shape = f"N {size} {size}"
    made = schedule_loops(read(text, A=f"in {shape}", B=f"in {shape}", C=f"io {shape}"), WIDE)
    (mark,) = (p for p in payloads(made.tree) if isinstance(p, RegisterTile))
    assert isinstance(mark, RegisterTile) and (*mark.rows, mark.lanes) == tile
    computes(made, {"N": 3 if size < 32 else 1})


def rows_of(m: int, n: int, k: int) -> int:
    """Rows of the register tile of an m by n product over k."""
    text = f"""
    for i in range({m}):
        for j in range({n}):
            for k in range({k}):
                C[i, j] += A[i, k] * B[k, j]
    """
    made = schedule_loops(read(text, A=f"in {m} {k}", B=f"in {k} {n}", C=f"io {m} {n}"), WIDE)
    (mark,) = (p for p in payloads(made.tree) if isinstance(p, RegisterTile))
    assert isinstance(mark, RegisterTile)
    return mark.rows[0]


def test_rows_whole_pages_apart_leave_ways_for_the_lanes() -> None:
    """Of the 8 ways of the first cache; elements have 8 bytes."""
    assert rows_of(16, 48, 500) == 8
    assert rows_of(16, 48, 512) <= 6
    assert rows_of(16, 48, 1024) <= 6


@pytest.mark.parametrize("role", ["in", "const"])
@pytest.mark.parametrize(("rows", "lanes", "steps"), [(16, 17, 7), (17, 48, 11), (5, 33, 1)])
def test_lanes_that_take_arithmetic_are_worked_out_into_panels(
    role: str, rows: int, lanes: int, steps: int
) -> None:
    """In each tile of lanes: they are read from a cache by all of its rows."""
    text = f"""
    for i in range({rows}):
        for j in range({lanes}):
            for k in range({steps}):
                C[i, j] += A[i, k] * (B[k, j] * B[k, j])
    """
    shapes = {"A": f"in {rows} {steps}", "B": f"in {steps} {lanes}", "C": f"io {rows} {lanes}"}
    scop = read(text, "", **shapes)
    made = schedule_loops(replace(scop, tensors=tuple(
        replace(t, role="constant") if role == "const" and t.name == "B" else t
        for t in scop.tensors
    )), WIDE)  # fmt: skip
    assert ("copy_B_packed" in copies(made)) == (role == "const")  # stored in the same order
    computes(made, {})


def test_rows_are_neighbours_in_memory() -> None:
    """As many images as fit a tile are no rows: every element would be in a line of its own."""

    def scheduled(images: int, features: int, pixels: int, channels: int) -> Scheduled:
        text = f"""
        for n in range({images}):
            for f in range({features}):
                for p in range({pixels}):
                    for c in range({channels}):
                        Y[n, f, p] += X[n, c, p] * W[f, c]
        """
        shapes = {"X": f"in {images} {channels} {pixels}", "W": f"in {features} {channels}"}
        return schedule_loops(read(text, "", Y=f"io {images} {features} {pixels}", **shapes), WIDE)

    made = scheduled(8, 48, 49, 32)
    (tile,) = marked_tiles(made.tree).values()
    assert any(mentions(loop.at["S0"], ("p",)) for loop in tile.loops)
    computes(scheduled(3, 18, 17, 5), {})


@pytest.mark.parametrize("constant", ["A", "B"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 5), (1, 5, 1), (5, 1, 1)])
def test_a_constant_of_one_element(constant: str, sizes: tuple[int, int, int]) -> None:
    computes(schedule_loops(products.product(*sizes, constant=constant), WIDE), {})


def test_what_comes_before_and_after_sums_shares_their_tiles() -> None:
    text = """
    for i in range(N):
        for j in range(N):
            C[i, j] = 3 * C[i, j]
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]
            D[i, j] = C[i, j] + A[i, j]
    """
    made = schedule_loops(read(text, A="in N N", B="in N N", C="io N N", D="io N N"), MACHINE)
    assert in_registers(made) == {"S1", "S1_few_rows", "S1_few_steps"}
    assert isinstance(made.tree, TreeSequence)
    short, panels, many, few = made.tree.children
    assert statements_below(panels) == ("copy_B_packed",)
    assert isinstance(short, Band) and len(short.loops) > 2  # down to register tiles, in one part
    for tree in (many, few):
        assert isinstance(tree, Band) and len(tree.loops) == 2  # rows and lanes
    promise(made, *({"N": n} for n in (0, 1, 2, 9)))
    computes(made, {"N": 7}, {"N": 11}, {"N": 24})


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [False, True])
def test_few_steps_are_in_one_part_where_something_begins_the_sums(
    threads: int, batch: bool
) -> None:
    text = """
    for i in range(N):
        for j in range(N):
            C[i, j] = 5
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]
    """
    shape = "out N N"
    if batch:
        text, shape = f"for b in range(3):{indent(dedent(text), '    ')}", "out 3 N N"
        text = text.replace("C[i", "C[b, i")
    scop = read(text, "N K", A="in N K", B="in K N", C=shape)
    made = schedule_loops(scop, MACHINE, threads=threads)
    assert isinstance(made.tree, TreeSequence)
    few, *_ = made.tree.children
    few_steps = "S1_few_steps"
    parts = [x for x in loops_above(few, few_steps) if mentions(x.at[few_steps], ("k",))]
    assert [x.at[few_steps] for x in parts] == [Var("k")]  # within the mark alone
    sizes = [{"N": 1, "K": 0}, {"N": 11, "K": 0}, {"N": 11, "K": 5}, {"N": 13, "K": 6}]
    promise(made, *sizes)
    computes(made, *sizes)


@pytest.mark.parametrize("many, few", [(9, True), (7, True), (6, False), (2, False)])
def test_no_version_is_for_sizes_that_cannot_be(
    many: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are more steps than in a part of the reduction, rows may never be few."""
    text = """
    for i in range(N):
        for j in range(N):
            C[i, j] = 5
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]
    """
    monkeypatch.setattr(matrix, "MANY", many)
    made = schedule_loops(read(text, "N", A="in N N", B="in N N", C="out N N"), MACHINE)
    assert not any(domain_set(made.scop, s).is_empty() for s in made.scop.statements)
    assert ("S1_few_rows" in in_registers(made)) == few
    computes(made, *({"N": n} for n in (0, 1, 13)))


def test_the_version_of_large_sizes_keeps_the_statements_names() -> None:
    text = """
    for i in range(N):
        for j in range(M):
            C[i, j] = 5
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]
    """
    made = schedule_loops(read(text, "N K M", A="in N K", B="in K M", C="out N M"), MACHINE)
    assert in_registers(made) == {"S1", "S1_few_rows", "S1_few_steps"}
    cuts = [eval(f"({step.text})") for step in made.steps if step.name == "cut"]
    for size, holds in ((10**6, True), (1, False)):
        values = dict.fromkeys("NKM", size)
        assert all(eval(where, values) is holds for _, (where,), _ in cuts)


def test_panels_are_made_once_for_all_that_read_them() -> None:
    text = """
    for b in range(N):
        for i in range(N):
            for j in range(N):
                for k in range(N):
                    C[b, i, j] += A[b, i, k] * B[j, k]
    """
    made = schedule_loops(read(text, A="in N N N", B="in N N", C="io N N N"), MACHINE)
    copy = next(s for s in made.scop.statements if s.name == "copy_B_packed")
    assert not any(d.startswith("b") for d in copy.dims)
    computes(made, {"N": 2}, {"N": 13})


def test_panels_for_all_rows_are_made_before_them() -> None:
    """All lanes are in one tile: the loop over rows is the first one, and nothing is around it."""
    text = """
    for i in range(8):
        for j in range(8):
            for k in range(5):
                C[i, j] += A[i, k] * B[j, k]
    """
    made = schedule_loops(read(text, "", A="in 8 5", B="in 8 5", C="io 8 8"), MACHINE)
    assert "copy_B_packed" in {s.name for s in made.scop.statements}
    assert isinstance(made.tree, TreeSequence)
    assert "copy_B_packed" in statements_below(made.tree.children[0])
    computes(made, {})
