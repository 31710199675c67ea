"""What lies across nodes: who reads whom, and who needs whom."""

from __future__ import annotations

import pytest

import weft
from weft.graph import whole_program
from weft.graph.from_program import from_program
from weft.graph.whole_program import WholeProgram, key_of
from weft.ir.tensor_expr import Program, Tensor


def one_more(x: Tensor, name: str) -> Tensor:
    return weft.compute(x.shape, lambda i: x[i] + 1.0, name=name)


def chain() -> tuple[WholeProgram, list]:
    """b and c of a, d of c alone; c and d are outputs."""
    x = weft.placeholder((3,), name="x")
    a = one_more(x, "a")
    b, c = one_more(a, "b"), one_more(a, "c")
    d = weft.compute((3,), lambda i: b[i] * c[i], name="d")
    program = WholeProgram(from_program(Program("chain", (x,), (d, c))))
    by_name = {o.name: o for o in program.operations}
    return program, [by_name[n] for n in "abcd"]


def test_readers_values_and_what_only_some_need() -> None:
    program, (a, b, c, d) = chain()
    assert program.readers[a] == {b, c} and program.readers[d] == set()
    assert program.final == {c, d}
    assert [program.value_of(o).name for o in (a, b)] == ["a", "b"]
    assert program.only_for({d}, [a, b, c]) == {b}  # c is an output, and needs a
    assert program.only_for({c, d}, [a, b]) == {a, b}


def test_needs_follows_what_is_read() -> None:
    program, (a, b, c, d) = chain()
    assert program.needs(d, {b: True})
    assert not program.needs(c, {b: True})
    assert not program.needs(a, {b: True})


def test_a_search_without_end_counts_as_needing(monkeypatch: pytest.MonkeyPatch) -> None:
    program, (_, b, c, _) = chain()
    monkeypatch.setattr(whole_program, "SEARCHED", 0)
    assert program.needs(c, {b: True})


def test_one_result_has_one_key() -> None:
    x = weft.placeholder((3,), name="x")
    y = one_more(x, "y")
    assert key_of(x) is x
    assert key_of(y) == key_of(Tensor("again", y.shape, y.dtype, y.operation))
