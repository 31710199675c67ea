"""Races of launches are refused, and kernels without any are accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    Let,
    Single,
    Stmt,
    Store,
    While,
)
from weft.ir.scalar_expr import Cast, Expr, Load, Var, apply, literal
from weft.polyhedral.proof.gpu import check_races

b, c, d, k, n, x, y = map(Var, ("b", "c", "d", "k", "n", "x", "y"))
ZERO, ONE = literal(0), literal(1)
ONE_ELEMENT = Load("A", (b, c), float32)
REST = apply("min", literal(256), n - b * 256)
SHARED = Buffer("s", float32, (literal(256),), (ONE,), "shared")
A = Buffer("A", float32, (n, n), (n, ONE), writable=False)
B = Buffer("B", float32, (n, n), (n, ONE))
V = Buffer("V", float32, (n,), (ONE,))
INDEX = Buffer("index", int64, (n,), (ONE,), writable=False)


def load(name: str, *indices: Expr) -> Load:
    return Load(name, indices, float32)


def store(name: str, indices: tuple[Expr, ...], value: Expr) -> Store:
    return Store(name, indices, value)


def grid(body: Stmt, var: str = "b") -> For:
    return For(var, ZERO, n, "grid", body)


def block(var: str, body: Stmt, upper: Expr = literal(256), lower: Expr = ZERO) -> For:  # noqa: B008
    return For(var, lower, upper, "block", body)


def kernel(body: Stmt, *buffers: Buffer) -> Kernel:
    return Kernel("f", ("n",), buffers or (A, B, V, INDEX), body)


def reversed_row(*, barrier: bool = True, again: bool = True) -> Stmt:
    """Each block turns a row around through shared memory, k times."""
    steps: list[Stmt] = [block("c", store("s", (c,), load("A", b, c)))]
    steps += [Barrier()] if barrier else []
    steps += [block("d", store("B", (b, d), load("s", literal(255) - d)))]
    steps += [Barrier()] if again else []
    return grid(Allocate(SHARED, For("k", ZERO, n, "serial", Block(tuple(steps)))))


def tree(*, drop: int = -1) -> Stmt:
    """256 values to one by halves; without the barrier ``drop``. None is needed at the end: the
    first thread made the last sum itself."""
    steps: list[Stmt] = [block("c", store("s", (c,), load("A", b, c)))]
    for number, half in enumerate((128, 64, 32, 16, 8, 4, 2, 1)):
        steps += [Barrier()] if number != drop else []
        var = f"d{number}"
        d = Var(var)
        total = load("s", d) + load("s", d + half)
        steps.append(block(var, store("s", (d,), total), literal(half)))
    steps.append(Single(store("V", (b,), load("s", ZERO) + load("s", ONE))))
    return grid(Allocate(SHARED, Block(tuple(steps))))


ACCEPTED = {
    "rows": reversed_row(),
    "tree": tree(),
    "a thread keeps its own": grid(
        Allocate(
            SHARED,
            Block(
                (
                    block("c", store("s", (c,), load("A", b, c))),
                    block("d", store("B", (b, d), load("s", d)), literal(100)),
                )
            ),
        )
    ),
    "one thread": grid(
        Block((Single(store("V", (b,), load("A", b, b))), Single(store("V", (b,), load("V", b)))))
    ),
    "tiles": For(
        "b",
        ZERO,
        (n + 255) // 256,
        "grid",
        block("c", store("V", (b * 256 + c,), load("A", ZERO, c)), REST),
    ),
    "guards": grid(
        block("c", If(c.equal(3), Store("V", (b,), load("A", b, c)))),
    ),
    "lets": grid(
        block(
            "c", Let("x", c // 16, Let("y", c % 16, store("B", (b, x * 16 + y), load("A", b, c))))
        )
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_kernels_without_races_are_accepted(name: str) -> None:
    assert check_races(kernel(ACCEPTED[name])) > 0


LINE = Single(store("B", (b, k), load("A", b, k)))
REFUSED = {
    "no barrier before the reads": reversed_row(barrier=False),
    "slot reused too early": reversed_row(again=False),
    **{f"tree without barrier {k}": tree(drop=k) for k in range(8)},
    "blocks share an element": grid(block("c", store("V", (c,), load("A", b, c)))),
    "blocks read what others write": grid(block("c", store("V", (b,), load("V", n - 1 - b)))),
    "threads share an element": grid(block("c", store("V", (b,), load("A", b, c)))),
    "tiles overlap by one": For(
        "b",
        ZERO,
        (n + 255) // 256,
        "grid",
        block("c", store("V", (b * 255 + c,), load("A", ZERO, c))),
    ),
    "index by data": grid(
        block("c", store("V", (Load("index", (c,), int64),), load("A", b, c))),
    ),
    "a turn is another thread's": grid(
        Allocate(
            SHARED,
            Block(
                (
                    block("c", store("s", (c,), load("A", b, c))),
                    block("d", store("B", (b, d), load("s", d)), lower=ONE),
                )
            ),
        )
    ),
    "a barrier under a condition on data": grid(
        Allocate(
            SHARED,
            Block(
                (
                    block("c", store("s", (c,), load("A", b, c))),
                    If(Load("index", (b,), int64) > 0, Barrier()),
                    block("d", store("B", (b, d), load("s", literal(255) - d))),
                )
            ),
        )
    ),
    "a bound that a thread writes": grid(
        Block(
            (
                block("c", store("V", (b,), load("A", b, c)), ONE),
                For("k", ZERO, Cast(load("V", b), int64), "serial", LINE),
            )
        )
    ),
    "steps of a loop without a barrier": grid(
        Allocate(
            SHARED,
            While(
                Load("index", (b,), int64) > 0,
                block("c", store("s", (c,), load("s", literal(255) - c))),
            ),
        )
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_races_are_refused_with_the_two_accesses(name: str) -> None:
    with pytest.raises(IllegalScheduleError) as caught:
        check_races(kernel(REFUSED[name]))
    error = caught.value
    assert error.code == "WEFT-E0426"
    assert "race for" in error.what and error.why.count(" by thread ") == 2
    assert " for n = " in error.why


def test_what_may_overlap_is_one_memory() -> None:
    body = grid(block("c", store("V", (b * 256 + c,), load("W", b * 256 + c + 1))))
    apart = Buffer("W", float32, (n,), (ONE,), writable=False)
    assert check_races(kernel(body, V, apart)) > 0
    with pytest.raises(IllegalScheduleError, match="WEFT-E0426"):
        check_races(kernel(body, V, replace(apart, aliases=("V",))))
