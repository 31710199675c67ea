"""Calls that repeat, bound calls: the same answers as first calls, whatever is passed next."""

# ruff: noqa: F821

import threading

import numpy as np
import pytest

import weft
from weft.ir.errors import CallError, ExecutionError


@weft.kernel
def scaled_sum(alpha: weft.f64, shift: int, x: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N):
        y[i] += alpha * x[i] + shift


def expected(alpha: float, shift: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y + (alpha * x + shift)


def test_repeated_calls_see_what_changed() -> None:
    generator = np.random.default_rng(0)
    run = scaled_sum.compile()
    arrays = [generator.normal(size=n) for n in (5, 5, 5, 9, 9)]
    for _ in range(60):
        x, y = (arrays[k] for k in generator.permutation(3)[:2])
        if generator.random() < 0.3:
            x, y = arrays[3:]
        alpha, shift = generator.normal(), int(generator.integers(-5, 5))
        number = [float, np.float64, np.asarray][generator.integers(3)]
        wanted = expected(alpha, shift, x, y)
        run(number(alpha), shift, x, y)
        np.testing.assert_allclose(y, wanted, rtol=1e-14)


def test_what_is_wrong_is_found_after_calls_that_were_right() -> None:
    run = scaled_sum.compile()
    memory = np.ones(10)
    x, y = memory[:5], memory[5:]
    run(2.0, 0, x, y)
    run(2.0, 0, x, y)
    np.testing.assert_array_equal(y, 5)
    with pytest.raises(CallError, match="overlaps"):
        run(2.0, 0, x, memory[4:9])
    with pytest.raises(CallError, match="overlaps"):
        run(2.0, 0, x, x)
    with pytest.raises(CallError, match="E0605"):
        run(2.0, 0, x, memory[5:9])
    with pytest.raises(CallError, match="float32"):
        run(2.0, 0, x.astype(np.float32), y)
    with pytest.raises(CallError, match="does not hold"):
        run(2.0, 2**63, x, y)
    with pytest.raises(CallError, match="does not hold"):
        run(2.0, 1.5, x, y)
    y.flags.writeable = False
    with pytest.raises(CallError, match="read-only"):
        run(2.0, 0, x, y)
    np.testing.assert_array_equal(memory, [1] * 5 + [5] * 5)


def test_unaligned_and_strided_arguments_after_plain_ones() -> None:
    run = scaled_sum.compile()
    x = np.arange(5.0)
    for y in (np.ones(5), np.ones(10)[::2], np.ones(5)[::-1], np.frombuffer(bytearray(41), "u1")):
        if y.dtype == np.uint8:
            y = y[1:].view(np.float64)
        wanted = expected(3.0, 1, x, y)
        run(3.0, 1, x, y)
        np.testing.assert_allclose(y, wanted, rtol=1e-14)


def test_a_bound_call_works_on_what_is_there_by_then() -> None:
    x, y = np.arange(5.0), np.zeros(5)
    call = scaled_sum.bind(2.0, 1, x, y=y)
    for _ in range(3):
        assert call() is y
        x += 1
    np.testing.assert_array_equal(y, 2.0 * (3 * np.arange(5.0) + 3) + 3)


def test_a_bound_call_has_results_of_its_own() -> None:
    a = weft.placeholder((3,), name="a")
    run = weft.compile([weft.compute((3,), lambda i: a[i] + 1.0, name="b")])
    given = np.zeros(3, np.float32)
    call, mine = run.bind(given), np.empty(3, np.float32)
    first = call()
    given += 1
    assert call() is first
    assert run.bind(given, out=mine)() is mine
    np.testing.assert_array_equal([first, mine], 2)


def test_what_cannot_be_bound() -> None:
    run = scaled_sum.compile()
    with pytest.raises(CallError, match="E0612: 'x' cannot be bound"):
        run.bind(2.0, 1, np.ones(10)[::2], np.ones(5))
    with pytest.raises(CallError, match="'y' cannot be bound"):
        run.bind(2.0, 1, np.ones(5), np.ones(10)[::2])
    with pytest.raises(CallError, match="overlaps"):
        x = np.ones(5)
        run.bind(2.0, 1, x, x)


def test_a_bound_call_keeps_its_memory_and_tells_failures() -> None:
    @weft.kernel
    def gather(index: weft.i64["M"], x: weft.f64["N"], y: weft.f64["M"]):
        for i in range(M):
            y[i] = x[index[i]]

    index = np.array([2, 0])
    call = gather.compile().bind(index, np.arange(3.0) + 5, np.empty(2))
    np.testing.assert_array_equal(call(), [7, 5])
    index[1] = 3
    with pytest.raises(ExecutionError):
        call()
    index[1] = 1
    np.testing.assert_array_equal(call(), [7, 6])


def test_bound_calls_from_many_threads_take_turns() -> None:
    x, y = np.ones(1000), np.zeros(1000)
    call = scaled_sum.compile().bind(1.0, 0, x, y)
    threads = [threading.Thread(target=lambda: [call() for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(y, 400)


# ---- places for results, read-only arguments ----------------------------------------------------


def turned() -> weft.Executable:
    """y[i] = 2 x[n - 1 - i] and z[i] = x[i] + 1: results in place of x would be wrong."""
    n = weft.var("n")
    x = weft.placeholder((n,), weft.float32, name="x")
    y = weft.compute((n,), lambda i: x[n - 1 - i] * 2.0, name="y")
    z = weft.compute((n,), lambda i: x[i] + 1.0, name="z")
    program = weft.compile([y, z])
    assert isinstance(program, weft.Executable)
    return program


def test_results_go_where_the_caller_says_again_and_again() -> None:
    """Places come in any order: new, as before, strided, unaligned, of which one is left out."""
    run = turned()
    generator = np.random.default_rng(3)
    memory = np.zeros(400, np.uint8)
    for turn in range(80):
        size = int(generator.integers(0, 6))
        x = generator.random(size, dtype=np.float32)
        if generator.random() < 0.3:
            x.flags.writeable = False
        at = int(generator.integers(0, 64))
        places = {
            "plain": np.zeros(size, np.float32),
            "strided": np.zeros(2 * size, np.float32)[::2],
            "unaligned": memory[at : at + 4 * size].view(np.float32),
        }
        y = places[("plain", "strided", "unaligned")[generator.integers(3)]]
        z = np.zeros(size, np.float32)
        kind = turn % 4
        given = ([y, z], (y, z), {"y": y, "z": z}, [y, None])[kind]
        found = run(x, out=given)
        assert found[0] is y and (found[1] is z) == (kind < 3)
        np.testing.assert_array_equal(y, 2 * x[::-1])
        np.testing.assert_array_equal(found[1], x + np.float32(1))


def test_what_is_wrong_with_places_is_found_after_calls_that_were_right() -> None:
    run = turned()
    memory = np.ones(24, np.float32)
    x, y, z = memory[:8], memory[8:16], memory[16:]
    for _ in range(2):
        run(x, out=[y, z])
    np.testing.assert_array_equal(y, 2)
    for wrong, why in (
        ([y, y], "overlaps"),
        ([x, z], "overlaps"),
        ([memory[7:15], z], "overlaps"),
        ([y, memory[15:23]], "overlaps"),
        ([y.astype(np.float64), z], "float64"),
        ([y[:7], z], r"\[7\]"),
        ([y], "1 arrays for 2"),
        (y, "1 arrays for 2"),
        ([y, "z"], "is a str"),
    ):
        with pytest.raises(CallError, match=why):
            run(x, out=wrong)  # type: ignore[arg-type]
        run(x, out=[y, z])
    z.flags.writeable = False
    with pytest.raises(CallError, match="read-only"):
        run(x, out=[y, z])


def test_read_only_arguments_are_read_and_never_written() -> None:
    run = turned()
    constant = np.arange(5, dtype=np.float32)
    constant.flags.writeable = False
    for _ in range(3):
        np.testing.assert_array_equal(run(constant)[0], [8, 6, 4, 2, 0])
        np.testing.assert_array_equal(run(constant[1:4])[1], [2, 3, 4])
        np.testing.assert_array_equal(run(constant[::2])[1], [1, 3, 5])
        np.testing.assert_array_equal(run(np.broadcast_to(constant[2:3], 4))[0], 4 * [4])
