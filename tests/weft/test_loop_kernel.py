"""``@weft.kernel``: arguments, data, compiling; sizes, ``test_loop_kernel_sizes``; what kernels
compute, ``test_loop_programs``."""

# ruff: noqa: F821

import copy
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.frontend.loops.kernels import copies, lu
from weft import loop_kernel
from weft.ir.errors import CallError, ExecutionError


@weft.kernel
def prefix(A: weft.f64["N", "M"], b: weft.f64["M"], factor: weft.f64, times: int):
    """A[i] becomes the sum of the rows up to i, and factor * b, times times."""
    for t in range(times):  # noqa: B007
        for i in range(1, N):
            for j in range(M):
                A[i, j] += A[i - 1, j] + factor * b[j]


def _data(n: int = 5, m: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, m)), rng.normal(size=m)


# ---- arrays ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [np.s_[:, :], np.s_[::-1], np.s_[:, ::-1], np.s_[::2, ::-3], np.s_[1:3, 2:5], np.s_[3:3]],
    ids=str,
)
def test_views_of_any_strides_are_changed_where_they_are(part: object) -> None:
    A, b = _data()
    wanted = A.copy()
    prefix.python(wanted[part], b[: A[part].shape[1]], 0.5, 2)
    prefix(A[part], b[: A[part].shape[1]], 0.5, 2)
    np.testing.assert_allclose(A, wanted)


def test_a_fortran_array_and_a_read_only_input_will_do() -> None:
    A, b = _data()
    wanted = A.copy()
    prefix.python(wanted, b, 0.5, 1)
    order = np.asfortranarray(A)
    b.flags.writeable = False
    prefix(order, b[::1], 0.5, 1)
    np.testing.assert_allclose(order, wanted)


def test_arguments_by_name() -> None:
    A, b = _data()
    wanted = A.copy()
    prefix.python(wanted, times=1, b=b, factor=2)
    prefix(A, times=1, b=b, factor=2)
    np.testing.assert_allclose(A, wanted)


N = 3  # a size in quotes has nothing to do with it


def test_names_of_the_module_and_names_that_are_no_c_identifiers() -> None:
    @weft.kernel
    def größe(α: weft.f32["N"], β: weft.f32["Ñ", N], double: weft.f32[N], int: weft.i64):
        for i in range(N):
            α[i] += 1
        for long in range(Ñ):
            β[long, 1] = double[long - long] + int

    for n in (4, 5):
        α, β = np.zeros(n, np.float32), np.zeros((n + 1, 3), np.float32)
        größe(α, β=β, int=n, double=np.ones(3, np.float32))
        assert α.tolist() == [1.0] * n
        assert (β[:, 1] == n + 1).all()


def test_an_array_named_out() -> None:
    @weft.kernel
    def fill(out: weft.f32["N"], self: weft.f32):
        for i in range(N):
            out[i] = self

    out = np.zeros(3, np.float32)
    fill(self=2.5, out=out)
    assert out.tolist() == [2.5] * 3


A, b = _data()
FIXED = A.copy()
FIXED.flags.writeable = False
UNFIT = {
    "dtype": ("E0603", (A.astype("float32"), b, 0.5, 1)),
    "rank": ("E0604", (A[0], b, 0.5, 1)),
    "sizes that disagree": ("E0605", (A, b[1:], 0.5, 1)),
    "read-only": ("E0606", (FIXED, b, 0.5, 1)),
    "broadcast": ("E0606", (np.broadcast_to(b, (3, 7)), b, 0.5, 1)),
    "overlap": ("E0606", (A, A[0], 0.5, 1)),
    "overlap of views": ("E0606", (A[:, ::-1], A[2], 0.5, 1)),
    "a list": ("E0602", ([[1.0]], [1.0], 0.5, 1)),
    "a fraction for an integer": ("E0603", (A, b, 0.5, 1.5)),
    "a bool for a float": ("E0603", (A, b, True, 1)),
    "float32 for a float64": ("E0603", (A, b, np.float32(0.5), 1)),
    "too large": ("E0603", (A, b, 0.5, 1 << 70)),
    "text": ("E0602", (A, b, "0.5", 1)),
    "too few": ("E0601", (A, b)),
    "too many": ("E0600", (A, b, 0.5, 1, 2)),
}


