"""The conv suite: every distinct convolution of three networks, with what follows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from onnx import helper

from weft.benchmarks.case import TOLERANCE, Case, Planned, model_of, random_array
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.pytorch import Eager
from weft.frontend.zoo.conv_net import BOTTLENECKS

PEERS: tuple[Peer, ...] = (OnnxRuntime(), Eager())
BATCHES = (1, 8)
ROUNDED_MORE = 1e-4  # by convolutions that multiply less than their definition


@dataclass(frozen=True, slots=True)
class Conv:
    """``channels`` square images of ``side`` -> ``filters``, padded to keep their size.

    Batch normalisation is folded into weights and bias. ``then``: "" or operators that follow in
    order, of "add" (the other branch of a residual block), "relu", "relu6".
    """

    channels: int
    filters: int
    kernel: int
    stride: int
    side: int
    then: str
    group: int = 1

    @property
    def out(self) -> int:
        """Side of the result."""
        return (self.side + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def kind(self) -> str:
        """What decides how it is best computed."""
        if self.group > 1:
            return "depthwise"
        return f"{self.kernel}x{self.kernel}" + (f" stride {self.stride}" * (self.stride > 1))

    @property
    def label(self) -> str:
        kind = "" if self.group == 1 else " depthwise"
        then = f" {self.then}" if self.then else ""
        return (
            f"{self.channels}x{self.side}x{self.side} {self.filters}"
            f" {self.kernel}x{self.kernel} s{self.stride}{kind}{then}"
        )


def resnet(blocks: tuple[int, ...], *, bottleneck: bool) -> Iterator[Conv]:
    """He et al., "Deep Residual Learning", 2015, table 1; bottlenecks stride in their 3x3."""
    yield Conv(3, 64, 7, 2, 224, "relu")
    channels, side = 64, 56
    for stage, count in enumerate(blocks):
        width = 64 << stage
        filters = 4 * width if bottleneck else width
        for block in range(count):
            stride = 2 if stage and not block else 1
            after = side // stride
            if bottleneck:
                yield Conv(channels, width, 1, 1, side, "relu")
                yield Conv(width, width, 3, stride, side, "relu")
                yield Conv(width, filters, 1, 1, after, "add relu")
            else:
                yield Conv(channels, width, 3, stride, side, "relu")
                yield Conv(width, width, 3, 1, after, "add relu")
            if stride > 1 or channels != filters:
                yield Conv(channels, filters, 1, stride, side, "")
            channels, side = filters, after


def mobilenet() -> Iterator[Conv]:
    """MobileNetV2 (see ``frontend/zoo/conv_net.py``)."""
    yield Conv(3, 32, 3, 2, 224, "relu6")
    channels, side = 32, 112
    for expansion, filters, count, first in BOTTLENECKS:
        for block in range(count):
            stride = 1 if block else first
            wide, after = channels * expansion, side // stride
            if expansion > 1:
                yield Conv(channels, wide, 1, 1, side, "relu6")
            yield Conv(wide, wide, 3, stride, side, "relu6", wide)
            yield Conv(wide, filters, 1, 1, after, "add" if channels == filters else "")
            channels, side = filters, after
    yield Conv(channels, 1280, 1, 1, side, "relu6")


CONVS: tuple[Conv, ...] = tuple(
    dict.fromkeys(
        [
            *resnet((2, 2, 2, 2), bottleneck=False),
            *resnet((3, 4, 6, 3), bottleneck=True),
            *mobilenet(),
        ]
    )
)

QUICK: tuple[Conv, ...] = (
    Conv(3, 64, 7, 2, 224, "relu"),
    Conv(64, 64, 3, 1, 56, "relu"),
    Conv(256, 256, 3, 1, 14, "add relu"),
    Conv(512, 512, 3, 1, 7, "relu"),
    Conv(128, 256, 3, 2, 28, "relu"),
    Conv(256, 64, 1, 1, 56, "relu"),
    Conv(256, 1024, 1, 1, 14, "add relu"),
    Conv(256, 512, 1, 2, 56, ""),
    Conv(96, 96, 3, 2, 112, "relu6", 96),
    Conv(384, 384, 3, 1, 14, "relu6", 384),
    Conv(384, 64, 1, 1, 14, "add"),
)


def cases(quick: bool) -> Iterator[Planned]:
    """The rows in order, each at every batch size (quick: some, at batch 1)."""
    for conv in QUICK if quick else CONVS:
        for batch in BATCHES[:1] if quick else BATCHES:
            yield Planned(_name(conv, batch), partial(case, conv, batch))


def _name(conv: Conv, batch: int) -> str:
    return f"conv n{batch} {conv.label}"


def case(conv: Conv, batch: int) -> Case:
    """``conv`` on NCHW images, weights and bias constant; the other branch is an argument."""
    shape = (batch, conv.channels, conv.side, conv.side)
    inside = conv.channels // conv.group
    deviation = (inside * conv.kernel**2) ** -0.5
    result = (batch, conv.filters, conv.out, conv.out)
    weights = random_array((conv.filters, inside, conv.kernel, conv.kernel), "float32", 2)
    every = {
        "x": random_array(shape, "float32", 1),
        "w": weights * np.float32(deviation),
        "b": random_array((conv.filters,), "float32", 3),
        "other": random_array(result, "float32", 4),
        "low": np.array(0.0, np.float32),
        "high": np.array(6.0, np.float32),
    }
    nodes = _nodes(conv)
    used = {name for node in nodes for name in node.input}
    values = {name: value for name, value in every.items() if name in used}
    constants = [name for name in values if name not in ("x", "other")]
    model, inputs = model_of(nodes, values, {"y": (result, np.float32)}, constants)
    return Case(
        _name(conv, batch),
        f"conv {conv.kind} n{batch}",
        model,
        inputs,
        lambda: [_exact(conv, values)],
        TOLERANCE["float32"] if conv.kernel == 1 else ROUNDED_MORE,
        2.0 * batch * conv.filters * conv.out**2 * inside * conv.kernel**2,
        "float32",
        lambda: case(_single(conv), 1),
        saving=conv.kernel**2,
    )


def _single(conv: Conv) -> Conv:
    """One channel, one pixel."""
    return Conv(1, 1, 1, 1, 1, conv.then)


def _nodes(conv: Conv) -> list[onnx.NodeProto]:
    pads = [conv.kernel // 2] * 4
    strides = [conv.stride] * 2
    nodes = [
        helper.make_node(
            "Conv", ["x", "w", "b"], ["y0"], pads=pads, strides=strides, group=conv.group
        )
    ]
    inputs = {"add": ("Add", ["other"]), "relu": ("Relu", []), "relu6": ("Clip", ["low", "high"])}
    for number, name in enumerate(conv.then.split()):
        op, more = inputs[name]
        nodes.append(helper.make_node(op, [f"y{number}", *more], [f"y{number + 1}"]))
    nodes[-1].output[0] = "y"
    return nodes


def _exact(conv: Conv, values: dict[str, np.ndarray]) -> np.ndarray:
    """In float64: a product over channels for each tap, or one of elements for each channel."""
    x, w, b = (values[name].astype(np.float64) for name in "xwb")
    pad = conv.kernel // 2
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    y = np.broadcast_to(b[:, None, None], (len(x), conv.filters, conv.out, conv.out)).copy()
    reach = conv.stride * (conv.out - 1) + 1
    for r in range(conv.kernel):
        for s in range(conv.kernel):
            part = x[:, :, r : r + reach : conv.stride, s : s + reach : conv.stride]
            if conv.group == 1:
                flat = part.reshape(*part.shape[:2], -1)
                y += (w[:, :, r, s] @ flat).reshape(y.shape)
            else:
                y += w[:, 0, r, s][:, None, None] * part
    for name in conv.then.split():
        if name == "add":
            y += values["other"]
        else:
            y = np.clip(y, 0.0, 6.0 if name == "relu6" else None)
    return y
