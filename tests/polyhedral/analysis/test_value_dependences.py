"""Value-based dependences are what an execution sees, and a small part of the memory-based ones."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import islpy as isl
import pytest

from tests.polyhedral.loop_programs import PROGRAMS, parse, program
from tests.polyhedral.scops import Constraint, Var, instances
from tests.properties.brute_force import Element, touched
from weft.polyhedral.analysis.dependences import Dependence, dependences, folding
from weft.polyhedral.analysis.value_dependences import value_dependences
from weft.polyhedral.named_isl import constrained, parameter_space
from weft.polyhedral.scop import Scop

Point = tuple[int, ...]
Pair = tuple[str, Point, str, Point, str]  # source, sink, tensor

HIGH = 5


def _executed(of: Scop, parameters: dict[str, int]) -> set[Pair]:
    """Who reads whose value, by running ``of``; all contributions to a fold count."""
    rows = []
    for number, s in enumerate(of.statements):
        for env in instances(s, parameters, -1, HIGH + 1):
            key = tuple(env[p] if isinstance(p, str) else p for p in s.position)
            rows.append(((*key, *[0] * (20 - len(key)), number), s, env))
    folds = folding(of)
    memory: dict[Element, list[tuple[str, Point]]] = defaultdict(list)
    found: set[Pair] = set()
    for _, s, env in sorted(rows, key=lambda row: row[0]):
        here = s.name, tuple(env[d] for d in s.dims)
        reads = [(a, False) for a in s.reads] + [(a, True) for a in s.writes if s.update]
        for access, implicit in reads:
            for element in touched(of, access, env):
                for writer in memory[element]:
                    if not (implicit and writer[0] == s.name and s.name in folds):
                        found.add((*writer, *here, access.tensor))
        for write in s.writes:
            for element in touched(of, write, env):
                kept = memory[element] if s.name in folds else []
                memory[element] = [*kept, here]
    return found


def _pairs(found: Dependence, parameters: dict[str, int], of: Scop) -> set[Pair]:
    here = tuple(Constraint(Var(p) - v, equality=True) for p, v in parameters.items())
    fixed = isl.Set(constrained(parameter_space(of).set_from_params(), (), here)).params()
    points: list[isl.Point] = []
    found.map.intersect_params(fixed).wrap().flatten().foreach_point(points.append)
    split, length = len(found.source.dims), len(found.source.dims) + len(found.sink.dims)
    rows = [
        tuple(p.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(length))
        for p in points
    ]
    return {
        (found.source.name, row[:split], found.sink.name, row[split:], found.tensor) for row in rows
    }


SMALL = [name for name in PROGRAMS if name != "heat-3d"]


@pytest.mark.parametrize("name", SMALL)
def test_values_against_execution(name: str) -> None:
    of = program(name)
    for sizes in product((3, HIGH), repeat=len(of.parameters)):
        parameters = dict(zip(of.parameters, sizes, strict=True))
        flows = [d for d in value_dependences(of) if not d.reduction]
        found = [pair for d in flows for pair in _pairs(d, parameters, of)]
        assert set(found) == _executed(of, parameters)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_part_of_the_memory_based_ones(name: str) -> None:
    of = program(name)
    memory: dict[tuple[str, str], isl.Map] = {}
    for d in dependences(of):
        key = d.source.name, d.sink.name
        memory[key] = memory[key].union(d.map) if key in memory else d.map
    for d in value_dependences(of):
        assert d.map.is_subset(memory[d.source.name, d.sink.name])
    assert len(value_dependences(of)) <= len(dependences(of))


def test_a_reduction_is_said_to_be_one() -> None:
    kinds = {(d.source.name, d.sink.name, d.reduction) for d in value_dependences(program("gemm"))}
    assert kinds == {("S0", "S1", False), ("S1", "S1", True)}


def test_an_update_that_folds_two_instances_into_one_element_keeps_those_in_order() -> None:
    of = parse("p", """
        for i in range(N):
            for k in range(N):
                A[i // 2] += X[i, k]
        """, "N", {"A": "io N", "X": "in N N"})  # fmt: skip
    assert {d.reduction for d in value_dependences(of)} == {False, True}
