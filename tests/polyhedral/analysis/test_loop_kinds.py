"""Which loops may be parallel or vectorised; compared with enumeration in tests/properties."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.example_scops import EXAMPLES, lstm, lstm_tree, softmax, softmax_tree
from weft.polyhedral.analysis.loop_kinds import parallel_loops, vector_loops, with_kinds
from weft.polyhedral.schedule_printer import print_schedule
from weft.polyhedral.schedule_tree import Band, Kind, Tree, children, with_children


def _all(tree: Tree, kind: Kind) -> Tree:
    below = with_children(tree, tuple(_all(child, kind) for child in children(tree)))
    if isinstance(below, Band):
        return replace(below, loops=tuple(replace(x, kind=kind) for x in below.loops))
    return below


@pytest.mark.parametrize(
    ("name", "serial", "reductions"),
    [
        ("gemm", set(), {"k0", "k1", "k2", "k3"}),
        ("conv", set(), {"c", "r", "s"}),
        ("softmax", set(), {"j m1", "j d1"}),
        ("lstm", {"t"}, {"g1 1"}),
        ("chain", set(), set()),
    ],
)
def test_loops_of_the_examples(name: str, serial: set[str], reductions: set[str]) -> None:
    make, tree = EXAMPLES[name]
    of, schedule = make(), tree()
    text = print_schedule(schedule)
    every = {line.split(" = ")[0].strip()[4:] for line in text.splitlines() if " = " in line}
    assert vector_loops(of, schedule) == every - serial
    assert parallel_loops(of, schedule) == every - serial - reductions


def test_kinds_that_are_not_allowed_become_serial() -> None:
    parallel = with_kinds(softmax(), _all(softmax_tree(), "parallel"))
    text = print_schedule(parallel)
    assert "for row = i    parallel" in text and "for j exp = j    parallel" in text
    assert "for j m1 = j\n" in text and "for j d1 = j\n" in text
    vector = print_schedule(with_kinds(softmax(), _all(softmax_tree(), "vector")))
    assert "for j m1 = j    vector" in vector
    assert "for t = t\n" in print_schedule(with_kinds(lstm(), _all(lstm_tree(), "vector")))


def test_other_kinds_stay() -> None:
    tree = _all(lstm_tree(), "unrolled")
    assert with_kinds(lstm(), tree) == tree
