"""``weft.quantize``: what it compiles to, what it reports, what it refuses."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import weft
from tests.graph.integer_networks import Network, random_network
from weft.app.cli import cli
from weft.ir.errors import CallError, CompileError


def network() -> tuple[Network, str]:
    """Two convolutions, one of them residual, and a dense layer."""
    net = Network(np.random.default_rng(3), (2, 3, 9, 8))
    first = net.conv("x", 8, 3, stride=2, pad=(1, 1), norm=True, act="relu")
    second = net.conv(first, 8, 3, pad=(1, 1), group=2, norm=True)
    return net, net.dense(net.add(first, second, "relu"), 5)


def data(net: Network, seed: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).standard_normal(net.shape) * scale
    return {"x": x.astype(np.float32)}


@pytest.fixture(scope="module")
def case():
    net, output = network()
    return net, output, weft.quantize(net.model(output), [data(net, s) for s in range(3)])


@pytest.mark.long
@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_compiled_code_computes_the_integers(case, scale: float) -> None:
    net, output, quantized = case
    program = weft.compile(quantized)
    given = data(net, 9, scale)
    layers = {layer.name: layer for layer in quantized.layers}
    exponent = quantized.scales["x"].exponent
    numbers, result = net.reference(given["x"], exponent, layers)[output]
    expected = (numbers * 2.0**result).astype(np.float32)
    assert np.array_equal(program(given["x"]), expected)


@pytest.mark.long
@pytest.mark.parametrize("seed", [5, 11])
def test_compiled_random_networks(seed: int) -> None:
    net, output = random_network(seed)
    quantized = weft.quantize(net.model(output), data(net, 1))
    given = data(net, 2, 2.0)
    layers = {layer.name: layer for layer in quantized.layers}
    numbers, exponent = net.reference(
        given["x"], quantized.scales["x"].exponent, layers
    )[output]  # fmt: skip
    expected = (numbers * 2.0**exponent).astype(np.float32)
    assert np.array_equal(weft.compile(quantized)(given["x"]), expected)


@pytest.mark.long
def test_accuracy_is_that_of_the_outputs(case) -> None:
    net, output, quantized = case
    calls = [data(net, s) for s in range(10, 14)]
    (found,) = quantized.accuracy(calls).outputs
    whole, program = weft.compile(net.model(output)), weft.compile(quantized)
    wanted = np.stack([whole(c["x"]) for c in calls]).astype(np.float64)
    got = np.stack([program(c["x"]) for c in calls]).astype(np.float64)
    error = got - wanted
    ratio = 10 * np.log10((wanted**2).sum() / (error**2).sum())
    assert found.decibels == pytest.approx(ratio, abs=0.01) and ratio > 20
    assert found.largest == pytest.approx(np.abs(error).max(), rel=1e-3)
    assert found.top1 == (got.argmax(-1) == wanted.argmax(-1)).mean()
    assert 0.99 < found.cosine <= 1


def test_tables_name_every_layer(case) -> None:
    _, output, quantized = case
    lines = str(quantized).splitlines()
    assert lines[0].split() == [
        "layer", "operators", "operands", "weights", "result", "shift", "sums", "rounding",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:-1]] == [layer.name for layer in quantized.layers]
    assert lines[-1].startswith("5 layers in integers")
    assert output in str(quantized.accuracy([data(network()[0], 1)]))


def test_tensor_expressions() -> None:
    x = weft.placeholder((4, 6), name="x")
    k = weft.reduce_axis((0, 6), name="k")
    y = weft.compute((4, 4), lambda i, j: weft.sum(x[i, k] * x[j, k], k), name="y")
    quantized = weft.quantize(y, {"x": np.eye(4, 6, dtype=np.float32)})
    assert not quantized.layers  # no constants: nothing is gained, nothing changes
    assert np.array_equal(weft.compile(quantized)(np.eye(4, 6, dtype=np.float32)), np.eye(4))


def test_what_stays_in_floating_point_is_said() -> None:
    net = Network(np.random.default_rng(0), (1, 2, 5, 5))
    sums = net.conv("x", 3, 3)
    output = net.node("Sigmoid", [net.max_pool(sums, 2, 1, 0)], "y")
    net.shapes[output] = (1, 3, 2, 2)
    text = str(weft.quantize(net.model(output), data(net, 1)))
    assert "in floating point: " in text
    assert text.splitlines()[-1].startswith("2 layers in integers")


REFUSED = {
    "no calls": ([], "E0640"),
    "no mapping": ([np.zeros(3)], "E0640"),
    "no inputs": (None, "E0640"),
    "not a number": ({"x": np.full((2, 3, 9, 8), np.nan, np.float32)}, "E0641"),
    "infinity": ([{"x": np.full((2, 3, 9, 8), np.inf, np.float32)}], "E0641"),
    "zeros": ([{"x": np.zeros((2, 3, 9, 8), np.float32)}] * 2, "E0641"),
    "another name": ({"z": np.ones((2, 3, 9, 8), np.float32)}, "E060"),
    "another shape": ({"x": np.ones((2, 3, 9, 9), np.float32)}, "E060"),
    "another dtype": ({"x": np.ones((2, 3, 9, 8), np.int64)}, "E060"),
    "no array": ({"x": "cat.png"}, "E060"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_inputs_that_teach_nothing(what: str) -> None:
    net, output = network()
    inputs, code = REFUSED[what]
    with pytest.raises(CallError, match=f"WEFT-{code}"):
        weft.quantize(net.model(output), inputs)


def test_shapes_that_depend_on_data() -> None:
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["p"]), helper.make_node("Gather", ["x", "p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, "n"))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(CompileError, match="WEFT-E0022"):
        weft.quantize(model, {"x": np.ones(4, np.float32)})


@pytest.mark.long
def test_run_quantize(tmp_path) -> None:
    net, output = network()
    onnx.save(net.model(output), tmp_path / "net.onnx")
    arguments = ["run", str(tmp_path / "net.onnx"), "--quantize", "--repeat", "1"]
    found = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    assert len(found["quantisation"]["layers"]) == 5
    assert found["quantisation"]["accuracy"][0]["decibels"] > 15
    assert found["peer"] is None
    text = CliRunner().invoke(cli, arguments).stdout
    assert "signal/error" in text and "conv+mul+add+relu" in text


def test_run_quantize_takes_no_artifact(tmp_path) -> None:
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "a.weft"), "--quantize"])
    assert result.exit_code == 2 and "WEFT-E0809" in result.stderr
