"""Random tensor programs, compiled, compute what the tensor interpreter says, without a fallback.

``python -m tests.properties.fuzz_compiler --n 1000`` goes on for longer.
"""

from __future__ import annotations

import pytest

from tests.properties.fuzz_compiler import check
from tests.properties.random_programs import Case, random_case
from weft.ir import build as w
from weft.ir.tensor_expr import Program

PROGRAMS = 60
_PARTS = 6


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.long
def test_random_programs(part: int) -> None:
    for seed in range(part, PROGRAMS, _PARTS):
        try:
            check(random_case(seed), seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_programs_differ() -> None:
    """The generator covers what it says: operations of every kind, symbols, floats."""
    cases = [random_case(seed) for seed in range(PROGRAMS)]
    hints = {t.name.rstrip("0123456789_") for c in cases for t in _all(c.program)}
    assert hints >= {"map", "zip", "bc", "red", "tr", "dot", "win", "pad", "take", "scan", "put"}
    assert any(c.sizes for c in cases) and any(not c.exact for c in cases)


def _all(program: Program) -> list[object]:
    from weft.ir.tensor_expr import operations

    read = [t for op in operations(program) for t in op.reads]
    return [*program.outputs, *read]


def test_tensors_without_elements_take_no_memory_from_each_other() -> None:
    """All of them lie at one place of the arena, which is no conflict."""
    shape = (5, 0)
    x, u, base, values = (w.placeholder(shape, name=name) for name in ("x", "u", "base", "values"))
    at = w.placeholder((5,), "int64", name="at0_5")
    first = w.compute(shape, lambda i, j: x[i, j] - u[i, j], name="first")
    put = w.scatter(base, shape, lambda i, j: ((at[i], j), values[i, j]), name="put")
    twice = w.compute(shape, lambda i, j: put[i, j] * 2.0, name="twice")
    take = w.compute(shape, lambda i, j: first[at[i], j], name="take")
    flip = w.compute(shape, lambda i, j: first[4 - i, j] * twice[i, j], name="flip")
    program = Program("empty", (x, u, base, values, at), (take, flip, twice))
    check(Case(program, {}, True), 0)
