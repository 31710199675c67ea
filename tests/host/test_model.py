"""ONNX models through ``weft.compile``: an ``Executable`` if shapes are fixed, else a ``Model``."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.ir.errors import ArtifactError, CallError, ExecutionError

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


def test_open_sizes_are_compiled_once_and_ahead_of_calls(opened):
    assert isinstance(opened, weft.Model) and len(opened.executables) == 1
    assert opened.input_names == ("x",) and opened.output_names == ("y", "z")
    for rows in (1, 4, 0, 4, 1):
        x = floats(rows, 3)
        y, z = opened(x)
        np.testing.assert_allclose(y, x @ W, rtol=1e-5, atol=1e-6)
        assert np.array_equal(z, -x)
        assert np.array_equal(opened(x=x)[1], z) and np.array_equal(opened.run({"x": x})["z"], z)
    assert len(opened.executables) == opened.stats["compiled"] == 1
    assert opened.stats["host"] == 0 and opened.stats["operators"] == 2
    assert set(opened.stats["seconds"]) >= {"scop", "object"}


def first_rows():
    """The first k rows of x: what no size says."""
    nodes = [helper.make_node("Slice", ["x", "zero", "k", "zero"], ["y"])]
    inputs = [value("x", ("n", 3)), value("k", (1,), TensorProto.INT64)]
    return model(nodes, inputs, [value("y", None)], {"zero": np.zeros(1, np.int64)})


def test_a_model_shows_what_it_has_compiled(opened):
    closed = weft.compile(first_rows(), options=OPTIONS)
    for look in (closed.explain, lambda: closed.as_text("scop"), lambda: closed.source("llvm")):
        with pytest.raises(CallError, match=r"WEFT-E0620.*nothing of 'tested'"):
            look()
    closed(floats(2, 3), np.int64([1]))
    assert "float32[2, 3]" in closed.explain() and "schedule" in closed.explain()
    assert "float32[n, 3]" in opened.explain() and "schedule" in opened.explain()
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


def test_an_open_model_is_saved_open(opened, tmp_path):
    opened.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    for rows in (0, 1, 7):
        x = floats(rows, 3)
        np.testing.assert_allclose(loaded(x)[0], x @ W, rtol=1e-5, atol=1e-6)


def test_what_is_compiled_for_each_call_cannot_be_saved(tmp_path):
    closed = weft.compile(first_rows(), options=OPTIONS)
    with pytest.raises(ArtifactError, match=r"WEFT-E0706(.|\n)*x: float32\[n, 3\](.|\n)*shapes="):
        closed.save(tmp_path / "m.weft")
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


# ---- what is said of indices, masks and lists ----------------------------------------------------


def _indexed(op, rank_of_indices, **attributes):
    """``op`` of x[5, 3] (and updates) at indices i, which count from the back below 0."""
    shape = {1: (2,), 2: (2, 3), 3: (2, 1)}[rank_of_indices]
    ports = [value("x", (5, 3)), value("i", shape, TensorProto.INT64)]
    if op.startswith("Scatter"):
        ports.append(value("u", (2, 3)))
    node = helper.make_node(op, [port.name for port in ports], ["y"], **attributes)
    return model([node], ports, [value("y", None)]), shape


@pytest.mark.parametrize(
    ("op", "indices"),
    [("Gather", 1), ("GatherElements", 2), ("GatherND", 3), ("ScatterElements", 2),
     ("ScatterND", 3)],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [-6, 5, -(2**63), 2**63 - 1])
def test_an_index_out_of_range_is_named_as_it_was_given(op, indices, wrong):
    made, shape = _indexed(op, indices)
    program = weft.compile(made, options=OPTIONS)
    given = [floats(5, 3), np.zeros(shape, np.int64)]
    given += [floats(2, 3)] * op.startswith("Scatter")
    program(*given)
    given[1][-1] = wrong
    with pytest.raises(ExecutionError, match=rf"WEFT-E0610: index {wrong} of .* of size 5"):
        program(*given)


def test_only_what_counts_from_the_back_is_named_as_it_was_given():
    """An index of the user's own making is named as it was made."""
    A, at = weft.placeholder((5,), name="A"), weft.placeholder((1,), dtype="int64", name="at")
    made = weft.compute((1,), lambda i: A[weft.select(at[i] < 0, at[i] * 2, at[i])], name="B")
    with pytest.raises(ExecutionError, match="index -4 of A is outside dimension 0 of size 5"):
        weft.compile(made, options=OPTIONS)(np.zeros(5, np.float32), np.array([-2]))


@pytest.fixture(params=["fixed", "open"])
def negated(request):
    rows = 2 if request.param == "fixed" else "n"
    made = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", (rows, 3))],
                 [value("y", (rows, 3))])  # fmt: skip
    return weft.compile(made, options=OPTIONS)


def test_masked_elements_are_refused_and_without_any_an_array_is_one(negated):
    data, mask = floats(2, 3), np.zeros((2, 3), bool)
    assert np.array_equal(negated(np.ma.array(data)), -data)
    assert np.array_equal(negated(np.ma.array(data, mask=mask)), -data)
    mask[1, 2] = True
    masked = np.ma.array(data, mask=mask)
    for call in (
        lambda: negated(masked),
        lambda: negated(x=masked),
        lambda: negated.run({"x": masked}),
        lambda: negated(data, out=masked),
    ):
        with pytest.raises(CallError, match=r"WEFT-E0602: .* masked elements"):
            call()
    assert np.array_equal(negated(masked.filled(7)), -np.where(mask, np.float32(7), data))


def test_masked_calibration_inputs_are_refused():
    masked = np.ma.array(floats(2, 3), mask=np.eye(2, 3, dtype=bool))
    with pytest.raises(CallError, match="WEFT-E0602: input 'x' is an array with masked elements"):
        weft.quantize(linear(2), [{"x": masked}])


@pytest.mark.parametrize("given", [[[1.0] * 3] * 2, ((1, 2, 3), (4, 5, 6)), 3.0, "text", None])
def test_what_is_no_array_is_called_what_it_is(negated, given):
    with pytest.raises(CallError) as caught:
        negated(given)
    assert f"WEFT-E0602: input 'x' is a {type(given).__name__}, not an array" in str(caught.value)


def test_the_dimension_that_does_not_fit_is_named(negated):
    with pytest.raises(CallError, match=r"E0605.*dimension 1"):
        negated(floats(2, 4))


def test_numbers_are_arrays_without_dimensions():
    for rows in (2, "n"):
        ports = [value("x", (rows,)), value("s", ())]
        node = helper.make_node("Mul", ["x", "s"], ["y"])
        scaled = weft.compile(model([node], ports, [value("y", (rows,))]), options=OPTIONS)
        assert scaled(np.ones(2, np.float32), 3).tolist() == [3, 3]
        with pytest.raises(CallError, match="E0603"):
            scaled(np.ones(2, np.float32), np.float64(3))
