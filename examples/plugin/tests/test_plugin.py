"""Each of the nine is used by a compiled program, found by its entry point: nobody imports it."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft

FILES = sorted((Path(__file__).parents[1] / "weft_example").glob("[a-z]*.py"))


def model(nodes, shape, result, **constants):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    held = [numpy_helper.from_array(data, name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def hard_mish_model(**attributes):
    node = helper.make_node("HardMish", ["x"], ["y"], domain="com.example", **attributes)
    return model([node], [3, 37], [3, 37])


def test_operator_and_handler():
    x = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32) * 3
    expected = x * np.clip(x.astype(np.float64) + 2, 0, 2) / 2
    np.testing.assert_allclose(weft.compile(hard_mish_model())(x), expected, rtol=1e-6)
    run = weft.compile(hard_mish_model(scale=3.0))
    np.testing.assert_allclose(run(x), 3 * expected, rtol=1e-6)
    with pytest.raises(weft.ModelError, match="not positive"):
        weft.compile(hard_mish_model(scale=-1.0))


def test_pass(tmp_path):
    random = np.random.default_rng(0)
    w = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["c", "f"], ["y"]),
    ]
    whole = model(nodes, [1, 3, 9, 9], [1, 4, 9, 9], w=w, f=np.float32([0.5]))
    options = weft.Options(passes=("factor_into_conv",), cache_dir=str(tmp_path))
    run = weft.compile(whole, options=options)
    plain = weft.compile(whole, options=weft.Options(cache_dir=str(tmp_path)))
    x = random.standard_normal((1, 3, 9, 9)).astype(np.float32)
    np.testing.assert_allclose(run(x), plain(x), rtol=1e-5, atol=1e-5)
    assert not plain.stats.get("from_cache")  # it is another program
    assert "conv" in run.as_text("factor_into_conv")


def test_target():
    x = weft.placeholder((100,), "float32", name="x")
    run = weft.compile(weft.compute((100,), lambda i: x[i] + 1, name="y"), target="example-cpu")
    assert run.compiled.target.cpu == "x86-64-v3"


def test_instruction():
    @weft.kernel
    def product(A: weft.i8["M", "K"], B: weft.i8["N", "K"], C: weft.i32["M", "N"]):
        for i in range(M):
            for j in range(N):
                for k in range(K):
                    C[i, j] += weft.i32(A[i, k]) * weft.i32(B[j, k])

    options = weft.Options(instructions=("example-pairs",), threads=1)
    run = product.compile(options=options)
    assert "example-pairs" in run.as_text("schedule")
    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, (n, 31)).astype(np.int8) for n in (9, 13))
    c = np.zeros((9, 13), np.int32)
    run(a, b, c)
    np.testing.assert_array_equal(c, a.astype(int) @ b.T)


@weft.kernel
def sweep(A: weft.f64["T", "N"]):
    for t in range(1, T):
        for i in range(1, N):
            A[t, i] = A[t - 1, i] + A[t, i - 1]


def test_move():
    s = sweep.schedule().wavefront("t", "i")
    assert str(s).endswith('s = s.wavefront("t", "i")')
    a = np.random.default_rng(0).random((7, 19))
    b = a.copy()
    s.compile()(a)
    sweep.python(b)
    np.testing.assert_allclose(a, b, rtol=1e-13)
    with pytest.raises(weft.IllegalScheduleError, match="EXAMPLE-1"):
        sweep.schedule().wavefront("t", "t")


@weft.kernel
def rows_of(A: weft.f64["M", "N"], x: weft.f64["N"], y: weft.f64["M"]):
    for i in range(M):
        for j in range(N):
            y[i] += A[i, j] * x[j]


def test_seed():
    known = weft.Options(seeds=("jammed_rows",), threads=1)
    plan = {"rows_of.seed": "jammed_rows", "jammed_rows.rows": 8}
    run = weft.compile(rows_of, options=known, plan=plan)
    assert run.plan["jammed_rows.rows"] == 8 and "i // 8" in run.as_text("schedule")
    for m, n in ((0, 3), (1, 1), (17, 5)):
        a, x, y = (np.ones((m, n)), np.arange(n, dtype=float), np.zeros(m))
        run(a, x, y)
        np.testing.assert_allclose(y, a @ x)


def test_provider():
    a, b = (weft.placeholder((5, 5), "float32", name=name) for name in "ab")
    k = weft.reduce_axis((0, 5), name="k")
    y = weft.compute((5, 5), lambda i, j: weft.sum(a[i, k] * b[k, j], axis=k), name="y")
    arrays = {name: np.random.default_rng(0).random((5, 5), np.float32) for name in "ab"}
    plan = {"version": 1, "parts": [{"provider": "numpy_products", "nodes": ["y"]}]}
    run = weft.place(y, arrays, providers=("numpy_products",), placement=plan)
    assert run.providers == ("numpy_products",)
    np.testing.assert_allclose(run(**arrays), arrays["a"] @ arrays["b"])


def test_accelerator():
    x = weft.placeholder((50, 16), weft.i32, name="x")
    k = weft.reduce_axis((0, 50), name="k")
    y = weft.compute((16,), lambda i: weft.sum(x[k, i], (k,)), name="y")
    run = weft.compile(y, target="example-adder")
    a = np.random.default_rng(0).integers(-99, 99, (50, 16)).astype(np.int32)
    np.testing.assert_array_equal(run(a), a.sum(0))
    assert [layer.name for layer in run.layers]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_short(path):
    """Lines of code, without the docstring and blank ones."""
    code = path.read_text().split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 25
