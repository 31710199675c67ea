"""Real architectures with random weights, off the configuration classes of `transformers`.

Needs torch and transformers; nothing is downloaded.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

OPSET = 17


@dataclass(frozen=True, slots=True)
class Architecture:
    """``model`` and ``config`` are classes of transformers; ``inputs``: name -> shape, integers
    below 1000 where the name ends with "_ids", ones where with "_mask", else normal numbers."""

    model: str
    config: str
    inputs: Mapping[str, Sequence[int]]
    settings: Mapping[str, Any] = field(default_factory=dict)


_TEXT = {"input_ids": (1, 128), "attention_mask": (1, 128)}
_IMAGE = {"pixel_values": (1, 3, 224, 224)}
ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture("BertModel", "BertConfig", _TEXT),
    "distilbert": Architecture("DistilBertModel", "DistilBertConfig", _TEXT),
    "gpt2": Architecture("GPT2Model", "GPT2Config", _TEXT, {"use_cache": False}),
    "vit": Architecture("ViTModel", "ViTConfig", _IMAGE),
}


def seeded_inputs(name: str, seed: int) -> dict[str, np.ndarray]:
    """One set of inputs of the architecture called ``name``."""
    random = np.random.default_rng(seed)

    def array(port: str, shape: Sequence[int]) -> np.ndarray:
        if port.endswith("_ids"):
            return random.integers(0, 1000, shape)
        if port.endswith("_mask"):
            return np.ones(shape, np.int64)
        return random.standard_normal(shape, np.float32)

    return {port: array(port, shape) for port, shape in ARCHITECTURES[name].inputs.items()}


def build(name: str) -> onnx.ModelProto:
    """The architecture called ``name`` as an ONNX model of fixed shapes whose output is "y".

    Raises ``ImportError`` without torch and transformers.
    """
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    config = getattr(transformers, architecture.config)(**architecture.settings)
    config._attn_implementation = "eager"  # as products and a softmax
    inner = getattr(transformers, architecture.model)(config).eval()
    inputs = seeded_inputs(name, 0)

    class First(torch.nn.Module):  # type: ignore[misc]
        """The first of the model's outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *given: Any) -> Any:
            return self.inner(**dict(zip(inputs, given, strict=True)), return_dict=False)[0]

    file = io.BytesIO()
    given = tuple(torch.from_numpy(array) for array in inputs.values())
    torch.onnx.export(
        First(), given, file, input_names=list(inputs), output_names=["y"],
        opset_version=OPSET, dynamo=False,
    )  # fmt: skip
    return onnx.load_from_string(file.getvalue())
