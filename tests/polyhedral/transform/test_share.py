"""Nests under common loops: what is allowed computes the same, what is not is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    legal,
    matmul,
    promise,
    random_scops,
    refusal,
    stencil,
)
from weft.ir import build as w
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled, loops_above
from weft.polyhedral.transform.share import share


def fused(of: Scop, depth: int = 1, statements: Sequence[str] = ()) -> Scheduled:
    """The outermost ``depth`` loops of ``statements`` shared."""
    start = initial(of)
    names = list(statements) or [s.name for s in of.statements]
    above = {name: loops_above(start.tree, name) for name in names}
    shared = {f"s{d}": {name: above[name][d].name for name in names} for d in range(depth)}
    return share(start, shared, names)


def test_golden() -> None:
    assert print_schedule(fused(chain()).tree) == "for s0 = i\n  sequence\n    T\n    Y\n"


def test_what_is_not_shared_stays_inside() -> None:
    assert print_schedule(fused(matmul(), depth=2).tree) == (
        "for s0 = i\n"
        "  for s1 = j\n"
        "    sequence\n"
        "      C_add_init\n"
        "      for r = r\n"
        "        C_add\n"
        "      D\n"
    )


def test_the_fused_nest_takes_the_place_of_the_first() -> None:
    of = matmul()
    now = fused(of, 2, ["C_add_init", "D"])
    assert [loop.name for loop in now.loops()] == ["s0", "s1", "i_2", "j_2", "r"]
    text = refusal(of, now)
    assert "flow dependence of D on C_add" in text and "C_add[i=0, j=0, r=0] writes C[0, 0]" in text


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = matmul(n, max(1, n - 1), 3)
    promise(of, fused(of, 2))


def test_a_symbolic_size() -> None:
    of = chain(w.var("n"))
    promise(of, fused(of), *({"n": n} for n in AWKWARD))


def test_a_reader_of_what_comes_later_is_refused() -> None:
    text = refusal(stencil(), fused(stencil()))
    assert "WEFT-E0420" in text and "flow dependence of Y on T" in text
    assert "T[i=" in text and "before Y[i=" in text, "one violated pair of instances is shown"


def test_random_pairs_of_nests() -> None:
    """Whatever the checkers accept computes the same."""
    accepted = refused = 0
    for of, sizes in random_scops(15):
        names = [s.name for s in of.statements]
        start = initial(of).tree
        if not isinstance(start, TreeSequence):
            continue
        for first, second in pairwise(names):
            try:
                now = fused(of, 1, (first, second))
            except IllegalScheduleError:  # one nest already, or one without loops
                continue
            except IndexError:
                continue
            if legal(now):
                accepted += 1
                promise(of, now, sizes)
            else:
                refused += 1
    assert accepted > 3 and refused > 1, (accepted, refused)


def test_errors() -> None:
    start = initial(chain())
    with pytest.raises(IllegalScheduleError, match=r"E0450.*no loop 'x'"):
        share(start, {"s": {"T": "x", "Y": "i_2"}}, ["T", "Y"])
    with pytest.raises(IllegalScheduleError, match=r"E0459.*replaces loops of T"):
        share(start, {"s": {"T": "i"}}, ["T", "Y"])
    with pytest.raises(IllegalScheduleError, match=r"E0459.*just the statements T, Z"):
        share(start, {"s": {"T": "i", "Z": "i_2"}}, ["T", "Z"])
    with pytest.raises(IllegalScheduleError, match=r"E0459.*just the statements T"):
        share(start, {"s": {"T": "i"}}, ["T"])
