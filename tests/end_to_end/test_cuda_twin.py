"""GPU kernels through the whole compiler, run by their twin: right, and what cannot be is told."""

from __future__ import annotations

import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.benchmarks.polybench.run import SUITE
from weft.benchmarks.polybench.verify import verify
from weft.codegen.cuda import twin
from weft.ir.dtypes import as_dtype
from weft.ir.errors import (
    ArtifactError,
    CallError,
    CompileError,
    ExecutionError,
    IllegalScheduleError,
    UnsupportedError,
)

TWIN = weft.Options(target="cuda-twin", workers=0)


SERIAL = ("floyd-warshall", "seidel-2d")  # every loop carries dependences


SHORT = ("gemm", "atax", "trisolv", "covariance", "jacobi-2d", "floyd-warshall", "nussinov")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SHORT else pytest.mark.long) for n in SUITE]
)
def test_polybench(name: str) -> None:
    """Every kernel at the mini size, against NumPy; most have loops of a grid."""
    benchmark = SUITE[name]
    dtype = benchmark.dtype
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = benchmark.make(as_dtype(dtype)).compile(options=TWIN)
    assert ("    grid\n" in program.as_text("schedule")) == (name not in SERIAL)
    names = [spec.name for spec in program.inputs]
    verdict = verify(
        benchmark, dtype, benchmark.sizes("mini"),
        lambda given: program(*[given[n] for n in names]), None, use_oracle=True,
    )  # fmt: skip
    assert verdict.good, verdict


n, m = weft.var("n"), weft.var("m")
k, r = weft.reduce_axis((0, m), name="k"), weft.reduce_axis((0, m), name="r")
X = weft.placeholder((n, m), name="X")


def made(name: str, shape, body) -> weft.Tensor:
    return weft.compute(shape, body, name=name)


def softmax() -> weft.Tensor:
    top = made("top", (n,), lambda i: weft.max_over(X[i, k], axis=k))
    e = made("e", (n, m), lambda i, j: weft.exp(X[i, j] - top[i]))
    total = made("total", (n,), lambda i: weft.sum(e[i, r], axis=r))
    return made("softmax", (n, m), lambda i, j: e[i, j] / total[i])


