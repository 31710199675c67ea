"""What follows from conditions, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir.scalar_affine import to_affine, to_expr
from weft.ir.scalar_condition import conjunction, narrow, proves
from weft.ir.scalar_expr import Apply, Var, apply, literal
from weft.ir.scalar_interpreter import evaluate

i, j = Var("i"), Var("j")
BOX = {"i": (-6, 6), "j": (-6, 6)}
GRID = dict(zip("ij", np.array(list(itertools.product(range(-6, 7), repeat=2))).T, strict=True))


@st.composite
def linear(draw):
    a, b, c = (draw(st.integers(-3, 3)) for _ in range(3))
    return i * a + j * b + draw(st.sampled_from([literal(c), (i + c) // 2]))


@st.composite
def conditions(draw, depth=3):
    if depth == 0 or draw(st.booleans()):
        op = draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
        return Apply(op, (draw(linear()), draw(linear())))
    if draw(st.booleans()):
        return ~draw(conditions(depth=depth - 1))
    op = draw(st.sampled_from(["and", "or"]))
    return apply(op, draw(conditions(depth=depth - 1)), draw(conditions(depth=depth - 1)))


def at(expr):
    return np.broadcast_to(evaluate(expr, GRID), GRID["i"].shape)


@settings(max_examples=200)
@given(conditions(), st.booleans())
def test_a_conjunction_follows_from_its_condition(condition, holds):
    found = conjunction(condition, holds)
    truth = at(condition) == holds
    implied = np.ones_like(truth)
    for fact in found.facts():
        implied &= at(to_expr(fact)) >= 0
    assert (implied | ~truth).all()
    if found.exact:
        assert (implied == truth).all()


@settings(max_examples=200)
@given(conditions())
def test_narrowed_ranges_keep_every_point(condition):
    found = narrow(BOX, conjunction(condition).facts())
    truth = at(condition)
    for name in "ij":
        low, high = found[name]
        values = GRID[name][truth]
        assert values.size == 0 or (low <= values.min() and high >= values.max())


@settings(max_examples=200)
@given(conditions(), linear())
def test_what_is_proved_is_true(condition, goal):
    form = to_affine(goal)
    assert form is not None
    if proves(conjunction(condition).facts(), BOX, form):
        assert (at(goal) >= 0)[at(condition)].all()


def test_the_proofs_that_compilers_need():
    n, h = Var("n"), Var("h")

    def follows(condition, goal):
        form = to_affine(goal)
        assert form is not None
        return proves(conjunction(condition).facts(), {"i": (0, None), "n": (0, None)}, form)

    assert follows(n > i, n - 1 - i)
    assert follows(n > i, n * 2 - 1 - i)
    assert follows((i + j - 1 >= 0) & (i + j - 1 < h), h - i - j)
    assert follows((i < n) & (j < h), n + h - 2 - i - j)
    assert follows((i < n) & (j < n), n * 2 - i - j - 2)
    assert not follows(n > i, n - 2 - i)
    assert not follows(n > i, h - i)
