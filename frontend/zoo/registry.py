"""The models that Weft can write itself: full size, published architectures, random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from weft.frontend.zoo.conv_net import seeded_image
from weft.frontend.zoo.minilm import minilm, seeded_tokens
from weft.frontend.zoo.mobilenetv2 import mobilenetv2
from weft.frontend.zoo.resnet18 import resnet18


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
