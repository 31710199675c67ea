"""The entry point against the program's interpreter, with kernels written in LLVM IR by hand."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.program_examples import (
    SYMBOLS,
    NativeCall,
    chain,
    formal,
    run_chain_kernel,
    spread,
)
from weft.codegen.llvm.program import KernelSymbols, emit_program, scratch_stride
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.llvm.teams import costs
from weft.codegen.objects.native_library import NativeProgram
from weft.ir.dtypes import bool_, float32
from weft.ir.errors import InternalError
from weft.ir.loop_ir import Barrier, Block, For, Kernel, Single, Store
from weft.ir.machine import TYPICAL
from weft.ir.program import Aligned, Arena, Buffer, Input, Launch, Output, Program
from weft.ir.program_interpreter import interpret_program
from weft.ir.program_verifier import verify_program
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select
from weft.ir.size_arithmetic import evaluate, text

n, i, zero = Var("n"), Var("i"), literal(0.0, float32)


@pytest.fixture(scope="module")
def native() -> NativeCall:
    return NativeCall(chain())


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 1009])
def test_equals_the_interpreter(native: NativeCall, size: int, threads: int) -> None:
    x = np.arange(size, dtype=np.float32)
    bias = np.linspace(0, 1, size, dtype=np.float32)
    y = np.full(size + 1, -1, np.float32)
    assert native([x], [y], [bias], [size], threads) == [0, 0, 0, 0, 0]
    (expected,) = interpret_program(native.program, [x], {"b": bias}, run_chain_kernel)
    np.testing.assert_array_equal(y[:size], expected)
    assert y[size] == -1


@pytest.mark.parametrize("size", [0, 1, 7, 64, 1009])
def test_an_input_begins_at_a_line(size: int) -> None:
    """Copied where it does not; two of them, one behind the other."""
    program, whole = chain(), (n * 4 + 63) // 64 * 64
    copies = [
        Buffer(f"{b.name}/aligned", float32, b.shape, Aligned(k, whole * (k + 1)))
        for k, b in enumerate((program.inputs[0], program.constants[0]))
    ]
    given = Buffer("bias", float32, program.inputs[0].shape, Input(1))
    program = replace(
        program,
        inputs=(*program.inputs, given),
        constants=(),
        buffers=(*(b for b in program.buffers if b.name != "bias"), given, *copies),
        arena=whole * 3,
        steps=(Launch("add", ("x/aligned", "bias/aligned", "t")), program.steps[1]),
    )
    verify_program(program, [{"n": size}])
    native = NativeCall(program)
    for offsets in ((0, 0), (4, 0), (0, 16), (60, 32)):
        x, bias, y = (within(size, offset) for offset in (*offsets, 0))
        x[:], bias[:] = np.arange(size), np.linspace(0, 1, size)
        assert native([x, bias], [y], [], [size], 2) == [0, 0, 0, 0, 0]
        np.testing.assert_array_equal(y, (x + bias) * 2)
        (expected,) = interpret_program(program, [x, bias], {}, run_chain_kernel)
        np.testing.assert_array_equal(y, expected)


def within(size: int, offset: int) -> np.ndarray:
    """float32 numbers that begin so many bytes behind the beginning of a line."""
    memory = np.zeros(size * 4 + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    return memory[begin : begin + size * 4].view(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_failed_check_names_step_code_and_detail(native: NativeCall, threads: int) -> None:
    x = np.ones(100, np.float32)
    x[63] = -5
    y = np.zeros_like(x)
    assert native([x], [y], [np.zeros_like(x)], [100], threads) == [1, 1, 1, 63, 0]
    x[63] = 5  # the pool was given back and status is the caller's
    assert native([x], [y], [np.zeros_like(x)], [100], threads) == [0, 0, 0, 0, 0]


def test_steps_after_a_failed_one_do_not_run() -> None:
    program = chain()
    program = replace(program, steps=(*program.steps, Launch("add", ("bias", "bias", "y"))))
    x = np.full(4, -1, np.float32)
    y = np.zeros(4, np.float32)
    assert NativeCall(program)([x], [y], [np.zeros(4, np.float32)], [4])[0] == 1
    np.testing.assert_array_equal(y, x * 2)


def test_no_steps() -> None:
    program = Program("nothing", (), (), (), (), (), literal(0), (), ())
    assert NativeCall(program)([], [], [], []) == [0, 0, 0, 0, 0]


def test_symbolic_offsets_and_launch_parameters() -> None:
    """Two temporaries one after the other; the second launch doubles the first half only."""
    program = chain()
    second = Buffer("u", float32, (n,), Arena((n * 4 + 63) // 64 * 64))
    program = replace(
        program,
        buffers=(*program.buffers, second),
        arena=(n * 4 + 63) // 64 * 128,
        steps=(
            Launch("add", ("x", "bias", "t")),
            Launch("double", ("t", "u")),
            Launch("add", ("t", "u", "y"), (n,)),
            Launch("double", ("x", "y"), (n // 2,)),
        ),
    )
    x = np.arange(37, dtype=np.float32)
    y = np.zeros_like(x)
    NativeCall(program)([x], [y], [np.ones_like(x)], [37], 2)
    np.testing.assert_array_equal(y, [*(x[:18] * 2), *((x[18:] + 1) * 3)])


def test_scratch_lies_behind_the_arena_for_every_thread() -> None:
    program = chain()
    assert text(scratch_stride(program, SYMBOLS)) == "64"
    wide = {**SYMBOLS, "double": KernelSymbols("double", "extent", n * 8)}
    launches = (Launch("add", ("x", "bias", "t")), Launch("double", ("t", "y"), (n + 100,)))
    stride = scratch_stride(replace(program, steps=launches), wide)
    assert evaluate(stride, {"n": 3}) == (103 * 8 + 63) // 64 * 64
    native = NativeCall(program)
    parameters = np.array([100], np.int64)
    for threads in (1, 2, 8):
        assert native.native.arena_bytes(parameters.ctypes.data, threads) == 448 + 64 * threads


TEAM_IR = """
define void @team(ptr %buffers, ptr %p, ptr %s, ptr %scratch, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %at = getelementptr float, ptr %out, i64 %begin
  store float 1.0, ptr %at
  %shared.p = getelementptr ptr, ptr %buffers, i64 1
  %shared = load ptr, ptr %shared.p
  %mark = getelementptr float, ptr %shared, i64 %begin
  store float 2.0, ptr %mark
  ret void
}
define i64 @team_extent(ptr %params) {
  ret i64 -1
}
"""


COSTS = costs(TYPICAL, 100)  # where 100 operations are worth a thread that is awake
WAKING = COSTS.wake


def test_a_region_gets_threads_that_its_barriers_leave_worth_it() -> None:
    """``team`` notes which threads took part: of those that sleep, as many as take off each other
    what it takes to wake each of them, or more with more barriers."""
    target = host_target()
    turns = spread(n, Store("y", (i,), zero))
    y = Buffer("y", float32, (n,), Output(0))
    symbols = {"team": KernelSymbols("team", "team_extent", literal(64), literal(100))}
    each, meet = WAKING, 16 * COSTS.barrier
    for barriers, teams in [
        (0, {99: 1, 2 * each: 1, 2 * each + 400: 2, 4 * each + 10: 4}),
        (16, {2 * each + 400: 1, 2 * (each + meet): 1, 2 * (each + meet) + 400: 2, 8 * each: 4}),
    ]:
        body = Block((turns, *(Barrier() for _ in range(barriers))))
        kernel = Kernel("team", ("n",), (formal("y", n, writable=True),), body, region=True)
        launch = Launch("team", ("y",))
        program = Program("p", ("n",), (), (y,), (), (y,), literal(0), (launch,), (kernel,))
        main = to_object(emit_program(program, symbols, "run", grain=100), target)
        native = NativeCall(program, [to_object(TEAM_IR, target), main])
        parameters = np.array([5000], np.int64)
        assert native.native.arena_bytes(parameters.ctypes.data, 3) == 128 + 3 * 64
        for size, team in teams.items():
            assert takes(native, size, team)


def takes(native: NativeCall, size: int, team: int) -> bool:
    """Whether so many threads take part in a call once all of them sleep. More might before that,
    and fewer beside a busy neighbour (decision 063): one call of some counts."""
    for _ in range(100):
        out = np.zeros(size, np.float32)
        native([], [out], [], [size], threads=4)
        if out.sum() == team:
            return True
        time.sleep(0.03)
    return False


def test_a_launch_gets_the_threads_that_its_work_is_worth() -> None:
    """``ends`` notes where chunks end: one mark for each thread that took part."""
    ends = """
        define void @ends(ptr %buffers, ptr %p, ptr %s, ptr %scratch, i64 %begin, i64 %end) {
          %out = load ptr, ptr %buffers
          %last = sub i64 %end, 1
          %at = getelementptr float, ptr %out, i64 %last
          store float 1.0, ptr %at
          ret void
        }
        define i64 @extent(ptr %params) {
          %n = load i64, ptr %params
          ret i64 %n
        }
    """
    fill = Kernel(
        "ends", ("n",), (formal("y", n, writable=True),), spread(n, Store("y", (i,), zero))
    )
    y = Buffer("y", float32, (n,), Output(0))
    step = Launch("ends", ("y",))
    program = Program("p", ("n",), (), (y,), (), (y,), literal(0), (step,), (fill,))
    symbols = {"ends": KernelSymbols("ends", "extent")}
    target = host_target()
    code = [to_object(ends, target)]
    code.append(to_object(emit_program(program, symbols, "run", grain=100), target))
    native = NativeCall(program, code)
    teams = {1: 1, 99: 1, 2 * WAKING: 1, 2 * WAKING + 400: 2, 3 * WAKING + 1: 3, 4 * WAKING + 1: 4}
    for size, team in teams.items():
        assert takes(native, size, team)
    for size, least, most in [(200, 1, 1), (210, 1, 2), (8 * WAKING, 4, 4)]:  # awake or not
        parameters = np.array([size], np.int64)
        assert native.native.threads(parameters.ctypes.data, 4) == most
        out = np.zeros(size, np.float32)
        native([], [out], [], [size], threads=4)
        assert least <= out.sum() <= most


def test_a_team_that_saves_little_of_the_whole_stays_at_home() -> None:
    def busy(name: str, size: Expr, kind: str) -> For:
        return For(name, literal(0), size, kind, Store("y", (i,), zero))  # type: ignore[arg-type]

    body = Block((Single(busy("i", Var("m"), "serial")), busy("i", n, "parallel")))
    kernel = Kernel("team", ("n", "m"), (formal("y", n, writable=True),), body, region=True)
    y = Buffer("y", float32, (n,), Output(0))
    launch = Launch("team", ("y",))
    program = Program("p", ("n", "m"), (), (y,), (), (y,), literal(0), (launch,), (kernel,))
    symbols = {"team": KernelSymbols("team", "team_extent")}
    main = to_object(emit_program(program, symbols, "run"), host_target())
    native = NativeCall(program, [to_object(TEAM_IR, host_target()), main]).native
    for alone, threads in [(0, 2), (600_000, 2), (1_200_000, 1), (100_000_000, 1)]:
        sizes = np.array([1_000_000, alone], np.int64)
        assert native.threads(sizes.ctypes.data, 2) == threads
        assert native.threads(sizes.ctypes.data, 1) == 1


expressions = st.recursive(
    st.one_of(st.sampled_from([Var("a"), Var("b")]), st.integers(-20, 20).map(literal)),
    lambda inner: st.one_of(
        st.tuples(
            st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max"]), inner, inner
        ).map(lambda t: apply(*t)),
        st.tuples(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), inner, inner).map(
            lambda t: select(~apply(*t) | (t[1] < 3), t[1], -t[2])
        ),
        st.tuples(inner, inner, st.booleans()).map(
            lambda t: select(select(t[0] < t[1], literal(t[2], bool_), t[0].equal(3)), t[1], t[0])
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=15, derandomize=True)
@given(st.lists(expressions, min_size=8, max_size=8))
def test_size_arithmetic_is_the_evaluators(several: list) -> None:
    """Offsets in native code are what ``evaluate`` says, negatives and division by 0 included."""
    for expr in several:
        program = Program("sizes", ("a", "b"), (), (), (), (), expr * 64, (), ())
        code = to_object(emit_program(program, {}, "run"), host_target())
        arena_bytes = NativeProgram([code], "run").arena_bytes
        for a, b in [(0, 0), (1, -1), (7, 3), (-7, 3), (-7, -3), (12, 4), (5, 0)]:
            parameters = np.array([a, b], np.int64)
            expected = evaluate(expr, {"a": a, "b": b}) * 64
            assert arena_bytes(parameters.ctypes.data, 1) == expected, text(expr)


def test_an_arena_that_cannot_be_counted_is_refused() -> None:
    """More than 2**62 bytes, or numbers on the way that do not fit."""
    square = Var("a") * Var("b") * 4
    plain = Program("sizes", ("a", "b"), (), (), (), (), square, (), ())
    least = replace(plain, arena=apply("min", square, literal(8)))
    for program, sizes, expected in (
        (plain, (1001, 10), 40_064),
        (plain, (2**30, 2**30), 2**62),
        (plain, (2**30 + 16, 2**30), -1),
        (plain, (2**40, 2**40), -1),
        (least, (2**40, 2**40), -1),
        (least, (2**20, 2**20), 64),
    ):
        code = to_object(emit_program(program, {}, "run"), host_target())
        native, parameters = NativeProgram([code], "run"), np.array(sizes, np.int64)
        assert native.arena_bytes(parameters.ctypes.data, 1) == expected


def test_only_arithmetic_in_sizes() -> None:
    program = Program("bad", (), (), (), (), (), Load("x", (), n.dtype), (), ())
    with pytest.raises(InternalError, match="Load"):
        emit_program(program, {}, "run")


def test_foreign_or_broken_objects_are_refused() -> None:
    with pytest.raises(RuntimeError):
        NativeProgram([b"no object at all"], "run")
    good = to_object(emit_program(chain(), SYMBOLS, "run"), host_target())
    with pytest.raises(RuntimeError):
        NativeProgram([good], "run")  # kernels are missing
