"""What warps multiply belongs together, in all warps, lanes and turns; anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.codegen.test_warp_tile import kernel
from weft.codegen.rebuild import map_children
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_ir import For, Issue, Kernel, Let, LoadMatrices, Stmt, walk
from weft.ir.scalar_expr import Var, literal
from weft.polyhedral.launches.fragments import check_fragments


@pytest.mark.parametrize("stages", [0, 1, 3])
def test_tiles_are_accepted(stages: int) -> None:
    assert check_fragments(kernel(stages)) == 2 * 4  # warps of 16 × 32, by instructions of 16 × 8


def changed(change: Callable[[Stmt], Stmt]) -> Kernel:
    """The product of two warps, by one stage, after ``change`` of each statement."""
    made = kernel(1)

    def below(stmt: Stmt) -> Stmt:
        return map_children(change(stmt), below)

    return replace(made, body=below(made.body))


def shorter(holds: type[Stmt], name: str) -> Callable[[Stmt], Stmt]:
    """Without the last turn of unrolled loops called ``name`` that hold such statements."""

    def change(stmt: Stmt) -> Stmt:
        match stmt:
            case For(var, kind="unrolled", upper=upper) if var.startswith(f"{name}."):
                inside = any(isinstance(inner, holds) for inner in walk(stmt.body))
                return replace(stmt, upper=upper - 1) if inside else stmt
        return stmt

    return change


def loaded(end: str, change: Callable[[LoadMatrices], LoadMatrices]) -> Callable[[Stmt], Stmt]:
    def once(stmt: Stmt) -> Stmt:
        mine = isinstance(stmt, LoadMatrices) and stmt.target.endswith(end)
        return change(stmt) if mine else stmt

    return once


def rows(stmt: Stmt) -> Stmt:
    """Sums of eight rows in four, where they are stored."""
    match stmt:
        case Let("row.34", value):
            return replace(stmt, value=value - Var("thread.30") // 4 + Var("thread.30") // 8)
    return stmt


def one_column(stmt: Stmt) -> Stmt:
    """The factors of all columns from the first."""
    match stmt:
        case Issue(operands=(sums, a, (name, (warp, _)))):
            return replace(stmt, operands=(sums, a, (name, (warp, literal(0)))))
    return stmt


FAULTS: dict[str, tuple[Callable[[Stmt], Stmt], str]] = {
    "a number of the sums is not started": (shorter(Let, "number"), "that nobody started"),
    "a tile is not loaded": (shorter(LoadMatrices, "tile"), "is multiplied before it is there"),
    "a tile further": (
        loaded(".b", lambda x: replace(x, tile=(x.tile[0], x.tile[1] + 1))),
        "b is outside it",
    ),
    "not transposed": (loaded(".b", lambda x: replace(x, transposed=False)), "b is not as"),
    "two matrices of four": (loaded(".a", lambda x: replace(x, matrices=2)), "before it is there"),
    "other steps": (
        loaded(".a", lambda x: replace(x, indices=(*x.indices[:-1], x.indices[-1] + 8))),
        "are not of the same steps",
    ),
    "rows of lanes in reverse": (
        loaded(".a", lambda x: replace(x, indices=(x.indices[0], 31 - x.indices[1], x.indices[2]))),
        "a is not as",
    ),
    "rows that share a place": (rows, "elements of C that are others'"),
    "one column for all": (one_column, "elements of C that are others'"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_refused(name: str) -> None:
    change, what = FAULTS[name]
    with pytest.raises(IllegalScheduleError) as caught:
        check_fragments(changed(change))
    assert caught.value.code == "WEFT-E0428" and what in caught.value.what
