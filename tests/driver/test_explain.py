"""``explain`` of a model begins with where the time of a call goes, and what was lost."""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import helper, numpy_helper

import weft

rng = np.random.default_rng(0)


def layers(count: int) -> onnx.ModelProto:
    """Alike layers whose weights are transposed when compiling, and one softmax behind them."""
    nodes, weights = [], []
    for k in range(count):
        weights.append(numpy_helper.from_array(rng.random((64, 64), np.float32), f"w{k}"))
        nodes.append(helper.make_node("Transpose", [f"w{k}"], [f"t{k}"], name=f"turn{k}"))
        nodes.append(helper.make_node("MatMul", [f"x{k}", f"t{k}"], [f"m{k}"], name=f"matmul{k}"))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"x{k + 1}"], name=f"relu{k}"))
    nodes.append(helper.make_node("Softmax", [f"x{count}"], ["y"], name="softmax", axis=0))
    info = [helper.make_tensor_value_info(n, 1, [32, 64]) for n in ("x0", "y")]
    graph = helper.make_graph(nodes, "layers", info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def test_it_begins_with_where_the_time_goes() -> None:
    made = weft.compile(layers(4), options=weft.Options(threads=1, cache=False))
    head, *_ = made.explain().split("\n\n")
    title, total, *rest = head.splitlines()
    assert title == "layers: 5 clusters run, 2 of them distinct"
    found = re.fullmatch(r"  estimated (\S+ \S+) on one thread; no less than (\S+ \S+)", total)
    assert found and 0 < seconds(found[2]) <= seconds(found[1]) < 1.0
    shares = [line for line in rest if re.match(r"  \d+%: ", line)]
    assert sum(int(line.strip().partition("%")[0]) for line in shares) in range(98, 103)
    assert sum("4 times" in line and "matmul0 (matmul)" in line for line in shares) == 1
    lost = [line for line in rest if line.startswith("  lost: ")]
    assert shares + lost == rest and len(rest) <= 8
    assert any("8.19 kB, relu3 for softmax: " in line for line in lost)
    assert "turn" not in head  # what runs when compiling takes no time of a call


def test_a_model_without_work_says_so() -> None:
    x = weft.placeholder((4,), name="x")
    made = weft.compile(
        [weft.reshape(x, (2, 2), name="y")], options=weft.Options(threads=1, cache=False)
    )
    assert "0% " not in made.explain() and "estimated" in made.explain().splitlines()[1]
