"""Codes that no other test names, each from the smallest mistake that leads to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from tests.errors.hostile_models import model, node, outcome, value
from tests.polyhedral.scops import at, scop, statement, tensor
from weft.codegen.llvm.sizes import SizeFunction
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.frontend.onnx import open_model
from weft.frontend.onnx.importer import import_model
from weft.frontend.operators.registry import definition_of
from weft.graph.memory_plan import Lifetime, verify_places
from weft.host import staging
from weft.ir import tensor_interpreter
from weft.ir.errors import WeftError
from weft.ir.scalar_expr import Load, Var, apply
from weft.ir.schedule_tree import Leaf
from weft.ir.scop import Constraint
from weft.ir.scop_interpreter import interpret
from weft.polyhedral.transform.scheduled import path_to

ROOT = Path(weft.__file__).resolve().parents[1]
ROOMS = ("weft", "frontend", "graph", "polyhedral", "codegen", "tuner")
i = Var("i")

UNREACHABLE = {  # nothing that a user can write leads to these
    "E0215",  # caught inside: moves a node to the host
    "E0233",  # a sequence reaches a tensor operator in spite of the kinds that were inferred
    "E0320",  # clusters form a cycle
    "E0911",  # isl makes a loop that it was not asked for
    "E0922",  # a kernel refuses data that the reference accepted
}


def test_every_code_has_a_test() -> None:
    raised = _codes(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    tested = _codes((ROOT / "tests").rglob("*.py"))
    assert len(raised) > 150
    assert sorted(raised - tested) == []  # each new code gets its test


def _codes(paths) -> set[str]:
    code = re.compile(r"\bE(?:0\d|1[15])\d\d\b")
    return {found for path in paths for found in code.findall(path.read_text())}


def _tensor(*shape: int) -> weft.Tensor:
    return weft.placeholder(shape, name="x")


def _sizes_unknown() -> object:
    n = weft.var("n")
    program = weft.program([weft.compute((n,), lambda j: j, name="y")])
    return tensor_interpreter.interpret(program, [])


def _memory_runs_out() -> object:
    def action() -> None:
        raise MemoryError

    return Passes(Options(), "m").run("scop", action)


def _endless_domain() -> object:
    s = statement("s", (Constraint(i),), at("A", i), dims=("i",))
    return interpret(scop((tensor("A", 4, role="output"),), s), {})


MISTAKES: dict[str, Callable[[], object]] = {
    "E0102": lambda: apply("add", i),
    "E0103": lambda: ~weft.placeholder((2,), name="x")[0],
    "E0007": lambda: definition_of("soft_max"),
    "E0122": _sizes_unknown,
    "E0156": lambda: definition_of("einsum")(_tensor(2, 3), equation="ij,jk->ik"),
    "E0190": lambda: definition_of("strided_slice")(_tensor(4), starts=[], steps=[], sizes=[]),
    "E0192": lambda: definition_of("gather")(_tensor(4), _tensor(2), axis=0),
    "E0311": lambda: verify_places([(Lifetime("a", 64, 0, 1), 64)], [3]),
    "E0451": lambda: path_to(Leaf("s"), "other"),
    "E0560": lambda: SizeFunction(("n",)).size(Load("x", (Var("n"),), weft.int64)),
    "E0572": _memory_runs_out,
    "E0940": _endless_domain,
}


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake(code: str) -> None:
    with pytest.raises(WeftError) as caught:
        MISTAKES[code]()
    assert caught.value.code == f"WEFT-{code}"


# ---- models --------------------------------------------------------------------------------------

RELU = node("Relu", ["x"], ["y"], name="act")


def _changed(nodes: list[onnx.NodeProto], change: Callable[[onnx.ModelProto], object]):
    changed = model(nodes)
    change(changed)
    return changed


def _sequence_attribute() -> onnx.ModelProto:
    odd = onnx.AttributeProto(name="a", type=onnx.AttributeProto.UNDEFINED)
    return _changed([RELU], lambda m: m.graph.node[0].attribute.append(odd))


def _two_functions() -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 18)]
    body = [node("Relu", ["a"], ["b"])]
    function = helper.make_function("my", "F", ["a"], ["b"], body, imports)
    return model([RELU], functions=[function, function], domains=["my"])


def _name_that_is_no_text() -> bytes:
    return model([RELU]).SerializeToString().replace(b"act", b"a\xff\xfe")


def _loop_without_its_values() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"])], "body",
        [value("k", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("v")],
        [value("on", (), TensorProto.BOOL)],
    )  # fmt: skip
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body)]
    return model(nodes, constants={"n": np.array(2)})


MODELS: dict[str, Callable[[], object]] = {
    "E0201": lambda: model(
        [node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["a"])],
        domains=["ai.onnx.ml"],
    ),
    "E0202": lambda: model([RELU], inputs=[value("x", (2,), TensorProto.COMPLEX64)]),
    "E0207": lambda: _changed(
        [node("Add", ["x", "w"], ["y"])],
        lambda m: m.graph.initializer.append(
            onnx.TensorProto(name="w", data_type=1, dims=[3], raw_data=b"1234")
        ),
    ),
    "E0213": _sequence_attribute,
    "E0216": _name_that_is_no_text,
    "E0220": lambda: model(
        [node("BitShift", ["c", "c"], ["y"], direction="UP")],
        constants={"c": np.ones(2, np.uint8)},
    ),
    "E0240": lambda: onnx.ModelProto(ir_version=10),
    "E0244": _two_functions,
    "E0247": lambda: model([node("", ["x"], ["y"])]),
    "E0223": lambda: model(
        [node("Gather", ["w", "i"], ["y"])], constants={"w": np.ones(3), "i": np.array(7)}
    ),
    "E0231": _loop_without_its_values,
    "E0631": lambda: model(
        [node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "i"], ["y"])],
        constants={"i": np.array(7)},
    ),
}


@pytest.mark.parametrize("code", MODELS)
def test_model(code: str) -> None:
    found = outcome(MODELS[code](), {"x": np.ones((2, 3), np.float32)})
    assert f"WEFT-{code}" in found


def test_an_input_without_a_rank() -> None:
    with pytest.raises(WeftError, match="WEFT-E0208"):
        import_model(model([RELU], inputs=[value("x", None)]))


def test_a_model_of_more_than_protobuf_takes(tmp_path, monkeypatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model([RELU]).SerializeToString())
    monkeypatch.setattr(open_model, "MAX_MODEL_BYTES", 10)
    assert "WEFT-E0265" in outcome(path)


def test_too_many_values_ahead_of_shapes(monkeypatch) -> None:
    monkeypatch.setattr(staging, "MAX_STAGES", 1)
    nodes = [node("Abs", ["s"], ["t"]), node("Reshape", ["x", "t"], ["y"])]
    given = {"x": np.ones((2, 3), np.float32), "s": np.array([3, 2])}
    inputs = [value("x"), value("s", (2,), TensorProto.INT64)]
    assert "WEFT-E0230" in outcome(model(nodes, inputs=inputs), given)
