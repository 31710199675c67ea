"""Random networks twice: as an ONNX model, and as integer arithmetic written out in NumPy.

The reference knows the exponents that were chosen, as ``Layer`` has them, and nothing else of what
it is the reference for: int64, one tap after the other, floor divisions by powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import frexp

import numpy as np
import onnx
from onnx import TensorProto, helper

from weft.graph.quantize import Layer

Layers = Mapping[str, Layer]
Numbers = tuple[np.ndarray, int]  # integers and their exponent


def nearest(values: np.ndarray, exponent: int, largest: float = 127) -> np.ndarray:
    """Ties to even, saturated."""
    scaled = np.rint(np.asarray(values, np.float64) / 2.0**exponent)
    return np.clip(scaled, -largest, largest).astype(np.int64)


def requantised(values: np.ndarray, exponent: int, goal: int) -> np.ndarray:
    """floor(value * 2**(exponent - goal) + 1/2), saturated; exact, with Python's fractions."""
    factor = Fraction(2) ** (exponent - goal)
    found = [(int(v) * factor + Fraction(1, 2)).__floor__() for v in values.reshape(-1)]
    return np.clip(np.array(found, object).reshape(values.shape), -127, 127).astype(np.int64)


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int, pad: tuple[int, int], dilation: int, group: int
) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), pad, pad))
    n, _, height, width = x.shape
    filters, channels, rows, columns = w.shape
    out_h = (height - (rows - 1) * dilation - 1) // stride + 1
    out_w = (width - (columns - 1) * dilation - 1) // stride + 1
    y = np.zeros((n, filters, out_h, out_w), np.int64)
    for k in range(filters):
        first = k // (filters // group) * channels
        for r in range(rows):
            for s in range(columns):
                part = x[
                    :, first : first + channels,
                    r * dilation : r * dilation + (out_h - 1) * stride + 1 : stride,
                    s * dilation : s * dilation + (out_w - 1) * stride + 1 : stride,
                ]  # fmt: skip
                y[:, k] += (part * w[k, :, r, s, None, None]).sum(1)
    return y


