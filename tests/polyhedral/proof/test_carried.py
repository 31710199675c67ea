"""Following pairs inwards: which loop carries them, and which way."""

from __future__ import annotations

from random import Random

import islpy as isl
import pytest

from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, Values
from tests.polyhedral.scops import Var, at, box, loop, scop, statement, tensor
from weft.ir.isl_context import bounded
from weft.ir.named_isl import difference
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Loop
from weft.polyhedral.proof.carried import Together
from weft.polyhedral.proof.dependences import Dependence, dependences
from weft.polyhedral.proof.loop_distances import LoopDistances

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


# --- shortcuts are exact -------------------------------------------------------------------------

_SHAPES = (
    lambda v, w: v,
    lambda v, w: -v,
    lambda v, w: v // 4,
    lambda v, w: v % 4,
    lambda v, w: v // 4 + w // 4,
    lambda v, w: (v + w) // 3,
    lambda v, w: v // 8 - w // 8,
    lambda v, w: v - 4 * (v // 4),
    lambda v, w: (v // 2 + w) // 2,
)


def _random_loops(random: Random, band: Values) -> list[Loop]:
    found = []
    for number in range(random.randint(1, 6)):
        shape, one, two = random.choice(_SHAPES), *(random.randrange(9) for _ in "12")
        values = {s: shape(v[one % len(v)], v[two % len(v)]) for s, v in band.items()}
        found.append(loop(f"l{number}", **values))
    return found


class _Slowly:
    """The same questions, asked of all pairs."""

    def __init__(self, dependence: Dependence) -> None:
        self.dependence = dependence
        self.pairs = dependence.map.wrap().flatten()

    def distance(self, of: Loop) -> isl.Aff:
        source, sink = self.dependence.source, self.dependence.sink
        before, after = affine(of.at[source.name]), affine(of.at[sink.name])
        return difference(self.pairs.get_space(), (before, source.dims), (after, sink.dims))

    def beyond(self, of: Loop, sign: int) -> isl.Set:
        past = self.distance(of).scale_val(sign).add_constant_val(-1)
        return self.pairs.add_constraint(isl.Constraint.inequality_from_aff(past))


_FEW = ("gemm", "trmm", "lu")  # dependences


@pytest.mark.parametrize("name", ["gemm", "lu", "cholesky", "jacobi-2d", "fdtd-2d", "trmm"])
def test_shortcuts_against_all_pairs(name: str) -> None:
    random, seen = Random(name), [0, 0]
    for dependence in dependences(program(name)):
        for _ in range(8 if name in _FEW else 3):
            fast, slow = Together(dependence, LoopDistances()), _Slowly(dependence)
            with bounded():
                for entry in _random_loops(random, BANDS[name]):
                    back, forth = slow.beyond(entry, -1), slow.beyond(entry, 1)
                    backward = fast.backward(entry)
                    assert (backward is not None) == (not back.is_empty())
                    assert backward is None or backward.is_equal(back)
                    carried = fast.carried(entry)
                    assert (carried is not None) == (not (back.is_empty() and forth.is_empty()))
                    seen[backward is None] += 1
                    equal = isl.Constraint.equality_from_aff(slow.distance(entry))
                    slow.pairs = slow.pairs.add_constraint(equal)
                    more = fast.enter(entry)
                    assert more or slow.pairs.is_empty()
                    assert fast.pairs.is_equal(slow.pairs)
                    assert fast.is_empty() == slow.pairs.is_empty()
    assert min(seen) > 2, seen
