"""``Options(effort="quick")``: the same answers from less code."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import weft
from tests.weft.small_models import MODELS, seeded_inputs
from weft.app.cli import cli
from weft.benchmarks.polybench.run import SUITE
from weft.benchmarks.polybench.verify import compared, fresh
from weft.driver.compiler import compile_kernel
from weft.ir.dtypes import as_dtype
from weft.runtime.executable import Executable

FULL = weft.Options(effort="full", cache=False, threads=1)
QUICK = weft.Options(effort="quick", cache=False, threads=1)


@weft.kernel
def product(A: weft.f32["M", "K"], B: weft.f32["K", "N"], C: weft.f32["M", "N"]):
    for i in range(M):
        for j in range(N):
            C[i, j] = 0.0
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def integers(A: weft.i8["M", "K"], B: weft.i8["K", "N"], C: weft.i32["M", "N"]):
    for i in range(M):
        for j in range(N):
            C[i, j] = 0
            for k in range(K):
                C[i, j] += weft.i32(A[i, k]) * weft.i32(B[k, j])


@weft.kernel
def strided(
    x: weft.f32["C", "2 * D + 1", "2 * H + 1"],
    w: weft.f32["K", "C", 3, 3],
    y: weft.f32["K", "D", "H"],
):
    for k in range(K):
        for d in range(D):
            for i in range(H):
                y[k, d, i] = 0.0
                for c in range(C):
                    for a in range(3):
                        for b in range(3):
                            y[k, d, i] += x[c, 2 * d + a, 2 * i + b] * w[k, c, a, b]


@pytest.fixture(scope="module")
def quick_product() -> Executable:
    return product.compile(options=QUICK)


SIZES = [(0, 3, 2), (1, 1, 1), (3, 0, 5), (7, 13, 25), (61, 400, 49), (257, 385, 97)]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_open_sizes(quick_product: Executable, m: int, k: int, n: int) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    quick_product(a, b, c)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4 * max(k, 1) ** 0.5)


def test_what_is_no_number_goes_where_it_belongs(quick_product: Executable) -> None:
    a, b = np.ones((30, 20), np.float32), np.ones((20, 50), np.float32)
    a[29, 19] = np.nan
    c = np.zeros((30, 50), np.float32)
    quick_product(a, b, c)
    assert np.isnan(c[29]).all()
    assert (c[:29] == 20).all()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 63, 17), (64, 130, 33)])
def test_products_of_integers_are_exact(m: int, k: int, n: int) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), np.int32)
    integers.compile(options=QUICK)(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize(("d", "h"), [(1, 1), (3, 8), (2, 29)])
def test_windows_with_strides(d: int, h: int) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 2 * d + 1, 2 * h + 1)).astype(np.float32)
    w = random.standard_normal((5, 3, 3, 3)).astype(np.float32)
    y = np.zeros((5, d, h), np.float32)
    strided.compile(options=QUICK)(x, w, y)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (1, 2))
    expected = np.einsum("cdiab,kcab->kdi", windows[:, ::2, ::2], w)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["trmm", "jacobi-1d", "durbin", "gesummv"])
def test_polybench(name: str) -> None:
    benchmark = SUITE[name]
    program = compile_kernel(benchmark.make(as_dtype(benchmark.dtype)).lowered, QUICK)
    for dataset in ("mini", "small"):
        inputs = benchmark.inputs(np.dtype(benchmark.dtype), **benchmark.sizes(dataset))
        got = fresh(inputs)
        program(*got.values())
        assert compared(benchmark.dtype, inputs, got, benchmark.oracle, None).good


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    model = MODELS[name]()
    inputs = seeded_inputs(model, 0)
    full, quick = (weft.compile(model, options=o).run(inputs) for o in (FULL, QUICK))
    for key, expected in full.items():
        bound = 1e-3 * float(np.abs(expected).max())
        np.testing.assert_allclose(quick[key], expected, rtol=0, atol=bound)


# ---- It makes less code, and is no other program than the one that was asked for.


def test_there_are_no_versions_for_sizes(quick_product: Executable) -> None:
    full = product.compile(options=FULL)
    assert "few_steps" in full.as_text("schedule")
    assert "few_steps" not in quick_product.as_text("schedule")
    assert 3 * len(quick_product.source("llvm")) < len(full.source("llvm"))


def test_convolutions_have_their_own_multiplications() -> None:
    x, w = weft.placeholder((8, 34, 34), name="x"), weft.placeholder((8, 8, 3, 3), name="w")
    c, a, b = (weft.reduce_axis((0, n), name=s) for n, s in ((8, "c"), (3, "a"), (3, "b")))

    def element(k: Any, i: Any, j: Any) -> Any:
        return weft.sum(x[c, i + a, j + b] * w[k, c, a, b], axis=(c, a, b))

    y = weft.compute((8, 32, 32), element, name="y")
    stages = {o.effort: weft.compile([y], options=o).stats["seconds"] for o in (FULL, QUICK)}
    assert "winograd" in stages["full"]
    assert "winograd" not in stages["quick"]


def test_programs_of_both_efforts_are_kept_apart(tmp_path: Path) -> None:
    made = [
        product.compile(options=weft.Options(effort=e, cache_dir=str(tmp_path), threads=1))
        for e in ("full", "quick", "full", "quick")
    ]
    assert ["from_cache" in each.stats for each in made] == [False, False, True, True]
    assert made[2].source("llvm") == made[0].source("llvm") != made[1].source("llvm")
    assert made[3].source("llvm") == made[1].source("llvm")


def test_quick_code_is_proved_and_can_be_checked(quick_product: Executable, tmp_path: Path) -> None:
    assert "legality" in quick_product.stats["seconds"]  # type: ignore[operator]
    path = tmp_path / "product.weft"
    quick_product.save(path)
    assert CliRunner().invoke(cli, ["check", str(path)]).exit_code == 0


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    sizes = {}
    for effort in ("full", "quick"):
        made = tmp_path / f"{effort}.weft"
        done = CliRunner().invoke(
            cli, ["compile", _model(tmp_path), "--effort", effort, "-o", str(made)]
        )
        assert done.exit_code == 0, done.output
        sizes[effort] = len(weft.load(made).source("llvm"))
    assert sizes["quick"] < sizes["full"]


def _model(folder: Path) -> str:
    """A file of an ONNX model: a product of open sizes, of which full effort has versions."""
    shapes = {"x": ("m", "k"), "w": ("k", "n"), "y": ("m", "n")}
    x, w, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [x, w], [y])
    path = folder / "product.onnx"
    onnx.save(helper.make_model(graph), path)
    return str(path)
