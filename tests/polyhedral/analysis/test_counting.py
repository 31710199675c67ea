"""Closed forms of how often statements run, against running them."""

from __future__ import annotations

from itertools import product

import pytest

from tests.polyhedral.loop_programs import PROGRAMS, parse, program
from tests.polyhedral.scops import Constraint, Var, instances
from weft.ir.scalar_expr import Expr
from weft.ir.scop import Body, Scop, Statement
from weft.polyhedral.analysis.counting import Counter, Unbounded, region
from weft.polyhedral.analysis.polynomials import Polynomial, symbol

i, N = Var("i"), Var("N")


def _count(s: Statement, counter: Counter) -> Polynomial:
    return counter.total(s.dims, region(s.domain))


def _agree(of: Scop, sizes: tuple[int, ...], exact: bool = True) -> None:
    for s in of.statements:
        counter = Counter()
        total = _count(s, counter)
        assert counter.exact == exact, s.name
        for values in product(sizes, repeat=len(of.parameters)):
            env = dict(zip(of.parameters, values, strict=True))
            real = sum(1 for _ in instances(s, env, -1, max(sizes) + 2))
            assert total.value(env) == real, (s.name, str(total), env)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "heat-3d"])
def test_programs(name: str) -> None:
    _agree(program(name), (5, 7))


SHAPES = {
    "a band of a matrix": """
        for i in range(N):
            for j in range(max(0, i - 2), min(N, i + 3)):
                A[i, j] = 0.0
        """,
    "a trapezoid": """
        for i in range(N):
            for j in range(i, N + 2):
                A[i, j] = 0.0
        """,
    "a tetrahedron": """
        for i in range(N):
            for j in range(i):
                for k in range(j, i):
                    A[i, j] = 0.0
        """,
    "a loop that is often empty": """
        for i in range(N):
            for j in range(3, i - 1):
                A[i, j] = 0.0
        """,
    "two triangles": """
        for i in range(N):
            for j in range(N - i, i):
                A[i, j] = 0.0
        """,
}


def _bounds(text: str) -> str:
    return text.replace("max(0, i - 2)", "i - 2").replace("min(N, i + 3)", "i + 3")


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    of = parse("p", _bounds(SHAPES[shape]), "N", {"A": "out N N"})
    [s] = of.statements
    if "max" in SHAPES[shape]:
        limits = (Constraint(Var("j")), Constraint(N - 1 - Var("j")))
        s = Statement(s.name, s.dims, (*s.domain, *limits), s.position, s.writes, s.reads, s.body)
    counter = Counter()
    total = _count(s, counter)
    sizes = (8, 10, 12) if shape == "two triangles" else range(6, 12)
    for n in sizes:
        real = sum(1 for _ in instances(s, {"N": n}, -1, 14))
        if shape == "two triangles":  # of N or N - 1 rows: 1/4 too much or too little
            assert abs(total.value({"N": n}) - real) <= 1
        else:
            assert counter.exact and total.value({"N": n}) == real, (str(total), n)


def test_digits_of_several_indices() -> None:
    """Panels within panels: each element once, up to the mean of what rounding leaves."""
    k, n = 384 * Var("k_t") + 4 * Var("q") + Var("r"), 96 * Var("n_t") + 48 * Var("p") + Var("l")
    conditions = [Var("k_t"), Var("n_t"), Var("r"), 3 - Var("r"), Var("l"), 47 - Var("l"),
                  Var("K") - 1 - k, N - 1 - n]  # fmt: skip
    for digits, base in ((4 * Var("q") + Var("r"), 384), (48 * Var("p") + Var("l"), 96)):
        conditions += [digits, base - 1 - digits]
    total = Counter().total(
        ("k_t", "n_t", "q", "p", "l", "r"), region([Constraint(c) for c in conditions])
    )
    sizes = {"K": 4000, "N": 3000}
    assert float(total.value(sizes)) == pytest.approx(4000 * 3000, rel=0.05)


def test_weights() -> None:
    of = program("lu")
    s = of.statement("S0")
    total = Counter().total(s.dims, region(s.domain), symbol("i") * symbol("k"))
    for n in (4, 7):
        real = sum(e["i"] * e["k"] for e in instances(s, {"N": n}, 0, n))
        assert total.value({"N": n}) == real


def test_strides_are_estimates() -> None:
    s = program("jacobi-1d").statement("S0")
    domain = (Constraint(i), Constraint(N - 1 - i), Constraint(i % 2, equality=True))
    even = Statement("e", ("i",), domain, (0, "i", 0), s.writes, (), s.body)
    counter = Counter()
    total = _count(even, counter)
    assert not counter.exact and str(total) == "N/2"
    third = Statement("t", ("i",), (Constraint(i), Constraint(N - 1 - 3 * i)), (0, "i", 0),
                      s.writes, (), s.body)  # fmt: skip
    counter = Counter()
    assert float(_count(third, counter).value({"N": 300})) == pytest.approx(100, rel=0.01)
    assert not counter.exact


@pytest.mark.parametrize(
    ("conditions", "share"),
    [
        ([i % 3], "N"),
        ([-(i % 3)], "N/3"),
        ([i % 3 - 1, 1 - i % 3], "N/3"),
        ([i % 3 - 1, i % 4 - 1], "N/2"),
        ([2 * (i % 5) - 3], "3*N/5"),
        ([3 - i % 2], "N"),
        ([i % 2 - 2], "0"),
    ],
)
def test_conditions_on_remainders(conditions: list[Expr], share: str) -> None:
    domain = (Constraint(i), Constraint(N - 1 - i), *map(Constraint, conditions))
    s = Statement("s", ("i",), domain, (0, "i", 0), (), (), Body((), ()))
    counter = Counter()
    assert str(_count(s, counter)) == share and not counter.exact
    real = sum(1 for _ in instances(s, {"N": 60}, 0, 60))
    assert _count(s, counter).value({"N": 60}) == real


def test_known_sizes_decide_which_is_larger() -> None:
    of = parse("p", """
        for i in range(N):
            if i < M:
                A[i] = 0.0
        """, "N M", {"A": "out N"})  # fmt: skip
    [s] = of.statements
    assert str(_count(s, Counter({"N": 10, "M": 100}))) == "N"
    assert str(_count(s, Counter({"N": 100, "M": 10}))) == "M"
    counter = Counter()
    _count(s, counter)
    assert not counter.exact


def test_a_loop_without_end_has_no_count() -> None:
    s = program("jacobi-1d").statement("S0")
    with pytest.raises(Unbounded):
        Counter().total(s.dims, region(s.domain[:-1]))


def test_nothing_runs_where_bounds_cross() -> None:
    nothing = region((Constraint(i - 5), Constraint(3 - i)))
    assert Counter().total(("i",), nothing) == Polynomial()
