"""A sentence encoder with the architecture of all-MiniLM-L6-v2: BERT, 6 layers × 384 × 12 heads.

Nodes are those that exporters write at opset 17: attention as MatMul and Softmax around reshapes,
GELU through Erf, LayerNormalization as an operator.
(Wang et al., "MiniLM: Deep Self-Attention Distillation", 2020; Devlin et al., "BERT", 2018.)
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from weft.frontend.zoo.model_builder import ModelBuilder

LAYERS, WIDTH, HEADS, INNER = 6, 384, 12, 1536
VOCABULARY, POSITIONS, TOKEN_TYPES = 30522, 512, 2
SEQUENCE = 128
EPSILON = 1e-12
ATTENTION_GAIN = math.sqrt(2.0)  # scores of deviation 2: attention that chooses

START, END, FIRST_WORD = 101, 102, 1000  # of BERT's uncased vocabulary; 0 pads


def minilm() -> onnx.ModelProto:
    """int64 (1, 128) "input_ids", "attention_mask" and "token_type_ids" ->
    float32 "last_hidden_state" (1, 128, 384) and "pooler_output" (1, 384)."""
    build = ModelBuilder("minilm", np.random.default_rng(6))
    mask = _additive_mask(build)
    x = _embeddings(build)
    for layer in range(LAYERS):
        x = _layer(build, x, mask, f"encoder.layer.{layer}")
    first = build.node("Gather", x, build.constant("first_token", np.array(0)), axis=1)
    pooled = build.node("Tanh", _dense(build, first, "pooler.dense", WIDTH, WIDTH))
    tokens = (TensorProto.INT64, (1, SEQUENCE))
    return build.model(
        {"input_ids": tokens, "attention_mask": tokens, "token_type_ids": tokens},
        {
            "last_hidden_state": (x, (1, SEQUENCE, WIDTH)),
            "pooler_output": (pooled, (1, WIDTH)),
        },
    )


def seeded_tokens(seed: int) -> dict[str, np.ndarray]:
    """Two random sentences in one padded sequence."""
    random = np.random.default_rng(seed)
    length = int(random.integers(SEQUENCE // 2, SEQUENCE + 1))
    middle = int(random.integers(2, length - 1))
    ids = np.zeros((1, SEQUENCE), np.int64)
    ids[0, :length] = random.integers(FIRST_WORD, VOCABULARY, length)
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


def _embeddings(build: ModelBuilder) -> str:
    def table(name: str, rows: int, indices: str) -> str:
        weight = build.weight(f"embeddings.{name}.weight", (rows, WIDTH), 0.05)
        return build.node("Gather", weight, indices, axis=0)

    places = build.constant("embeddings.position_ids", np.arange(SEQUENCE)[None])
    words = table("word_embeddings", VOCABULARY, "input_ids")
    kinds = table("token_type_embeddings", TOKEN_TYPES, "token_type_ids")
    positions = table("position_embeddings", POSITIONS, places)
    summed = build.node("Add", build.node("Add", words, kinds), positions)
    return _layer_norm(build, summed, "embeddings.LayerNorm")


def _layer(build: ModelBuilder, x: str, mask: str, name: str) -> str:
    attended = _attention(build, x, mask, f"{name}.attention")
    x = _layer_norm(build, build.node("Add", attended, x), f"{name}.attention.output.LayerNorm")
    inner = _gelu(build, _dense(build, x, f"{name}.intermediate.dense", WIDTH, INNER))
    result = _dense(build, inner, f"{name}.output.dense", INNER, WIDTH)
    return _layer_norm(build, build.node("Add", result, x), f"{name}.output.LayerNorm")


def _attention(build: ModelBuilder, x: str, mask: str, name: str) -> str:
    size = WIDTH // HEADS
    split = build.constant(f"{name}.split", np.array([1, SEQUENCE, HEADS, size]))
    joined = build.constant(f"{name}.joined", np.array([1, SEQUENCE, WIDTH]))

    def heads(which: str, gain: float, perm: list[int]) -> str:
        y = _dense(build, x, f"{name}.self.{which}", WIDTH, WIDTH, gain)
        return build.node("Transpose", build.node("Reshape", y, split), perm=perm)

    query = heads("query", ATTENTION_GAIN, [0, 2, 1, 3])
    key = heads("key", ATTENTION_GAIN, [0, 2, 3, 1])
    value = heads("value", 1.0, [0, 2, 1, 3])
    scale = build.constant(f"{name}.scale", np.array(math.sqrt(size), np.float32))
    scores = build.node("Div", build.node("MatMul", query, key), scale)
    shares = build.node("Softmax", build.node("Add", scores, mask), axis=-1)
    mixed = build.node("Transpose", build.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    return _dense(build, build.node("Reshape", mixed, joined), f"{name}.output.dense", WIDTH, WIDTH)


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


def _layer_norm(build: ModelBuilder, x: str, name: str) -> str:
    scale = (1 + 0.1 * build.random.standard_normal(WIDTH)).astype(np.float32)
    bias = (0.1 * build.random.standard_normal(WIDTH)).astype(np.float32)
    names = build.constant(f"{name}.weight", scale), build.constant(f"{name}.bias", bias)
    return build.node("LayerNormalization", x, *names, axis=-1, epsilon=EPSILON)
