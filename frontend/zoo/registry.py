"""The models that Weft can write itself: full size, published architectures, random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from weft.frontend.zoo.conv_net import (
    Features,
    add,
    classifier,
    conv_norm,
    image,
    mobilenetv2,
    relu,
    seeded_image,
)
from weft.frontend.zoo.minilm import minilm, seeded_tokens
from weft.frontend.zoo.model_builder import ModelBuilder

# ---- ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", 2015) as in
# torchvision.


STAGES = (64, 128, 256, 512)  # channels; two blocks each
BRANCH_GAIN = 0.5  # of a residual branch against its shortcut


def resnet18() -> onnx.ModelProto:
    """(1, 3, 224, 224) float32 "input" -> (1, 1000) float32 "output", no softmax."""
    build = ModelBuilder("resnet18", np.random.default_rng(18))
    x = relu(build, conv_norm(build, image("input"), "conv1", "bn1", 64, 7, stride=2))
    pooled = build.node("MaxPool", x.value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = Features(pooled, x.mean + np.sqrt(x.variance), x.variance, x.side // 2)
    for number, channels in enumerate(STAGES, 1):
        for block in range(2):
            stride = 2 if number > 1 and block == 0 else 1
            x = _basic_block(build, x, f"layer{number}.{block}", channels, stride)
    return classifier(build, x, "fc")


def _basic_block(
    build: ModelBuilder, x: Features, name: str, channels: int, stride: int
) -> Features:
    y = conv_norm(build, x, f"{name}.conv1", f"{name}.bn1", channels, 3, stride=stride)
    y = relu(build, y)
    y = conv_norm(build, y, f"{name}.conv2", f"{name}.bn2", channels, 3, gain=BRANCH_GAIN)
    if stride != 1 or channels != x.channels:
        down = f"{name}.downsample"
        x = conv_norm(build, x, f"{down}.0", f"{down}.1", channels, 1, stride=stride)
    return relu(build, add(build, y, x))


@dataclass(frozen=True, slots=True)
class ZooModel:
    """``build()`` gives the same model every time, ``seeded_inputs(seed)`` one set of inputs."""

    build: Callable[[], onnx.ModelProto]
    seeded_inputs: Callable[[int], dict[str, np.ndarray]]


MODELS: dict[str, ZooModel] = {
    "resnet18": ZooModel(resnet18, seeded_image),
    "mobilenetv2": ZooModel(mobilenetv2, seeded_image),
    "minilm": ZooModel(minilm, seeded_tokens),
}
