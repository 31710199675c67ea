from __future__ import annotations

import threading
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import weft.runtime.executable
from tests.weft.compiled_examples import (
    chain,
    chain_program,
    compiled,
    transpose,
    two_outputs,
    update,
)
from weft.ir.dtypes import bfloat16
from weft.ir.errors import CallError, ExecutionError
from weft.ir.scalar_expr import Var
from weft.runtime.compiled import ArraySpec
from weft.runtime.executable import Executable, load


def refused(code: str, *words: str):
    class Refusal:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, _):
            assert isinstance(error, CallError), error
            assert error.code == f"WEFT-{code}", error
            for word in words:
                assert word in str(error), error
            return True

    return Refusal()


@pytest.fixture(scope="module")
def run() -> Executable:
    return Executable(chain(), threads=1)


X = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 64, 1009])
def test_one_output_is_an_array(size: int, threads: int) -> None:
    x = np.linspace(-9, 9, size, dtype=np.float32)
    y = Executable(chain(), threads=threads)(x)
    assert y.dtype == np.float32 and y.shape == (size,)
    np.testing.assert_allclose(y, (x.astype(np.float64) + 3) * 2, rtol=1e-6, atol=1e-6)


def test_several_outputs_are_a_tuple_and_names_work() -> None:
    two = Executable(two_outputs())
    x, y = np.array([5, -7], np.int32), np.array([2, 9], np.int32)
    for results in (two(x, y), two(x, y=y), two(y=y, x=x)):
        assert isinstance(results, tuple)
        np.testing.assert_array_equal(results, [[7, 2], [3, -16]])
    named = two.run({"y": y, "x": x})
    assert list(named) == ["sum", "difference"]
    np.testing.assert_array_equal(named["difference"], [3, -16])


def test_results_never_alias_the_arena_or_each_other(run: Executable) -> None:
    first = run(X)
    second = run(X + 1)
    np.testing.assert_array_equal(first, (X + 3) * 2)
    assert not np.shares_memory(first, second)
    assert first.flags.owndata or first.base is not None
    assert first.ctypes.data % 64 == 0


def test_wrong_arguments(run: Executable) -> None:
    two = Executable(two_outputs())
    ints = np.zeros(2, np.int32)
    with refused("E0600", "2 arguments for 1 inputs", "x: float32[n]"):
        run(X, X)
    with refused("E0601", "missing: 'y'", "x: int32[n], y: int32[n]"):
        two(ints)
    with refused("E0601", "no input 'z'", "x: int32[n], y: int32[n]"):
        two(ints, z=ints)
    with refused("E0601", "'x' is given twice"):
        two(ints, x=ints)
    with refused("E0602", "is a list", "x: float32[n]"):
        run([1.0, 2.0])
    with refused("E0603", "dtype float64, not float32", "astype('float32')"):
        run(X.astype(np.float64))
    with refused("E0603", "dtype >f4"):
        run(X.astype(">f4"))
    with refused("E0604", "2 dimensions (5, 1), not 1"):
        run(X[:, None])
    with refused("E0605", "n is 2, not 3", "x of shape [2], y of shape [3]"):
        two(ints, np.zeros(3, np.int32))
    with refused("E0608", "less than 1,000,000 elements", "m = 1000, n = 1000"):
        Executable(transpose())(np.zeros((1000, 1000), np.float32))


def test_input_names_that_python_uses_itself() -> None:
    spec = chain().inputs[0]
    odd = Executable(replace(chain(), inputs=(replace(spec, name="self"),)))
    np.testing.assert_array_equal(odd(self=X), (X + 3) * 2)
    spaced = Executable(replace(chain(), inputs=(replace(spec, name='a b\n"#include'),)))
    np.testing.assert_array_equal(spaced.run({'a b\n"#include': X})["y"], (X + 3) * 2)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10, dtype=np.float32)[::2],
        np.arange(5, dtype=np.float32)[::-1],
        np.broadcast_to(np.float32(4), (5,)),
        np.frombuffer(bytes(range(21)), np.uint8)[1:].view(np.float32),  # at an odd address
        np.arange(5, dtype=np.float32).view(np.ndarray),
    ],
)
def test_any_layout_is_read(run: Executable, array: np.ndarray) -> None:
    np.testing.assert_array_equal(run(array), (array + 3) * 2)


def test_two_dimensional_strides() -> None:
    flip = Executable(transpose())
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)[:, 1, :]
    for array in (x, x.T, np.asfortranarray(x), x[::-1, ::2]):
        np.testing.assert_array_equal(flip(array), array.T)


