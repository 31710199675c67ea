"""Loops that statements may share, against all instances of small programs."""

from __future__ import annotations

import islpy as isl
import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, lu, read, stencil
from weft.ir.errors import BudgetError
from weft.ir.scalar_expr import Expr, Var
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.delta_box import Distances, Quota
from weft.polyhedral.analysis.hyperplanes import Hyperplanes, components
from weft.polyhedral.proof.dependences import dependences

i, j, k, t = map(Var, "ijkt")


def own_dims(statement: Statement) -> tuple[Expr, ...]:
    """Candidates for a loop: each dim by itself, outermost first."""
    return tuple(Var(p) for p in statement.position if isinstance(p, str))


def search(scop: Scop, quota: Quota | None = None) -> Hyperplanes:
    found = [d for d in dependences(scop) if not d.reduction]
    return Hyperplanes([Distances(d, quota=quota) for d in found])


def distances(scop: Scop, at: dict[str, Expr], number: int, size: int) -> set[int]:
    """How far apart all pairs of one dependence are, point by point."""
    d = search(scop).dependences[number]
    sizes = dict.fromkeys(scop.parameters, size)
    found: set[int] = set()

    def visit(point: isl.Point) -> None:
        values = [
            int(str(point.get_coordinate_val(isl.dim_type.set, n)))
            for n in range(len(d.source.dims) + len(d.sink.dims))
        ]
        cut = len(d.source.dims)
        source = sizes | dict(zip(d.source.dims, values[:cut], strict=True))
        sink = sizes | dict(zip(d.sink.dims, values[cut:], strict=True))
        found.add(int(evaluate(at[d.sink.name], sink)) - int(evaluate(at[d.source.name], source)))

    pairs = d.map.wrap().flatten()
    for place in range(len(scop.parameters)):
        pairs = pairs.fix_val(isl.dim_type.param, place, size)
    pairs.foreach_point(visit)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_valid_loops_run_nothing_backwards(name: str) -> None:
    """What is said of each dim as a loop holds for all pairs at one size, and the other way round
    (a size of 6 shows every direction of these programs)."""
    scop = PROGRAMS[name]()
    found = search(scop)
    for value in range(3):
        dims = {s.name: own_dims(s) for s in scop.statements}
        at = {n: own[min(value, len(own) - 1)] for n, own in dims.items()}
        seen = [distances(scop, at, n, 6) for n in range(len(found.dependences))]
        plane = found.valid(at)
        assert (plane is not None) == all(d >= 0 for ds in seen for d in ds)
        if plane is not None:
            assert plane.coincident == all(ds <= {0} for ds in seen)
            assert plane.carries == {n for n, ds in enumerate(seen) if min(ds) > 0}


def test_shifts() -> None:
    text = "for i in range(N):\n A[i] = X[i]\nfor i in range(2, N):\n B[i] = A[i - 2] + A[i]"
    scop = read(text, A="io N", B="io N", X="in N")
    found = search(scop).complete({"S0": i}, {"S1": (i,)})
    assert found is not None and found.at == {"S0": i, "S1": i} and not found.coincident
    ahead = read(text.replace("i - 2", "i + 2").replace("(2, N)", "(N - 2)"), A="io N", B="io N",
                 X="in N")  # fmt: skip
    found = search(ahead).complete({"S0": i}, {"S1": (i,)})
    assert found is not None and found.at == {"S0": i, "S1": i + 2}


def test_skewed_rows_of_a_stencil() -> None:
    scop = stencil()
    found = search(scop)
    assert found.complete({"S0": i}, {"S1": (i,)}) is None
    rows = found.complete({"S0": i + t * 2}, {"S1": (i, i + t * 2)})
    assert rows is not None and rows.at["S1"] == i + t * 2 + 1


def test_inside_a_carrying_loop_nothing_is_left() -> None:
    found = search(lu())
    plane = found.complete({"S1": k}, {"S0": (k,)})
    assert plane is not None
    inside = Hyperplanes(found.inside(plane.at))
    assert {(d.source.name, d.sink.name) for d in inside.dependences} == {("S0", "S1")}


def test_components_in_order() -> None:
    text = "for i in range(N):\n A[i] = B[i]\n B[i] = A[i]\n C[i] = A[i]"
    scop = read(text, A="io N", B="io N", C="io N")
    names = [s.name for s in scop.statements]
    assert components(names, search(scop).dependences) == [("S0",), ("S1",), ("S2",)]
    loop = text.replace("B[i] = A[i]", "B[i + 1] = A[i]").replace("range(N)", "range(N - 1)")
    again = read(loop, A="io N", B="io N", C="io N")
    assert components(names, search(again).dependences) == [("S0", "S1"), ("S2",)]


def test_a_search_ends() -> None:
    """Loops of twenty statements that all fail at the last one: not every combination is tried."""
    text = "for t in range(N):\n" + "\n".join(
        f" for i in range(N):\n  for j in range(N):\n   A{n}[i, j] = A{n - 1}[i, j] + t"
        for n in range(1, 20)
    )
    text += "\n for i in range(N):\n  for j in range(N):\n   A0[i, j] = A19[j, N - 1 - i]"
    scop = read(text, **{f"A{n}": "io N N" for n in range(20)})
    quota = Quota(200_000)
    found = search(scop, quota)
    assert found.complete({}, {s.name: own_dims(s)[1:] for s in scop.statements}) is None
    assert quota.left > 0


def test_a_quota_is_kept() -> None:
    with pytest.raises(BudgetError, match="E0477"):
        search(lu(), Quota(10)).valid({"S0": i, "S1": j})
