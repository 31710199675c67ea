"""Elements that a program touches at all, against trying them."""

from __future__ import annotations

from itertools import product

import pytest

from tests.polyhedral.loop_programs import PROGRAMS, parse, program
from tests.polyhedral.scops import evaluate, instances
from weft.ir.scop import Scop
from weft.polyhedral.analysis.costs import touched_elements
from weft.polyhedral.analysis.counting import Counter


def _tried(of: Scop, sizes: dict[str, int]) -> dict[str, int]:
    found: dict[str, set[object]] = {}
    for s in of.statements:
        for env in instances(s, sizes, -1, max(sizes.values()) + 2):
            for access in (*s.reads, *s.writes):
                element = tuple(evaluate(x, env) for x in access.indices)
                found.setdefault(access.tensor, set()).add(element)
    return {tensor: len(elements) for tensor, elements in found.items()}


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("heat-3d", "adi")])
def test_programs(name: str) -> None:
    of, counter = program(name), Counter()
    found = touched_elements(of, counter)
    assert counter.exact
    for values in product((5, 6), repeat=len(of.parameters)):
        sizes = dict(zip(of.parameters, values, strict=True))
        real = _tried(of, sizes)
        assert {t: n.value(sizes) for t, n in found.items()} == real


def test_what_falls_into_many_parts_counts_as_the_whole_tensor() -> None:
    lines = "\n".join(f"    A[{20 * k} + i] = 0.0" for k in range(9))
    of = parse("p", f"for i in range(3):\n{lines}", "N", {"A": "out 200"})
    counter = Counter()
    assert str(touched_elements(of, counter)["A"]) == "200"
    assert not counter.exact