def test_anything_with_dlpack_or_array(run: Executable) -> None:
    class Lazy:
        def __array__(self, dtype=None, copy=None):
            return X

    class Exporter:
        def __dlpack__(self, **options):
            return X.__dlpack__(**options)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    class Broken:
        def __dlpack__(self, **options):
            raise BufferError("on another device")

        def __dlpack_device__(self):
            return (2, 0)

    for value in (Lazy(), Exporter(), X.view(np.matrix)[0].A1):
        np.testing.assert_array_equal(run(value), (X + 3) * 2)
    with refused("E0602", "Broken", "__dlpack__"):
        run(Broken())


def test_ml_dtypes_and_zero_dimensional_arrays() -> None:
    """Through a program without steps, so that only the passing of arrays is seen."""
    nothing = replace(
        compiled(chain_program(), [("b", np.zeros(1, np.float32))]),
        inputs=(ArraySpec("h", bfloat16, ()),),
    )
    with refused("E0603", "dtype float32, not bfloat16"):
        Executable(nothing)(np.float32(1))
    with refused("E0605", "size n is not known"):
        Executable(nothing)(ml_dtypes.bfloat16(1))


def test_intermediates_that_nobody_can_count() -> None:
    n = Var("n")
    large = Executable(compiled(replace(chain_program(), arena=n * n * 64), [("b", np.zeros(1))]))
    with refused("E0605", "intermediates would be too large"):
        large(np.broadcast_to(np.float32(1), (2**30,)))


# ---- out= and in place --------------------------------------------------------------------------


def test_out(run: Executable) -> None:
    y = np.zeros(5, np.float32)
    assert run(X, out=y) is y
    np.testing.assert_array_equal(y, (X + 3) * 2)
    strided = np.zeros(10, np.float32)
    run(X, out=strided[::2])
    np.testing.assert_array_equal(strided[::2], (X + 3) * 2)
    assert (strided[1::2] == 0).all()
    two = Executable(two_outputs())
    a = np.array([5, -7], np.int32)
    place = np.zeros(2, np.int32)
    total, difference = two(a, a, out=[place, None])
    assert total is place and difference is not None
    result = two.run({"x": a, "y": a}, out={"difference": place})
    assert result["difference"] is place
    np.testing.assert_array_equal(place, [0, 0])


def test_out_refused(run: Executable) -> None:
    two = Executable(two_outputs())
    a = np.arange(4, dtype=np.int32)
    fixed = np.zeros(5, np.float32)
    fixed.flags.writeable = False
    with refused("E0606", "out for 'y' is float32[4], not float32[5]"):
        run(X, out=np.zeros(4, np.float32))
    with refused("E0606", "out for 'y' is float64[5]"):
        run(X, out=np.zeros(5))
    with refused("E0606", "is a bytes, not a NumPy array"):
        run(X, out=b"12345678901234567890")
    with refused("E0606", "read-only"):
        run(X, out=fixed)
    with refused("E0606", "overlaps input 'x'"):
        run(X, out=X)
    with refused("E0606", "overlaps itself"):
        run(X, out=np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (5,), (0,)))
    with refused("E0606", "out for 'difference' overlaps out for 'sum'"):
        two(a[:2], a[:2].copy(), out=(place := np.zeros(2, np.int32), place))
    with refused("E0606", "out has 1 arrays for 2 outputs", "sum: int32[n], difference: int32[n]"):
        two(a, a, out=np.zeros(4, np.int32))
    with refused("E0601", "no output 'z'", "sum: int32[n]"):
        two(a, a, out={"z": a})
    np.testing.assert_array_equal(X, np.arange(5))  # nothing was written


def test_out_between_the_elements_of_an_input_is_no_overlap(run: Executable) -> None:
    both = np.arange(10, dtype=np.float32)
    expected = (both[::2] + 3) * 2
    run(both[::2], out=both[1::2])
    np.testing.assert_array_equal(both[1::2], expected)


@pytest.mark.parametrize("shared", [True, False])
def test_in_place(shared: bool) -> None:
    advance = Executable(update(shared))
    state, step = np.zeros(6, np.float32), np.arange(6, dtype=np.float32)
    for turn in range(1, 4):
        assert advance(state, step) is state
        np.testing.assert_array_equal(state, step * turn)
    strided = np.zeros((6, 2), np.float32)
    result = advance(strided[:, 0], step)
    np.testing.assert_array_equal(strided, np.stack([step, step * 0], axis=1))
    assert np.shares_memory(result, strided)
    assert advance(state, step, out=state) is state


