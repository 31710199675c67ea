"""ONNX models through ``weft.compile``: an ``Executable`` if shapes are fixed, else a ``Model``."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.ir.errors import ArtifactError, CallError

RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 3)).astype(np.float32)
OPTIONS = weft.Options(cache=False, threads=1)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=None):
    initializers = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "tested", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def linear(rows, **more):
    """y = x · w and z = -x."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    outputs = [value("y", (rows, 3)), value("z", (rows, 3))]
    return model(nodes, [value("x", (rows, 3)), *more.get("inputs", [])], outputs, {"w": W})


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def opened():
    return weft.compile(linear("n"), options=OPTIONS)


@pytest.mark.parametrize("form", ["proto", "bytes", "path", "text"])
def test_a_fixed_model_is_one_executable(form, tmp_path):
    source = linear(2)
    (tmp_path / "m.onnx").write_bytes(source.SerializeToString())
    forms = {
        "proto": source, "bytes": source.SerializeToString(),
        "path": tmp_path / "m.onnx", "text": str(tmp_path / "m.onnx"),
    }  # fmt: skip
    program = weft.compile(forms[form], options=OPTIONS)
    assert isinstance(program, weft.Executable)
    assert [s.name for s in program.inputs] == ["x"]
    assert [s.name for s in program.outputs] == ["y", "z"]
    x = floats(2, 3)
    y, z = program(x)
    np.testing.assert_allclose(y, x @ W, rtol=1e-5, atol=1e-6)
    assert np.array_equal(z, -x)


def test_open_sizes_make_a_model_that_compiles_once_for_each_shape(opened):
    assert isinstance(opened, weft.Model) and opened.executables == ()
    assert opened.input_names == ("x",) and opened.output_names == ("y", "z")
    for rows in (1, 4, 0, 4, 1):
        x = floats(rows, 3)
        y, z = opened(x)
        np.testing.assert_allclose(y, x @ W, rtol=1e-5, atol=1e-6)
        assert np.array_equal(z, -x)
        assert np.array_equal(opened(x=x)[1], z) and np.array_equal(opened.run({"x": x})["z"], z)
    assert len(opened.executables) == opened.stats["compiled"] == 3
    assert opened.stats["host"] == 0 and opened.stats["operators"] == 3 * 2
    assert set(opened.stats["seconds"]) >= {"scop", "object"}


def test_a_model_shows_what_it_has_compiled(opened):
    for look in (opened.explain, lambda: opened.as_text("scop"), lambda: opened.source("llvm")):
        with pytest.raises(CallError, match=r"WEFT-E0620.*nothing of 'tested'"):
            look()
    opened(floats(2, 3))
    assert "float32[2, 3]" in opened.explain() and "schedule" in opened.explain()
    assert "scop kernel0" in opened.as_text("scop") and "define" in opened.source("llvm")
    assert "x: float32[n, 3]" in repr(opened)
    with pytest.raises(CallError, match="stages:"):
        opened.as_text("nope")


def test_results_go_where_the_caller_says(opened):
    x, y, z = floats(2, 3), np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)
    assert opened(x, out=(y, None))[0] is y and np.allclose(y, x @ W, atol=1e-5)
    assert opened.run({"x": x}, out={"z": z})["z"] is z and np.array_equal(z, -x)


@pytest.mark.parametrize(
    ("out", "code"),
    [
        ({"q": np.empty((2, 3), np.float32)}, "E0601"),
        (np.empty((2, 3), np.float32), "E0606"),
        ([None, np.empty((2, 4), np.float32)], "E0606"),
        ([None, np.empty((2, 3))], "E0606"),
        ([np.broadcast_to(np.float32(0), (2, 3)), None], "E0606"),
        (["text", None], "E0606"),
    ],
)
def test_places_that_do_not_fit(opened, out, code):
    with pytest.raises(CallError) as caught:
        opened(floats(2, 3), out=out)
    assert caught.value.code == f"WEFT-{code}"


def test_too_many_arguments_and_twice_the_same(opened):
    x = floats(2, 3)
    for call, code in ((lambda: opened(x, x), "E0600"), (lambda: opened(x, x=x), "E0601")):
        with pytest.raises(CallError) as caught:
            call()
        assert caught.value.code == f"WEFT-{code}"


def test_shapes_fix_open_sizes_everywhere(tmp_path):
    nodes = [helper.make_node("Add", ["a", "b"], ["c"])]
    open_model = model(nodes, [value("a", ("n", "m")), value("b", ("n", None))], [value("c", None)])
    program = weft.compile(open_model, options=OPTIONS, shapes={"a": (2, 3)})
    assert isinstance(program, weft.Model)  # the unnamed size of b is open still
    program = weft.compile(open_model, options=OPTIONS, shapes={"a": (2, 3), "b": (2, 1)})
    assert isinstance(program, weft.Executable)
    a, b = floats(2, 3), floats(2, 1)
    assert np.array_equal(program(a, b), a + b)
    program.save(tmp_path / "add.weft")
    assert np.array_equal(weft.load(tmp_path / "add.weft")(a, b), a + b)


def test_an_open_model_cannot_be_saved(opened, tmp_path):
    with pytest.raises(ArtifactError, match=r"WEFT-E0706(.|\n)*x: float32\[n, 3\](.|\n)*shapes="):
        opened.save(tmp_path / "m.weft")
    assert not (tmp_path / "m.weft").exists()


def test_an_initializer_that_is_an_input_may_be_overridden_and_saved(tmp_path):
    program = weft.compile(linear(2, inputs=[value("w", (3, 3))]), options=OPTIONS)
    assert isinstance(program, weft.Model)
    x, other = floats(2, 3), floats(3, 3)
    np.testing.assert_allclose(program(x)[0], x @ W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(program(x, w=other)[0], x @ other, rtol=1e-5, atol=1e-6)
    program.save(tmp_path / "m.weft")
    np.testing.assert_allclose(weft.load(tmp_path / "m.weft")(x)[0], x @ W, rtol=1e-5, atol=1e-6)


def test_control_flow_runs_on_the_host_and_is_counted(tmp_path):
    """y = x after n doublings."""
    double = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("v", (2,))],
        [value("go_on", (), TensorProto.BOOL), value("w", (2,))],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=double)
    inputs = [value("n", (), TensorProto.INT64), value("x", (2,))]
    program = weft.compile(model([loop], inputs, [value("y", (2,))]), options=OPTIONS)
    x = floats(2)
    for turns in (0, 1, 5):
        assert np.array_equal(program(np.array(turns), x), x * 2**turns)
    assert program.stats["host"] == 1 and program.stats["compiled"] >= 1
    with pytest.raises(ArtifactError, match="WEFT-E0706"):
        program.save(tmp_path / "m.weft")


def test_lower_takes_models_and_makes_open_sizes_symbols():
    text = str(weft.lower(linear("n"), "scop"))
    assert "float32[n, 3]" in text and "float32[2, 3]" in str(weft.lower(linear(2), "scop"))
