"""Libraries are called from C, and answer what NumPy and onnxruntime answer."""

# ruff: noqa: F821  (sizes are names in kernels)

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.weft.c_program import HERE, CProgram, c_program, needs_c
from tests.weft.compiled_examples import chain, transpose, two_outputs, update
from tests.weft.small_models import CLASSES, SIDE, conv_net
from weft.codegen.llvm.target import host_target

pytestmark = needs_c
SIZES = (0, 1, 7, 64, 10_007)


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> CProgram:
    executable = weft.compile(conv_net())
    return c_program(executable.compiled, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("threads", [1, 2, 300])
def test_a_model_answers_as_onnxruntime_does(model, threads) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    x = _draw(1, 3, SIDE, SIDE)
    session = onnxruntime.InferenceSession(conv_net().SerializeToString())
    (expected,) = session.run(None, {"input": x})
    ran = model.run({"input": x}, threads=threads)
    assert (ran.status, ran.message) == (0, "done")
    assert ran.arrays["output"].shape == (1, CLASSES)
    np.testing.assert_allclose(ran.arrays["output"], expected, rtol=1e-4, atol=1e-5)


def test_it_needs_libc_and_libm_alone(model) -> None:
    if shutil.which("ldd") is None:
        pytest.skip("no ldd: what the program needs is not looked at")
    done = subprocess.run(
        ["ldd", str(model.folder / "main")], capture_output=True, text=True, check=True
    )
    names = {line.split()[0].rsplit("/", 1)[-1] for line in done.stdout.splitlines()}
    assert any(name.startswith("libc.") for name in names)
    for name in names:
        assert name.startswith(("linux-vdso", "linux-gate", "libc.", "libm.", "ld-", "libpthread."))


def test_it_defines_what_the_header_declares_and_nothing_else(model) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm: symbols are not looked at")
    listing = subprocess.run(
        ["nm", "--extern-only", "--defined-only", str(model.folder / "conv_net.o")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert found == {"conv_net_run", "conv_net_workspace_bytes", "conv_net_message"}


@pytest.mark.parametrize("suffix", [".o", ".so"])
def test_sizes_are_arguments(suffix, tmp_path) -> None:
    program = c_program(chain(), tmp_path, suffix=suffix)
    for n in SIZES:
        x = _draw(n)
        ran = program.run({"x": x}, {"n": n}, threads=2)
        assert ran.status == 0
        np.testing.assert_array_equal(ran.arrays["y"], (x + 3) * 2)


def test_several_outputs(tmp_path) -> None:
    x, y = (np.arange(start, start + 13, dtype=np.int32) for start in (5, 100))
    ran = c_program(two_outputs(), tmp_path).run({"x": x, "y": y}, {"n": 13})
    np.testing.assert_array_equal(ran.arrays["sum"], x + y)
    np.testing.assert_array_equal(ran.arrays["difference"], x - y)


def test_what_follows_from_sizes_is_no_argument(tmp_path) -> None:
    program = c_program(transpose(), tmp_path)
    assert [size.name for size in program.interface.sizes] == ["m", "n"]
    x = _draw(3, 5)
    ran = program.run({"x": x}, {"m": 3, "n": 5})
    np.testing.assert_array_equal(ran.arrays["y"], x.T)


@pytest.mark.parametrize("shared", [True, False])
def test_an_input_is_overwritten(shared, tmp_path) -> None:
    state, step = _draw(100), _draw(100, seed=1)
    ran = c_program(update(shared), tmp_path).run({"state": state, "step": step}, {"n": 100})
    assert list(ran.arrays) == ["state"]
    np.testing.assert_array_equal(ran.arrays["state"], state + step)


def test_bad_data_come_back_as_a_status_with_their_numbers(tmp_path) -> None:
    state = _draw(100)
    state[41] = -1001
    ran = c_program(update(True), tmp_path).run({"state": state, "step": state}, {"n": 100})
    assert ran.status > 0
    assert ran.message == "element {0} of in0 is below -1000 ({1})"
    assert ran.numbers == (41, 7)


def test_wrong_sizes_are_refused(tmp_path) -> None:
    program = c_program(transpose(), tmp_path)
    for sizes, message in (
        ({"m": -1, "n": 2}, "m is no size"),
        ({"m": 1 << 62, "n": 2}, "m is no size"),
        ({"m": 1 << 40, "n": 1 << 40}, "the sizes are too large"),
        ({"m": 1000, "n": 1000}, "less than 1,000,000 elements"),
    ):
        ran = program.run({"x": _draw(0, 0)}, sizes)
        assert ran.status < 0
        assert message in ran.message
    assert program.run({"x": _draw(0, 0)}, {"m": 0, "n": 0}, threads=0).message == (
        "threads is less than 1"
    )


def test_a_loop_kernel(tmp_path) -> None:
    @weft.kernel
    def axpy(n: weft.i64, alpha: weft.f64, x: weft.f64["n"], y: weft.f64["n"]):
        for i in range(n):
            y[i] = alpha * x[i] + y[i]

    program = c_program(axpy.compile().compiled, tmp_path)
    assert [f.by_value for f in program.interface.inputs] == [True, False, False]
    for n in (0, 1, 1009):
        x, y = _draw(n).astype(float), _draw(n, seed=1).astype(float)
        ran = program.run({"alpha": 2.5, "x": x, "y": y}, {"n": n})
        assert ran.status == 0
        np.testing.assert_allclose(ran.arrays["y"], 2.5 * x + y, rtol=1e-15, atol=1e-15)


def test_sizes_in_expressions_numbers_of_any_sign_and_what_they_imply(tmp_path) -> None:
    @weft.kernel
    def shifted(A: weft.f64["2 * N + 1"], B: weft.f64["M"], s: weft.f32, k: int):
        for i in range(2 * N + 1):
            if i + k >= 0:
                A[i] = A[i] * weft.f64(s) + B[i + 3]

    program = c_program(shifted.compile().compiled, tmp_path)
    assert {size.name for size in program.interface.sizes} == {"N", "M", "k"}
    for n, k in ((0, 0), (2, -3), (10, 5), (503, -1000)):
        a, b = _draw(2 * n + 1).astype(float), _draw(2 * n + 4, seed=1).astype(float)
        ran = program.run({"A": a, "B": b, "s": 1.5}, {"N": n, "M": 2 * n + 4, "k": k})
        assert ran.message == "done"
        expected = np.where(np.arange(2 * n + 1) + k >= 0, a * 1.5 + b[3:], a)
        np.testing.assert_allclose(ran.arrays["A"], expected, rtol=1e-14)
    short = program.run({"A": a, "B": b, "s": 1.5}, {"N": n, "M": 2 * n + 3, "k": 0})
    assert short.status < 0
    assert "this was compiled for" in short.message


def test_neither_inputs_nor_sizes(tmp_path) -> None:
    made = weft.compute((5,), lambda i: i.astype(weft.f32) * 2, name="even")
    ran = c_program(weft.compile(made).compiled, tmp_path).run({})
    np.testing.assert_array_equal(ran.arrays["even"], [0, 2, 4, 6, 8])


def test_one_number_in_place(tmp_path) -> None:
    count = weft.placeholder((), name="count")
    more = weft.compute((), lambda: count[()] + 1, name="more")
    program = c_program(weft.compile(more, in_place={"more": "count"}).compiled, tmp_path)
    assert program.run({"count": 4}).arrays == {"count": 5}


def test_data_dependent_indices_are_checked(tmp_path) -> None:
    n, k = weft.var("n"), weft.var("k")
    table, index = weft.placeholder((n,), name="table"), weft.placeholder((k,), "int64", name="at")
    taken = weft.compute((k,), lambda i: table[index[i]], name="taken")
    program = c_program(weft.compile(taken).compiled, tmp_path)
    x = _draw(11)
    good = program.run({"table": x, "at": [3, 10, 0]}, {"n": 11, "k": 3})
    np.testing.assert_array_equal(good.arrays["taken"], x[[3, 10, 0]])
    bad = program.run({"table": x, "at": [3, 11, 0]}, {"n": 11, "k": 3})
    assert bad.status > 0
    assert bad.numbers == (11, 11)


@pytest.mark.long
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint32", "uint64", "float16", "bfloat16", "int4"]
)
def test_types_that_c_shows_by_their_bits(dtype, tmp_path) -> None:
    x = weft.placeholder((4,), dtype, name="x")
    one = weft.placeholder((), dtype, name="one")
    y = weft.compute((4,), lambda i: weft.select(x[i].equal(one[()]), one[()], x[3 - i]), name="y")
    data = np.array([1, 0, 1, 1]).astype(x.dtype.numpy)
    ran = c_program(weft.compile(y).compiled, tmp_path).run({"x": data, "one": 1})
    expected = np.where(data == data[0], data[0], data[::-1])
    np.testing.assert_array_equal(ran.arrays["y"].view(np.uint8), expected.view(np.uint8))


def test_a_processor_that_lacks_instructions_is_told_so(model) -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None or "avx2" not in host_target().enabled:
        pytest.skip("nothing here can play an older processor")
    older = replace(model, system=replace(HERE, runner=(emulator, "-cpu", "Nehalem")))
    ran = older.run({"input": _draw(1, 3, SIDE, SIDE)})
    assert ran.status < 0
    assert "lacks instructions" in ran.message


def test_names_that_kernels_have_inside(tmp_path) -> None:
    @weft.kernel
    def run(x: weft.f64["N"]):
        for i in range(N):
            x[i] = x[i] + 1

    program = c_program(run.compile().compiled, tmp_path, "kernel")  # kernel_run is its code
    assert program.run({"x": [1.0, 2.0]}, {"N": 2}).arrays["x"].tolist() == [2, 3]
