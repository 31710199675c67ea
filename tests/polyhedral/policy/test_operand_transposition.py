"""Products whose operands and results lie scattered go through copies, and come out the same."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.policy.operand_transposition import operand_transposition
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.initial import initial

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))
SIZES = {"b": 2, "m": 18, "n": 17, "k": 5}


def product(a: str, b: str, c: str, before: str = "0") -> Scop:
    """C += A B for each b, the dims of each in the order that is given."""
    text = f"""
    for b in range(2):
        for m in range(18):
            for n in range(17):
                C[{", ".join(c)}] = {before}
                for k in range(5):
                    C[{", ".join(c)}] += A[{", ".join(a)}] * B[{", ".join(b)}]
    """
    shapes = [" ".join(str(SIZES[d]) for d in order) for order in (a, b, c)]
    return read(text, "", A=f"in {shapes[0]}", B=f"in {shapes[1]}", C=f"out {shapes[2]}")


def turned(scop: Scop) -> set[str]:
    changed = operand_transposition(initial(scop), WIDE).scop
    return {t.name for t in changed.tensors} - {t.name for t in scop.tensors}


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        (("mkb", "nkb", "nmb"), {"A_turned", "B_turned", "C_turned"}),
        (("bmk", "bkn", "mnb"), {"C_turned"}),
        (("mkb", "bkn", "bmn"), {"A_turned"}),
        (("bmk", "bkn", "bmn"), set()),
        (("mbk", "kbn", "nbm"), set()),
    ],
)
def test_what_ends_with_a_dim_that_all_share_is_turned(
    orders: tuple[str, str, str], expected: set[str]
) -> None:
    scop = product(*orders)
    assert turned(scop) == expected
    computes(schedule_loops(scop, WIDE), {})


def test_sums_that_others_use_stay() -> None:
    text = """
    for b in range(3):
        for m in range(18):
            for n in range(17):
                C[m, n, b] = 0
                for k in range(5):
                    C[m, n, b] += A[b, m, k] * B[b, k, n]
                D[m, n, b] = C[m, n, b]
    """
    scop = read(text, "", A="in 3 18 5", B="in 3 5 17", C="out 18 17 3", D="out 18 17 3")
    assert not turned(scop)
    computes(schedule_loops(scop, WIDE), {})


def test_kept_tensors_stay() -> None:
    scop = product("mkb", "nkb", "nmb")
    for name in "ABC":
        assert operand_transposition(initial(scop), WIDE, frozenset({name})).scop == scop


def test_windows_whose_results_lie_across_their_rows_are_turned() -> None:
    text = """
    for h in range(4):
        for w in range(18):
            for c in range(17):
                y[{target}] = 0
                for s in range(3):
                    y[{target}] += x[h, w + s, c] * f[s, c]
    """
    shapes = {"c, h, w": "17 4 18", "h, w, c": "4 18 17"}
    for target, expected in (("c, h, w", {"y_turned"}), ("h, w, c", set[str]())):
        scop = read(text.format(target=target), "", x="in 4 20 17", f="in 3 17",
                    y=f"out {shapes[target]}")  # fmt: skip
        assert turned(scop) == expected
        computes(schedule_loops(scop, WIDE), {})
