"""Plans: decisions by name, replayed, overruled, kept and refused."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index"

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import weft
from weft.ir.plan import Decisions, Option

OPTIONS = weft.Options(threads=1, cache=False)
rng = np.random.default_rng(0)


def product(n: int = 64) -> weft.Tensor:
    x, w = weft.placeholder((n, n), name="x"), weft.placeholder((n, n), name="w")
    k = weft.reduce_axis((0, n), name="k")
    return weft.compute((n, n), lambda i, j: weft.sum(x[i, k] * w[k, j], k), name="y")


@weft.kernel
def heat(A: weft.f64[N, N], B: weft.f64[N, N], steps: int):
    for _t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                B[i, j] = 0.25 * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = B[i, j]


def network() -> onnx.ModelProto:
    """A convolution large enough for Winograd, what is fused with it, and a softmax."""
    weights = rng.standard_normal((32, 32, 3, 3), np.float32) / 10
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Softmax", ["r"], ["y"], name="softmax", axis=3),
    ]
    info = [helper.make_tensor_value_info(n, 1, [1, 32, 28, 28]) for n in "xy"]
    graph = helper.make_graph(
        nodes, "net", info[:1], info[1:], [numpy_helper.from_array(weights, "w")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [product, lambda: heat, network], ids=["sum", "loops", "onnx"])
def test_a_plan_leads_to_the_same_code(make: Any, threads: int) -> None:
    source, options = make(), weft.Options(threads=threads, cache=False)
    made = weft.compile(source, options=options)
    assert len(made.plan) > 1
    for plan in (made.plan, str(made.plan), dict(made.plan)):
        again = weft.compile(source, options=options, plan=plan)
        assert again.source("llvm") == made.source("llvm") and again.plan == made.plan


@pytest.mark.parametrize("threads", [1, 2])
def test_whatever_is_listed_may_be_taken(threads: int) -> None:
    """Or is refused for a reason of its own; a decision with one option is none."""
    options = weft.Options(threads=threads, cache=False, workers=0)
    plan = weft.compile(heat, options=options).plan
    assert "S0.time_tile" in plan
    taken = 0
    for decision in plan.decisions:
        assert decision.size or len(decision.options) > 1
        for option in decision.options:
            try:
                made = weft.compile(heat, options=options, plan={decision.name: option.value})
            except weft.PlanError as error:
                assert error.code == "WEFT-E0028" and decision.name.endswith(".strategy")
            else:
                taken += made.plan.get(decision.name) == option.value
                again = weft.compile(heat, options=options, plan=made.plan)
                assert again.source("llvm") == made.source("llvm")
    assert taken > 3


@weft.kernel
def weighted(X: weft.f64[N, P], Y: weft.f64[N, Q], w: weft.f64[N], C: weft.f64[P, Q]):
    for p in range(P):
        for q in range(Q):
            for n in range(N):
                C[p, q] += w[n] * X[n, p] * (Y[n, q] - w[n])


def test_packing_is_decided_of_what_the_product_reads() -> None:
    """Not of X and Y, from which its operands are computed before."""
    made = weft.compile(weighted, options=OPTIONS)
    packed = [d.name for d in made.plan.decisions if "pack" in d.name]
    assert packed
    for name in packed:
        other = weft.compile(weighted, options=OPTIONS, plan={name: "no"})
        assert other.source("llvm") != made.source("llvm")
    with pytest.raises(weft.PlanError, match="WEFT-E0025") as found:
        weft.compile(weighted, options=OPTIONS, plan={"S0.pack_once_X": "no"})
    assert "computed from X" in found.value.why


def test_what_it_decides_otherwise_changes_the_code_and_not_the_result() -> None:
    made = weft.compile(product(), options=OPTIONS)
    (tile,) = (d for d in made.plan.decisions if d.name.endswith(".register_tile"))
    a, b = rng.standard_normal((2, 64, 64), np.float32)
    codes = {made.source("llvm")}
    for option in tile.options[1:4]:
        other = weft.compile(product(), options=OPTIONS, plan={tile.name: option.value})
        assert other.plan[tile.name] == option.value
        codes.add(other.source("llvm"))
        np.testing.assert_allclose(other(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert len(codes) == 4
    assert [o.cycles for o in tile.options] == sorted(o.cycles or 0 for o in tile.options)


def test_every_register_tile_of_a_small_product_computes_it() -> None:
    """Tiles of one row among them."""
    x, w = weft.placeholder((2, 5), name="x"), weft.placeholder((5, 3), name="w")
    k = weft.reduce_axis((0, 5), name="k")
    y = weft.compute((2, 3), lambda i, j: weft.sum(x[i, k] * w[k, j], k), name="y")
    a, b = rng.standard_normal((2, 5), np.float32), rng.standard_normal((5, 3), np.float32)
    made = weft.compile(y, target="x86-64-v3", options=OPTIONS)
    (tile,) = (d for d in made.plan.decisions if d.name.endswith(".register_tile"))
    assert "fma i 1 j 3" in [option.value for option in tile.options]
    for option in tile.options:
        run = weft.compile(y, target="x86-64-v3", options=OPTIONS, plan={tile.name: option.value})
        np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_choices_about_the_graph() -> None:
    model = network()
    made = weft.compile(model, options=OPTIONS)
    x = rng.standard_normal((1, 32, 28, 28), np.float32)
    assert made.plan["conv.winograd"] != "direct"
    changed = made.plan.changed({"conv.winograd": "direct"})
    direct = weft.compile(model, options=OPTIONS, plan={"conv.winograd": "direct"})
    assert direct.plan["conv.winograd"] == changed["conv.winograd"] == "direct"
    np.testing.assert_allclose(direct(x), made(x), rtol=1e-3, atol=1e-5)
    plan = {"conv.winograd": "direct", "conv -> relu.fusion": "apart"}
    apart = weft.compile(model, options=OPTIONS, plan=plan)
    assert "conv -> relu: fused" in direct.explain()
    assert "conv -> relu: apart: the plan leaves them apart" in apart.explain()
    np.testing.assert_allclose(apart(x), direct(x), rtol=1e-5, atol=1e-6)


def test_explain_names_every_decision() -> None:
    made = weft.compile(product(), options=OPTIONS)
    text = made.explain()
    assert all(f"{name}: " in text for name in made.plan)


def test_the_cache_and_artifacts_keep_it(tmp_path: Path) -> None:
    options = weft.Options(threads=1, cache_dir=str(tmp_path / "cache"))
    made = weft.compile(product(), options=options)
    (name,) = (n for n in made.plan if n.endswith(".register_tile"))
    other = next(o.value for d in made.plan.decisions if d.name == name for o in d.options[1:])
    changed = weft.compile(product(), options=options, plan={name: other})
    assert "from_cache" not in changed.stats
    found = weft.compile(product(), options=options)
    assert found.stats["from_cache"] and found.plan == made.plan != changed.plan
    changed.save(tmp_path / "changed.weft")
    assert weft.load(tmp_path / "changed.weft").plan == changed.plan
    file = tmp_path / "plan.json"
    file.write_text(str(changed.plan), encoding="utf-8")
    for known in (False, True):
        again = weft.compile(product(), options=options, plan=file)
        assert again.plan == changed.plan and ("from_cache" in again.stats) == known


@pytest.mark.parametrize(
    ("plan", "code", "says"),
    [
        ({"y_add.register_til": "x"}, "E0025", "did you mean"),
        ({"utterly": 1}, "E0025", "Executable.plan"),
        ({"y_y_add.register_tile": "fma i 1000 j 1"}, "E0026", "options: fma"),
        ({"y_y_add.register_tile": True}, "E0026", "options: fma"),
        ({"y_y_add.j_tile": 0}, "E0026", "a number from 1"),
        ({"y_y_add.j_tile": True}, "E0026", "a number from 1"),
        ({"y_y_add.strategy": "stencil"}, "E0028", "does not apply to"),
        (3, "E0027", "int"),
        ({"a": [1]}, "E0027", "decided as"),
        ("{", "E0027", "line 1"),
        ('{"weft plan": 2, "decisions": []}', "E0027", "version 2"),
        ('{"weft plan": 1, "decisions": [{}]}', "E0027", "a decision is"),
        ('{"weft plan": 1, "decisions": [{"name": "a", "chosen": 1, "options": 3}]}', "E0027", "3"),
        ('{"weft plan": 1, "decisions": [{"name": "a", "chosen": 1, "options": []}]}', "E0026", ""),
        ('{"weft plan": 1, "decisions": [{"name": "a", "chosen": 1, "options":'
         ' [{"value": 1, "cycles": NaN}]}]}', "E0027", "an option is"),
        ('{"weft plan": 1, "decisions": [{"name": "a", "chosen": 1, "options":'
         ' [{"value": 1, "seconds": NaN}]}]}', "E0027", "an option is"),
        ('{"weft plan": 1, "decisions": [{"name": "a", "chosen": 1, "options":'
         ' [{"value": 1, "seconds": "0.1"}]}]}', "E0027", "an option is"),
        ("/dev/zero", "E0027", "no regular file"),
        ("[" * 100_000, "E0027", ""),
        ('{"a": ' * 100_000, "E0027", ""),
        ("no/such/file.json", "E0027", "No such file"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(plan: Any, code: str, says: str) -> None:
    with pytest.raises(weft.PlanError, match=code) as caught:
        weft.compile(product(256), options=OPTIONS, plan=plan)
    assert says in str(caught.value)


def test_plans_are_for_one_executable() -> None:
    model, winograd = network(), {"conv.winograd": "direct"}
    shapes = {"x": (1, 32, 28, 28)}
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    for given in (None, shapes):
        made = weft.compile(model, options=OPTIONS, shapes=given, plan=winograd)
        assert made.plan["conv.winograd"] == "direct"
    places = helper.make_node("NonZero", ["y"], ["places"])
    model.graph.node.append(places)  # as many as are not 0: data decide
    model.graph.node.append(helper.make_node("Neg", ["places"], ["z"]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", 7, [4, "m"]))
    with pytest.raises(weft.PlanError, match=r"E0029.*one executable"):
        weft.compile(model, options=OPTIONS, plan=winograd)
    with pytest.raises(weft.PlanError, match=r"E0029.*one executable"):
        _ = weft.compile(model, options=OPTIONS).plan
    with pytest.raises(weft.CompileError, match=r"E0017.*plan"):
        weft.compile(product(), target="vta", plan={"a": 1})


def test_changed_knows_names_and_options() -> None:
    plan = weft.compile(product(256), options=OPTIONS).plan
    assert plan.changed({"y_y_add.j_tile": 100})["y_y_add.j_tile"] == 100
    with pytest.raises(weft.PlanError, match="E0025"):
        plan.changed({"y": 1})
    with pytest.raises(weft.PlanError, match="E0026"):
        plan.changed({"y_y_add.strategy": "none"})
    assert json.loads(str(plan))["decisions"][0]["options"]


def test_two_units_may_decide_under_one_name_and_what_is_undone_is_forgotten() -> None:
    decisions = Decisions({"S.size in two": 5})
    decisions.unit = "one"
    assert decisions.choose("S.size", (1, 2), 1, size=True) == 1
    mark = decisions.mark()
    decisions.choose("T.kind", (Option("a", 3.0), Option("b")), "b")
    decisions.back(mark)
    decisions.unit = "two"
    assert decisions.choose("S.size", (1, 2), 1, size=True) == 5
    assert dict(decisions.plan()) == {"S.size": 1, "S.size in two": 5}
    assert decisions.given_since(mark) == ("S.size in two",)


@weft.kernel
def products(A: weft.f64[N, K], B: weft.f64[K, M], C: weft.f64[N, M]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@pytest.mark.parametrize("target", ["x86-64-v3", "skylake-avx512", "host"])
def test_sizes_of_tiles_can_be_worked_out_by_hand(target: str) -> None:
    """What ``explain`` says of a tile is a sum that comes out, and its result is the tile, to less
    than a register tile."""
    run = weft.compile(products, target=target, options=weft.Options(threads=1, cache=False))
    told = run.explain(details=True)
    for dim in "ijk":
        size = int(run.plan[f"S0.{dim}_tile"])
        (line,) = re.findall(rf"S0\.{dim}_tile: .*\n +because (.*)", told)
        said, found, rounded = re.fullmatch(
            r"[^:]*:([^;]*) = ([\d.]+)(?: elements)?(?:; whole .* (\d+))?", line
        ).groups()  # type: ignore[union-attr]
        if "rows stay in L2" in line:
            steps, rows, lanes = map(int, re.findall(r"(\d+) (?:steps|rows|lanes)", said))
            assert steps * (rows + lanes) + rows * lanes == pytest.approx(float(found), rel=1e-2)
            assert abs(size - (rows if dim == "i" else lanes)) < int(rounded)
        else:
            sum_ = re.sub(r"[a-zA-Z][a-zA-Z -]*[a-zA-Z]", "", said)
            assert eval(sum_) == pytest.approx(float(found), rel=1e-3)
            assert abs(size - float(found)) < int(rounded or 1)


@weft.kernel
def triangle(C: weft.f64[N, N], A: weft.f64[N, M]):
    for i in range(N):
        for j in range(i + 1):
            for k in range(M):
                C[i, j] += A[i, k] * A[j, k]


@weft.kernel
def scan(A: weft.f64[N, N]):
    for i in range(1, N):
        for j in range(N - 1):
            A[i, j] = A[i - 1, j + 1] + 0.5 * A[i, j]


@pytest.mark.parametrize(
    ("kernel", "name", "why"),
    [
        (triangle, "S0.register_tile", "follows from the machine where sizes are open"),
        (scan, "S0.register_tile", "S0 is no sum that a register tile serves"),
        (scan, "S0.j_tile", "all that is decided about S0: S0.vector, S0.strategy"),
        (scan, "nowhere", "the program, or an earlier decision, leads elsewhere"),
    ],
)
def test_what_is_no_decision_says_why_and_names_the_way(
    kernel: weft.Kernel, name: str, why: str
) -> None:
    with pytest.raises(weft.PlanError, match="WEFT-E0025") as caught:
        weft.compile(kernel, options=OPTIONS, plan={name: "x"})
    assert why in caught.value.why
    assert "automatic()" in caught.value.hint and "NAME.script" in caught.value.hint


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("single", "loop j of S0 may not be outermost, because of flow S0 -> S0 on A"),
        ("matrix", "S0: nothing is folded into an element"),
        ("stencil", "no loop is over time steps, which update the same elements"),
        ("one loop", "they share no loop"),
    ],
)
def test_a_strategy_says_why_it_does_not_apply(strategy: str, why: str) -> None:
    with pytest.raises(weft.PlanError, match="WEFT-E0028") as caught:
        weft.compile(scan, options=OPTIONS, plan={"S0.strategy": strategy})
    assert why in caught.value.why


def test_what_is_no_strategy_is_no_option() -> None:
    with pytest.raises(weft.PlanError, match="WEFT-E0026") as caught:
        weft.compile(scan, options=OPTIONS, plan={"S0.strategy": "mine"})
    assert "single" in caught.value.hint and "scan.seed" in caught.value.hint
