from __future__ import annotations

import pytest

from weft.codegen.kernel_work import LANES, UNKNOWN, kernel_barriers, kernel_work
from weft.codegen.loop_ir import (
    Barrier,
    Block,
    Check,
    For,
    If,
    Kernel,
    Let,
    Single,
    Stmt,
    Store,
    Update,
    While,
)
from weft.codegen.size_arithmetic import evaluate
from weft.dtypes import float32, int64
from weft.frontend.build import monoid
from weft.frontend.scalar_expr import Expr, Load, Var, apply, literal

i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
ZERO = literal(0)
X = Load("x", (i,), float32)


def loop(var: str, lower: Expr | int, upper: Expr | int, body: Stmt, step: int = 1) -> For:
    low, high = (literal(e) if isinstance(e, int) else e for e in (lower, upper))
    return For(var, low, high, "serial", body, step)


def work(body: Stmt, **sizes: int) -> int:
    """Of one of two turns: what a second thread takes off the first."""
    twice = For("turn", ZERO, literal(2), "parallel", body)
    return evaluate(kernel_work(Kernel("k", ("n", "m"), (), twice)), sizes)


ADD = Store("y", (i,), X + X)  # a load (the two are one node), an addition and a store


def test_straight_code() -> None:
    assert work(ADD) == 3
    assert work(Store("y", (i,), apply("exp", X))) == 12
    assert work(Block((ADD, ADD, Check(X < 3.0, 1, (i, i))))) == 6 + 2
    fold = Update((("y", (i,)),), monoid("min", float32), (X * X,))
    assert work(fold) == 2 + 1 + 1


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_loops_multiply(size: int) -> None:
    assert work(loop("i", 0, n, ADD), n=size) == 3 * size
    nest = loop("i", 0, n, loop("j", 0, m, ADD))
    assert work(nest, n=size, m=3) == 3 * 3 * size
    assert work(loop("i", 3, n, ADD, step=4), n=size) == 3 * len(range(3, size, 4))


def test_triangles_and_tiles() -> None:
    triangle = loop("i", 0, n, loop("j", 0, i, ADD))
    assert abs(work(triangle, n=101) - 3 * 5050) <= 3 * 101
    for size in (32, 33, 63, 64, 1000):
        tiles = loop("i", 0, (n + 31) // 32, loop("j", i * 32, apply("min", n, i * 32 + 32), ADD))
        assert size <= work(tiles, n=size) <= 2 * 3 * size


def test_the_dearer_branch_and_data_dependent_loops() -> None:
    assert work(If(X < 3.0, ADD, Block((ADD, ADD)))) == 2 + 6
    assert work(While(X < 3.0, ADD)) == 2 + UNKNOWN * 3
    assert work(loop("j", 0, Load("x", (i,), int64), ADD)) == 1 + UNKNOWN * 3
    inner = loop("i", 0, Var("t"), ADD)
    assert work(Let("t", Load("x", (ZERO,), int64), inner)) == 1 + UNKNOWN * 3


def test_deep_nests_stay_small() -> None:
    body: Stmt = ADD
    for depth in range(40, 0, -1):
        body = loop(f"i{depth}", 0, Var(f"i{depth - 1}") + 1 if depth > 1 else n, body)
    assert work(body, n=1) > 0


@pytest.mark.parametrize("size", [0, 1, 8, 9, 1000])
def test_vectors_count_once(size: int) -> None:
    row = For("i", ZERO, n, "vector", ADD)
    assert work(row, n=size) == 3 * -(-size // LANES)


def test_bounds_may_have_names() -> None:
    named = Let("half", n // 2, loop("i", 0, Var("half"), ADD))
    assert work(named, n=20) == 3 * 10 + 10  # and a division
    twice = loop("j", 0, m, Let("end", Var("j") * 2, loop("i", 0, Var("end"), ADD)))
    assert work(twice, n=0, m=11) == 3 * 110 + 11


def test_regions_count_what_threads_share_and_how_often_they_meet() -> None:
    spread = For("i", ZERO, n, "parallel", ADD)
    step = Block((Barrier(), spread, Barrier(), Single(loop("j", 0, m, ADD))))
    body = loop("t", 0, m, loop("k", 0, Var("t"), step))
    kernel = Kernel("k", ("n", "m"), (), body, region=True)
    sizes = {"n": 1000, "m": 21}
    assert evaluate(kernel_barriers(kernel), sizes) == 2 * 21 * 10
    assert evaluate(kernel_work(kernel), sizes) == 3 * 999 * 21 * 10


def test_a_parallel_loop_of_one_turn_shares_nothing() -> None:
    front = For("j", apply("max", ZERO, i - m), apply("min", i, n), "parallel", ADD)
    body = loop("i", 0, n + m, Block((Barrier(), front)))
    kernel = Kernel("k", ("n", "m"), (), body, region=True)
    assert evaluate(kernel_work(kernel), {"n": 1, "m": 50}) < 3 * 60
    wide = evaluate(kernel_work(kernel), {"n": 40, "m": 40})
    assert 3 * 1600 / 2 <= wide <= 3 * 1600 * 2


def test_what_takes_as_long_on_any_number_of_threads_is_not_shared() -> None:
    alone = Single(loop("j", 0, m, ADD))
    turns = For("i", ZERO, n, "parallel", loop("j", 0, m, ADD))
    kernel = Kernel("k", ("n", "m"), (), Block((alone, Barrier(), turns)), region=True)
    for size in (0, 1, 2, 30):
        assert evaluate(kernel_work(kernel), {"n": size, "m": 7}) == 3 * 7 * max(size - 1, 0)
    assert kernel_work(Kernel("k", ("n", "m"), (), alone.body)) == ZERO
