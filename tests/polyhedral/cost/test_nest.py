"""Iterations of loops and spans of what they leave open, against running them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.scops import Constraint, Var, evaluate, instances
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import domain_points
from weft.polyhedral.cost.forms import Form, constant_form
from weft.polyhedral.cost.nest import Nest, Row, _projected, _range, nest_of
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.isolate import isolate


def _loops(tree: Tree, name: str) -> list[Loop]:
    return [entry for entry in paths(tree)[name] if isinstance(entry, Loop)]


def _nest(of: Scop, tree: Tree, name: str, sizes: dict[str, int]) -> Nest:
    s = of.statement(name)

    def form(expr: Expr) -> Form:
        return constant_form(affine(expr), sizes)

    domain = [(form(c.expr), c.equality) for c in s.domain]
    return nest_of(s.dims, domain, [form(loop.at[name]) for loop in _loops(tree, name)])


def _run(of: Scop, tree: Tree, name: str, sizes: dict[str, int], depth: int) -> int:
    """How often the first ``depth`` loops run."""
    loops = _loops(tree, name)[:depth]
    return len({
        tuple(evaluate(x.at[name], env) for x in loops)
        for env in instances(of.statement(name), sizes, -1, max(sizes.values()) + 2)
    })  # fmt: skip


@pytest.mark.parametrize("n", [1, 7, 20])
@pytest.mark.parametrize("name", ["gemm", "lu", "trmm", "cholesky", "jacobi-2d", "seidel-2d"])
def test_iterations_of_loops_as_written(name: str, n: int) -> None:
    """Exactly in boxes; about where loops bound each other."""
    of, tree = program(name), initial(program(name)).tree
    sizes = dict.fromkeys(of.parameters, n)
    for s in of.statements:
        nest = _nest(of, tree, s.name, sizes)
        for depth in range(len(s.dims) + 1):
            found, real = float(nest.iterations(depth)[0]), _run(of, tree, s.name, sizes, depth)
            full = _run(of, tree, s.name, sizes, len(s.dims))
            assert found == pytest.approx(real, rel=0.1, abs=1.5 if full else n), (s.name, depth)
            if name in ("gemm", "jacobi-2d", "seidel-2d") and full:
                assert found == real


@pytest.mark.parametrize("name", ["gemm", "jacobi-1d", "jacobi-2d", "lu"])
def test_iterations_of_tiles(name: str) -> None:
    of = program(name)
    tree = tiled(of, BANDS[name], (4,) * len(next(iter(BANDS[name].values()))))
    sizes = dict.fromkeys(of.parameters, 16)
    for s in of.statements:
        nest = _nest(of, tree, s.name, sizes)
        points = _run(of, tree, s.name, sizes, len(nest.fixed))
        assert float(nest.iterations(len(nest.fixed))[0]) == pytest.approx(points, rel=0.1)
        for depth in range(len(nest.fixed)):
            found = float(nest.iterations(depth)[0])
            real = _run(of, tree, s.name, sizes, depth)
            assert real / 2.5 <= found <= real * 1.5, (s.name, depth, found, real)


def test_what_loops_leave_open() -> None:
    of = program("jacobi-1d")
    tree = tiled(of, BANDS["jacobi-1d"], (8, 32))
    nest = _nest(of, tree, "S1", {"T": 64, "N": 1000})
    widths = np.array([nest.widths(depth)[:, 0] for depth in range(5)])
    assert list(widths[:, 0]) == [64, 4, 4, 1, 1]  # 2 t + 1: eight of these are four t
    assert widths[2:, 1] == pytest.approx([32, 32, 1], rel=0.03)


def test_a_wavefront_of_tiles() -> None:
    """i // 8 + j // 8, then i // 8: both are known up to eight values. Then i and j alone."""
    of = program("gemm")
    tree = tiled(of, {s: (v[0] // 8 + v[1] // 8, v[0] // 8, *v) for s, v in BANDS["gemm"].items()})
    nest = _nest(of, tree, "S1", {"I": 64, "J": 64, "K": 2})
    counts = [float(nest.iterations(depth)[0]) for depth in range(6)]
    assert counts == [1, 8, 64, 64 * 8, 64 * 64, 64 * 64 * 2]
    over = {d: [float(x[0]) for x in nest.over({d: np.ones(1)})] for d in "ijk"}
    assert sorted(over.values()) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_complements_with_floors() -> None:
    """k // 8 < i // 8 and not: neither is empty, nor all; about as many as there are."""
    of = program("lu")
    i, k = Var("i"), Var("k")
    apart, _ = isolate(of, "S0", (Constraint(i // 8 - k // 8 - 1),))
    sizes = {"N": 64}
    for s in apart.statements:
        domain = [(constant_form(affine(c.expr), sizes), c.equality) for c in s.domain]
        loops = [constant_form(affine(Var(d)), sizes) for d in s.dims]
        real = len(domain_points(s, sizes)[""])
        assert real / 2.5 < float(nest_of(s.dims, domain, loops).points[0]) < 2 * real


@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_many_inequalities(seed: int) -> None:
    """What a bounded domain implies for a coordinate is bounded, and holds every point of it."""
    random, count = np.random.default_rng(seed), 6
    points = random.integers(0, 9, (40, count))
    rows: list[Row] = []
    skewed = np.tril(random.integers(-2, 3, (count, count)), -1) + np.eye(count)
    for normal in [*random.integers(-2, 3, (8, count)), *skewed, *-skewed]:
        rows.append((tuple(map(float, normal)), -float((points @ normal).min())))
    for c in range(count):
        low, high = _range(_projected(rows, {c}), c, np.zeros((1, count)))
        assert low[0] <= points[:, c].min()
        assert points[:, c].max() <= high[0]


def test_half_of_a_square_is_a_triangle() -> None:
    of = program("lu")
    nest = _nest(of, initial(of).tree, "S0", {"N": 40})  # k < j < i
    assert float(nest.share(0, {0, 1})[0]) == pytest.approx(0.5, rel=0.1)
    assert float(nest.share(0, {0})[0]) == float(nest.share(3, {0, 1})[0]) == 1
