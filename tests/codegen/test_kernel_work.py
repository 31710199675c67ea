from __future__ import annotations

from dataclasses import replace

import pytest

from weft.codegen.kernel_work import TEAM, UNKNOWN, WALK, WALKS, kernel_barriers, kernel_work
from weft.codegen.machines.dot_products import dot_product
from weft.codegen.machines.matrix_units import block_product
from weft.codegen.statement_cost import ENTERED, LANES, OPERATION
from weft.ir.dtypes import bfloat16, float32, int8, int64, uint8
from weft.ir.instruction import Instruction, Intrinsic
from weft.ir.loop_ir import (
    Barrier,
    Block,
    For,
    If,
    Kernel,
    Let,
    Single,
    Stmt,
    Store,
    While,
)
from weft.ir.machine import TYPICAL, Machine
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal
from weft.ir.size_arithmetic import evaluate

i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
ZERO = literal(0)
X = Load("x", (i,), float32)


def loop(var: str, lower: Expr | int, upper: Expr | int, body: Stmt, step: int = 1) -> For:
    low, high = (literal(e) if isinstance(e, int) else e for e in (lower, upper))
    return For(var, low, high, "serial", body, step)


def mean(expr: Expr, **sizes: int) -> float:
    """Over all walks."""
    return sum(evaluate(expr, {**sizes, WALK.name: k}) for k in range(WALKS)) / WALKS


def works(
    body: Stmt,
    region: bool = False,
    team: int = 1,
    machine: Machine = TYPICAL,
    **sizes: int,
) -> tuple[float, float]:
    """All work, and that of the busiest thread of ``team``."""
    total, busiest = kernel_work(Kernel("k", ("n", "m"), (), body, region=region), machine)
    all_sizes = {**sizes, TEAM.name: team}
    return mean(total, **all_sizes), mean(busiest, **all_sizes)


def work(body: Stmt, machine: Machine = TYPICAL, **sizes: int) -> float:
    """Of ``body``, without what entering its outermost loop takes."""
    total, _ = works(body, machine=machine, **sizes)
    return total - ENTERED // OPERATION * isinstance(body, For)


