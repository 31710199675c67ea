"""ONNX models with open sizes: compiled once, right at every size beside onnxruntime."""

import time
from functools import cache

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.frontend.zoo.minilm import Encoder, bert
from weft.ir.errors import CallError, CompileError, ModelError

RNG = np.random.default_rng(0)
OPTIONS = weft.Options(cache=False, threads=1)
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes,
        "tested",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sizes_of(x):
    """Batch and tokens of ``x``, as exporters compute them, as lists of one."""
    return [
        node("Shape", [x], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"]),
        node("Gather", ["shape", "one"], ["tokens"]),
        node("Unsqueeze", ["batch", "axis0"], ["batch1"]),
        node("Unsqueeze", ["tokens", "axis0"], ["tokens1"]),
    ]


NUMBERS = {
    "zero": np.int64(0), "one": np.int64(1), "axis0": np.int64([0]), "axis1": np.int64([1]),
    "first": np.int64([0]), "minus": np.int64([-1]),
}  # fmt: skip


def attention():
    """Causal self-attention over 2 heads of 4, its mask a slice of one for 16 tokens."""
    nodes = [
        *sizes_of("x"),
        node("MatMul", ["x", "w"], ["qkv"]),
        node("Split", ["qkv", "thirds"], ["q", "k", "v"], axis=-1),
        node("Concat", ["batch1", "tokens1", "heads"], ["apart"], axis=0),
        *(node("Reshape", [a, "apart"], [f"{a}4"]) for a in "qkv"),
        node("Transpose", ["q4"], ["qt"], perm=[0, 2, 1, 3]),
        node("Transpose", ["k4"], ["kt"], perm=[0, 2, 3, 1]),
        node("Transpose", ["v4"], ["vt"], perm=[0, 2, 1, 3]),
        node("MatMul", ["qt", "kt"], ["scores"]),
        node("Slice", ["mask", "first", "tokens1", "axis0"], ["rows"]),
        node("Slice", ["rows", "first", "tokens1", "axis1"], ["square"]),
        node("Where", ["square", "scores", "least"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "vt"], ["mixed"]),
        node("Transpose", ["mixed"], ["joined"], perm=[0, 2, 1, 3]),
        node("Concat", ["batch1", "tokens1", "minus"], ["together"], axis=0),
        node("Reshape", ["joined", "together"], ["z"]),
        node("Add", ["z", "x"], ["y"]),
    ]
    constants = {
        **NUMBERS, "w": floats(8, 24), "thirds": np.int64([8, 8, 8]), "heads": np.int64([2, 4]),
        "mask": np.tri(16, dtype=bool), "least": np.float32(-1e9),
    }  # fmt: skip
    return model(nodes, {"x": (FLOAT, ["batch", "tokens", 8])}, ["y"], constants)


def positions():
    """Tokens looked up, with positions from Range, and an Expand of a shape that Where chooses."""
    nodes = [
        *sizes_of("ids"),
        node("Gather", ["table", "ids"], ["words"]),
        node("Range", ["zero", "tokens", "one"], ["places"]),
        node("Gather", ["where", "places"], ["at"]),
        node("Add", ["words", "at"], ["y"]),
        node("Concat", ["batch1", "minus", "tokens1"], ["asked"], axis=0),
        node("Shape", ["asked"], ["rank"]),
        node("ConstantOfShape", ["rank"], ["ones"],
             value=numpy_helper.from_array(np.int64([1]))),
        node("Equal", ["asked", "minus"], ["left"]),
        node("Where", ["left", "ones", "asked"], ["wanted"]),
        node("Cast", ["places"], ["numbers"], to=FLOAT),
        node("Expand", ["numbers", "wanted"], ["z"]),
    ]  # fmt: skip
    constants = {**NUMBERS, "table": floats(10, 4), "where": floats(512, 4)}
    return model(nodes, {"ids": (INT, ["batch", "tokens"])}, ["y", "z"], constants)


def images():
    """A convolutional network that scales up and down again to the size that it had."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1] * 4),
        node("MaxPool", ["c"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Shape", ["c"], ["s"]),
        node("Slice", ["s", "two", "four", "axis0"], ["size"]),
        node("Shape", ["p"], ["sp"]),
        node("Slice", ["sp", "first", "two", "axis0"], ["lead"]),
        node("Concat", ["lead", "size"], ["sizes"], axis=0),
        node("Resize", ["p", "", "", "sizes"], ["r"], mode="nearest",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("Add", ["r", "c"], ["y"]),
        node("GlobalAveragePool", ["y"], ["g"]),
        node("Flatten", ["g"], ["z"]),
    ]  # fmt: skip
    constants = {
        "w": floats(4, 3, 3, 3), "two": np.int64([2]), "four": np.int64([4]),
        "axis0": np.int64([0]), "first": np.int64([0]),
    }  # fmt: skip
    return model(nodes, {"x": (FLOAT, ["batch", 3, "h", "w"])}, ["y", "z"], constants)


def encoder():
    return bert(
        Encoder("tiny", 1, 8, 2, 16, vocabulary=30, positions=64, batch="batch", sequence="tokens"),
        seed=1,
    )


def inputs_of(source, sizes):
    """Random inputs; ids are below 10, masks hide the last token of two."""
    found = {}
    for port in source.graph.input:
        shape = [d.dim_value or sizes[d.dim_param] for d in port.type.tensor_type.shape.dim]
        if port.type.tensor_type.elem_type == FLOAT:
            found[port.name] = floats(*shape)
        elif port.name == "attention_mask":
            found[port.name] = (np.ones(shape, np.int64).cumsum(-1) % 3 > 0).astype(np.int64)
        else:
            most = 2 if port.name == "token_type_ids" else 10
            found[port.name] = RNG.integers(0, most, shape)
    return found


TEXT = [(1, 1), (3, 7), (2, 2), (1, 13), (5, 5), (4, 16), (0, 3)]
CASES = {
    "attention": (attention, TEXT),
    "positions": (positions, [*TEXT, (2, 200)]),
    "encoder": (encoder, TEXT),
}


@cache
def compiled(name):
    """The model of a case, and it compiled."""
    source = CASES[name][0]()
    return source, weft.compile(source, options=OPTIONS)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_text_of_every_size_by_one_program(name, tmp_path):
    source, opened = compiled(name)
    shapes = CASES[name][1]
    opened.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    peer = onnxruntime.InferenceSession(source.SerializeToString())
    for batch, tokens in shapes:
        given = inputs_of(source, {"batch": batch, "tokens": tokens})
        found = opened.run(given)
        for (key, array), again in zip(found.items(), loaded.run(given).values(), strict=True):
            np.testing.assert_array_equal(array, again)
            if batch:  # onnxruntime reshapes nothing to -1
                (expected,) = peer.run([key], given)
                np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
            else:
                assert array.size == 0
    assert opened.stats["compiled"] == len(opened.executables) == 1


def test_images_of_every_size_by_one_program():
    source = images()
    opened = weft.compile(source, options=OPTIONS)
    peer = onnxruntime.InferenceSession(source.SerializeToString())
    for batch, h, w in [(1, 8, 8), (3, 17, 5), (2, 1, 1), (7, 4, 31), (0, 6, 6), (5, 5, 5)]:
        x = floats(batch, 3, h, w)
        for found, expected in zip(opened(x), peer.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert opened.stats["compiled"] == 1 and opened.conditions == ()


def test_a_mask_of_so_many_tokens_is_a_condition(tmp_path):
    _, opened = compiled("attention")
    assert "tokens <= 16" in opened.conditions
    assert "compiled once for" in opened.explain() and "tokens <= 16" in opened.explain()
    with pytest.raises(CallError, match=r"E0608(.|\n)*tokens <= 16(.|\n)*tokens = 17"):
        opened(floats(1, 17, 8))
    opened.save(tmp_path / "m.weft")
    with pytest.raises(CallError, match=r"E0608(.|\n)*tokens <= 16"):
        weft.load(tmp_path / "m.weft")(floats(1, 17, 8))


def added():
    return model(
        [node("Add", ["a", "b"], ["c"])],
        {"a": (FLOAT, ["n", 3]), "b": (FLOAT, ["m", 3])},
        ["c"],
        {},
    )


def test_sizes_that_meet_are_one_and_a_size_of_1_has_code_of_its_own():
    opened = weft.compile(added(), options=OPTIONS)
    assert opened.conditions == ("m == n",)
    for n in (0, 1, 4, 7):
        a, b = floats(n, 3), floats(n, 3)
        np.testing.assert_array_equal(opened(a, b), a + b)
    assert opened.stats["compiled"] == 1
    for n, m in ((4, 1), (1, 7)):  # ONNX broadcasts these
        a, b = floats(n, 3), floats(m, 3)
        np.testing.assert_array_equal(opened(a, b), a + b)
    assert opened.stats["compiled"] == 3
    with pytest.raises(CallError, match=r"E0605(.|\n)*add cannot broadcast"):
        opened(floats(2, 3), floats(4, 3))


def squeezed():
    """All sizes of 1 are gone."""
    nodes = [node("Squeeze", ["x"], ["s"]), node("Neg", ["s"], ["y"])]
    return model(nodes, {"x": (FLOAT, ["n", 1, "m"])}, ["y"], {})


def test_ranks_that_depend_on_sizes():
    opened = weft.compile(squeezed(), options=OPTIONS)
    assert opened.conditions == ("n != 1", "m != 1")
    for shape in ((2, 1, 3), (0, 1, 5), (1, 1, 3), (1, 1, 1)):
        x = floats(*shape)
        np.testing.assert_array_equal(opened(x), -x.squeeze())


def test_a_reshape_to_an_open_size_of_0_copies():
    """(2, 0, 4) to (0, 8): ONNX copies the 2."""
    nodes = [
        *sizes_of("x"),
        node("Mul", ["batch1", "tokens1"], ["rows"]),
        node("Concat", ["rows", "minus"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["r"]),
        node("Neg", ["r"], ["y"]),
    ]
    opened = weft.compile(
        model(nodes, {"x": (FLOAT, ["batch", "tokens", 4])}, ["y"], NUMBERS), options=OPTIONS
    )
    assert opened(floats(3, 5, 4)).shape == (15, 4)
    assert opened(floats(0, 5, 4)).shape[0] == 0
    assert opened(floats(2, 0, 4)).shape == (2, 0)


def test_what_no_size_says_is_compiled_for_each_call():
    """y: the first k rows, where k is data."""
    nodes = [node("Slice", ["x", "first", "k", "axis0"], ["s"]), node("Neg", ["s"], ["y"])]
    ports = {"x": (FLOAT, ["n", 3]), "k": (INT, [1])}
    opened = weft.compile(model(nodes, ports, ["y"], NUMBERS), options=OPTIONS)
    x = floats(5, 3)
    for k in (0, 2, 7):
        np.testing.assert_array_equal(opened(x, np.int64([k])), -x[:k])
    assert opened.stats["compiled"] == 3 and opened.conditions == ()
    assert opened.explain().startswith("compiled for the sizes of each call: 'k', on which")


def test_ranges(tmp_path):
    source = added()
    shapes = {"a": ((1, 64), 3), "b": (None, None)}
    opened = weft.compile(source, options=OPTIONS, shapes=shapes)
    assert opened.conditions == ("m == n", "n >= 1", "n <= 64")
    for n in (1, 64):
        a = floats(n, 3)
        np.testing.assert_array_equal(opened(a, a), a + a)
    for n in (0, 65):
        with pytest.raises(CallError, match=rf"E0608.*n is {n} in.*1 <= n <= 64"):
            opened(floats(n, 3), floats(n, 3))
    opened.save(tmp_path / "m.weft")
    with pytest.raises(CallError, match=r"E0608.*n <= 64"):
        weft.load(tmp_path / "m.weft")(floats(65, 3), floats(65, 3))


@pytest.mark.parametrize(
    "shape",
    [((1, 64), (1, 3)), ((2, 1), 3), ((-1, 2), 3), ((1, 2, 3), 3), ("n", 3), ((True, 2), 3)],
)
def test_ranges_that_are_none(shape):
    with pytest.raises(ModelError, match="WEFT-E0013"):
        weft.compile(added(), options=OPTIONS, shapes={"a": shape})


def test_one_size_has_one_range():
    source = model(
        [node("Add", ["a", "b"], ["c"])],
        {"a": (FLOAT, ["n"]), "b": (FLOAT, ["n"])},
        ["c"],
        {},
    )
    for shapes in ({"a": ((1, 4),), "b": ((1, 5),)}, {"a": ((1, 4),), "b": (2,)}):
        with pytest.raises(ModelError, match=r"WEFT-E0013.*n "):
            weft.compile(source, options=OPTIONS, shapes=shapes)


def test_names_of_sizes_may_be_any_text():
    source = model(
        [node("Add", ["a", "b"], ["c"]), node("Softmax", ["c"], ["d"], axis=-1)],
        {"a": (FLOAT, ["k", "i0"]), "b": (FLOAT, ["a b + 1", "é→\n"])},
        ["d"],
        {},
    )
    opened = weft.compile(source, options=OPTIONS)
    a, b = floats(3, 4), floats(3, 4)
    e = np.exp(a + b)
    np.testing.assert_allclose(opened(a, b), e / e.sum(-1, keepdims=True), rtol=1e-5)
    assert opened.stats["compiled"] == 1


# ---- versions -----------------------------------------------------------------------------------


def test_versions_ahead_of_time():
    source, general = compiled("positions")
    wanted = [{"batch": 1}, {"batch": 2, "tokens": 5}]
    opened = weft.compile(source, options=OPTIONS, specialize=wanted)
    assert list(opened.versions) == ["batch = 1", "batch = 2, tokens = 5"]
    for batch, tokens in ((1, 7), (2, 5), (2, 6), (3, 1)):
        given = inputs_of(source, {"batch": batch, "tokens": tokens})
        for name, array in general.run(given).items():
            np.testing.assert_array_equal(opened.run(given)[name], array)
        assert opened(**given)[0].shape == (batch, tokens, 4)
    assert opened.stats["compiled"] == 1


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([{"batch": 1}], "E0033"),
        ([{"n": -1}], "E0033"),
        ([{"n": "1"}], "E0033"),
        ([{"m": 1}], "E0033"),  # it is n
        ([{"n": 65}], "E0034"),
        ("foreground", "E0035"),
        ({"n": 1}, "E0035"),
        ([1], "E0035"),
    ],
)
def test_versions_that_cannot_be(wanted, code):
    with pytest.raises(CompileError) as caught:
        weft.compile(added(), options=OPTIONS, shapes={"a": ((1, 64), 3)}, specialize=wanted)
    assert caught.value.code == f"WEFT-{code}"


def test_what_has_no_one_program_has_no_versions():
    nodes = [node("Slice", ["x", "first", "k", "axis0"], ["y"])]
    ports = {"x": (FLOAT, ["n", 3]), "k": (INT, [1])}
    source = model(nodes, ports, ["y"], NUMBERS)
    with pytest.raises(CompileError, match=r"E0035(.|\n)*'k', on which shapes depend"):
        weft.compile(source, options=OPTIONS, specialize=[{"n": 1}])
    background = weft.compile(source, options=OPTIONS, specialize="background")
    np.testing.assert_array_equal(background(floats(4, 3), np.int64([0])), floats(0, 3))


def test_versions_in_the_background():
    opened = weft.compile(added(), options=OPTIONS, specialize="background")
    a = floats(6, 3)
    while not opened.versions:
        np.testing.assert_array_equal(opened(a, a), a + a)
        time.sleep(0.01)
    assert list(opened.versions) == ["n = 6"]
    np.testing.assert_array_equal(opened(a, a), a + a)
    np.testing.assert_array_equal(opened(a[:2], a[:2]), a[:2] + a[:2])