def softmax_oracle(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm() -> weft.Tensor:
    size = m.astype("float32")
    mean = made("mean", (n,), lambda i: weft.sum(X[i, k], axis=k))
    centred = made("centred", (n, m), lambda i, j: X[i, j] - mean[i] / size)
    spread = made("spread", (n,), lambda i: weft.sum(centred[i, r] * centred[i, r], axis=r))
    return made("norm", (n, m), lambda i, j: centred[i, j] / weft.sqrt(spread[i] / size + 1e-5))


def layer_norm_oracle(x: np.ndarray) -> np.ndarray:
    c = x - x.mean(axis=1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1e-5)


PROGRAMS = {
    "pointwise": (
        lambda: made("p", (n, m), lambda i, j: weft.tanh(X[i, j]) * 2.0 + X[0, j]),
        lambda x: np.tanh(x) * 2 + x[:1],
    ),
    "transposed": (lambda: made("t", (m, n), lambda i, j: X[j, i]), lambda x: x.T),
    "sums": (
        lambda: made("s", (n,), lambda i: weft.sum(X[i, k], axis=k)),
        lambda x: x.sum(axis=1),
    ),
    "greatest squares": (
        lambda: made("g", (n,), lambda i: weft.max_over(X[i, k] * X[i, k], axis=k)),
        lambda x: (x * x).max(axis=1, initial=-np.inf),
    ),
    "gram": (
        lambda: made("gram", (n, n), lambda i, j: weft.sum(X[i, k] * X[j, k], axis=k)),
        lambda x: x @ x.T,
    ),
    "softmax": (softmax, softmax_oracle),
    "layer norm": (layer_norm, layer_norm_oracle),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tensor_expressions_of_all_sizes(name: str) -> None:
    make, oracle = PROGRAMS[name]
    program = weft.compile(make(), options=TWIN)
    random = np.random.default_rng(0)
    for shape in ((1, 1), (3, 7), (31, 33), (257, 5), (5, 257), (2, 1000), (2, 0)):
        x = random.standard_normal(shape, dtype=np.float32)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # means of nothing
            want = oracle(x.astype(np.float64))
        np.testing.assert_allclose(program(x), want, rtol=2e-5, atol=1e-5)


def test_softmax_of_rows_is_one_kernel_through_shared_memory() -> None:
    text = weft.compile(softmax(), options=TWIN).source("cuda")
    kernels = text[text.index("#endif\n\n") :]
    assert kernels.count("WEFT_KERNEL(") == 1
    assert kernels.count("WEFT_SHARED(float,") == 4 and kernels.count("block_barrier();") > 4


def test_the_text_shows_whose_lines_it_computes() -> None:
    double = weft.compute((n, m), lambda i, j: X[i, j] * 2.0, name="double")
    program = weft.compile(double, options=TWIN)
    first = test_the_text_shows_whose_lines_it_computes.__code__.co_firstlineno
    line = f"test_cuda_twin.py:{first + 1}"
    comments = [x for x in program.source("cuda").splitlines() if x.startswith("// double_double")]
    assert len(comments) == 1 and f"(compute 'double', {line}: " in comments[0]


def test_the_cache_has_the_twin(tmp_path: Path) -> None:
    options = weft.Options(target="cuda-twin:sm_80", cache_dir=str(tmp_path), workers=0)
    first = weft.compile(softmax(), options=options)
    again = weft.compile(softmax(), options=options)
    assert again._compiled.from_cache and not first._compiled.from_cache
    x = np.random.default_rng(1).standard_normal((9, 40), dtype=np.float32)
    assert np.array_equal(first(x), again(x))
    saved = tmp_path / "softmax.weft"
    first.save(saved)
    loaded = weft.load(saved)
    assert np.array_equal(loaded(x), first(x)) and loaded.source("cuda") == first.source("cuda")


def test_an_index_out_of_range_is_told() -> None:
    where = weft.placeholder((n,), dtype="int64", name="where")
    table = weft.placeholder((10,), name="table")
    program = weft.compile(made("taken", (n,), lambda i: table[where[i]] * 2.0), options=TWIN)
    values = np.arange(10, dtype=np.float32)
    assert program(where=np.array([9, 0, 3]), table=values).tolist() == [18.0, 0.0, 6.0]
    with pytest.raises(ExecutionError, match=r"WEFT-E0610.*12"):
        program(where=np.array([1, 12, 2]), table=values)


def test_unknown_gpus_and_types_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="WEFT-E0002"):
        weft.compile(softmax(), options=weft.Options(target="cuda-twin:sm_8", cache=False))
    with pytest.raises(CompileError, match="WEFT-E0002"):
        weft.compile(softmax(), options=weft.Options(target="cuda", cache=False))
    text = weft.compile(softmax(), options=weft.Options(target="sm_80", cache=False))
    assert "WEFT_KERNEL(256)" in text.source("cuda")
    with pytest.raises(CallError, match="WEFT-E0613"):
        text(np.zeros((2, 2), np.float32))
    small = weft.placeholder((4,), dtype="float8_e5m2", name="small")
    program = made("twice", (4,), lambda i: small[i] + small[i])
    with pytest.raises(UnsupportedError, match="WEFT-E0504"):
        weft.compile(program, options=weft.Options(target="cuda-twin", cache=False))
    with pytest.raises(CallError, match="WEFT-E0609"):
        weft.compile(softmax(), options=weft.Options(target="host")).source("cuda")
    monkeypatch.setattr(twin, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(CompileError, match="WEFT-E0507"):
        weft.compile(softmax(), options=weft.Options(target="cuda-twin", cache=False))
    monkeypatch.setattr(twin, "COMPILERS", ("false",))
    with pytest.raises(CompileError, match="WEFT-E0508"):
        weft.compile(softmax(), options=weft.Options(target="cuda-twin", cache=False))


@weft.kernel
def product(A: weft.f32[n, h], B: weft.f32[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for q in range(A.shape[1]):
                C[i, j] += A[i, q] * B[q, j]


def test_loops_are_bound_by_hand() -> None:
    bound = weft.schedule(product).tile({"i": 4, "j": 16})
    bound = bound.set_kinds({"i_t": "grid", "j_t": "grid", "i_p": "block", "j_p": "block"})
    program = product.compile(bound, options=TWIN)
    random = np.random.default_rng(2)
    for rows, depth, columns in ((1, 1, 1), (5, 3, 17), (16, 0, 33), (0, 2, 2)):
        a = random.standard_normal((rows, depth), dtype=np.float32)
        b = random.standard_normal((depth, columns), dtype=np.float32)
        c = np.full((rows, columns), np.nan, np.float32)
        program(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(IllegalScheduleError, match="WEFT-E0421"):
        product.compile(bound.set_kinds({"q": "block"}), options=TWIN)
    with pytest.raises(CompileError, match="WEFT-E0032"):
        product.compile(bound, options=weft.Options(target="host", cache=False))


@weft.kernel
def halves(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for q in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, q]) * weft.float32(B[q, j])


def deep(target: str, depth: int, stages: int) -> weft.Executable:
    """``halves`` in tiles of 64 × 32, with stages · depth · 192 bytes of shared memory a block."""
    options = weft.Options(target=target, cache=False)
    s = weft.schedule(halves, options=options).tile({"i": 64, "j": 32}).distribute("i_p")
    s = s.reorder(["q", "i_p_S1", "j_p_S1"])
    how = {"warps": (2, 2), "depth": depth, "stages": stages}
    s = s.tensorize(["q"], ["i_p_S1"], "j_p_S1", instruction="mma.m16n8k16.f16", **how)
    kinds = {"i_t": "grid", "j_t": "grid", "i_p": "block", "j_p": "block"}
    return halves.compile(s.set_kinds(kinds), options=options)


def test_a_launch_asks_for_shared_memory_that_a_kernel_may_not_declare() -> None:
    program = deep("cuda-twin:sm_80", depth=128, stages=3)
    text = program.source("cuda").split("#endif\n\n", 1)[1]
    assert "WEFT_LAUNCH_ASKING(" in text and str(3 * 128 * 192) in text
    assert "WEFT_ASKED(" in text and "WEFT_SHARED(" not in text
    random = np.random.default_rng(5)
    for rows, depth, columns in ((70, 50, 45), (64, 700, 32), (3, 0, 5)):
        a = random.standard_normal((rows, depth)).astype(np.float16)
        b = random.standard_normal((depth, columns)).astype(np.float16)
        c = np.full((rows, columns), np.nan, np.float32)
        program(a, b, c)
        np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-3)
    declared = deep("cuda-twin:sm_80", depth=128, stages=2).source("cuda")  # 48 KiB, no more
    assert "WEFT_ASKED(" not in declared.split("#endif\n\n", 1)[1]


def test_shared_memory_is_limited_by_the_gpu() -> None:
    with pytest.raises(CompileError, match=r"WEFT-E0506[^$]*196608[^$]*166912"):
        deep("sm_80", depth=256, stages=4)
    assert "196608" in deep("sm_90a", depth=256, stages=4).source("cuda")


def test_the_twin_catches_a_launch_that_asks_for_too_little() -> None:
    program = deep("cuda-twin:sm_80", depth=128, stages=3)
    faulty = program.source("cuda").replace(str(3 * 128 * 192), str(2 * 128 * 192))
    code = twin.twin_object(faulty)
    other = weft.Executable(replace(program._compiled, objects=(code,)))
    a, b = np.ones((64, 128), np.float16), np.ones((128, 32), np.float16)
    with pytest.raises(ExecutionError, match=r"73728 bytes of shared memory.*49152"):
        other(a, b, np.empty((64, 32), np.float32))


def test_kernels_to_take_away_check_themselves(tmp_path: Path) -> None:
    column = weft.reduce_axis((0, 100), name="column")
    x = weft.placeholder((33, 100), name="x")
    total = made("total", (33,), lambda i: weft.sum(x[i, column], axis=column))
    result = made("result", (33, 100), lambda i, j: x[i, j] - total[i])
    program = weft.compile(result, options=TWIN)
    program.export(tmp_path / "k.cu")
    header = Path(twin.__file__).with_name("twin.hpp")
    flags = ["-std=c++17", "-O1", "-w", "-x", "c++", "-include", str(header)]

    def run(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "k.cu").write_text(text)
        command = [twin.twin_compiler(), *flags, "k.cu", "-o", "k", "-lpthread"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return subprocess.run(["./k"], cwd=tmp_path, capture_output=True, text=True, check=False)

    text = (tmp_path / "k.cu").read_text()
    good = run(text)
    assert good.returncode == 0 and good.stdout == "result: right, off by 0 at most\n"
    wrong = run(text.replace(" - total_total[", " + total_total["))
    assert wrong.returncode == 1 and "WRONG" in wrong.stdout
    sized = weft.compile(softmax(), options=TWIN)
    with pytest.raises(ArtifactError, match="WEFT-E0715"):
        sized.export(tmp_path / "open.cu")
    with pytest.raises(ArtifactError, match="WEFT-E0700"):
        program.export(tmp_path / "no" / "folder.cu")


FAULTS = {  # in a kernel's text, each as a writer of kernels might make it
    "a barrier dropped": ("  block_barrier();\n", "", 1),
    "all barriers dropped": ("  block_barrier();\n", "", -1),
    "a barrier for some": ("  block_barrier();", "  if (thread_index() < 9) block_barrier();", 1),
    "memory not filled": ("partial[", "partial[1 + ", 1),
    "one turn too few": ("block_index()", "block_index() / 2", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_catches_faults_in_the_text(name: str) -> None:
    """Softmax of rows with a fault: wrong, not a number, or an error; never right by luck."""
    program = weft.compile(softmax(), options=TWIN)
    text = program.source("cuda")
    head, kernels = text.split("#endif\n\n", 1)
    old, new, count = FAULTS[name]
    assert old in kernels
    faulty = f"{head}#endif\n\n{kernels.replace(old, new, count)}"
    x = np.random.default_rng(3).standard_normal((12, 400), dtype=np.float32)
    for seed in (1, 2, 3):
        code = twin.twin_object(faulty, [f"-DWEFT_SEED={seed}"])
        other = weft.Executable(replace(program._compiled, objects=(code,)))
        try:
            got = other(x)
        except ExecutionError as error:
            assert "barrier" in str(error)
            return
        if not np.allclose(got, softmax_oracle(x.astype(np.float64)), rtol=1e-4, atol=1e-6):
            return
    pytest.fail("the twin gave the right answer three times")
