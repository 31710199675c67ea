"""Iterations of loops and spans of what they leave open, against running them."""

from __future__ import annotations

import pytest

from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.scops import evaluate, instances
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Scop
from weft.polyhedral.analysis.counting import Counter
from weft.polyhedral.analysis.nest_coordinates import NestCoordinates
from weft.polyhedral.analysis.polynomials import number
from weft.polyhedral.transform.initial import initial


def _loops(tree: Tree, name: str) -> list[Loop]:
    return [entry for entry in paths(tree)[name] if isinstance(entry, Loop)]


def _nest(of: Scop, tree: Tree, name: str, sizes: dict[str, int]) -> NestCoordinates:
    return NestCoordinates(of.statement(name), _loops(tree, name), Counter(sizes))


def _run(of: Scop, tree: Tree, name: str, sizes: dict[str, int], depth: int) -> int:
    """How often the first ``depth`` loops run."""
    loops = _loops(tree, name)[:depth]
    return len({
        tuple(evaluate(x.at[name], env) for x in loops)
        for env in instances(of.statement(name), sizes, -1, max(sizes.values()) + 2)
    })  # fmt: skip


@pytest.mark.parametrize("name", ["gemm", "lu", "trmm", "jacobi-2d", "seidel-2d"])
def test_iterations_of_loops_as_written(name: str) -> None:
    of, tree = program(name), initial(program(name)).tree
    sizes = dict.fromkeys(of.parameters, 7)
    for s in of.statements:
        nest = _nest(of, tree, s.name, sizes)
        for depth in range(len(s.dims) + 1):
            found = nest.summed(depth).value(sizes)
            real = _run(of, tree, s.name, sizes, depth)
            empty = _run(of, tree, s.name, dict.fromkeys(sizes, 8), depth) - real
            assert abs(found - real) <= max(1, abs(empty)), (s.name, depth)
            if depth == len(s.dims):
                assert found == real


@pytest.mark.parametrize("name", ["gemm", "jacobi-1d", "jacobi-2d", "lu"])
def test_iterations_of_tiles(name: str) -> None:
    """As many as whole tiles would be; cut ones count by what they hold."""
    of = program(name)
    tree = tiled(of, BANDS[name], (4,) * len(next(iter(BANDS[name].values()))))
    sizes = dict.fromkeys(of.parameters, 16)
    for s in of.statements:
        nest = _nest(of, tree, s.name, sizes)
        points = _run(of, tree, s.name, sizes, len(nest.fixed))
        assert nest.summed(len(nest.fixed)).value(sizes) == points
        for depth in range(len(nest.fixed)):
            found = float(nest.summed(depth).value(sizes))
            real = _run(of, tree, s.name, sizes, depth)
            assert real / 4 <= found <= real * 1.5, (s.name, depth, found, real)


def test_spans() -> None:
    of = program("jacobi-1d")
    tree = tiled(of, BANDS["jacobi-1d"], (8, 32))
    nest = _nest(of, tree, "S1", {})
    time, space = nest.names
    assert [str(nest.span(time, depth)) for depth in range(5)] == ["T", "4", "4", "1", "1"]
    assert [str(nest.span(space, depth)) for depth in (2, 3, 4)] == ["32", "32", "1"]


def test_strides_of_loops_count_once() -> None:
    """2 t + 1 runs as often as t, and i moves by what is left of 2 t + i."""
    of = program("jacobi-1d")
    nest = _nest(of, tiled(of, BANDS["jacobi-1d"]), "S1", {})
    assert str(nest.summed(1)) == "T" and str(nest.summed(2)) == "N*T - 2*T"


def test_weights_over_known_coordinates() -> None:
    of = program("lu")
    nest = _nest(of, initial(of).tree, "S0", {})
    assert str(nest.span(nest.names[1], 1)) == f"{nest.names[0]} - 1"
    assert nest.summed(0, number(5)) == number(5)
