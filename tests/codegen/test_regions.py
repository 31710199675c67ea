"""Regions on the thread pool: programs with serial loops around parallel ones, bit for bit.

Integers, so that any order of the wrong kind shows; the serial oracle is NumPy or plain Python.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from tests.codegen.llvm.test_runtime import in_a_process
from tests.codegen.program_examples import NativeCall
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.program import emit_program
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir import loop_ir
from weft.ir.build import monoid
from weft.ir.dtypes import int64
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Check,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    While,
)
from weft.ir.loop_verifier import verify_kernel
from weft.ir.program import Buffer, Launch, Output, Program
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

THREADS = (1, 2, 3, 8)
ZERO, ONE = literal(0), literal(1)
i, j, k, n, t, w, T = map(Var, ("i", "j", "k", "n", "t", "w", "T"))
Array = np.ndarray


def matrix(name: str) -> loop_ir.Buffer:
    return loop_ir.Buffer(name, int64, (n, n), (n, ONE))


def vector(name: str, **more: object) -> loop_ir.Buffer:
    return loop_ir.Buffer(name, int64, (n,), (ONE,), **more)  # type: ignore[arg-type]


def at(name: str, *indices: Expr) -> Expr:
    return Load(name, indices, int64)


def loop(var: str, lower: Expr, upper: Expr, *body: Stmt, kind: loop_ir.Kind = "serial") -> For:
    return For(var, lower, upper, kind, body[0] if len(body) == 1 else Block(body))


def parallel(var: str, lower: Expr, upper: Expr, *body: Stmt) -> For:
    return loop(var, lower, upper, *body, kind="parallel")


def region(
    buffers: tuple[loop_ir.Buffer, ...], *body: Stmt, messages: tuple[str, ...] = ()
) -> Kernel:
    kernel = optimise_kernel(Kernel("k", ("n", "T"), buffers, Block(body), messages))
    verify_kernel(kernel)
    assert kernel.region
    return kernel


class Native:
    """A program of one launch; its buffers are outputs, changed in place."""

    def __init__(self, kernel: Kernel) -> None:
        target = host_target()
        emitted = emit_kernel(kernel, target)
        ports = tuple(
            Buffer(b.name, b.dtype, b.shape, Output(number))
            for number, b in enumerate(kernel.buffers)
        )
        launch = Launch("k", tuple(b.name for b in ports))
        program = Program("p", kernel.parameters, (), ports, (), ports, ZERO, (launch,), (kernel,))
        main = emit_program(program, {"k": emitted.symbols}, "run", grain=1)
        self.call = NativeCall(program, [to_object(text, target) for text in (emitted.text, main)])

    def __call__(self, arrays: list[Array], size: int, steps: int, threads: int) -> list[int]:
        return self.call([], arrays, [], [size, steps], threads)


# ---- programs -----------------------------------------------------------------------------------

SEIDEL = region(
    (matrix("A"),),
    loop("t", ZERO, T,
         loop("w", literal(2), n * 2 - 3,
              parallel("i", apply("max", ONE, w - n + 2), apply("min", n - 1, w),
                       Let("j", w - i,
                           Store("A", (i, j), (at("A", i - 1, j) * 3 + at("A", i, j - 1) * 5
                                 + at("A", i, j) + at("A", i + 1, j) * 7
                                 + at("A", i, j + 1) * 11) % 1000003))))),
)  # fmt: skip


def seidel(a: Array, size: int, steps: int) -> None:
    for _ in range(steps):
        for x in range(1, size - 1):
            for y in range(1, size - 1):
                a[x, y] = (a[x - 1, y] * 3 + a[x, y - 1] * 5 + a[x, y] + a[x + 1, y] * 7
                           + a[x, y + 1] * 11) % 1000003  # fmt: skip


# Elimination without division: rows and columns of a trailing triangle, modulo a prime.
ELIMINATION = region(
    (matrix("A"), vector("P")),
    loop("k", ZERO, n,
         Store("P", (ZERO,), at("A", k, k)),
         parallel("i", k + 1, n, Store("A", (i, k), at("A", i, k) * at("P", ZERO) % 10007)),
         parallel("i", k + 1, n,
                  loop("j", k + 1, i + 1,
                       Store("A", (i, j), (at("A", i, j) * 3 + at("A", i, k) * at("A", k, j)
                                           ) % 10007), kind="vector"))),
)  # fmt: skip


def elimination(a: Array, size: int, steps: int) -> None:
    for x in range(size):
        a[x + 1 :, x] = a[x + 1 :, x] * a[x, x] % 10007
        for y in range(x + 1, size):
            cut = slice(x + 1, y + 1)
            a[y, cut] = (a[y, cut] * 3 + a[y, x] * a[x, cut]) % 10007


def data(size: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(1, 1000, (size, size))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("kernel", "oracle"), [(SEIDEL, seidel), (ELIMINATION, elimination)])
def test_in_place_programs(
    kernel: Kernel, oracle: Callable[[Array, int, int], None], threads: int
) -> None:
    native = Native(kernel)
    for size in (0, 1, 2, 3, 17, 40):
        a = data(size)
        expected = a.copy()
        oracle(expected, size, 3)
        buffers = [a, np.zeros(max(size, 1), np.int64)][: len(kernel.buffers)]
        assert native(buffers, size, 3, threads)[0] == 0
        np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("kernel", [SEIDEL, ELIMINATION], ids=["seidel", "elimination"])
def test_no_two_threads_meet(kernel: Kernel) -> None:
    """Interpreted with every access watched, and compiled, on teams of 1, 2, 3 and 8."""
    size = 9
    buffers = {"A": data(size).ravel(), "P": np.zeros(size, np.int64)}
    check(kernel, {"n": size, "T": 2}, {b.name: buffers[b.name] for b in kernel.buffers})


@pytest.mark.long
@pytest.mark.parametrize(("threads", "steps"), [(2, 50_000), (3, 5_000), (8, 500)])
def test_a_hundred_thousand_barriers(threads: int, steps: int) -> None:
    """A value walks around a ring: one barrier missed and it is lost."""
    turn = (i + 1) % n
    kernel = region(
        (vector("A"), vector("B")),
        loop("t", ZERO, T,
             parallel("i", ZERO, n, Store("B", (turn,), at("A", i) + 1)),
             parallel("i", ZERO, n, Store("A", (turn,), at("B", i) + 1))),
    )  # fmt: skip
    native = Native(kernel)
    size = 7
    a, b = np.arange(size) * 1000, np.zeros(size, np.int64)
    expected = np.roll(a, 2 * steps) + 2 * steps
    assert native([a, b], size, steps, threads)[0] == 0
    np.testing.assert_array_equal(a, expected)
    last = time.monotonic() + 20
    while not everywhere() and time.monotonic() < last:
        time.sleep(0.01)  # workers that a launch called elsewhere are back when they sleep
    assert everywhere()


def everywhere() -> bool:
    """Whether all threads may run on all processors that this one may run on."""
    allowed = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
    return all(where == os.sched_getaffinity(0) for where in allowed)


NESTED = region(
    (vector("A"), vector("B"), vector("C")),
    Store("C", (ZERO,), literal(5)),
    loop("t", ZERO, T,
         Let("m", at("C", ZERO) % 3,
             If(apply("eq", t % 2, ZERO),
                Block((parallel("i", ZERO, n, Store("A", (i,), at("B", n - 1 - i) + Var("m"))),
                       If(Var("m") > 0, loop("k", ZERO, Var("m"),
                          parallel("i", ZERO, n, Store("B", (i,), at("A", n - 1 - i) + k)))),
                       Store("B", (ZERO,), at("A", n - 1)))),
                parallel("i", n, n, Store("A", (i,), ZERO)))),
         Update((("C", (ZERO,)),), monoid("add", int64), (at("A", ZERO) % 7,))),
    While(at("C", ZERO) > 10, Block((
        parallel("i", ONE, n, Update((("B", (i,)),), monoid("add", int64), (at("C", ZERO),))),
        Store("C", (ZERO,), at("C", ZERO) - 3)))),
)  # fmt: skip


def nested(a: Array, b: Array, c: Array, size: int, steps: int) -> None:
    c[0] = 5
    for step in range(steps):
        m = c[0] % 3
        if step % 2 == 0:
            a[:] = b[::-1] + m
            for x in range(m):
                b[:] = a[::-1] + x
            b[0] = a[-1]
        c[0] += a[0] % 7
    while c[0] > 10:
        b[1:] += c[0]
        c[0] -= 3


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_conditions_lets_and_loops_of_no_turns(threads: int, size: int) -> None:
    native = Native(NESTED)
    for steps in (0, 1, 2, 9):
        arrays = [np.arange(size) + 10 * k for k in range(3)]
        expected = [a.copy() for a in arrays]
        nested(*expected, size, steps)
        assert native(arrays, size, steps, threads)[0] == 0
        for actual, wanted in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_conditions_lets_and_loops_interpreted() -> None:
    for steps in (0, 3):
        arrays = {name: np.arange(5) + 10 * k for k, name in enumerate("ABC")}
        check(NESTED, {"n": 5, "T": steps}, arrays)


@pytest.mark.parametrize("threads", THREADS)
def test_memory_of_one_thread_and_of_all(threads: int) -> None:
    """Row sums by way of a thread's own copy of each row, totals in a buffer of the team."""
    row, totals, last = (
        vector("row", scope="local"), vector("totals", scope="local"),
        loop_ir.Buffer("last", int64, (ONE,), (ONE,), "register"),
    )  # fmt: skip
    add = monoid("add", int64)
    body = Allocate(totals, Allocate(last, Block((
        Store("last", (ZERO,), literal(1)),
        loop("t", ZERO, T,
             parallel("i", ZERO, n, Allocate(row, Block((
                 loop("j", ZERO, n, Store("row", (j,), at("A", i, j) * at("last", ZERO))),
                 Store("totals", (i,), ZERO),
                 loop("j", ZERO, n, Update((("totals", (i,)),), add, (at("row", n - 1 - j),))))))),
             loop("i", ZERO, n, Store("last", (ZERO,),
                                      (at("last", ZERO) * 3 + at("totals", i)) % 1009)),
             parallel("i", ZERO, n,
                      Store("R", (i,), at("R", i) + at("totals", n - 1 - i))))))))  # fmt: skip
    kernel = region((matrix("A"), vector("R")), body)
    size, steps = 33, 4
    a, r = data(size), np.zeros(size, np.int64)
    expected, last_value = r.copy(), 1
    for _ in range(steps):
        sums = (a * last_value).sum(axis=1)
        for value in sums:
            last_value = (last_value * 3 + int(value)) % 1009
        expected += sums[::-1]
    assert Native(kernel)([a, r], size, steps, threads)[0] == 0
    np.testing.assert_array_equal(r, expected)
    small = {"A": data(4).ravel(), "R": np.zeros(4, np.int64)}
    check(kernel, {"n": 4, "T": 2}, small)