@dataclass
class Network:
    """``steps`` compute values by name from those before, given the layers."""

    rng: np.random.Generator
    shape: tuple[int, ...]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    steps: list[Callable[[dict[str, Numbers], Layers], None]] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shapes["x"] = self.shape

    def model(self, output: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, self.shapes[output])],
            [onnx.numpy_helper.from_array(a, name) for name, a in self.constants.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9)

    def reference(self, x: np.ndarray, exponent: int, layers: Layers) -> dict[str, Numbers]:
        values = {"x": (nearest(x, exponent), exponent)}
        for step in self.steps:
            step(values, layers)
        return values

    def node(self, op: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, np.float32)
        return name

    # ---- layers -------------------------------------------------------------------------------

    def conv(
        self, x: str, filters: int, kernel: int, *, stride: int = 1, pad: tuple[int, int] = (0, 0),
        dilation: int = 1, group: int = 1, bias: bool = True, norm: bool = False, act: str = "",
        scale: float = 1.0,
    ) -> str:  # fmt: skip
        """Convolution, and what is folded into it: bias, a factor and addend per filter, ReLU."""
        channels = self.shapes[x][1]
        w = self.rng.standard_normal((filters, channels // group, kernel, kernel)) * scale
        w = w.astype(np.float32)
        b = (self.rng.standard_normal(filters) * bias).astype(np.float32)
        a, c = (self.rng.standard_normal(filters).astype(np.float32) for _ in range(2))
        name = f"v{len(self.nodes)}"
        inputs = [x, self.constant(w), *([self.constant(b)] if bias else [])]
        pads = [pad[0], pad[0], pad[1], pad[1]]
        self.node("Conv", inputs, name, strides=[stride] * 2, pads=pads, group=group,
                  dilations=[dilation] * 2)  # fmt: skip
        weights, addend = w.astype(np.float64), b.astype(np.float64)
        if norm:
            name = self.node("Mul", [name, self.constant(a[:, None, None])], f"{name}a")
            name = self.node("Add", [self.constant(c[:, None, None]), name], f"{name}c")
            weights = weights * a.astype(np.float64)[:, None, None, None]
            addend = addend * a.astype(np.float64) + c
        name = self.activation(name, act)

        def step(values: dict[str, Numbers], layers: Layers) -> None:
            numbers, exponent = values[x]
            layer = layers[name]
            (own,) = layer.weights
            sums = exponent + own
            y = convolved(numbers, nearest(weights, own), stride, pad, dilation, group)
            y = y + nearest(addend, sums, 2**40)[:, None, None]
            assert np.abs(y).max(initial=0) < 2**31 - 1
            values[name] = finished(y, sums, layer.result, act)

        self.steps.append(step)
        size = self.shapes[x][2:]
        span = (kernel - 1) * dilation + 1
        outputs = [(n + sum(pad) - span) // stride + 1 for n in size]
        self.shapes[name] = (self.shapes[x][0], filters, *outputs)
        return name

    def activation(self, name: str, act: str) -> str:
        if act == "relu":
            return self.node("Relu", [name], f"{name}r")
        if act == "clip":
            bounds = [self.constant(np.array(v)) for v in (-0.5, 0.75)]
            return self.node("Clip", [name, *bounds], f"{name}l")
        return name

    def add(self, x: str, y: str, act: str = "") -> str:
        name = self.node("Add", [x, y], f"v{len(self.nodes)}")
        name = self.activation(name, act)

        def step(values: dict[str, Numbers], layers: Layers) -> None:
            (a, one), (b, two) = values[x], values[y]
            least = min(one, two)
            total = a * 2 ** (one - least) + b * 2 ** (two - least)
            values[name] = finished(total, least, layers[name].result, act)

        self.steps.append(step)
        self.shapes[name] = self.shapes[x]
        return name

    def max_pool(self, x: str, kernel: int, stride: int, pad: int) -> str:
        name = self.node("MaxPool", [x], f"v{len(self.nodes)}", kernel_shape=[kernel] * 2,
                         strides=[stride] * 2, pads=[pad] * 4)  # fmt: skip
        n, c, *size = self.shapes[x]
        out = [(s + 2 * pad - kernel) // stride + 1 for s in size]

        def step(values: dict[str, Numbers], layers: Layers) -> None:
            numbers, exponent = values[x]
            edge = ((0, 0), (0, 0), (pad, pad), (pad, pad))
            padded = np.pad(numbers, edge, constant_values=-127)
            y = np.full((n, c, *out), -127)
            for i in range(out[0]):
                for j in range(out[1]):
                    window = padded[:, :, i * stride :, j * stride :][:, :, :kernel, :kernel]
                    y[:, :, i, j] = window.max((2, 3))
            values[name] = y, exponent

        self.steps.append(step)
        self.shapes[name] = (n, c, *out)
        return name

    def average(self, x: str) -> str:
        """The mean over all places, by a factor of 15 bits where that is no power of two."""
        name = self.node("GlobalAveragePool", [x], f"v{len(self.nodes)}")
        n, c, *size = self.shapes[x]
        count = size[0] * size[1]

        def step(values: dict[str, Numbers], layers: Layers) -> None:
            numbers, exponent = values[x]
            total = numbers.sum((2, 3), keepdims=True)
            inverse, power = frexp(1.0 / count)
            factor, scale = (1, power - 1) if inverse == 0.5 else (
                round(inverse * 2**15), power - 15
            )  # fmt: skip
            goal = layers[name].result
            values[name] = requantised(total * factor, exponent + scale, goal), goal

        self.steps.append(step)
        self.shapes[name] = (n, c, 1, 1)
        return name

    def dense(self, x: str, columns: int) -> str:
        flat = self.node("Flatten", [x], f"v{len(self.nodes)}")
        n, rows = self.shapes[x][0], int(np.prod(self.shapes[x][1:]))
        w = self.rng.standard_normal((columns, rows)).astype(np.float32)
        b = self.rng.standard_normal(columns).astype(np.float32)
        inputs = [flat, self.constant(w), self.constant(b)]
        name = self.node("Gemm", inputs, f"v{len(self.nodes)}", transB=1)

        def step(values: dict[str, Numbers], layers: Layers) -> None:
            numbers, exponent = values[x]
            layer = layers[name]
            sums = exponent + layer.weights[0]
            y = numbers.reshape(n, rows) @ nearest(w, layer.weights[0]).T
            values[name] = finished(y + nearest(b, sums, 2**40), sums, layer.result, "")

        self.steps.append(step)
        self.shapes[name] = (n, columns)
        return name


def finished(values: np.ndarray, exponent: int, goal: int, act: str) -> Numbers:
    if act == "relu":
        values = np.maximum(values, 0)
    if act == "clip":
        low, high = (int(nearest(np.array(v), exponent, 2**40)) for v in (-0.5, 0.75))
        values = np.clip(values, low, high)
    return requantised(values, exponent, goal), goal


def random_network(seed: int) -> tuple[Network, str]:
    """Convolutions of all kinds, residual additions, pooling, a dense layer; and its output."""
    rng = np.random.default_rng(seed)
    n, c, h, w = (int(rng.integers(1, top)) for top in (3, 6, 12, 12))
    net = Network(rng, (n, c, h + 4, w + 4))
    x = "x"
    for _ in range(int(rng.integers(1, 5))):
        if min(net.shapes[x][2:]) < 4:
            break
        x = _layer(net, x, rng)
    if rng.integers(2):
        x = net.average(x)
    if rng.integers(2):
        x = net.dense(x, int(rng.integers(1, 9)))
    return net, x


def _layer(net: Network, x: str, rng: np.random.Generator) -> str:
    act = str(rng.choice(["", "relu", "clip"]))
    match int(rng.integers(4)):
        case 0 if x != "x":
            return net.max_pool(x, int(rng.integers(1, 4)), int(rng.integers(1, 3)), 0)
        case 1:
            one = net.conv(x, 4, 3, pad=(1, 1), norm=True, act=act)
            two = net.conv(x, 4, 1, scale=float(rng.choice([0.01, 1.0, 30.0])))
            return net.add(one, two, str(rng.choice(["", "relu"])))
        case 2:
            channels = net.shapes[x][1]
            group = channels if rng.integers(2) else 1
            return net.conv(x, channels * int(rng.integers(1, 3)), 3, group=group, act=act,
                            norm=bool(rng.integers(2)), pad=(0, 1))  # fmt: skip
    kernel, dilation = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    scale = float(rng.choice([0.0, 1e-3, 1.0, 1e3]))
    stride, pad = int(rng.integers(1, 3)), (int(rng.integers(3)), int(rng.integers(3)))
    return net.conv(x, int(rng.integers(1, 7)), min(kernel, 2 if dilation > 1 else 3), act=act,
                    stride=stride, dilation=dilation, pad=pad, norm=bool(rng.integers(2)),
                    bias=bool(rng.integers(2)), scale=scale)  # fmt: skip
