"""Against enumeration: what is said never to meet does not, for any sizes and turns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.codegen.never_alias import never_alias
from weft.ir.build import maximum, minimum
from weft.ir.dtypes import int64
from weft.ir.loop_ir import Block, For
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scalar_interpreter import evaluate

i, j, n = (Var(name, int64) for name in "ijn")


def loop(lower: Expr, upper: Expr, step: int = 1) -> For:
    return For("j", lower, upper, Block(()), "vector", step)


def meets(fixed: tuple[Expr, ...], read: tuple[Expr, ...], over: For) -> bool:
    """By running the loop for small values of everything else."""
    for at, size in itertools.product(range(-3, 9), range(9)):
        values = {"i": at, "n": size}
        ends = (evaluate(over.lower, values), evaluate(over.upper, values))
        for turn in range(*ends, over.step):
            here = values | {"j": turn}
            if all(
                evaluate(a, here) == evaluate(b, here) for a, b in zip(fixed, read, strict=True)
            ):
                return True
    return False


@pytest.mark.parametrize(
    ("fixed", "read", "over"),
    [
        ((i,), (j,), loop(literal(0), i)),
        ((i,), (j,), loop(i + 1, n)),
        ((i,), (j,), loop(literal(0), minimum(n, i))),
        ((i,), (j,), loop(maximum(i + 2, n // 2), n, 3)),
        ((i,), (i - j - 1,), loop(literal(0), n)),
        ((i, i), (n, j), loop(literal(0), i)),
        ((i, n), (j * 0 + i, n + 1), loop(literal(0), n)),
        ((i * 2,), (j * 2,), loop(literal(0), i)),
        ((i // 4 + 9,), (j,), loop(literal(0), i // 4)),
    ],
)
def test_what_is_apart(fixed: tuple[Expr, ...], read: tuple[Expr, ...], over: For) -> None:
    assert never_alias(fixed, read, over, {"j"})
    assert not meets(fixed, read, over)


affine = st.builds(
    lambda a, b, c, d: i * a + j * b + n * c + d, *([st.integers(-2, 2)] * 3), st.integers(-3, 3)
)
outer = st.builds(
    lambda a, c, d: i * a + n * c + d, *([st.integers(-1, 2)] * 2), st.integers(-2, 2)
)
lowers = outer | st.builds(maximum, outer, outer)
uppers = outer | st.builds(minimum, outer, outer)


@given(st.tuples(outer, outer), st.tuples(affine, affine), lowers, uppers, st.integers(1, 3))
def test_never_means_never(fixed, read, lower, upper, step) -> None:
    over = loop(lower, upper, step)
    if never_alias(fixed, read, over, {"j"}):
        assert not meets(fixed, read, over)


def test_names_that_change_meanwhile_say_nothing() -> None:
    assert not never_alias((i,), (Var("k", int64) - 1,), loop(literal(0), n), {"j", "k"})
    assert never_alias((i,), (i - 1,), loop(literal(0), n), {"j", "k"})


@weft.kernel
def solve(L: weft.f64[N, N], x: weft.f64[N]):  # noqa: F821
    for i in range(N):  # noqa: F821
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] /= L[i, i]


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 31, 32, 33, 65])
def test_sums_over_earlier_elements(size: int) -> None:
    rng = np.random.default_rng(size)
    lower = np.tril(rng.normal(size=(size, size))) + 9 * np.eye(size)
    right = rng.normal(size=size)
    x = right.copy()
    solve(lower, x)
    np.testing.assert_allclose(lower @ x, right, rtol=1e-12, atol=1e-12)
