"""Convolution, batch normalisation and ReLU as image classifiers stack them.

Running statistics are those that training would have recorded: means and variances are propagated
from layer to layer, channel by channel, as if activations were independent and normal before each
ReLU. So activations keep their scale at any depth, with any weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from weft.frontend.zoo.model_builder import ModelBuilder

SIDE = 224  # of the images, in pixels
CLASSES = 1000
_erf = np.vectorize(math.erf)


@dataclass(frozen=True, slots=True)
class Features:
    """A value of the model (batch, channels, side, side), and each channel's mean and variance."""

    value: str
    mean: np.ndarray
    variance: np.ndarray
    side: int

    @property
    def channels(self) -> int:
        return len(self.mean)


def image(name: str) -> Features:
    """An input image, its channels normalised as data loaders do."""
    return Features(name, np.zeros(3), np.ones(3), SIDE)


def seeded_image(seed: int) -> dict[str, np.ndarray]:
    """One random image in the layout that the models take."""
    random = np.random.default_rng(seed)
    return {"input": random.standard_normal((1, 3, SIDE, SIDE), np.float32)}


def conv_norm(
    build: ModelBuilder,
    x: Features,
    conv: str,
    norm: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    group: int = 1,
    gain: float = 1.0,
) -> Features:
    """A Conv ``conv`` without bias and a BatchNormalization ``norm`` of deviation ``gain``."""
    pad = kernel // 2
    fan_in = x.channels // group * kernel * kernel
    weights = build.random.standard_normal(
        (channels, x.channels // group, kernel, kernel), np.float32
    ) * np.float32(math.sqrt(2.0 / fan_in))
    y = build.node(
        "Conv", x.value, build.constant(f"{conv}.weight", weights), kernel_shape=[kernel] * 2,
        strides=[stride] * 2, pads=[pad] * 4, dilations=[1, 1], group=group,
    )  # fmt: skip
    side = (x.side + 2 * pad - kernel) // stride + 1
    inside = _share_inside(x.side, side, kernel, stride, pad) ** 2  # of the taps, not in the pads
    grouped = np.arange(channels) // (channels // group)
    taps, powers = weights.sum((2, 3)), (weights**2).sum((2, 3))
    means, variances = (v.reshape(group, -1)[grouped] for v in (x.mean, x.variance))
    statistics = {
        "weight": gain * build.random.uniform(0.8, 1.2, channels),
        "bias": gain * 0.1 * build.random.standard_normal(channels),
        "running_mean": inside * (taps * means).sum(1),
        "running_var": inside
        * (powers * variances).sum(1)
        * build.random.uniform(0.8, 1.25, channels),
    }
    names = [
        build.constant(f"{norm}.{name}", data.astype(np.float32))
        for name, data in statistics.items()
    ]
    value = build.node("BatchNormalization", y, *names, epsilon=1e-5, momentum=0.9)
    return Features(value, statistics["bias"], statistics["weight"] ** 2, side)


def _share_inside(size: int, result: int, kernel: int, stride: int, pad: int) -> float:
    """The share of kernel taps along one dimension that do not read padding."""
    starts = np.arange(result)[:, None] * stride - pad + np.arange(kernel)
    return float(((starts >= 0) & (starts < size)).mean())


def relu(build: ModelBuilder, x: Features) -> Features:
    return rectified(x, build.node("Relu", x.value))


def rectified(x: Features, value: str) -> Features:
    """``value`` is ``x`` after max(·, 0): the moments of a rectified normal distribution."""
    deviation = np.sqrt(x.variance)
    z = x.mean / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + _erf(z / math.sqrt(2)))
    mean = x.mean * below + deviation * density
    square = (x.mean**2 + x.variance) * below + x.mean * deviation * density
    return Features(value, mean, np.maximum(square - mean**2, 1e-6), x.side)


def add(build: ModelBuilder, x: Features, y: Features) -> Features:
    value = build.node("Add", x.value, y.value)
    return Features(value, x.mean + y.mean, x.variance + y.variance, x.side)


def classifier(build: ModelBuilder, x: Features, name: str) -> onnx.ModelProto:
    """Average pooling and a linear layer ``name``; the finished model, input -> output."""
    pooled = build.node("Flatten", build.node("GlobalAveragePool", x.value), axis=1)
    weight = build.weight(f"{name}.weight", (CLASSES, x.channels), math.sqrt(1 / x.channels))
    bias = build.weight(f"{name}.bias", (CLASSES,), 0.1)
    scores = build.node("Gemm", pooled, weight, bias, alpha=1.0, beta=1.0, transB=1)
    return build.model(
        {"input": (TensorProto.FLOAT, (1, 3, SIDE, SIDE))}, {"output": (scores, (1, CLASSES))}
    )


# ---- MobileNetV2 1.0 (Sandler et al., "Inverted Residuals and Linear Bottlenecks", 2018).


# Expansion, channels, blocks, stride of the first block: table 2 of the paper.
BOTTLENECKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
BRANCH_GAIN = 0.5  # of a residual branch against its shortcut


def mobilenetv2() -> onnx.ModelProto:
    """(1, 3, 224, 224) float32 "input" -> (1, 1000) float32 "output", no softmax."""
    build = ModelBuilder("mobilenetv2", np.random.default_rng(2))
    build.constant("relu6.min", np.array(0.0, np.float32))
    build.constant("relu6.max", np.array(6.0, np.float32))
    x = _conv_norm_relu6(build, image("input"), "features.0", 32, 3, stride=2)
    number = 1
    for expansion, channels, blocks, stride in BOTTLENECKS:
        for block in range(blocks):
            name = f"features.{number}.conv"
            x = _bottleneck(build, x, name, expansion, channels, stride if block == 0 else 1)
            number += 1
    x = _conv_norm_relu6(build, x, f"features.{number}", 1280, 1)
    return classifier(build, x, "classifier.1")


def _conv_norm_relu6(
    build: ModelBuilder,
    x: Features,
    name: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    group: int = 1,
) -> Features:
    y = conv_norm(build, x, f"{name}.0", f"{name}.1", channels, kernel, stride=stride, group=group)
    # Activations seldom reach 6, six deviations away.
    return rectified(y, build.node("Clip", y.value, "relu6.min", "relu6.max"))


def _bottleneck(
    build: ModelBuilder, x: Features, name: str, expansion: int, channels: int, stride: int
) -> Features:
    """Expand, filter each channel by itself, project; a shortcut where shapes agree."""
    wide = x.channels * expansion
    y = x
    part = 0
    if expansion != 1:
        y = _conv_norm_relu6(build, y, f"{name}.0", wide, 1)
        part = 1
    y = _conv_norm_relu6(build, y, f"{name}.{part}", wide, 3, stride=stride, group=wide)
    residual = stride == 1 and channels == x.channels
    gain = BRANCH_GAIN if residual else 1.0
    y = conv_norm(build, y, f"{name}.{part + 1}", f"{name}.{part + 2}", channels, 1, gain=gain)
    return add(build, x, y) if residual else y
