"""Following pairs inwards: which loop carries them, and which way."""

from __future__ import annotations

import pytest

from tests.polyhedral.scops import Var, at, box, loop, scop, statement, tensor
from weft.frontend.scalar_expr import Expr
from weft.polyhedral.analysis.carried import Together
from weft.polyhedral.analysis.dependences import dependences
from weft.polyhedral.named_isl import bounded

i, t = Var("i"), Var("t")


def _together(*read: Expr) -> Together:
    step = statement("s", box(t=8, i=16), at("A", t + 1, i), (at("A", *read),), dims=("t", "i"))
    [found] = dependences(scop((tensor("A", 9, 16),), step))
    return Together(found)


@pytest.mark.parametrize(
    ("value", "carried", "backward", "stays"),
    [
        (t, True, False, False),
        (i, True, True, False),
        (-i, True, False, False),
        (i + t, False, False, True),
        (t // 4, True, False, True),
        (i // 4, True, True, True),
        ((i + t) // 4, False, False, True),
        (t % 2, True, True, False),
    ],
)
def test_one_loop(value: Expr, carried: bool, backward: bool, stays: bool) -> None:
    """A[t + 1, i] is read one step later, one place to the left."""
    with bounded():
        pairs = _together(t, i + 1)
        assert (pairs.carried(loop("l", s=value)) is not None) == carried
        assert (pairs.backward(loop("l", s=value)) is not None) == backward
        assert (pairs.enter(loop("l", s=value)) and not pairs.is_empty()) == stays


def test_loops_inside_see_only_what_is_left() -> None:
    with bounded():
        pairs = _together(t, i + 1)
        assert pairs.enter(loop("tile", s=t // 4))
        assert pairs.backward(loop("within", s=t % 4)) is None
        pairs.enter(loop("within", s=t % 4))
        assert pairs.is_empty()
        assert pairs.carried(loop("i", s=i)) is None
