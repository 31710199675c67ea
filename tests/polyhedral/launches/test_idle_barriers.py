"""Barriers are idle just where the whole proof, asked anew without each in turn, can spare them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

import weft
from weft.codegen.cuda.form_launches import form_launches
from weft.codegen.cuda.idle_barriers import without_idle_barriers
from weft.driver import gpu_code
from weft.ir.dtypes import float32, int64
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Kernel,
    Single,
    Stmt,
    Store,
    walk,
)
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.polyhedral.launches.idle_barriers import idle_barriers
from weft.polyhedral.proof.gpu import check_races

ZERO, ONE = literal(0), literal(1)
b, k, n = Var("b"), Var("k"), Var("n")
WIDTH = literal(64)
SHARED = [Buffer(name, float32, (literal(130),), (ONE,), "shared") for name in ("s", "t")]
OUT = Buffer("V", float32, (n, literal(64)), (WIDTH, ONE))
INDEX = Buffer("index", int64, (n,), (ONE,), writable=False)


def is_proved(kernel: Kernel) -> bool:
    try:
        check_races(kernel)
    except IllegalScheduleError:
        return False
    return True


def barriers(kernel: Kernel) -> int:
    return sum(isinstance(stmt, Barrier) for stmt in walk(kernel.body))


def spared(kernel: Kernel) -> frozenset[int]:
    """The definition: each asked about once, in order, by the whole proof."""
    gone: set[int] = set()
    for number in range(barriers(kernel)):
        if is_proved(without_idle_barriers(kernel, gone | {number})):
            gone.add(number)
    return frozenset(gone)


def step(pick: random.Random, number: int) -> Stmt:
    """A block loop that reads one buffer and writes another, here or there; or one thread's."""
    turn = Var(f"c{number}")
    at = [turn, turn + 1, literal(64) - turn, turn * 2, k, literal(pick.randrange(3))]
    to, come = pick.choice("st"), pick.choice("st")
    if pick.random() < 0.2:
        return Single(Store(to, (literal(pick.randrange(4)),), literal(1.0, float32)))
    index, other = pick.choice(at[:4]), pick.choice(at)
    value: Expr = Load(come, (other,), float32) + 1.0
    body: Stmt = Store(to, (index,), value)
    if pick.random() < 0.2:
        body = Store("V", (b, turn), value)
    return For(turn.name, ZERO, literal(pick.choice((1, 32, 64))), "block", body)


def random_kernel(seed: int) -> Kernel:
    """Steps with barriers between most, some in a serial loop, a condition among the barriers."""
    pick = random.Random(seed)
    numbers = iter(range(100))

    def steps(count: int) -> list[Stmt]:
        made: list[Stmt] = []
        for _ in range(count):
            made.append(step(pick, next(numbers)))
            made += [Barrier()] * pick.choice((0, 1, 1, 1, 2))
        if pick.random() < 0.3:
            asked = Load("index", (b,), int64) > 0 if pick.random() < 0.5 else k > 1
            made.append(If(asked, Barrier()))
        return made

    inner = For("k", ZERO, pick.choice((n, literal(3))), "serial", Block(tuple(steps(3))))
    around = For("k", ZERO, ONE, "serial", Block((*steps(2), Barrier())))
    last = For("k", ZERO, ONE, "serial", Block((Barrier(), *steps(1))))
    body: Stmt = Block((around, inner, last))
    for buffer in SHARED:
        body = Allocate(buffer, body)
    launch = For("b", ZERO, n, "grid", body)
    return Kernel("f", ("n",), (OUT, INDEX), launch)


def test_random_launches() -> None:
    some = 0
    for seed in range(24):
        kernel = random_kernel(seed)
        want = spared(kernel) if is_proved(kernel) else frozenset()
        assert idle_barriers(kernel) == want, seed
        some += 0 < len(want) < barriers(kernel)
    assert some >= 5


def test_launches_are_numbered_as_in_the_text() -> None:
    """The first needs none, the second its only one."""

    def launch(name: str, other: Expr) -> Stmt:
        c, d = Var("c"), Var("d")
        parts = (
            For("c", ZERO, WIDTH, "block", Store("s", (c,), literal(0.0, float32))),
            Barrier(),
            For("d", ZERO, WIDTH, "block", Store("V", (b, d), Load("s", (other,), float32))),
        )
        return For(name, ZERO, n, "grid", Allocate(SHARED[0], Block(parts)))

    mirrored = launch("b", literal(63) - Var("d"))
    both = Kernel("f", ("n",), (OUT,), Block((launch("b", Var("d")), mirrored)))
    assert idle_barriers(both) == {0}
    assert idle_barriers(replace(both, body=Block(both.body.stmts[::-1]))) == {1}


def row_sums() -> weft.Tensor:
    x = weft.placeholder((5, 300), dtype="float32", name="x")
    j = weft.reduce_axis((0, 300), name="j")
    total = weft.compute((5,), lambda a: weft.sum(x[a, j], axis=j), name="total")
    return weft.compute((5, 300), lambda a, c: x[a, c] - total[a], name="made")


def product() -> weft.Tensor:
    x = weft.placeholder((64, 64), dtype="float16", name="x")
    j = weft.reduce_axis((0, 64), name="j")

    def body(a: Expr, c: Expr) -> Expr:
        return weft.sum(x[a, j].astype("float32") * x[j, c].astype("float32"), axis=j)

    return weft.compute((64, 64), body, name="made")


@pytest.mark.parametrize("make", [row_sums, product])
def test_what_the_compiler_makes(
    make: Callable[[], weft.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a block reduces, and tensor cores with copies in flight."""
    seen: list[Kernel] = []

    def keep(kernel: Kernel) -> Kernel:
        seen.append(form_launches(kernel))
        return seen[-1]

    monkeypatch.setattr(gpu_code, "form_launches", keep)
    weft.compile(make(), target="sm_80")
    (kernel,) = seen
    assert barriers(kernel) > 1 and idle_barriers(kernel) == spared(kernel)
