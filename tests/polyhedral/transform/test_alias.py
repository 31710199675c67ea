"""Temporaries in the results that are made of them: the same results, or refused."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.errors import CompileError, IllegalScheduleError
from weft.polyhedral.proof.prove import prove
from weft.polyhedral.transform.alias import alias
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import parallel, vectorize
from weft.polyhedral.transform.tile import tile

SUMS = """
    for k in range(N):
        for i in range(M):
            e[k, i] = X[k, i] * 2
    for i in range(M):
        s[i] = 0
    for k in range(N):
        for i in range(M):
            s[i] += e[k, i]
    for k in range(N):
        for i in range(M):
            Y[{at}] = {value}
"""


def sums(at: str = "i, k", value: str = "e[k, i] - s[i]", **more: str) -> Scheduled:
    shapes = {"X": "in N M", "Y": "out M N", "e": "tmp N M", "s": "tmp M"}
    return initial(read(SUMS.format(at=at, value=value), "N M", **shapes | more))


def test_elements_lie_where_they_will() -> None:
    """Y is e with its dims turned; it is read as soon as it is written."""
    made = alias(sums(), "e", "Y")
    assert [t.name for t in made.scop.tensors] == ["X", "Y", "s"]
    assert str(made.steps[-1]) == 'alias("e", "Y")'
    computes(made)
    names = [loop.name for loop in made.loops()]
    lanes = vectorize(parallel(made, names[0]), names[1])
    computes(tile(lanes, {names[-1]: 8, names[-2]: 4}))


def test_shifted_results_and_other_temporaries() -> None:
    shifted = sums("i + 1, k", Y="io M+1 N")
    computes(alias(shifted, "e", "Y"))
    computes(alias(contract(sums(), "s"), "e", "Y"))


def test_a_result_that_is_read_at_the_same_place_only_then() -> None:
    both = "for i in range(N):\n    t[i] = X[i] * 3\nfor i in range(N):\n    Y[i] = t[i] + {}"
    shapes = {"X": "in N", "Y": "io N", "t": "tmp N"}
    computes(alias(initial(read(both.format("X[i]"), **shapes)), "t", "Y"))
    with pytest.raises(IllegalScheduleError, match="WEFT-E0440"):
        proved(alias(initial(read(both.format("Y[i]"), **shapes)), "t", "Y"))


def proved(now: Scheduled) -> None:
    prove(now.original, now.scop, now.tree)


REFUSED = {
    "another element": ("i, k", "e[k, i] - e[k, M - 1 - i]", "WEFT-E0464"),
    "elements of several": ("i, k", "e[0, i] - s[i]", "WEFT-E0464"),
    "one element of all": ("0, k", "e[k, i] - s[i]", "WEFT-E0440"),
    "no element": ("i, k", "s[i]", "WEFT-E0464"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    at, value, code = REFUSED[name]
    with pytest.raises(CompileError, match=code):
        proved(alias(sums(at, value), "e", "Y"))


def test_outside_of_the_result() -> None:
    """The last column of e has no place in Y."""
    text = SUMS.replace("{at}", "i, k").replace("{value}", "e[k, i] - s[i]")
    head, tail = text.rsplit("for i in range(M)", 1)
    short = read(f"{head}for i in range(M - 1){tail}", "N M", least=1,
                 X="in N M", Y="out M-1 N", e="tmp N M", s="tmp M")  # fmt: skip
    with pytest.raises(CompileError, match="WEFT-E0430"):
        proved(alias(initial(short), "e", "Y"))


def test_read_after_its_place_is_the_result() -> None:
    """Fused, iteration k makes row k of Y before iteration k + 1 reads row k of e."""
    text = """
    for k in range(N):
        e[k] = X[k] * 2
    for k in range(1, N):
        Y[k] = e[k - 1]
    for k in range(N):
        Z[k] = e[k] + 1
    """
    now = initial(read(text, X="in N", Y="io N", Z="out N", e="tmp N"))
    made = alias(now, "e", "Z")
    computes(made)
    with pytest.raises(IllegalScheduleError, match="WEFT-E0420"):
        proved(fuse(made, "k_2", "k_3"))


def test_names_and_types() -> None:
    now = sums()
    for tensor, result, code in (
        ("e", "W", "E0452"), ("W", "Y", "E0452"), ("X", "Y", "E0464"), ("e", "s", "E0464"),
    ):  # fmt: skip
        with pytest.raises(IllegalScheduleError, match=code):
            alias(now, tensor, result)
    with pytest.raises(IllegalScheduleError, match="no temporary") as caught:
        alias(now, "X", "Y")
    assert caught.value.hint == "contract it, or leave it"