@pytest.mark.parametrize("shared", [True, False])
def test_in_place_refused(shared: bool) -> None:
    advance = Executable(update(shared))
    step = np.arange(6, dtype=np.float32)
    fixed = np.zeros(6, np.float32)
    fixed.flags.writeable = False
    with refused("E0606", "input 'state'", "read-only"):
        advance(fixed, step)
    with refused("E0606", "overlaps input 'step'"):
        advance(step, step)
    with refused("E0606", "computed in place of input 'state'"):
        advance(step, step.copy(), out=np.zeros(6, np.float32))

    class Copy:
        def __array__(self, dtype=None, copy=None):
            return np.zeros(6, np.float32)

    with refused("E0606", "a Copy has no memory to share"):
        advance(Copy(), step)


# ---- failures -----------------------------------------------------------------------------------


def test_a_failed_check_is_told_in_the_programs_terms(run: Executable) -> None:
    x = np.zeros(9, np.float32)
    x[4] = -2000
    with pytest.raises(ExecutionError, match=r"element 4 of in0 is below -1000 \(7\)") as caught:
        run(x)
    assert caught.value.code == "WEFT-E0610"
    assert "step 1 of chain" in str(caught.value)
    np.testing.assert_array_equal(run(X), (X + 3) * 2)  # the next call starts clean


def test_details_are_added_to_a_message_without_places_for_them() -> None:
    plain = Executable(replace(chain(), checks=((), ("too low",))))
    with pytest.raises(ExecutionError, match=r"too low \(at 0, 7\)"):
        plain(np.full(1, -2000, np.float32))
    silent = Executable(replace(chain(), checks=()))
    with pytest.raises(ExecutionError, match=r"check 1 failed \(at 0, 7\)"):
        silent(np.full(1, -2000, np.float32))


def test_threads() -> None:
    many = Executable(chain(), threads=10_000)
    assert many.threads == weft.runtime.executable.available_threads()
    assert Executable(chain()).threads == weft.runtime.executable.available_threads()
    assert many.with_threads(1).threads == 1
    for wrong in (0, -1, 1.5, True, "2"):
        with refused("E0611", "threads="):
            Executable(chain(), threads=wrong)


def test_many_callers_at_once() -> None:
    """Eight Python threads share one executable; sizes differ, so arenas and plans do too."""
    shared = Executable(chain())
    wrong: list[int] = []

    def caller(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(150):
            x = random.random(int(random.integers(0, 3000)), dtype=np.float32)
            if not np.array_equal(shared(x), (x + np.float32(3)) * 2):
                wrong.append(seed)

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_shapes_are_not_remembered_for_ever(
    run: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weft.runtime.executable, "MAX_PLANS", 4)
    for size in range(20):
        run(np.zeros(size, np.float32))
        assert len(run._plans) <= 4


# ---- looking at it, saving it -------------------------------------------------------------------


def test_texts(run: Executable) -> None:
    assert run.as_text("loops") == "the loops"
    with refused("E0609", "no text of stage 'scop'", "program, loops"):
        run.as_text("scop")
    assert 'define i32 @"entry"' in run.source("llvm")
    assert "entry:" in run.source("asm")
    with refused("E0609", "'c'"):
        run.source("c")
    assert run.explain() == "nothing was fused"
    assert run.stats["kernels"] == 2
    with pytest.raises(TypeError):
        run.stats["kernels"] = 3  # type: ignore[index]
    assert repr(run) == "<weft.Executable chain(x: float32[n]) -> (y: float32[n])>"


@pytest.mark.parametrize("texts", [True, False])
def test_save_and_load(run: Executable, tmp_path, texts: bool) -> None:
    path = tmp_path / "chain.weft"
    run.save(path, texts=texts)
    again = load(path, threads=1)
    np.testing.assert_array_equal(again(X), run(X))
    assert again.explain() == run.explain() and dict(again.stats)["share"] == 0.25
    if texts:
        assert again.source("llvm") == run.source("llvm")
        assert again.as_text("program") == "the program"
    else:
        with refused("E0609", "without its texts"):
            again.source("llvm")


def test_loading_compiles_nothing(run: Executable, tmp_path, monkeypatch) -> None:
    path = tmp_path / "chain.weft"
    run.save(path)
    run(X)  # the thread pool itself is linked

    def forbidden(*_: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr("llvmlite.binding.parse_assembly", forbidden)
    np.testing.assert_array_equal(load(path)(X), (X + 3) * 2)
