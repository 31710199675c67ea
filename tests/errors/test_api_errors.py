"""One test for each mistake in using ``weft.compile`` and ``weft.lower``: code and words."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import weft


def x(name="x", shape=(4,), dtype="float32"):
    return weft.placeholder(shape, dtype, name=name)


def negative(source, name="y"):
    return weft.compute(source.shape, lambda i: -source[i], name=name)


def both(one, other):
    return weft.compute(one.shape, lambda i: one[i] + other[i], name="sum")


def model(shape=("n", 3)):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "neg", *([v] for v in values)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


A = x()
K = weft.reduce_axis((0, 4), name="k")
Y = negative(A)
WIDE = weft.compute((2, 4), lambda i, j: A[j], name="wide")
OPEN = weft.compute((weft.var("n"),), lambda i: i, name="open")
TWO = {"y": "x", "z": "x"}

CASES = {
    "an option out of range": (lambda: weft.Options(threads=0), "E0001", "1 to 1024"),
    "an unknown target": (lambda: weft.compile(Y, target="tpu"), "E0002", "targets: host, x86-64"),
    "an unknown target to lower": (lambda: weft.lower(Y, target="tpu"), "E0002", "'tpu'"),
    "options of another type": (lambda: weft.compile(Y, options={}), "E0003", "weft.Options"),
    "a number": (lambda: weft.compile(3), "E0010", "int cannot be compiled"),
    "a schedule": (lambda: weft.compile(weft.schedule(Y)), "E0010", "schedule.compile()"),
    "no outputs": (lambda: weft.compile([]), "E0010", "without a tensor"),
    "an output that is no tensor": (lambda: weft.compile([Y, 3]), "E0010", "more than tensors"),
    "two placeholders of one name": (lambda: weft.compile(both(x(), x())), "E0011", "'x'"),
    "two outputs of one name": (lambda: weft.compile([Y, negative(A)]), "E0011", "'y'"),
    "in place of nothing": (lambda: weft.compile(Y, in_place={"y": "q"}), "E0012", "inputs: x"),
    "nothing in place": (lambda: weft.compile(Y, in_place={"q": "x"}), "E0012", "outputs: y"),
    "two in one place": (
        lambda: weft.compile([Y, negative(A, "z")], in_place=TWO), "E0012", "two outputs",
    ),
    "in place of another shape": (
        lambda: weft.compile(WIDE, in_place={"wide": "x"}), "E0130", "float32[2, 4] and float32[4]",
    ),
    "in place for ONNX": (lambda: weft.compile(model(), in_place={"y": "x"}), "E0012", "ONNX"),
    "shapes for tensors": (lambda: weft.compile(Y, shapes={"x": (4,)}), "E0013", "for ONNX"),
    "shapes of no input": (lambda: weft.compile(model(), shapes={"q": (1,)}), "E0013", "inputs: x"),
    "shapes of another rank": (
        lambda: weft.compile(model(), shapes={"x": (1,)}), "E0013", "2 dimensions, not 1",
    ),
    "shapes of another size": (
        lambda: weft.compile(model(), shapes={"x": (1, 4)}), "E0013", "has size 3 in dimension 1",
    ),
    "negative shapes": (lambda: weft.compile(model(), shapes={"x": (-1, 3)}), "E0013", "[-1, 3]"),
    "a size that no input has": (lambda: weft.compile(OPEN), "E0014", "'n'"),
    "an index out of range": (
        lambda: weft.compile(weft.compute((4,), lambda i: A[i + 1], name="y")), "E0127", "1 to 4",
    ),
    "a body that is a number": (
        lambda: weft.compute((4,), lambda i: 1, name="y"), "E0115", "dtype",
    ),
    "indices that do not match": (
        lambda: weft.compute((4, 4), lambda i: A[i], name="y"), "E0113", "takes 1 indices",
    ),
    "too many indices": (lambda: A[0, 0], "E0111", "has 1 dimensions, got 2"),
    "a Python if": (
        lambda: weft.compute((4,), lambda i: 1.0 if A[i] > 0 else 0.0, name="y"), "E0101", "select",
    ),
    "mixed dtypes": (
        lambda: both(x("a"), x("b", dtype="float64")), "E0104", "float32 and float64",
    ),
    "a comparison with ==": (
        lambda: weft.compute((4,), lambda i: weft.select(A[i] == 0, A[i], 1.0), name="y"),
        "E0107", "a.equal(b)",
    ),
    "a choice of two numbers": (
        lambda: weft.compute((4,), lambda i: weft.select(A[i] > 0, 1.0, 0.0), name="y"),
        "E0106", "weft.literal(1.0",
    ),
    "a function of a number": (lambda: weft.exp(2.0), "E0106", "2.0 is a number"),
    "a sum of numbers": (lambda: weft.sum(1.0, axis=K), "E0106", "1.0 is a number"),
    "a tensor without indices": (lambda: A[0] + A, "E0106", "index tensors"),
    "an array in an expression": (lambda: np.ones(3) + A[0], "E0106", "ndarray"),
    "iterating over a tensor": (lambda: list(A), "E0108", "cannot be iterated"),
    "an unknown dtype": (lambda: x(dtype="float31"), "E0110", "dtypes: bool, int2"),
    "an unknown dtype of a cast": (lambda: A[0].astype("wide"), "E0110", "'wide'"),
    "a slice": (lambda: A[0:2], "E0112", "by a slice"),
    "a tuple as index": (lambda: x(shape=(4, 4))[(0,), 1], "E0112", "write x[(*i, k)]"),
    "a float as index": (lambda: A[1.5], "E0112", "by a float"),
    "a float expression as index": (lambda: A[A[0]], "E0112", ".astype('int64')"),
    "two values from one body": (
        lambda: weft.compute((4,), lambda i: (A[i], A[i]), name="y"), "E0114", "weft.computes",
    ),
    "a shape that is a number": (lambda: x(shape=3), "E0116", "(n,)"),
    "a size that is a name": (lambda: x(shape=("n",)), "E0116", "weft.var"),
    "a size that is a float": (lambda: x(shape=(1.5,)), "E0116", "1.5"),
    "a negative size": (lambda: x(shape=(-1,)), "E0191", "negative size -1"),
    "a size out of all bounds": (lambda: x(shape=(10**12,)), "E0290", "16 GiB"),
    "bounds that are one number": (lambda: weft.reduce_axis(3, name="k"), "E0116", "(n,)"),
    "bounds that are three": (lambda: weft.reduce_axis((0, 1, 2), name="k"), "E0116", "(0, n)"),
    "a body without a value": (
        lambda: weft.compute((4,), lambda i: None, name="y"), "E0117", "a NoneType",
    ),
    "a body that is no function": (lambda: weft.compute((4,), 3, name="y"), "E0117", "no function"),
    "a body of one value": (
        lambda: weft.computes((4,), lambda i: A[i], name="y"), "E0117", "not a tuple",
    ),
    "an axis by its name": (lambda: weft.sum(A[K], axis="k"), "E0118", "weft.reduce_axis"),
    "no axis": (lambda: weft.sum(A[K], axis=None), "E0118", "weft.reduce_axis"),
    "an unknown monoid": (
        lambda: weft.scatter(A, (4,), lambda i: ((i,), A[i]), combine="plus", name="s"),
        "E0119", "monoids: add",
    ),
    "an axis outside its reduction": (
        lambda: weft.compile(weft.compute((4,), lambda i: A[K], name="y")), "E0131", "in scope",
    ),
    "a reshape to other sizes": (
        lambda: weft.compile(weft.reshape(A, (3,), name="y")), "E0132", "4 elements there, 3 here",
    ),
    "in_place as a list": (lambda: weft.compile(Y, in_place=["y"]), "E0012", "output"),
    "shapes as a text": (lambda: weft.compile(model(), shapes="x"), "E0013", "a str"),
    "a shape as a text": (lambda: weft.compile(model(), shapes={"x": "13"}), "E0013", "'13'"),
    "a file that is not there": (lambda: weft.compile("no.onnx"), "E0264", "'no.onnx'"),
    "bytes that are no model": (lambda: weft.compile(b"garbage"), "E0266", "not an ONNX model"),
    "an unknown stage": (lambda: weft.lower(Y, "scopp"), "E0609", "fold, scalars, simplify"),
    "an artifact that is not there": (lambda: weft.load("no.weft"), "E0700", "no.weft"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_mistake(case):
    action, code, words = CASES[case]
    with pytest.raises(weft.WeftError) as caught:
        action()
    assert caught.value.code == f"WEFT-{code}"
    assert words in str(caught.value)


@pytest.mark.parametrize("shape", [(2, 3), ("n", 3)])
@pytest.mark.parametrize("given", [None, [1, 2], "x"])
def test_run_takes_names(shape, given):
    program = weft.compile(model(shape), options=weft.Options(cache=False))
    with pytest.raises(weft.CallError, match="WEFT-E0602: run takes inputs by name"):
        program.run(given)


@pytest.mark.parametrize("kind", ["executable", "model"])
@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"q": np.zeros((2, 3), np.float32)}, "E0601", "'q'"),
        ({"x": None}, "E0601", "'x'"),
        ({"x": np.zeros((2, 3))}, "E0603", "float64"),
        ({"x": np.zeros(3, np.float32)}, "E0604", "1 dimensions"),
        ({"x": np.zeros((2, 4), np.float32)}, "E0605", "4"),
    ],
)
def test_calls_with_wrong_arguments(kind, change, code, words):
    """An ``Executable`` and a ``Model`` refuse alike, and say what was expected."""
    shape = {"executable": (2, 3), "model": ("n", 3)}[kind]
    program = weft.compile(model(shape), options=weft.Options(cache=False))
    assert type(program).__name__.lower() == kind
    given = {"x": np.zeros((2, 3), np.float32)} | change
    with pytest.raises(weft.CallError) as caught:
        program.run({name: value for name, value in given.items() if value is not None})
    assert caught.value.code == f"WEFT-{code}"
    assert words in str(caught.value) and "float32" in str(caught.value)
