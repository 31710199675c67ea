"""What goes through a tensor, against what a trace of the program says."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from weft.ir.isl_context import bounded
from weft.ir.scalar_expr import Var
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import instances
from weft.polyhedral.analysis.values_through import sharing, values_through

PROGRAMS = {
    "private": "for t in range(N):\n for i in range(N):\n  x = A[i]\n  B[i] = x",
    "outer": "for t in range(N):\n x = A[t]\n for i in range(N):\n  B[i] = x",
    "carried": "for t in range(N):\n x = A[t]\n for i in range(N):\n  B[i] = x\n  x = A[i]",
    "accumulated": "for t in range(N):\n x = 0\n for i in range(N):\n  x += A[i]\n B[t] = x",
    "through": "x = 0\nfor t in range(N):\n B[t] = x\n x = A[t]",
}


def scop_of(name: str) -> Scop:
    return read(PROGRAMS[name], A="in N", B="io N", x="tmp")


def traced(scop: Scop) -> set[tuple[tuple[str, int, int], tuple[str, int, int]]]:
    """(reader, writer) as (statement, t, i): the last write before each read, and that it is."""
    found, last = set(), None
    for statement, point in instances(scop, {"N": 4}):
        me = (statement.name, point.get("t", 0), point.get("i", 0))
        reads = [*statement.reads, *(statement.writes if statement.update else ())]
        if any(a.tensor == "x" for a in reads) and last:
            found.add((me, last))
        if any(w.tensor == "x" for w in statement.writes):
            last = me
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_stays_within(name: str) -> None:
    scop = scop_of(name)
    through = values_through(scop, "x")
    assert not through.uninitialised
    with bounded():
        for place, dim in ((1, "t"), (2, "i")):
            users = {
                s.name for s in scop.statements
                if any(a.tensor == "x" for a in (*s.reads, *s.writes))
            }  # fmt: skip
            if not all(dim in scop.statement(u).dims for u in users):
                continue
            stays = all(one[place] == two[place] for one, two in traced(scop))
            assert through.stays_within({u: Var(dim) for u in users}) == stays, dim


def test_uninitialised() -> None:
    scop = read("for i in range(N):\n B[i] = x\n x = A[i]", A="in N", B="io N", x="tmp")
    assert values_through(scop, "x").uninitialised


def test_sharing() -> None:
    scop = scop_of("private")
    at_ = {s.name: Var("i") for s in scop.statements}
    with bounded():
        assert not all(pair.agree(at_) for pair in sharing(scop, "x"))
        assert all(pair.agree(at_) for pair in sharing(scop, "B"))
