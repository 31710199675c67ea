"""Tilings of in-place, triangular and time-iterated programs: sound ones pass, others are refused
with a pair that is really the wrong way round."""

from __future__ import annotations

import re

import pytest

from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, Values, tiled
from tests.polyhedral.scops import Var, evaluate
from weft.ir.errors import BudgetError, IllegalScheduleError
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Scop
from weft.polyhedral.proof import order_check
from weft.polyhedral.proof.order_check import check_order, keeps_dependences
from weft.polyhedral.transform.initial import initial

i, j, k, t = (Var(name) for name in "ijkt")

TILEABLE = [name for name in BANDS if name != "floyd-warshall"]


@pytest.mark.parametrize("name", TILEABLE)
@pytest.mark.parametrize("levels", range(4))
def test_permutable_bands_may_be_tiled(name: str, levels: int) -> None:
    of, depth = program(name), len(next(iter(BANDS[name].values())))
    sizes = ((96,) * depth, (32,) * depth, (8, 16, 4, 8)[:depth])
    check_order(of, tiled(of, BANDS[name], *sizes[3 - levels :]))


def test_only_the_inner_loops_of_floyd_warshall_may() -> None:
    of = program("floyd-warshall")
    tree = tiled(of, {"S0": (k // 1 * 1, i, j)}, (1, 32, 32))
    check_order(of, tree)
    assert not keeps_dependences(of, tiled(of, BANDS["floyd-warshall"], (4, 4, 4)))


ILLEGAL: dict[str, tuple[str, Values]] = {
    "no skew": ("jacobi-1d", {"S0": (2 * t, i), "S1": (2 * t + 1, i)}),
    "too little skew": ("seidel-2d", {"S0": (t, t + i, t + i + j)}),
    "no shift": ("jacobi-1d", {"S0": (t, t + i), "S1": (t, t + i)}),
    "a shift too small": ("fdtd-2d", {**BANDS["fdtd-2d"], "S3": (t, t + i, t + j + 1)}),
    "the wrong way": ("lu", {"S0": (-i, j, k), "S1": (-i, j, j), "S2": (-i, j, k)}),
    "a column too early": ("lu", {"S0": (i, j, k), "S1": (i, j, j - 2), "S2": (i, j, k)}),
    "the diagonal too early": ("cholesky", {**BANDS["cholesky"], "S3": (i, i, i - 2)}),
    "the scaling first": ("trmm", {"S0": (i, j, k), "S1": (i, j, i)}),
}


@pytest.mark.parametrize("case", ILLEGAL)
@pytest.mark.parametrize("levels", [1, 2])
def test_broken_bands_are_refused(case: str, levels: int) -> None:
    name, values = ILLEGAL[case]
    of, depth = program(name), len(next(iter(values.values())))
    tree = tiled(of, values, *((64,) * depth, (4,) * depth)[2 - levels :])
    with pytest.raises(IllegalScheduleError) as caught:
        check_order(of, tree)
    assert caught.value.code == "WEFT-E0420"
    _really_wrong(of, tree, str(caught.value))


def _really_wrong(of: Scop, tree: Tree, text: str) -> None:
    """The pair shown runs the wrong way round, and both touch the element."""
    pair = re.search(
        r"why: (S\d)\[([^\]]*)\] (reads|writes) (\w+)\[([-\d, ]*)\] before (S\d)\[([^\]]*)\]", text
    )
    parameters = re.search(r" for (\w+=\d+(?:, \w+=\d+)*)", text)
    assert pair and parameters, text
    sizes = _values(parameters[1])
    first, second = {**_values(pair[2]), **sizes}, {**_values(pair[7]), **sizes}
    element = tuple(map(int, pair[5].split(", ")))
    assert _position(of, pair[1], first) < _position(of, pair[6], second)
    assert _time(tree, pair[1], first) >= _time(tree, pair[6], second)
    for name, env in ((pair[1], first), (pair[6], second)):
        s = of.statement(name)
        touched = [tuple(evaluate(x, env) for x in a.indices) for a in (*s.reads, *s.writes)
                   if a.tensor == pair[4]]  # fmt: skip
        assert element in touched
    assert text.count("(line ") == (2 if pair[1] != pair[6] else 1)


def _values(text: str) -> dict[str, int]:
    return {part.split("=")[0]: int(part.split("=")[1]) for part in text.split(", ") if part}


def _position(of: Scop, name: str, env: dict[str, int]) -> list[int]:
    return [env[p] if isinstance(p, str) else p for p in of.statement(name).position]


def _time(tree: Tree, name: str, env: dict[str, int]) -> list[int]:
    return [
        evaluate(entry.at[name], env) if isinstance(entry, Loop) else entry
        for entry in paths(tree)[name]
    ]


@pytest.mark.parametrize(
    ("name", "kinds", "accepted"),
    [
        ("gemm", "pps", True),
        ("gemm", "sps", True),
        ("gemm", "ssp", False),
        ("jacobi-2d", "spp", True),
        ("seidel-2d", "ssp", False),
        ("trmm", "sps", True),
        ("trmm", "pss", False),
        ("jacobi-2d", "ssv", True),
        ("lu", "ssp", False),
    ],
)
def test_flags_of_point_loops(name: str, kinds: str, accepted: bool) -> None:
    """Carried by the time loop of a stencil, inside a tile as well as without."""
    of, depth = program(name), len(next(iter(BANDS[name].values())))
    for levels in ((), ((8,) * depth,)):
        tree = tiled(of, BANDS[name], *levels, kinds=kinds)
        assert keeps_dependences(of, tree) == accepted, levels


def test_tiles_along_a_wavefront_run_in_parallel() -> None:
    of = program("seidel-2d")
    band = {"S0": (t // 4 + (t + i) // 4, (t + i) // 4, t, i, j)}
    for loop_kind, accepted in (("sp", True), ("ps", False)):
        assert keeps_dependences(of, tiled(of, band, kinds=loop_kind)) == accepted


def test_the_initial_order_needs_no_dependences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many to be found, the program still runs as it is written."""
    of = program("lu")

    def too_many(*given: object, **named: object) -> None:
        raise BudgetError("WEFT-E0400", "too many dependences")

    monkeypatch.setattr(order_check, "dependences", too_many)
    assert keeps_dependences(of, initial(of).tree)
    with pytest.raises(BudgetError):
        check_order(of, tiled(of, BANDS["lu"], (1, 1, 1)))
