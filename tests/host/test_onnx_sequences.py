"""Sequences and optionals against Python lists."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.end_to_end.onnx_suite import Interpreted
from tests.errors.hostile_models import model, node, value
from weft.host.onnx_model import load_model
from weft.ir.errors import CallError, ExecutionError, ModelError

INT = TensorProto.INT64
ITEMS = [np.full((2,), k, np.float32) for k in range(4)]
SEQUENCE = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)


def run(nodes, inputs, outputs=("y",), constants=None, declared=None, opset=18):
    declared = declared or [SEQUENCE if n == "s" else value(n, None, INT) for n in inputs]
    changed = model(nodes, inputs=declared, outputs=outputs, constants=constants, opset=opset)
    found = load_model(changed, Interpreted).run(inputs)
    return [found[name] for name in outputs]


def values(sequence):
    return [int(item[0]) for item in sequence]


@pytest.mark.parametrize("at", [-4, -1, 0, 2, 3])
def test_at_and_erase(at):
    nodes = [node("SequenceAt", ["s", "i"], ["y"]), node("SequenceErase", ["s", "i"], ["z"])]
    y, z = run(nodes, {"s": ITEMS, "i": np.array(at)}, ["y", "z"])
    assert np.array_equal(y, ITEMS[at])
    assert values(z) == [k for k in range(4) if k != at % 4]


@pytest.mark.parametrize("at", [-4, -1, 0, 2, 4])
def test_insert(at):
    expected = list(range(4))
    expected.insert(at, 9)
    nodes = [node("SequenceInsert", ["s", "n", "i"], ["y"])]
    nine = {"n": np.full((2,), 9, np.float32)}
    (y,) = run(nodes, {"s": ITEMS, "i": np.array(at)}, constants=nine)
    assert values(y) == expected


def test_insert_and_erase_at_the_end_without_position():
    nine = {"n": np.full((2,), 9, np.float32)}
    nodes = [node("SequenceInsert", ["s", "n"], ["y"]), node("SequenceErase", ["s"], ["z"])]
    y, z = run(nodes, {"s": ITEMS}, ["y", "z"], constants=nine)
    assert values(y) == [0, 1, 2, 3, 9] and values(z) == [0, 1, 2]


@pytest.mark.parametrize("op", ["SequenceAt", "SequenceErase"])
@pytest.mark.parametrize("at", [-5, 4, 2**62])
def test_positions_out_of_range(op, at):
    with pytest.raises(ExecutionError, match="position"):
        run([node(op, ["s", "i"], ["y"])], {"s": ITEMS, "i": np.array(at)})


def test_empty_and_length():
    nodes = [node("SequenceEmpty", [], ["e"]), node("SequenceLength", ["e"], ["y"])]
    (y,) = run(nodes, {})
    assert y == 0 and y.dtype == np.int64 and y.shape == ()


@pytest.mark.parametrize(
    ("split", "sizes"), [(None, [1] * 5), (2, [2, 2, 1]), (7, [5]), ([1, 0, 4], [1, 0, 4])]
)
def test_split_to_sequence(split, sizes):
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    names = ["x"] if split is None else ["x", "k"]
    constants = {} if split is None else {"k": np.array(split)}
    nodes = [node("SplitToSequence", names, ["y"], axis=-1)]
    (y,) = run(nodes, {"x": x}, constants=constants, declared=[value("x", (2, 5))])
    bounds = np.cumsum(sizes)[:-1]
    for a, b in zip(y, np.split(x, bounds, axis=1), strict=True):
        assert np.array_equal(a, b)


def test_split_drops_the_axis_when_told_to():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    nodes = [node("SplitToSequence", ["x"], ["y"], axis=1, keepdims=0)]
    (y,) = run(nodes, {"x": x}, declared=[value("x")])
    assert [item.tolist() for item in y] == x.T.tolist()


@pytest.mark.parametrize("split", [0, -1, [1, 1], [9], [-1, 4]])
def test_splits_that_do_not_add_up(split):
    nodes = [node("SplitToSequence", ["x", "k"], ["y"], axis=1)]
    with pytest.raises(ExecutionError, match="split"):
        run(nodes, {"x": np.ones((2, 3), np.float32)}, constants={"k": np.array(split)},
            declared=[value("x")])  # fmt: skip


@pytest.mark.parametrize(("new", "axis"), [(0, 0), (1, 0), (1, 1), (1, -1)])
def test_concat(new, axis):
    nodes = [node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=new)]
    (y,) = run(nodes, {"s": ITEMS})
    join = np.stack if new else np.concatenate
    assert np.array_equal(y, join(ITEMS, axis))


def test_concat_of_nothing_and_of_misfits():
    nodes = [node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    with pytest.raises(ExecutionError, match="empty"):
        run(nodes, {"s": []})
    with pytest.raises(ModelError):
        run(nodes, {"s": [np.ones(2, np.float32), np.ones((2, 2), np.float32)]})


OPTIONAL = helper.make_value_info(
    "o", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
)


def test_optionals():
    nodes = [node("OptionalHasElement", ["o"], ["y"])]
    assert run(nodes, {"o": ITEMS[1]}, declared=[OPTIONAL])[0] == np.array(True)
    assert run(nodes, {"o": None}, declared=[OPTIONAL])[0] == np.array(False)
    assert run(nodes, {}, declared=[OPTIONAL])[0] == np.array(False)
    nodes = [node("OptionalGetElement", ["o"], ["y"])]
    assert np.array_equal(run(nodes, {"o": ITEMS[1]}, declared=[OPTIONAL])[0], ITEMS[1])
    with pytest.raises(ExecutionError, match="empty optional"):
        run(nodes, {"o": None}, declared=[OPTIONAL])
    nodes = [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["g"]),
             node("Neg", ["g"], ["y"])]  # fmt: skip
    assert run(nodes, {"x": ITEMS[3]}, declared=[value("x", (2,))])[0].tolist() == [-3, -3]


@pytest.mark.parametrize("bad", [3, ITEMS[0], [np.ones(2)], ["a"], [ITEMS, ITEMS]])
def test_inputs_that_are_no_sequence_of_floats(bad):
    with pytest.raises(CallError, match="'s'"):
        run([node("SequenceLength", ["s"], ["y"])], {"s": bad})


def test_a_sequence_where_a_tensor_is_declared():
    with pytest.raises(ModelError, match="not a sequence"):
        run([node("SequenceLength", ["x"], ["y"])], {"x": ITEMS[0]}, declared=[value("x", (2,))])
