"""Operands of many rows are copied once, into panels that all of the rows read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.policy.test_operand_panels import product
from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.policy import matrix
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled, loops_above

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def made_once(made: Scheduled) -> set[str]:
    """The tensors that are copied outside of all loops."""
    names = [t.name for t in made.scop.tensors if t.name.endswith("_packed")]
    return {n.removesuffix("_packed") for n in names if made.scop.tensor(n).scope == "global"}


@pytest.mark.parametrize(
    ("scop", "tensors"),
    [
        (product(256, 512, 512), {"B"}),  # steps on many pages
        (product(255, 65, 96), {"B"}),  # few rows, but rows of memory begin within lines
        (product(256, 64, 96), set()),  # whole lines on few pages
        (product(256, 512, 512, left="A[k, i]"), {"A", "B"}),
        (product(256, 512, 96, right="B[j, k]"), {"B"}),
    ],
)
def test_what_many_rows_read_is_copied_once(scop: Scop, tensors: set[str]) -> None:
    assert made_once(schedule_loops(scop, WIDE)) == tensors


@pytest.mark.parametrize(
    ("steps", "tensors"),
    [
        (512, {"A"}),  # each brings in a line for a few rows
        (32, set()),  # all of these lines stay in the first cache
    ],
)
def test_few_turned_rows_are_copied_where_their_lines_do_not_stay(
    steps: int, tensors: set[str]
) -> None:
    long_lines = tuple(replace(cache, line=128) for cache in WIDE.caches)
    scop = product(128, 3072, steps, left="A[k, i]")
    made = schedule_loops(scop, replace(WIDE, caches=long_lines))
    assert made_once(made) - {"B"} == tensors


def test_rows_are_read_from_end_to_end_for_a_few_narrow_panels_at_a_time() -> None:
    made = schedule_loops(product(256, 512, 512, left="A[k, i]"), WIDE)
    found = {n: [loop.name for loop in loops_above(made.tree, f"copy_{n}_packed")] for n in "AB"}
    assert found["A"] == ["A_packed_0_t", "A_packed_1", "A_packed_0_p", "A_packed_2"]
    assert found["B"] == ["B_packed_1", "B_packed_0", "B_packed_2"]  # several lines wide


@pytest.mark.parametrize(("rows", "part_by_part"), [(256, True), (300, False)])
def test_what_comes_in_part_by_part_is_copied_so(rows: int, part_by_part: bool) -> None:
    """From a slow last cache, for all rows, unless these are more than a tile for the caches."""
    caches = (WIDE.caches[0], replace(WIDE.caches[1], size=1 << 21), Cache(1 << 25, bandwidth=5.0))
    made = schedule_loops(product(rows, 512, 1536), replace(WIDE, caches=caches))
    around = [loop.name for loop in loops_above(made.tree, "copy_B_packed")]
    assert ("k_t" in around) == part_by_part


@pytest.mark.parametrize(("rows", "tensors"), [(511, set()), (512, {"B"})])
def test_threads_copy_together_what_each_uses_for_many_rows(rows: int, tensors: set[str]) -> None:
    made = schedule_loops(product(rows, 512, 512), WIDE, threads=2)
    assert made_once(made) == tensors
    assert loops_above(made.tree, "copy_B_packed")[0].kind == "parallel"


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("left", ["A[i, k]", "A[k, i]", "(A[i, k] * A[i, k])"])
@pytest.mark.parametrize("right", ["B[k, j]", "B[j, k]", "(B[k, j] + 1)"])
def test_products_of_panels_are_right(
    threads: int, left: str, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MANY", 8)
    text = f"""
    for i in range(N):
        for j in range(M):
            for k in range(K):
                C[i, j] += {left} * {right}
    """
    a = "in K N" if left == "A[k, i]" else "in N K"
    b = "in M K" if right == "B[j, k]" else "in K M"
    scop = read(text, "N M K", A=a, B=b, C="io N M")
    sizes = [{"N": n, "M": m, "K": k} for n, m, k in ((0, 3, 4), (8, 0, 3), (9, 25, 0), (7, 3, 2))]
    promise(schedule_loops(scop, WIDE, threads=threads), *sizes, {"N": 9, "M": 4, "K": 3})
    computes(schedule_loops(scop, WIDE, threads=threads), {"N": 17, "M": 29, "K": 5})
    known = read(text.replace("N", "17").replace("M", "29").replace("K", "5"), "",
                 A=a.replace("N", "17").replace("K", "5"),
                 B=b.replace("M", "29").replace("K", "5"), C="io 17 29")  # fmt: skip
    computes(schedule_loops(known, WIDE, threads=threads), {})


@pytest.mark.long
def test_what_a_loop_before_writes_is_copied_after_it() -> None:
    text = """
    for k in range(20):
        for j in range(30):
            B[k, j] = X[j, k] + 1
    for i in range(256):
        for j in range(30):
            for k in range(20):
                C[i, j] += A[i, k] * B[k, j]
    """
    scop = read(text, "", X="in 30 20", A="in 256 20", B="tmp 20 30", C="io 256 30")
    computes(schedule_loops(scop, WIDE), {})
