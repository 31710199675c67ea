"""Pickle and copies of what users hold, in this process and in another."""

# ruff: noqa: F821

import copy
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.weft.small_models import MODELS, seeded_inputs
from weft.driver.options import Options
from weft.ir.errors import ArtifactError, CallError

OPTIONS = Options(cache=False, workers=0)
X = np.arange(6, dtype=np.float32)
XY = (("x", 4), ("y", 6))


@weft.kernel
def doubled(A: weft.f64["N"]):
    for i in range(N):
        A[i] *= 2


def tensor() -> weft.Tensor:
    A = weft.placeholder((weft.var("n"),), name="A")
    return weft.compute((weft.var("n"),), lambda i: A[i] * 2 + 1, name="B")


def open_model() -> weft.Model:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n",)) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negated", [x], [y])
    return weft.compile(helper.make_model(graph), options=OPTIONS)


@pytest.fixture(scope="module")
def program() -> weft.Executable:
    return weft.compile(tensor(), options=OPTIONS)


def elsewhere(script: str, *arguments: object) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


_CALL = """
import pickle, sys
import numpy as np

program = pickle.load(open(sys.argv[1], "rb"))
x = np.arange(6, dtype=program.inputs[0].dtype.numpy)
print(program(x).tolist(), "llvmlite" in sys.modules)
"""


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_an_executable_runs_in_another_process(program, tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "program.pickle"
    path.write_bytes(pickle.dumps(program, protocol))
    assert elsewhere(_CALL, path) == f"{(X * 2 + 1).tolist()} False\n"
    path.write_bytes(pickle.dumps(doubled.compile(options=OPTIONS), protocol))
    assert elsewhere(_CALL, path) == f"{(X * 2).tolist()} False\n"


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_what_comes_back_is_the_same_program(name: str) -> None:
    """Its constants, texts and explanation too."""
    made = weft.compile(MODELS[name](), options=OPTIONS)
    again = pickle.loads(pickle.dumps(made))
    inputs = seeded_inputs(MODELS[name](), 3)
    for key, result in made.run(inputs).items():
        np.testing.assert_array_equal(again.run(inputs)[key], result)
    assert again.explain() == made.explain() and again.source("llvm") == made.source("llvm")
    assert pickle.dumps(again) == pickle.dumps(made)
    assert again.threads == made.threads and "seconds" not in again.stats


def test_threads_travel_if_they_were_asked_for(program) -> None:
    assert pickle.loads(pickle.dumps(program.with_threads(1))).threads == 1
    assert pickle.loads(pickle.dumps(program)).threads == program.threads


def test_a_pickle_names_nothing_but_the_reader_of_artifacts(program) -> None:
    strings = [
        argument
        for operation, argument, _ in pickletools.genops(pickle.dumps(program))
        if "UNICODE" in operation.name
    ]
    assert strings == ["weft.runtime.executable", "_from_bytes"]


def test_damaged_pickles_are_damaged_artifacts(program) -> None:
    data = bytearray(pickle.dumps(program))
    data[len(data) // 2] ^= 1
    with pytest.raises(ArtifactError, match="WEFT-E0702"):
        pickle.loads(bytes(data))


def test_what_cannot_run_here_travels_and_says_so() -> None:
    foreign = weft.compile(tensor(), options=OPTIONS, target="aarch64")
    again = pickle.loads(pickle.dumps(foreign))
    with pytest.raises(CallError, match="WEFT-E0613"):
        again(X)


def test_what_never_changes_is_its_own_copy(program) -> None:
    held = [program, open_model(), weft.schedule(doubled), doubled]
    assert all(copy.copy(it) is it and copy.deepcopy(it) is it for it in held)


def test_what_stays_says_how_its_like_gets_elsewhere(program) -> None:
    a = np.zeros(2, np.float32)
    refused = {
        "BoundCall": (program.bind(a), "pickle the program, or save it"),
        "Model": (open_model(), "compile the ONNX model there"),
        "Schedule": (weft.schedule(doubled), "Schedule.from_script"),
    }
    for name, (held, hint) in refused.items():
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(CallError) as caught:
                pickle.dumps([held], protocol)
            text = str(caught.value)
            assert f"WEFT-E0614: a weft.{name} is not pickled" in text and hint in text
    with pytest.raises(CallError, match="WEFT-E0614"):
        copy.deepcopy(program.bind(a))


def test_accelerated_models_stay_and_quantised_ones_travel() -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, s)) for n, s in XY)
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.normal(size=(4, 6)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    dense = helper.make_model(helper.make_graph(nodes, "dense", [x], [y], [weights]))
    given = {"x": random.normal(size=(2, 4)).astype(np.float32)}
    quantized = weft.quantize(dense, [given], options=OPTIONS)
    again = pickle.loads(pickle.dumps(quantized))
    wanted, found = (weft.compile(q, options=OPTIONS).run(given)["y"] for q in (quantized, again))
    np.testing.assert_array_equal(found, wanted)
    assert str(again) == str(quantized) and copy.deepcopy(quantized).layers == quantized.layers
    with pytest.raises(CallError, match=r"WEFT-E0614: a weft\.Accelerated"):
        pickle.dumps(weft.compile(quantized, target="vta", options=OPTIONS))


def test_what_is_data_travels() -> None:
    data = [tensor(), weft.program(tensor()), Options(strict=True), weft.f32, weft.lower(tensor()),
            doubled]  # fmt: skip
    B, program, options, dtype, stages, kernel = pickle.loads(pickle.dumps(data))
    assert options == Options(strict=True) and dtype == weft.f32 and kernel is doubled
    assert str(stages) == str(data[4])
    for source in (B, program, copy.deepcopy(data[0])):
        np.testing.assert_array_equal(weft.compile(source, options=OPTIONS)(X), X * 2 + 1)
