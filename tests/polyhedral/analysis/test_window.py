"""Windows against enumeration: the least box, and where it is."""

from __future__ import annotations

import pytest

from tests.polyhedral.scops import at, box, evaluate, instances, scop, statement, tensor
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Constraint, Scop, Statement
from weft.polyhedral.analysis.window import inside, start, windows

i, j, k, n, t = (Var(name) for name in "ijknt")


def made(index: Expr, *domain: Constraint, dims: tuple[str, ...]) -> tuple[Scop, Statement]:
    s = statement("s", domain, at("Y", i), (at("A", index),), dims=dims)
    of = scop((tensor("A", 99, role="input"), tensor("Y", 99, role="output")), s, parameters=("n",),
              context=(Constraint(n),))  # fmt: skip
    return of, s


CASES: dict[str, tuple[Expr, tuple[Constraint, ...], tuple[Expr, ...], int | None]] = {
    "tile": (i, box(i=n), (i // 4,), 4),
    "offset": (i + 3, box(i=n), (i // 4,), 4),
    "stride": (2 * i, box(i=n), (i // 4,), 7),
    "two levels": (i, box(i=n), (i // 8, i % 8 // 2), 2),
    "point": (i, box(i=n), (i // 4, i % 4), 1),
    "sum": (i + j, box(i=n, j=3), (i // 4,), 6),
    "sum of tiles": (i + j, box(i=n, j=n), (i // 4, j // 2), 5),
    "skewed": (i, box(t=n, i=n), (t, (t + i) // 4), 4),
    "skewed tiles": (i, box(t=n, i=n), (t // 2, (t + i) // 4), 5),
    "diagonal": (i + t, box(t=n, i=n), ((t + i) // 4,), 4),
    "reversed": (literal(40) - i, box(i=n), (i // 4,), 4),
    "nothing known": (j, box(i=n, j=n), (i // 4,), None),
    "a clone's band": (i - 1, (*box(i=n, t=(0, n)), Constraint(i - 4 * t),
                               Constraint(4 * t + 5 - i)), (t,), 6),
    "triangle": (j, (*box(i=n), Constraint(j - i), Constraint(n - 1 - j)), (i // 4,), None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_is_the_least_box(case: str) -> None:
    index, domain, values, size = CASES[case]
    dims = tuple(d for d in "tij" if any(Var(d) in _variables(c.expr) for c in domain))
    of, s = made(index, *domain, dims=dims)
    loops = [Loop(f"l{number}", {"s": value}) for number, value in enumerate(values)]
    found = windows(of, [(s, s.reads[0])], loops)
    assert found is not None
    (window,) = found
    places = set()
    for point in instances(s, {"n": 9}, 0, 14):
        at_ = [evaluate(value, point) for value in values]
        local = evaluate(inside(window, index, values), point)
        first = evaluate(start(window, [literal(v) for v in at_]), point)
        assert first + local == evaluate(index, point)
        places.add(local)
    whole = evaluate(window.size, {"n": 9})
    assert places <= set(range(whole))
    assert size is None or (whole == size and {min(places), max(places)} == {0, size - 1})


def _variables(expr: Expr) -> set[Expr]:
    return {expr} if isinstance(expr, Var) else {v for c in expr.children for v in _variables(c)}


def test_reads_that_move_apart() -> None:
    s = statement("s", box(i=n, j=n), at("Y", i), (at("A", i), at("A", j), at("A", i + 2)))
    of = scop((tensor("A", 99, role="input"), tensor("Y", 99, role="output")), s, parameters=("n",),
              context=(Constraint(n),))  # fmt: skip
    loops = [Loop("i_t", {"s": i // 4}), Loop("j_t", {"s": j // 4})]
    assert windows(of, [(s, s.reads[0]), (s, s.reads[1])], loops) is None
    hull = windows(of, [(s, s.reads[0]), (s, s.reads[2])], loops)
    assert hull is not None and evaluate(hull[0].size, {"n": 9}) == 6
