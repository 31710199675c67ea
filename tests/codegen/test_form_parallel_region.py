"""Barriers stand where two threads might meet, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.region_interpreter import interpret_region
from weft.codegen.form_parallel_region import form_parallel_region
from weft.codegen.rebuild import map_children
from weft.ir.dtypes import int64
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    While,
    walk,
)
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

i, j, n, t = map(Var, ("i", "j", "n", "t"))
ZERO, ONE, THREE = literal(0), literal(1), literal(3)


def buffer(name: str, **more: object) -> Buffer:
    return Buffer(name, int64, (n,), (ONE,), **more)  # type: ignore[arg-type]


def at(name: str, index: Expr = i) -> Expr:
    return Load(name, (index,), int64)


def every(body: Stmt, var: str = "i", upper: Expr = n) -> For:
    return For(var, ZERO, upper, "parallel", body)


def steps(*body: Stmt, upper: Expr = THREE) -> For:
    return For("t", ZERO, upper, "serial", Block(body) if len(body) > 1 else body[0])


def copy(target: str, source: str) -> For:
    """target[i] = source[n - 1 - i] + 1: every thread reads what others wrote."""
    return every(Store(target, (i,), at(source, n - 1 - i) + 1))


def put(name: str, value: Expr) -> Store:
    return Store(name, (ZERO,), value)


def kernel(*body: Stmt, buffers: tuple[Buffer, ...] = ()) -> Kernel:
    named = tuple(map(buffer, "ABCD"))
    return Kernel("k", ("n",), (*named, *buffers), Block(body))


def formed(*body: Stmt) -> str:
    region = form_parallel_region(kernel(*body))
    assert region.region
    verify_kernel(region)
    return print_stmt(region.body)


def test_one_parallel_loop_or_none_is_no_region() -> None:
    for body in (
        copy("A", "B"),
        Let("m", n * 2, Block((Comment("hm"), copy("A", "B")))),
        steps(put("A", t)),
        For("i", ZERO, n, "vector", every(Store("A", (i,), j), "j")),
    ):
        assert form_parallel_region(kernel(body)) == kernel(body)


def test_one_triangle_is() -> None:
    triangle = every(For("j", ZERO, i, "serial", Store("A", (i,), j)))
    assert form_parallel_region(kernel(triangle)).region


def test_a_region_stays_as_it_is() -> None:
    once = form_parallel_region(kernel(steps(copy("A", "B"))))
    assert form_parallel_region(once) is once


def test_ping_pong() -> None:
    """No barrier after the last loop: the launch ends there."""
    assert formed(steps(copy("A", "B"), copy("B", "A"))) == (
        "for t in 0 .. 3 serial:\n"
        "  barrier\n"
        "  for i in 0 .. n parallel:\n"
        "    A[i] = B[n - 1 - i] + 1\n"
        "  barrier\n"
        "  for i in 0 .. n parallel:\n"
        "    B[i] = A[n - 1 - i] + 1"
    )


def test_loops_on_different_data_do_not_wait() -> None:
    assert formed(copy("A", "B"), copy("C", "B")).count("barrier") == 0
    assert formed(copy("A", "B"), copy("C", "A")).count("barrier") == 1
    assert formed(copy("A", "B"), copy("B", "C")).count("barrier") == 1
    assert formed(copy("A", "B"), copy("A", "C")).count("barrier") == 1


def test_buffers_that_overlap_are_one() -> None:
    alias = (buffer("E", aliases=("A",)), buffer("F", aliases=("E",)))
    body = (copy("F", "B"), copy("C", "A"))
    assert print_stmt(form_parallel_region(kernel(*body, buffers=alias)).body).count("barrier") == 1


def test_statements_outside_run_once() -> None:
    assert formed(put("A", ONE), put("B", ONE), copy("C", "D"), put("D", ONE)) == (
        "single:\n"
        "  A[0] = 1\n"
        "  B[0] = 1\n"
        "for i in 0 .. n parallel:\n"
        "  C[i] = D[n - 1 - i] + 1\n"
        "barrier\n"
        "single:\n"
        "  D[0] = 1"
    )


def test_one_thread_does_not_wait_for_itself() -> None:
    text = formed(steps(put("A", t), every(Store("B", (i,), i)), put("A", at("A", ZERO) + 1)))
    assert text.count("barrier") == 1  # B against itself


def test_bounds_and_conditions_are_read_by_all() -> None:
    """A loop bound read by every thread waits for its writer, and its next writer for them."""
    assert formed(put("A", ONE), every(Store("B", (i,), i), upper=at("A", ZERO))).count("barr") == 1
    assert formed(If(at("A", ZERO) > 0, copy("B", "C")), put("A", ONE)).count("barrier") == 1
    let = Let("m", at("A", ZERO), every(Store("B", (i,), i), upper=Var("m")))
    assert formed(let, put("A", ONE)).count("barrier") == 1
    counting = While(at("A", ZERO) < 3, Block((copy("B", "C"), put("A", at("A", ZERO) + 1))))
    assert formed(counting).count("barrier") == 2


def test_what_is_allocated_around_threads_is_shared() -> None:
    local = Buffer("L", int64, (n,), (ONE,), "local")
    register = Buffer("R", int64, (ONE,), (ONE,), "register")
    own = every(Allocate(local, Block((Store("L", (i,), i), Store("A", (i,), at("L"))))))
    assert "local" in formed(steps(own))
    around = Allocate(register, Block((put("R", ONE), every(Store("A", (i,), at("R", ZERO))))))
    text = formed(steps(around))
    assert "R: int64[1] shared" in text
    assert text.count("barrier") == 2
    assert "local" in formed(steps(Allocate(local, put("L", ONE)), copy("A", "B")))


LOOP_CARRIED = kernel(
    steps(
        copy("A", "B"),
        If(t < 2, copy("C", "A"), put("C", t)),
        steps(copy("D", "C"), upper=t),
        put("B", at("D", apply("max", n - 1, ZERO))),
        upper=literal(4),
    )
)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize("team", [1, 2, 3, 8])
def test_no_two_threads_meet(size: int, team: int) -> None:
    run(form_parallel_region(LOOP_CARRIED), size, team)


def test_no_barrier_is_too_many() -> None:
    """Without any one of them, the interpreter sees two threads meet."""
    region = form_parallel_region(LOOP_CARRIED)
    count = sum(isinstance(s, Barrier) for s in walk(region.body))
    assert count >= 4
    for number in range(count):
        with pytest.raises(AssertionError, match="meet"):
            run(replace(region, body=without(region.body, number)), 7, 3)


def run(region: Kernel, size: int, team: int) -> None:
    buffers = {b.name: np.arange(max(size, 1)) * (k + 1) for k, b in enumerate(region.buffers)}
    interpret_region(region, {"n": size}, buffers, team)


def without(stmt: Stmt, number: int) -> Stmt:
    """``stmt`` less its barrier ``number``."""
    seen = iter(range(1000))

    def visit(part: Stmt) -> Stmt:
        if isinstance(part, Barrier):
            return Block(()) if next(seen) == number else part
        return map_children(part, visit)

    return visit(stmt)


def test_many_lets_and_statements() -> None:
    """Chains deeper than Python's stack, and a body of many loops in time that is linear."""
    body: Stmt = copy("A", "B")
    for k in range(5000):
        body = Let(f"x{k}", n + k, body)
    region = form_parallel_region(kernel(steps(body)))
    assert sum(isinstance(s, Barrier) for s in walk(region.body)) == 1
    loops = tuple(copy("AB"[k % 2], "BA"[k % 2]) for k in range(2000))
    region = form_parallel_region(kernel(steps(*loops)))
    assert sum(isinstance(s, Barrier) for s in walk(region.body)) == 2000
