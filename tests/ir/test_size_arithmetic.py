import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.ir.dtypes import bool_, int64
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select
from weft.ir.size_arithmetic import SizeError, bind, evaluate, text
from weft.ir.tensor_expr import as_size

m, n, mn = Var("m"), Var("n"), Var("mn")
ints = st.integers(-1000, 1000)


@given(ints, ints)
def test_integer_semantics(a: int, b: int) -> None:
    sizes = {"m": a, "n": b}
    trunc = 0 if b == 0 else int(a / b)
    expected: list[tuple[Expr, int]] = [
        (m + n, a + b),
        (m - n, a - b),
        (m * n, a * b),
        (m // n, a // b if b else 0),
        (m % n, a % b if b else 0),
        (apply("truncdiv", m, n), trunc),
        (apply("rem", m, n), a - b * trunc if b else 0),
        (apply("min", m, n), min(a, b)),
        (apply("max", m, n), max(a, b)),
        (select(m < n, m, n * 2), a if a < b else 2 * b),
        (-m, -a),
        (abs(m), abs(a)),
        ((m < n) & ~m.equal(n) | (m >= n), 1),
    ]
    for expr, value in expected:
        assert evaluate(expr, sizes) == value, text(expr)


def test_hostile_sizes_are_errors() -> None:
    with pytest.raises(SizeError, match="too large"):
        evaluate(m * m, {"m": 1 << 40})
    with pytest.raises(SizeError, match="size n is not known"):
        evaluate(m + n, {"m": 1})
    with pytest.raises(SizeError, match="Load cannot stand"):
        evaluate(Load("a", (m,), int64) + 1, {"m": 0})


def test_bind_reads_solves_and_checks() -> None:
    assert bind([(m, n)], [(3, 5)]) == {"m": 3, "n": 5}
    assert bind([(n * 2 + 1,), (n,)], [(7,), (3,)]) == {"n": 3}
    assert bind([(n * 2 + 1,)], [(7,)]) == {"n": 3}
    assert bind([(m,), (m * n,)], [(3,), (15,)]) == {"m": 3, "n": 5}
    assert bind([(m, n)], [(3, 5)], [("mn", m * n)]) == {"m": 3, "n": 5, "mn": 15}
    assert bind([(n,), (mn,)], [(5,), (15,)], [("mn", m * n)]) == {"m": 3, "n": 5, "mn": 15}
    mixed = bind([(mn + m + n,), (m,), (n,)], [(23,), (3,), (5,)], [("mn", m * n)])
    assert mixed == {"m": 3, "n": 5, "mn": 15}
    assert bind([(m, n), (mn,)], [(0, 5), (0,)], [("mn", m * n)]) == {"m": 0, "n": 5, "mn": 0}


@pytest.mark.parametrize(
    ("declared", "actual", "message"),
    [
        ([(n,), (n,)], [(3,), (4,)], r"n is 3, not 4"),
        ([(n * 2,)], [(7,)], r"n \* 2 is 7 for no n"),
        ([(n, n * 2)], [(3, 7)], r"n \* 2 is 6, not 7 \(with n = 3\)"),
        ([(n + 4,)], [(3,)], r"n \+ 4 is 3 for n = -1 alone, and sizes are not negative"),
        ([(n // 2,)], [(3,)], r"n // 2 = 3 does not say what n may be"),
        ([(m + n,)], [(3,)], r"m \+ n = 3 does not say what m and n may be"),
        ([(n,), (mn,)], [(2,), (7,)], r"m \* n is 7 for no m \(with n = 2\)"),
        ([(literal(4),)], [(3,)], r"a size is 3, not 4"),
        ([(m, n), (mn,)], [(2, 3), (5,)], r"m \* n is 6, not 5"),
    ],
)
def test_bind_refuses(declared, actual, message) -> None:
    with pytest.raises(SizeError, match=message):
        bind(declared, actual, [("mn", m * n)] if (mn,) in declared else ())


@pytest.mark.parametrize(
    ("declared", "actual", "message"),
    [
        ([(4,), (2, 3)], [(4,), (2, 5)], "dimension 1 of B is 5, not 3"),
        ([(n,), (n,)], [(3,), (4,)], "n is 3, not 4, in dimension 0 of B"),
        ([(m,), (n, n * 2)], [(1,), (3, 7)],
         "n * 2 is 6, not 7 (with n = 3), in dimension 1 of B"),
        ([(m,), (m, n * 2)], [(1,), (1, 7)], "n * 2 is 7 for no n, in dimension 1 of B"),
        ([(), (m + n,)], [(), (3,)],
         "m + n = 3 does not say what m and n may be, in dimension 0 of B"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(declared, actual, message) -> None:
    shapes = [tuple(map(as_size, shape)) for shape in declared]
    with pytest.raises(SizeError) as caught:
        bind(shapes, actual, names=("A", "B"))
    assert str(caught.value) == message


def test_text() -> None:
    assert text((m * n + 63) // 64) == "((m * n) + 63) // 64"
    assert text(select(literal(True, bool_) & (m < 3), m, n)) == "select((m < 3), m, n)"
    assert text(apply("min", m, n)) == "min(m, n)"