ADD = Store("y", (i,), X + X)  # a load (the two are one node), an addition and a store


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_loops_multiply(size: int) -> None:
    assert work(loop("i", 0, n, ADD), n=size) == 3 * size
    nest = loop("j", 0, m, loop("i", 0, n, ADD))
    assert work(nest, n=size, m=3) == 3 * (ENTERED // OPERATION + 3 * size)
    assert work(loop("i", 3, n, ADD, step=4), n=size) == 3 * len(range(3, size, 4))


def near(found: float, exact: int, by: float) -> bool:
    return exact / by <= found <= exact * by


COUNT = Store("y", (i,), literal(1.0, float32))  # one operation


def test_triangles_count_half() -> None:
    for size in (50, 101, 2000):
        triangle = loop("j", 0, n, loop("i", 0, j, COUNT))
        assert near(work(triangle, n=size) - 8 * size, size * (size - 1) // 2, 1.05)
        pyramid = loop("k", 0, n, loop("j", 0, Var("k"), loop("i", 0, j, COUNT)))
        around = 8 * (size + size * (size - 1) // 2)
        assert near(work(pyramid, n=size) - around, size * (size - 1) * (size - 2) // 6, 1.1)


def test_partial_tiles_count_as_what_they_hold() -> None:
    for size in (1, 31, 32, 33, 63, 64, 1000):
        tiles = loop("j", 0, (n + 31) // 32, loop("i", j * 32, apply("min", n, j * 32 + 32), COUNT))
        assert near(work(tiles, n=size) - 8 * -(-size // 32), size, 1.1)


@pytest.mark.parametrize(("times", "rows"), [(100, 400), (500, 2000), (60, 5000)])
def test_clipped_tiles_of_time_count_as_what_they_hold(times: int, rows: int) -> None:
    """Diamonds as of a one-dimensional stencil, against the points that there are: each belongs to
    one tile."""
    w, x, t = Var("w"), Var("x"), Var("t")
    low, high = (w - x) * 64 - x * 64, (w - x) * 64 - x * 64 + 128
    inner = loop("i", apply("max", ZERO, low + t), apply("min", n, high + t), COUNT)
    steps = loop("t", apply("max", ZERO, w * 32 - 32), apply("min", m, w * 32 + 32), inner)
    nest = loop("w", 0, (m + 63) // 32, loop("x", -(rows + times) // 128 - 2, w + 1, steps))
    exact = sum(
        len(range(max(0, (b - 2 * a) * 64 + c), min(rows, (b - 2 * a) * 64 + 128 + c)))
        for b in range((times + 63) // 32)
        for a in range(-(rows + times) // 128 - 2, b + 1)
        for c in range(max(0, b * 32 - 32), min(times, b * 32 + 32))
    )
    bare = without_entering(nest, n=rows, m=times)
    assert near(bare, exact, 1.6)


def without_entering(body: Stmt, **sizes: int) -> float:
    """The difference that twice the statement makes."""
    twice = rebuilt(body, Block((COUNT, COUNT)))
    return work(twice, **sizes) - work(body, **sizes)


def rebuilt(stmt: Stmt, leaf: Stmt) -> Stmt:
    return replace(stmt, body=rebuilt(stmt.body, leaf)) if isinstance(stmt, For) else leaf


def test_conditions_are_decided_where_they_are_known() -> None:
    both = If(n > 5, ADD, Block((ADD, ADD)))
    assert (work(both, n=5), work(both, n=6)) == (6, 3)
    peeled = loop("i", 0, n, If(i < n // 3, COUNT, Block((COUNT, COUNT, COUNT, COUNT))))
    assert near(work(peeled, n=900), 300 + 4 * 600, 1.05)
    assert work(If(X < 3.0, ADD, Block((ADD, ADD)))) == 2 + 6  # the dearer branch


def test_loops_over_data() -> None:
    assert work(While(X < 3.0, ADD)) == 2 + UNKNOWN * 3
    assert work(loop("i", 0, Load("x", (j,), int64), ADD)) == 1 + UNKNOWN * 3
    inner = loop("i", 0, Var("t"), ADD)
    assert works(Let("t", Load("x", (ZERO,), int64), inner))[0] == 1 + 8 + UNKNOWN * 3


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
    assert works(named, n=20)[0] == 8 + 3 * 10
    twice = loop("j", 0, m, Let("end", Var("j") * 2, loop("i", 0, Var("end"), ADD)))
    assert near(work(twice, n=0, m=101), 101 * (8 + 3 * 100), 1.02)


@pytest.mark.parametrize("team", [1, 2, 7])
def test_regions_count_what_threads_share_and_how_often_they_meet(team: int) -> None:
    spread = For("i", ZERO, n, "parallel", ADD)
    step = Block((Barrier(), spread, Barrier(), Single(ADD)))
    body = loop("t", 0, m, loop("k", 0, Var("t"), step))
    kernel = Kernel("k", ("n", "m"), (), body, region=True)
    assert near(mean(kernel_barriers(kernel), n=1000, m=21), 2 * 21 * 10, 1.05)
    turns = -(-1000 // team)
    assert near(works(body, n=1000, m=21, team=team)[1], (8 + 3 * turns + 3) * 21 * 10, 1.1)


@pytest.mark.parametrize("team", [2, 16])
def test_a_parallel_loop_of_one_turn_takes_nothing_off_anyone(team: int) -> None:
    front = For("i", apply("max", ZERO, j - m), apply("min", j, n), "parallel", ADD)
    body = loop("j", 0, n + m, Block((Barrier(), front)))
    total, busiest = works(body, n=1, m=50, team=team)
    assert busiest == total


@pytest.mark.parametrize("team", [1, 2, 3, 64])
def test_the_busiest_thread_has_the_most_turns_and_what_one_does_alone(team: int) -> None:
    alone = Single(loop("i", 0, m, ADD))
    turns = For("j", ZERO, n, "parallel", loop("i", 0, m, ADD))
    for size in (0, 1, 2, 3, 30):
        body = Block((alone, Barrier(), turns))
        total, busiest = works(body, region=True, n=size, m=7, team=team)
        shares = [len(range(size * t // team, size * (t + 1) // team)) for t in range(team)]
        assert busiest == 8 + 3 * 7 + 8 + (8 + 3 * 7) * max(shares)
        assert total == 8 + 3 * 7 + 8 + (8 + 3 * 7) * size
    alone_work = works(alone.body, n=1, m=7, team=team)
    assert alone_work[0] == alone_work[1]


@pytest.mark.parametrize(
    ("issued", "vector_bytes", "faster"),
    [
        (dot_product("four", (uint8, int8), 4, 16, 32, Intrinsic("llvm.four", ())), 64, 4),
        (dot_product("two", (bfloat16, bfloat16), 2, 16, 32, Intrinsic("llvm.two", ())), 64, 2),
        (
            dot_product("narrow", (bfloat16, bfloat16), 2, 4, 32, Intrinsic("llvm.narrow", ())),
            64,
            1,
        ),
        (block_product("tdpbusd", (uint8, int8)), 64, 32),
        (dot_product("half", (uint8, int8), 4, 8, 16, Intrinsic("llvm.half", ())), 32, 4),
    ],
)
def test_instructions_of_many_products_take_less(
    issued: Instruction, vector_bytes: int, faster: int
) -> None:
    """As many times less as they do products in the time of one of float32."""
    plain, machine = loop("i", 0, n, ADD), replace(TYPICAL, vector_bytes=vector_bytes)
    expected = work(plain, n=3200) / faster
    found = work(replace(plain, instruction=issued), machine, n=3200)
    assert found == pytest.approx(expected, rel=0.01)
