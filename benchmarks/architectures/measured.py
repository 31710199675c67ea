"""Architectures large enough for arithmetic to take the time; each tried at the sizes to measure.

Sizes are 2 and more where they are open: PyTorch makes other code for 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from weft.benchmarks.architectures import modules
from weft.benchmarks.architectures.open_sizes import (
    BART,
    DETR,
    SEGFORMER,
    T5,
    WHISPER,
    Architecture,
    Denoiser,
    Sizes,
    batches,
    cached,
    decoder,
    detr,
    encoder,
    hub,
    ids,
    image,
    masked,
    tokens,
    two_texts,
    with_past,
)

WIDE: dict[str, Any] = {
        "vocab_size": 1000, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 1024, "max_position_embeddings": 512}  # fmt: skip
VISIBLE = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3,
           "intermediate_size": 768, "image_size": 96, "patch_size": 8}  # fmt: skip
PAIR = {"d_model": 256, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024}  # fmt: skip


def at(architecture: Architecture, exported: Sizes, measured: Sizes) -> Architecture:
    """``architecture`` exported at some sizes, to be measured at others."""
    return replace(architecture, exported=exported, tried=(measured,))


def resnet(kind: str, widths: list[int], depths: list[int]) -> nn.Module:
    return hub("ResNet", "Model", layer_type=kind, hidden_sizes=widths, depths=depths)


def pictures(model: Any, side: int) -> Architecture:
    """Of a batch of images, two of them."""
    return at(batches(model, 3, side, side), (3,), (2,))


_TEXT = (2, 48), (2, 64)

MEASURED: dict[str, Architecture] = {
    "resnet18": pictures(lambda: resnet("basic", [64, 128, 256, 512], [2, 2, 2, 2]), 96),
    "resnet50": pictures(lambda: resnet("bottleneck", [256, 512, 1024, 2048], [3, 4, 6, 3]), 64),
    "mobilenet_v2": pictures(lambda: hub("MobileNetV2", "Model"), 96),
    "mobilenet_v3 block": pictures(lambda: modules.MobileNetV3(32), 96),
    "convnext": pictures(
        lambda: hub("ConvNext", "Model", hidden_sizes=[48, 96, 192, 384], depths=[1, 1, 3, 1]), 96
    ),
    "vit": pictures(lambda: hub("ViT", "Model", **VISIBLE), 96),
    "swin": Architecture(
        lambda: nn.Sequential(modules.SwinBlock(96, 7, 0), modules.SwinBlock(96, 7, 3)),
        lambda b: (image(b, 28, 28, 96),), ((0,),), "b", (3,), ((2,),),
    ),
    "segformer": pictures(
        lambda: hub("Segformer", "Model", **{**SEGFORMER, "hidden_sizes": [32, 64]}), 96
    ),
    "detr": pictures(lambda: detr(32, 64, **{**DETR, **PAIR, "num_queries": 20}), 96),
    "bert": at(masked(encoder("Bert", **WIDE)), *_TEXT),
    "gpt2": at(
        tokens(lambda: hub("GPT2", "LMHeadModel", {"use_cache": False}, vocab_size=1000,
                           n_positions=512, n_embd=256, n_layer=4, n_head=4)), *_TEXT
    ),
    "llama": at(tokens(decoder("Llama", **WIDE)), *_TEXT),
    "llama with given cache": Architecture(
        lambda: cached(**WIDE), lambda b, n, past: with_past(b, n, past, layers=4, width=64),
        ((0, 1), *[(0, 2)] * 8), "b n past", (2, 3, 48), ((2, 2, 62),),
    ),
    "gemma": at(tokens(decoder("Gemma", **WIDE, num_key_value_heads=1, head_dim=64)), *_TEXT),
    "t5": Architecture(
        lambda: hub("T5", "Model", {"use_cache": False}, **{**T5, "d_model": 256, "d_kv": 64,
                    "d_ff": 1024, "num_layers": 2}),
        two_texts, ((0, 1), None, (0, 1)), "b s t", (2, 48, 24), ((2, 64, 32),),
    ),
    "bart": Architecture(
        lambda: hub("Bart", "Model", {"use_cache": False}, **{**BART, **PAIR}),
        two_texts, ((0, 1), None, (0, 1)), "b s t", (2, 48, 24), ((2, 64, 32),),
    ),
    "whisper": Architecture(
        lambda: hub("Whisper", "Model", {"use_cache": False}, **{**WHISPER, **PAIR,
                    "num_mel_bins": 80, "max_source_positions": 64}),
        lambda b, t: (image(b, 80, 128), None, ids(b, t)), ((0,), None, (0, 1)), "b t", (2, 12),
        ((2, 16),),
    ),
    "mamba": Architecture(
        lambda: modules.Mamba(96, 16), lambda b: (image(b, 32, 96),), ((0,),), "b", (3,), ((2,),)
    ),
    "lstm": Architecture(
        lambda: modules.Recurrent(128, 128), lambda b: (ids(32, b) % 11,), ((1,),), "b", (3,),
        ((2,),),
    ),
    "diffusion unet": Architecture(
        lambda: Denoiser(48), lambda b, s: (image(b, 3, 32, 32), torch.rand(b) * 9, image(b, s, 6)),
        ((0,), (0,), (0, 1)), "b s", (3, 12), ((2, 16),),
    ),
}  # fmt: skip
