"""Larger models than the embedded ones, for measuring: published architectures, random weights."""

from __future__ import annotations

import numpy as np
import onnx

from weft.frontend.zoo.conv_net import (
    Features,
    add,
    classifier,
    conv_norm,
    image,
    relu,
    seeded_image,
)
from weft.frontend.zoo.minilm import Encoder, bert, seeded_tokens
from weft.frontend.zoo.model_builder import ModelBuilder
from weft.frontend.zoo.registry import ZooModel

BERT_BASE = Encoder("bert_base", layers=12, width=768, heads=12, inner=3072)
BLOCKS = ((64, 3), (128, 4), (256, 6), (512, 3))  # inner channels and blocks of each stage
EXPANSION = 4  # of a block's inner channels
BRANCH_GAIN = 0.5  # of a residual branch against its shortcut


def resnet50() -> onnx.ModelProto:
    """ResNet-50 as in torchvision, the stride in the 3 × 3 convolution: (1, 3, 224, 224) float32
    "input" -> (1, 1000) float32 "output". (He et al., "Deep Residual Learning", 2015.)"""
    build = ModelBuilder("resnet50", np.random.default_rng(50))
    x = relu(build, conv_norm(build, image("input"), "conv1", "bn1", 64, 7, stride=2))
    pooled = build.node("MaxPool", x.value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = Features(pooled, x.mean + np.sqrt(x.variance), x.variance, x.side // 2)
    for number, (channels, blocks) in enumerate(BLOCKS, 1):
        for block in range(blocks):
            stride = 2 if number > 1 and block == 0 else 1
            x = _bottleneck(build, x, f"layer{number}.{block}", channels, stride)
    return classifier(build, x, "fc")


def _bottleneck(build: ModelBuilder, x: Features, name: str, inner: int, stride: int) -> Features:
    channels = EXPANSION * inner
    y = relu(build, conv_norm(build, x, f"{name}.conv1", f"{name}.bn1", inner, 1))
    y = conv_norm(build, y, f"{name}.conv2", f"{name}.bn2", inner, 3, stride=stride)
    y = relu(build, y)
    y = conv_norm(build, y, f"{name}.conv3", f"{name}.bn3", channels, 1, gain=BRANCH_GAIN)
    if channels != x.channels:
        down = f"{name}.downsample"
        x = conv_norm(build, x, f"{down}.0", f"{down}.1", channels, 1, stride=stride)
    return relu(build, add(build, y, x))


def bert_base() -> onnx.ModelProto:
    """BERT base, uncased: 12 layers × 768 × 12 heads. (Devlin et al., "BERT", 2018.)"""
    return bert(BERT_BASE, seed=12)


MODELS: dict[str, ZooModel] = {
    "resnet50": ZooModel(resnet50, seeded_image),
    "bert_base": ZooModel(bert_base, seeded_tokens),
}
