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


@weft.kernel
def few_rows(A: weft.f64[5, 50], B: weft.f64[50, 90], C: weft.f64[5, 90]):
    for i in range(5):
        for j in range(90):
            for k in range(50):
                C[i, j] += A[i, k] * B[k, j]


def in_tiles(rows: int, lanes: int, panels: int = 0) -> str:
    """What ``explain`` says of register tiles of that size, of ``panels`` so wide, if any."""
    loops = {"j_r": f"j // {lanes}", "i_r": f"i // {rows}", "k": "k", "i_p": f"i % {rows}"}
    s = weft.schedule(few_rows).nest("S0", loops | {"j_p": f"j % {lanes}"})
    s = s.tensorize(["k"], {"i_p": rows}, {"j_p": lanes})
    s = s.pack("B", "S0", "", {1: panels}, order=[1, 0]) if panels else s
    run = s.compile(weft.Options(threads=1, cache=False, target="x86-64-v3"))
    lines = map(str.strip, run.explain().splitlines())
    return "\n".join(line for line in lines if line.startswith("register tile of"))


def test_register_tiles_beyond_registers_and_loops_are_told() -> None:
    """Of 16 registers of 4 lanes: sums, a row of operands, one that is broadcast."""
    assert in_tiles(4, 12) == ""  # 4 * 3 + 3 + 1
    spilled = "takes 19 registers of 16; in each step 3 go through L1"
    assert in_tiles(5, 12) == f"register tile of S0: 5 x 12 {spilled}"
    assert in_tiles(8, 4) == "register tile of S0: 8 along i_p, which has 5 iterations at most"


def test_lanes_that_go_over_the_ends_of_panels_are_told() -> None:
    assert in_tiles(4, 12, 12) == in_tiles(4, 12, 24) == ""
    told = "register tile of S0: 12 lanes, which panels of 16 in B_packed cut"
    assert in_tiles(4, 12, 16) == told
