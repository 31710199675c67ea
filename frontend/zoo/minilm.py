"""Encoders of the BERT architecture; ``minilm`` is that of all-MiniLM-L6-v2.

Nodes are those that exporters write at opset 17: attention as MatMul and Softmax around reshapes,
GELU through Erf, LayerNormalization as an operator.
(Wang et al., "MiniLM: Deep Self-Attention Distillation", 2020; Devlin et al., "BERT", 2018.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from weft.frontend.zoo.model_builder import ModelBuilder

TOKEN_TYPES = 2
SEQUENCE = 128
EPSILON = 1e-12
ATTENTION_GAIN = math.sqrt(2.0)  # scores of deviation 2: attention that chooses

START, END, FIRST_WORD = 101, 102, 1000  # of BERT's uncased vocabulary; 0 pads


@dataclass(frozen=True, slots=True)
class Encoder:
    """A published configuration, for ``batch`` times ``sequence`` tokens at once, numbers or the
    names of open sizes; ``inner``: width inside the feed-forward blocks."""

    name: str
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int = 30522
    positions: int = 512
    batch: int | str = 1
    sequence: int | str = SEQUENCE

    @property
    def kept(self) -> list[int]:
        """Batch and sequence as a Reshape keeps them."""
        return [0 if isinstance(n, str) else n for n in (self.batch, self.sequence)]


MINILM = Encoder("minilm", layers=6, width=384, heads=12, inner=1536)


def minilm() -> onnx.ModelProto:
    """int64 (1, 128) "input_ids", "attention_mask" and "token_type_ids" ->
    float32 "last_hidden_state" (1, 128, 384) and "pooler_output" (1, 384)."""
    return bert(MINILM, seed=6)


def bert(config: Encoder, seed: int) -> onnx.ModelProto:
    """The encoder that ``config`` describes: ports are those of ``minilm``, of its own width."""
    build, width = ModelBuilder(config.name, np.random.default_rng(seed)), config.width
    mask = _additive_mask(build)
    x = _embeddings(build, config)
    for layer in range(config.layers):
        x = _layer(build, config, x, mask, f"encoder.layer.{layer}")
    first = build.node("Gather", x, build.constant("first_token", np.array(0)), axis=1)
    pooled = build.node("Tanh", _dense(build, first, "pooler.dense", width, width))
    tokens = (TensorProto.INT64, (config.batch, config.sequence))
    return build.model(
        {"input_ids": tokens, "attention_mask": tokens, "token_type_ids": tokens},
        {
            "last_hidden_state": (x, (config.batch, config.sequence, width)),
            "pooler_output": (pooled, (config.batch, width)),
        },
    )


def seeded_tokens(seed: int) -> dict[str, np.ndarray]:
    """Two random sentences in one padded sequence."""
    random = np.random.default_rng(seed)
    length = int(random.integers(SEQUENCE // 2, SEQUENCE + 1))
    middle = int(random.integers(2, length - 1))
    ids = np.zeros((1, SEQUENCE), np.int64)
    ids[0, :length] = random.integers(FIRST_WORD, MINILM.vocabulary, length)
    ids[0, [0, middle, length - 1]] = START, END, END
    places = np.arange(SEQUENCE)[None]
    return {
        "input_ids": ids,
        "attention_mask": (places < length).astype(np.int64),
        "token_type_ids": ((places > middle) & (places < length)).astype(np.int64),
    }


def _additive_mask(build: ModelBuilder) -> str:
    """(1, 1, 1, sequence): 0 for tokens, the least float for padding."""
    axes = build.constant("mask.axes", np.array([1, 2]))
    mask = build.node("Unsqueeze", "attention_mask", axes)
    mask = build.node("Cast", mask, to=TensorProto.FLOAT)
    absent = build.node("Sub", build.constant("mask.one", np.array(1.0, np.float32)), mask)
    least = build.constant("mask.least", np.array(np.finfo(np.float32).min))
    return build.node("Mul", absent, least)


def _embeddings(build: ModelBuilder, config: Encoder) -> str:
    def table(name: str, rows: int, indices: str) -> str:
        weight = build.weight(f"embeddings.{name}.weight", (rows, config.width), 0.05)
        return build.node("Gather", weight, indices, axis=0)

    places = _positions(build, config)
    words = table("word_embeddings", config.vocabulary, "input_ids")
    kinds = table("token_type_embeddings", TOKEN_TYPES, "token_type_ids")
    positions = table("position_embeddings", config.positions, places)
    summed = build.node("Add", build.node("Add", words, kinds), positions)
    return _layer_norm(build, summed, "embeddings.LayerNorm", config.width)


def _positions(build: ModelBuilder, config: Encoder) -> str:
    """0, 1, … for each token; of an open sequence, the first of all that there are."""
    name, length = "embeddings.position_ids", config.sequence
    if isinstance(length, int):
        return build.constant(name, np.arange(length)[None])
    every = build.constant(name, np.arange(config.positions)[None])
    tokens = build.node("Shape", "input_ids", start=1, end=2)
    first = build.constant(f"{name}.first", np.array([0]))
    return build.node("Slice", every, first, tokens, build.constant(f"{name}.axis", np.array([1])))


def _layer(build: ModelBuilder, config: Encoder, x: str, mask: str, name: str) -> str:
    width, inner = config.width, config.inner
    attended = _attention(build, config, x, mask, f"{name}.attention")
    attended = build.node("Add", attended, x)
    x = _layer_norm(build, attended, f"{name}.attention.output.LayerNorm", width)
    y = _gelu(build, _dense(build, x, f"{name}.intermediate.dense", width, inner))
    result = _dense(build, y, f"{name}.output.dense", inner, width)
    return _layer_norm(build, build.node("Add", result, x), f"{name}.output.LayerNorm", width)


def _attention(build: ModelBuilder, config: Encoder, x: str, mask: str, name: str) -> str:
    width, size = config.width, config.width // config.heads
    split = build.constant(f"{name}.split", np.array([*config.kept, config.heads, size]))
    joined = build.constant(f"{name}.joined", np.array([*config.kept, width]))

    def heads(which: str, gain: float, perm: list[int]) -> str:
        y = _dense(build, x, f"{name}.self.{which}", width, width, gain)
        return build.node("Transpose", build.node("Reshape", y, split), perm=perm)

    query = heads("query", ATTENTION_GAIN, [0, 2, 1, 3])
    key = heads("key", ATTENTION_GAIN, [0, 2, 3, 1])
    value = heads("value", 1.0, [0, 2, 1, 3])
    scale = build.constant(f"{name}.scale", np.array(math.sqrt(size), np.float32))
    scores = build.node("Div", build.node("MatMul", query, key), scale)
    shares = build.node("Softmax", build.node("Add", scores, mask), axis=-1)
    mixed = build.node("Transpose", build.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    return _dense(build, build.node("Reshape", mixed, joined), f"{name}.output.dense", width, width)


def _dense(
    build: ModelBuilder, x: str, name: str, inputs: int, outputs: int, gain: float = 1.0
) -> str:
    weight = build.weight(f"{name}.weight", (inputs, outputs), gain / math.sqrt(inputs))
    bias = build.weight(f"{name}.bias", (outputs,), 0.02)
    return build.node("Add", bias, build.node("MatMul", x, weight))


def _gelu(build: ModelBuilder, x: str) -> str:
    def number(name: str, value: float) -> str:
        known = f"gelu.{name}"
        if all(tensor.name != known for tensor in build.initializers):
            build.constant(known, np.array(value, np.float32))
        return known

    inside = build.node("Erf", build.node("Div", x, number("sqrt2", math.sqrt(2.0))))
    shifted = build.node("Add", inside, number("one", 1.0))
    return build.node("Mul", build.node("Mul", x, shifted), number("half", 0.5))


def _layer_norm(build: ModelBuilder, x: str, name: str, width: int) -> str:
    scale = (1 + 0.1 * build.random.standard_normal(width)).astype(np.float32)
    bias = (0.1 * build.random.standard_normal(width)).astype(np.float32)
    names = build.constant(f"{name}.weight", scale), build.constant(f"{name}.bias", bias)
    return build.node("LayerNormalization", x, *names, axis=-1, epsilon=EPSILON)
