"""MobileNetV2 1.0 (Sandler et al., "Inverted Residuals and Linear Bottlenecks", 2018)."""

from __future__ import annotations

import numpy as np
import onnx

from weft.frontend.zoo.conv_net import Features, add, classifier, conv_norm, image, rectified
from weft.frontend.zoo.model_builder import ModelBuilder

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