@pytest.mark.parametrize("what", UNFIT)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(what: str) -> None:
    code, given = UNFIT[what]
    before = copies(list(given))
    with pytest.raises(CallError, match=code):
        prefix(*given)
    for now, then in zip(given, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_scalars_of_several_types() -> None:
    @weft.kernel
    def store(
        x: weft.f64[5], b: weft.bool_, i: weft.i8, u: weft.u16, f: weft.f32, d: float, n: int
    ):
        if b:
            x[0] = weft.f64(i) + weft.f64(u)
        x[1] = weft.f64(f)
        x[2] = d + n
        x[n] = 7.0

    x = np.zeros(5)
    store(x, True, -5, 65535, 0.1, np.float64(2.5), np.int32(3))
    assert x.tolist() == [65530.0, float(np.float32(0.1)), 5.5, 7.0, 0.0]
    for wrong in (128, -129):
        with pytest.raises(CallError, match="E0603"):
            store(x, True, wrong, 0, 0.1, 2.5, 3)
    with pytest.raises(CallError, match="E0608"):  # x[n] would be out of bounds
        store(x, True, 0, 0, 0.1, 2.5, 5)


# ---- data --------------------------------------------------------------------------------------


@weft.kernel
def histogram(bins: weft.i64["B"], x: weft.i32["N"], on: weft.bool_["N"]):
    for i in range(N):
        if on[i]:
            bins[x[i]] += 1


def test_data_dependent_accesses_say_so_and_are_checked() -> None:
    text = histogram.explain()
    assert "depends on data" in text and "may write bins[select(on[i], int64(x[i]), 0)]" in text
    bins, x = np.zeros(3, np.int64), np.array([0, 2, 2, 9], np.int32)
    on = np.array([1, 1, 1, 0], bool)
    histogram(bins, x, on)
    assert bins.tolist() == [1, 0, 2]
    with pytest.raises(ExecutionError, match=r"E0610.*\n?.*index 9 of bins"):
        histogram(bins, x, ~on)


def test_integers_wrap_and_nothing_traps() -> None:
    @weft.kernel
    def odd(x: weft.i8["N"], y: weft.i64["N"]):
        for i in range(N):
            x[i] += 100
            y[i] = y[i] // (y[i] - y[i]) + y[i] % -3

    x, y = np.array([100, -100], np.int8), np.array([5, -5])
    odd(x, y)
    assert x.tolist() == [-56, 0]
    assert y.tolist() == [5 % -3, -5 % -3]


# ---- compiling ---------------------------------------------------------------------------------


@pytest.mark.long
def test_one_compilation_serves_all_sizes_and_the_next_process(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2]
    script = """
import numpy as np
from tests.frontend.loops.kernels import trisolv
for n in (0, 1, 5, 8):
    trisolv(np.eye(n), np.ones(n), np.ones(n))
print(trisolv.compile().stats.get("from_cache", False))
"""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "WEFT_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(folder)},
            check=True,
        )
    assert done.stdout.startswith("True")
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) <= 2


def test_an_executable_takes_the_same_arguments_and_is_saved(tmp_path: Path) -> None:
    executable = weft.compile(prefix, options=weft.Options(threads=1))
    A, b = _data()
    wanted = A.copy()
    prefix.python(wanted, b, 0.5, 2)
    result = executable(A, b, 0.5, 2)
    assert result is A
    np.testing.assert_allclose(A, wanted)
    executable.save(tmp_path / "prefix.weft")
    A, b = _data()
    weft.load(tmp_path / "prefix.weft")(A, b, 0.5, 2)
    np.testing.assert_allclose(A, wanted)


def test_stages_as_text() -> None:
    stages = weft.lower(prefix)
    assert {"scop", "schedule", "loops", "program"} <= set(stages.stages)
    scop = stages.as_text("scop")
    assert "inout A: float64[N, M]" in scop
    assert "test_loop_kernel.py" in scop and "A[i, j] += A[i - 1, j] + factor * b[j]" in scop
    assert str(weft.lower(prefix, "scop")) == scop


def test_statements_have_the_names_that_they_are_given() -> None:
    @weft.kernel
    def named(A: weft.f64["N"]):
        with weft.statement("init"):
            for i in range(N):
                A[i] = 0.0
                A[i] += i
        A[0:0] = 1.0

    assert [s.name for s in named.scop.statements] == ["init", "init_2", "S2"]


def test_strict_sums_in_order() -> None:
    @weft.kernel(options=weft.Options(strict=True))
    def total(x: weft.f32["N"], s: weft.f32[1]):
        for i in range(N):
            s[0] += x[i]

    x = np.random.default_rng(0).normal(size=1001).astype(np.float32)
    wanted, s = np.float32(0), np.zeros(1, np.float32)
    for value in x:
        wanted += value
    total(x, s)
    assert s[0] == wanted


@pytest.mark.long
def test_threads_of_python_may_call_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for the first time: one of them compiles."""
    compiled: list[object] = []
    original = loop_kernel.compile_and_verify_kernel
    monkeypatch.setattr(
        loop_kernel,
        "compile_and_verify_kernel",
        lambda *given: compiled.append(given) or original(*given),
    )
    fresh = weft.Kernel(lu.function)
    wanted = np.eye(40) * 3 + 1
    lu.python(wanted)
    results = [np.eye(40) * 3 + 1 for _ in range(8)]
    workers = [threading.Thread(target=fresh, args=(a,)) for a in results]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        np.testing.assert_allclose(result, wanted)
    assert len(compiled) == 1


def test_a_kernel_made_in_a_function_captures_its_numbers() -> None:
    def make(real: weft.DType, factor: float) -> weft.Kernel:
        @weft.kernel
        def times(x: real["N"]):
            for i in range(N):
                x[i] *= factor

        return times

    for dtype, factor in ((weft.f32, 0.1), (weft.f64, 3)):
        x = np.ones(3, dtype.numpy)
        make(dtype, factor)(x)
        assert (x == dtype.numpy.type(factor)).all()


def test_kernels_are_copied_and_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(prefix)) is copy.deepcopy(prefix) is prefix


def test_options_are_options() -> None:
    for wrong in (lambda: weft.kernel(options=3), lambda: prefix.compile(options="fast")):
        with pytest.raises(weft.CompileError, match="E0003"):
            wrong()
