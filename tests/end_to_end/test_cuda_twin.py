"""GPU kernels through the whole compiler, run by their twin: right, and what cannot be is told."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.benchmarks.polybench.run import SUITE
from weft.benchmarks.polybench.verify import verify
from weft.codegen.cuda import twin
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CallError, CompileError, ExecutionError, UnsupportedError

TWIN = weft.Options(target="cuda-twin", workers=0)


@pytest.mark.parametrize("name", SUITE)
def test_polybench(name: str) -> None:
    """Every kernel at the mini size, against NumPy; none of them falls back to one thread."""
    benchmark = SUITE[name]
    dtype = benchmark.dtype
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = benchmark.make(as_dtype(dtype)).compile(options=TWIN)
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
    half = weft.placeholder((4,), dtype="float16", name="half")
    program = made("twice", (4,), lambda i: half[i] + half[i])
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