@pytest.mark.parametrize("threads", THREADS)
def test_a_failed_check_is_told(threads: int) -> None:
    positive = Check(at("A", i) > 0, 1, (i, t))
    body = loop("t", ZERO, T,
                parallel("i", ZERO, n, positive, Store("A", (i,), at("A", i) - i)),
                Check(at("A", ZERO) < 1000, 2, (t, ZERO)))  # fmt: skip
    native = Native(region((vector("A"),), body, messages=("not positive", "large")))
    a = np.full(10, 7)
    assert native([a], 10, 1, threads) == [0, 0, 0, 0, 0]
    code, step, found, index, turn = native([a.copy()], 10, 9, threads)
    assert (code, step, found, turn) == (1, 0, 1, 0)
    assert index in (7, 8, 9)
    a[:] = 5000
    assert native([a], 10, 3, threads)[0] == 2


def test_two_callers_at_once() -> None:
    """One has the pool, the others run alone; barriers never mix."""
    native = Native(SEIDEL)
    expected = data(20)
    seidel(expected, 20, 2)
    wrong: list[str] = []

    def caller(number: int) -> None:
        for turn in range(30):
            a = data(20)
            native([a], 20, 2, 1 + (number + turn) % 3)
            if not np.array_equal(a, expected):
                wrong.append(f"caller {number}, turn {turn}")

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not wrong


def test_a_forked_child_starts_afresh() -> None:
    script = """
        import os
        import numpy as np
        from tests.codegen.test_regions import SEIDEL, Native, data, seidel
        native = Native(SEIDEL)
        expected = data(20); seidel(expected, 20, 2)
        def run():
            a = data(20)
            native([a], 20, 2, 3)
            assert (a == expected).all()
        for _ in range(3):
            run()
            pid = os.fork()
            if pid == 0:
                run(); run()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            run()
        print("done")
    """
    assert in_a_process(script) == "done\n"
