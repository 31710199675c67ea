"""Random tensor programs, compiled, compute what the tensor interpreter says, without a fallback.

``python -m tests.properties.fuzz_compiler --n 1000`` goes on for longer.
"""

from __future__ import annotations

import pytest

from tests.properties.fuzz_compiler import check
from tests.properties.random_programs import Case, random_case
from weft.frontend import build as w
from weft.frontend.tensor_expr import Program

PROGRAMS = 60
_PARTS = 6


@pytest.mark.parametrize("part", range(_PARTS))
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
    from weft.frontend.tensor_expr import operations

    read = [t for op in operations(program) for t in op.reads]
    return [*program.outputs, *read]


def test_tensors_without_elements_take_no_memory_from_each_other() -> None:
    """All of them lie at one place of the arena, which is no conflict."""
    x, base = w.placeholder((0, 5), name="x"), w.placeholder((4, 0), name="base")
    values = w.placeholder((3, 0), name="values")
    y = w.compute((0, 5), lambda i, j: x[i, j] - 1.0, name="y")
    z = w.compute((0, 5), lambda i, j: y[i, 4 - j], name="z")
    put = w.scatter(base, (3, 0), lambda i, j: ((i, j), values[i, j]), name="put")
    twice = w.compute((4, 0), lambda i, j: put[i, j] * 2.0, name="twice")
    late = w.compute((0, 5), lambda i, j: y[i, j] + 1.0, name="late")
    check(Case(Program("empty", (x, base, values), (z, twice, late)), {}, True), 0)
