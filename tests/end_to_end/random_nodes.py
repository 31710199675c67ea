"""Random models of blocks and single operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.end_to_end import random_blocks as blocks
from tests.end_to_end import (
    random_classical,
    random_control,
    random_movement,
    random_products,
    random_quantised,
    random_windows,
)
from tests.end_to_end.random_models import Growing, RandomModel, Refused
from tests.end_to_end.random_operators import OPERATORS

assert random_classical and random_control and random_movement  # they add their operators
assert random_products and random_quantised and random_windows

NODES = 20
OPSETS = (7, 9, 10, 11, 13, 15, 17, 18, 18, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, *[28] * 6)
BLOCKS = (
    *(blocks.conv, blocks.conv, blocks.matmul, blocks.matmul, blocks.residual, blocks.attention),
    *(blocks.gelu, blocks.precision, blocks.quantized, blocks.quantized_conv),
    *(blocks.dynamic_quantized, blocks.integers),
)
COMMON = (
    "Relu", "Sigmoid", "Tanh", "Exp", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Where",
    "Transpose", "Transpose", "Reshape", "Reshape", "Slice", "Concat", "Concat", "Pad", "Gather",
    "Split", "Expand", "Unsqueeze", "Squeeze", "ReduceSum", "ReduceMean", "ReduceMax", "Softmax",
    "MatMul", "Gemm", "Conv", "ConvTranspose", "BatchNormalization", "LayerNormalization",
    "AveragePool", "MaxPool", "Resize",
)  # fmt: skip


def random_model(
    seed: int, nodes: int = NODES, operators: Sequence[str] | None = None
) -> RandomModel:
    """The model of ``seed``: of so many nodes, a few more where the last one is a block.

    A quarter of the choices are blocks as networks have them, a quarter common operators, the
    others any; with ``operators`` all are of these, or, where there are none, of any.
    """
    rng = np.random.default_rng([seed, 9])
    g = Growing(rng, opset=int(rng.choice(OPSETS)))
    g.empty = float(rng.choice([0, 0, 0, 0, 0, 0.1]))
    g.infinite = bool(rng.random() < 0.15)
    rank = g.choice(2, 3, 3, 4, 4, 4, 5)
    most = g.choice(7, 11, 17) if rank < 5 else 5
    g.input([g.size(3), *(g.size(most) for _ in range(rank - 1))])
    single = [make for (_, name), make in OPERATORS.items() if not operators or name in operators]
    for _ in range(20 * nodes):
        if len(g.nodes) >= nodes:
            break
        step = g.choice(*single)
        if operators is None and g.chance(0.5):
            step = g.choice(g.choice(*BLOCKS), OPERATORS["", g.choice(*COMMON)])
        attempt(g, step)
    if not g.nodes:
        raise Refused("no node")
    return g.finished()


def attempt(g: Growing, step: Callable[[Growing], Any]) -> bool:
    """Add what ``step`` adds, or nothing."""
    before = len(g.nodes)
    try:
        step(g)
    except (Refused, ValueError):  # or sizes of which there is no choice
        del g.nodes[before:]
        made = {name for node in g.nodes for name in node.output}
        for name in [n for n in g.values if n[0] == "v" and n not in made]:
            del g.values[name]
    return len(g.nodes) > before
