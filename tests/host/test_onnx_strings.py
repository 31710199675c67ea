"""Strings against what Python says of them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.end_to_end.onnx_suite import Interpreted
from tests.errors.hostile_models import model, node, value
from weft.host.onnx_model import load_model
from weft.ir.errors import CallError, ExecutionError, ModelError

WORDS = np.array([["pear", "fig"], ["", "fig"], ["über", "a b"]], object)


def text(name, shape=None):
    return value(name, shape, TensorProto.STRING)


def run(nodes, inputs, outputs=("y",), opset=20, domains=(), constants=None):
    declared = [
        text(n) if a.dtype == object else value(n, None, helper.np_dtype_to_tensor_dtype(a.dtype))
        for n, a in inputs.items()
    ]
    changed = model(nodes, inputs=declared, outputs=outputs, opset=opset, constants=constants)
    for domain in domains:
        changed.opset_import.append(helper.make_opsetid(domain, 4))
    found = load_model(changed, Interpreted).run(inputs)
    return found["y"] if len(outputs) == 1 else [found[name] for name in outputs]


def test_concat_broadcasts():
    found = run([node("StringConcat", ["a", "b"], ["y"])], {"a": WORDS, "b": WORDS[:1]})
    assert found.tolist() == [[a + b for a, b in zip(row, WORDS[0], strict=True)] for row in WORDS]
    with pytest.raises(ExecutionError, match="broadcast"):
        run([node("StringConcat", ["a", "b"], ["y"])], {"a": WORDS, "b": WORDS.T})


@pytest.mark.parametrize("delimiter", [None, "", ",", "::"])
@pytest.mark.parametrize("most", [None, 1])
def test_split(delimiter, most):
    x = np.array(["a,b::c", "", " x  y ", ",,", "::"], object)
    attributes = {"delimiter": delimiter, "maxsplit": most}
    nodes = [node("StringSplit", ["x"], ["y", "n"], **attributes)]
    pieces, counts = run(nodes, {"x": x}, ["y", "n"])
    expected = [t.split(delimiter or None, -1 if most is None else most) for t in x]
    assert counts.tolist() == list(map(len, expected))
    assert [list(row[:n]) for row, n in zip(pieces, counts, strict=True)] == expected
    assert all(t == "" for row, n in zip(pieces, counts, strict=True) for t in row[n:])


def test_split_of_nothing():
    nodes = [node("StringSplit", ["x"], ["y", "n"])]
    pieces, counts = run(nodes, {"x": np.zeros((0, 2), object)}, ["y", "n"])
    assert pieces.shape == (0, 2, 0) and counts.shape == (0, 2)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ["Mon", "tue", "Mon", "Wed"]),
        ({"stopwords": ["mon"]}, ["tue", "Wed"]),
        ({"stopwords": ["mon"], "is_case_sensitive": 1}, ["Mon", "tue", "Mon", "Wed"]),
        ({"stopwords": ["Mon"], "is_case_sensitive": 1}, ["tue", "Wed"]),
        ({"case_change_action": "UPPER"}, ["MON", "TUE", "MON", "WED"]),
        ({"case_change_action": "LOWER", "stopwords": ["TUE"]}, ["mon", "mon", "wed"]),
        ({"stopwords": ["mon", "tue", "wed"]}, [""]),
    ],
)
def test_normalizer(attributes, expected):
    x = np.array(["Mon", "tue", "Mon", "Wed"], object)
    nodes = [node("StringNormalizer", ["x"], ["y"], **attributes)]
    assert run(nodes, {"x": x}).tolist() == expected
    assert run(nodes, {"x": x[None]}).tolist() == [expected]


def test_normalizer_refuses_other_shapes():
    with pytest.raises(ModelError, match="shape"):
        run([node("StringNormalizer", ["x"], ["y"])], {"x": WORDS})


def test_full_match():
    nodes = [node("RegexFullMatch", ["x"], ["y"], pattern="[a-z]+")]
    assert run(nodes, {"x": WORDS}).tolist() == [[True, True], [False, True], [False, False]]


def test_moving_and_comparing():
    cases = {
        "Transpose": ([node("Transpose", ["x"], ["y"])], WORDS.T),
        "Gather": ([node("Gather", ["x", "i"], ["y"], axis=0)], WORDS[[2, 0]]),
        "Reshape": ([node("Reshape", ["x", "s"], ["y"])], WORDS.reshape(2, 3)),
        "Concat": ([node("Concat", ["x", "x"], ["y"], axis=1)], np.hstack([WORDS, WORDS])),
        "Slice": ([node("Slice", ["x", "one", "three"], ["y"])], WORDS[1:3]),
        "Identity": ([node("Identity", ["x"], ["y"])], WORDS),
        "Where": ([node("Equal", ["x", "fig"], ["e"]), node("Where", ["e", "x", "z"], ["y"])],
                  np.where(WORDS == "fig", WORDS, "z")),
        "Equal": ([node("Equal", ["x", "fig"], ["y"])], WORDS == "fig"),
        "Shape": ([node("Shape", ["x"], ["y"])], np.array([3, 2])),
    }  # fmt: skip
    constants = {
        "i": np.array([2, 0]),
        "s": np.array([2, 3]),
        "one": np.array([1]),
        "three": np.array([3]),
        "fig": np.array(["fig"], object),
        "z": np.array(["z"], object),
    }
    for name, (nodes, expected) in cases.items():
        assert run(nodes, {"x": WORDS}, constants=constants).tolist() == expected.tolist(), name


def test_unique_sorts_strings():
    nodes = [node("Unique", ["x"], ["y", "first", "back", "n"])]
    outputs = run(nodes, {"x": WORDS}, ["y", "first", "back", "n"])
    expected = np.unique(
        WORDS.astype(str), return_index=True, return_inverse=True, return_counts=True
    )
    for found, want in zip(outputs, expected, strict=True):
        assert found.tolist() == want.reshape(found.shape).tolist()


def test_casts():
    numbers = np.array([1.5, -2, 1e30, np.inf], np.float32)
    spelled = run([node("Cast", ["x"], ["y"], to=TensorProto.STRING)], {"x": numbers})
    assert [np.float32(t) for t in spelled] == numbers.tolist()
    back = run([node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": spelled})
    assert np.array_equal(back, numbers) and back.dtype == np.float32
    large = np.array(["9007199254740993", "-7"], object)
    whole = run([node("Cast", ["x"], ["y"], to=TensorProto.INT64)], {"x": large})
    assert whole.tolist() == [9007199254740993, -7]
    for bad in ("one", "", "1e5"):
        with pytest.raises(ExecutionError, match="no number"):
            run([node("Cast", ["x"], ["y"], to=TensorProto.INT64)], {"x": np.array([bad], object)})


def test_constants_of_strings():
    one = run([node("Constant", [], ["y"], value_string="é")], {})
    many = run([node("Constant", [], ["y"], value_strings=["a", "b"])], {})
    tensor = numpy_helper.from_array(np.array([["c"]], object))
    assert one.shape == () and one.item() == "é" and many.tolist() == ["a", "b"]
    assert run([node("Constant", [], ["y"], value=tensor)], {}).tolist() == [["c"]]


ENCODER = {"keys_strings": ["a", "b", "a"]}


@pytest.mark.parametrize(
    ("x", "attributes", "expected"),
    [
        (["b", "c", "a"], ENCODER | {"values_int64s": [5, 6, 7], "default_int64": 9}, [6, 9, 7]),
        (["b", "c"], ENCODER | {"values_floats": [0.5, 1.5, 2.5]}, [1.5, 0.0]),
        (["b", "c"], ENCODER | {"values_strings": ["u", "v", "w"]}, ["v", "_Unused"]),
        ([3, 8], {"keys_int64s": [3], "values_strings": ["x"], "default_string": "?"}, ["x", "?"]),
    ],
)
def test_label_encoder(x, attributes, expected):
    data = np.array(x, object) if isinstance(x[0], str) else np.array(x)
    nodes = [node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)]
    assert run(nodes, {"x": data}, domains=["ai.onnx.ml"]).tolist() == expected


def test_tf_idf_of_words_as_of_their_numbers():
    words = ["the", "cat", "sat", "on"]
    row = [0, 1, 2, 0, 1, 3, 2, 2]
    common = {
        "mode": "TFIDF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 2,
        "ngram_counts": [0, 2],
        "ngram_indexes": [1, 0, 2, 3],
        "weights": [1.0, 2.0, 3.0, 4.0],
    }
    numbers = [0, 2, 0, 1, 2, 2]
    nodes = [node("TfIdfVectorizer", ["x"], ["y"], pool_int64s=numbers, **common)]
    expected = run(nodes, {"x": np.array(row)})
    assert expected.tolist() == [3.0, 2 * 2.0, 3 * 2.0, 4 * 1.0]
    pool = [words[n] for n in numbers]
    nodes = [node("TfIdfVectorizer", ["x"], ["y"], pool_strings=pool, **common)]
    data = np.array([words[n] for n in row], object)
    assert run(nodes, {"x": data}).tolist() == expected.tolist()


def test_inputs_that_are_no_strings():
    changed = model([node("Identity", ["x"], ["y"])], inputs=[text("x")])
    for bad in (np.ones(3), np.array([1, None], object)):
        with pytest.raises(CallError, match="strings"):
            load_model(changed, Interpreted).run({"x": bad})
