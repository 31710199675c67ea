"""The recurrent suite: layers of DeepBench's inference lists, and its larger plain ones.

Sizes are those of github.com/baidu-research/DeepBench, code/kernels/rnn_problems.h: the inference
lists for servers and for devices; plain layers, of which servers have none, from the training list
with its smaller batches. Inputs are as many as hidden units, gates are those of cuDNN (the GRU's
reset gate is applied to the product), weights are constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import helper

from weft.benchmarks.case import TOLERANCE, Case, Planned, model_of
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.pytorch import Eager

PEERS: tuple[Peer, ...] = (OnnxRuntime(), Eager())
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer in one direction: ``op`` of ONNX, of so many ``hidden`` units and inputs."""

    op: str
    hidden: int
    batch: int
    steps: int

    @property
    def label(self) -> str:
        return f"{self.op.lower()} {self.hidden} x {self.batch} x {self.steps}"

    @property
    def operations(self) -> float:
        """Multiplications and additions of the products: of all inputs, of all states but the
        first, which is 0."""
        return 2.0 * (2 * self.steps - 1) * self.batch * GATES[self.op] * self.hidden**2


_LSTM = ((512, 25), (1024, 25), (2048, 25), (1536, 50), (256, 150))
_GRU = (
    *((hidden, steps) for hidden in (2816, 2048, 1536, 2560) for steps in (1500, 750, 375, 187)),
    (512, 1), (1024, 1500),
)  # fmt: skip

LAYERS: tuple[Layer, ...] = (
    Layer("RNN", 32, 1, 672), Layer("RNN", 64, 1, 96),
    *(Layer("RNN", hidden, batch, 50) for hidden in (1760, 2048, 2560) for batch in (16, 32)),
    *(Layer("LSTM", hidden, batch, steps) for hidden, steps in _LSTM for batch in (1, 2, 4)),
    *(Layer("GRU", hidden, batch, steps) for hidden, steps in _GRU for batch in (1, 2, 4)),
)  # fmt: skip

QUICK: tuple[Layer, ...] = (
    Layer("RNN", 32, 1, 672), Layer("RNN", 64, 1, 96),
    *(Layer("GRU", 512, batch, 1) for batch in (1, 2, 4)),
    *(Layer("LSTM", hidden, batch, steps) for hidden, steps in ((256, 150), (512, 25))
      for batch in (1, 4)),
)  # fmt: skip


def cases(quick: bool) -> Iterator[Planned]:
    """The rows in order."""
    for layer in QUICK if quick else LAYERS:
        yield Planned(layer.label, partial(case, layer))


def case(layer: Layer) -> Case:
    """``layer`` as a model of one operator with biases and no initial state."""
    hidden, rows = layer.hidden, GATES[layer.op] * layer.hidden
    generator = np.random.default_rng(0)

    def uniform(*shape: int) -> np.ndarray:
        return generator.uniform(-(hidden**-0.5), hidden**-0.5, shape).astype(np.float32)

    x = generator.standard_normal((layer.steps, layer.batch, hidden)).astype(np.float32)
    held = {
        "w": uniform(1, rows, hidden),
        "r": uniform(1, rows, hidden),
        "bias": uniform(1, 2 * rows),
    }
    more = {"linear_before_reset": 1} if layer.op == "GRU" else {}
    node = helper.make_node(layer.op, ["x", *held], ["y"], hidden_size=hidden, **more)
    shape = (layer.steps, 1, layer.batch, hidden)
    model, inputs = model_of([node], {"x": x, **held}, {"y": (shape, np.float32)}, list(held))
    return Case(
        layer.label,
        layer.op.lower(),
        model,
        inputs,
        lambda: [exact(layer.op, x, held["w"], held["r"], held["bias"])],
        TOLERANCE["float32"],
        operations=layer.operations,
        empty=lambda: case(Layer(layer.op, 1, 1, 1)),
    )


def exact(op: str, x: np.ndarray, w: np.ndarray, r: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """All states of a layer by ONNX's definition, in float64."""
    given, weights = x.astype(np.float64), r[0].astype(np.float64).T
    own, recurrent = np.split(bias[0].astype(np.float64), 2)
    inputs = given @ w[0].astype(np.float64).T + own
    state = cell = np.zeros((x.shape[1], r.shape[2]))
    states = []
    for step in inputs:
        product = state @ weights + recurrent
        a, b = (np.split(part, GATES[op], axis=1) for part in (step, product))
        if op == "RNN":
            state = np.tanh(a[0] + b[0])
        elif op == "GRU":
            update, reset = _sigmoid(a[0] + b[0]), _sigmoid(a[1] + b[1])
            state = (1 - update) * np.tanh(a[2] + reset * b[2]) + update * state
        else:
            enter, leave, forget = (_sigmoid(a[k] + b[k]) for k in range(3))
            cell = forget * cell + enter * np.tanh(a[3] + b[3])
            state = leave * np.tanh(cell)
        states.append(state)
    return np.stack(states)[:, None]


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-value)))
