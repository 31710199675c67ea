"""Well-known architectures in small configurations, random weights, with open sizes.

Each has arguments for any of its sizes, says which dimensions of them are open, and at which sizes
it is tried after it was exported at others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from weft.benchmarks.architectures import modules
from weft.benchmarks.architectures.modules import Cached, Outputs

DYNAMIC = torch.export.Dim.DYNAMIC
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Architecture:
    """``model`` makes it. ``arguments``: of a call with these sizes. ``open``: for each argument
    its open dimensions, True for an open integer, None where it has none. ``names`` of the sizes;
    it is exported at ``exported`` and ``tried`` at others."""

    model: Callable[[], nn.Module]
    arguments: Callable[..., tuple[Any, ...]]
    open: tuple[Any, ...]
    names: str
    exported: Sizes
    tried: tuple[Sizes, ...]

    @property
    def dynamic_shapes(self) -> tuple[Any, ...]:
        """As ``torch.export`` wants them."""
        return tuple(
            DYNAMIC if dims is True else dims and dict.fromkeys(dims, DYNAMIC) for dims in self.open
        )

    def seeded(self) -> nn.Module:
        """The model, always the same. Its weights keep the magnitude of what goes through: those
        that models begin with may make nothing of it, and then nothing shows in the results."""
        torch.manual_seed(0)
        model = self.model().eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, weight[0].numel() ** -0.5)
        return model

    def export(
        self, model: nn.Module, fixed: tuple[Any, ...] | None = None
    ) -> torch.export.ExportedProgram:
        """``model`` with open sizes, or with those of the arguments ``fixed``."""
        if fixed is not None:
            return torch.export.export(model, fixed)
        # Parameters called ``*args`` are one.
        shapes = inspect.signature(model.forward).bind(*self.dynamic_shapes).arguments
        with torch.no_grad():
            return torch.export.export(
                model, self.arguments(*self.exported), dynamic_shapes=dict(shapes)
            )


def largest_error(found: Any, expected: Any) -> float:
    """The largest difference of results, relative to the largest element of each; those found may
    be arrays."""
    flat = torch.utils._pytree.tree_leaves
    pairs = zip(flat(found), flat(expected), strict=True)
    return max(_apart(torch.as_tensor(a), b) for a, b in pairs)


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if not expected.numel():
        return 0.0
    scale = max(1e-3, float(expected.abs().max()))
    apart = float((found.double() - expected.double()).abs().max()) / scale
    return apart if apart == apart else float("inf")


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(3, 31, shape)


def image(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


BATCHES = ((1,), (2,), (5,), (7,), (13,))
TOKENS = ((1, 1), (1, 7), (3, 1), (2, 13), (5, 11), (7, 2))
IMAGES = ((1, 33, 37), (2, 41, 32), (3, 64, 47), (1, 53, 53), (5, 35, 34))


def images(model: Callable[[], nn.Module], least: int = 0) -> Architecture:
    """Of a batch of images of any height and width."""
    tried = tuple((b, h + least, w + least) for b, h, w in IMAGES)
    return Architecture(
        model, lambda b, h, w: (image(b, 3, h, w),), ((0, 2, 3),), "b h w",
        (2, 48 + least, 40 + least), tried,
    )  # fmt: skip


def batches(model: Callable[[], nn.Module], *shape: int) -> Architecture:
    """Of a batch of any size of what has this shape."""
    return Architecture(model, lambda b: (image(b, *shape),), ((0,),), "b", (3,), BATCHES)


def tokens(model: Callable[[], nn.Module]) -> Architecture:
    """Of a batch of texts of any length."""
    return Architecture(model, lambda b, s: (ids(b, s),), ((0, 1),), "b s", (2, 5), TOKENS)


def masked(model: Callable[[], nn.Module]) -> Architecture:
    """The same with a mask."""

    def arguments(b: int, s: int) -> tuple[torch.Tensor, ...]:
        mask = torch.randint(0, 2, (b, s))
        mask[:, 0] = 1
        return ids(b, s), mask

    return Architecture(model, arguments, ((0, 1), (0, 1)), "b s", (2, 5), TOKENS)


# ---- transformers -------------------------------------------------------------------------------

SMALL = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 24, "max_position_embeddings": 64}  # fmt: skip
GROUPS = {**SMALL, "num_key_value_heads": 2}


def hub(kind: str, name: str, call: Mapping[str, Any] | None = None, /, **config: Any) -> nn.Module:
    """The model ``name`` of ``transformers`` with the configuration ``kind``."""
    import transformers

    made = getattr(transformers, f"{kind}Config")(**config)
    return Outputs(getattr(transformers, f"{kind}{name}")(made), **(call or {}))


def decoder(kind: str, name: str = "ForCausalLM", /, **config: Any) -> Callable[[], nn.Module]:
    return lambda: hub(kind, name, {"use_cache": False}, **{**GROUPS, **config})


def encoder(kind: str, /, **config: Any) -> Callable[[], nn.Module]:
    return lambda: hub(kind, "Model", **{**SMALL, **config})


def cached(**config: Any) -> nn.Module:
    return Cached(decoder("Llama", **config)().model)


def mixture(kind: str, **config: Any) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        model = decoder(kind, **config)()
        model.model.set_experts_implementation("batched_mm")
        return model

    return made


WHISPER = {
    "vocab_size": 31, "num_mel_bins": 8, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "max_source_positions": 10, "max_target_positions": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
BART = {
    "vocab_size": 31, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
T5 = {"vocab_size": 31, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 4,
      "relative_attention_num_buckets": 8, "decoder_start_token_id": 0}  # fmt: skip
CLIP_TEXT = {
    **SMALL,
    "projection_dim": 8,
    "eos_token_id": 30,
    "bos_token_id": 0,
    "pad_token_id": 1,
}
CLIP_IMAGE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 24, "image_size": 8, "patch_size": 4,
              "projection_dim": 8}  # fmt: skip
VISION = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 24, "image_size": 16, "patch_size": 4}  # fmt: skip
WAVES = {
    "vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 24, "conv_dim": (8, 8), "conv_kernel": (5, 3), "conv_stride": (3, 2),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0, "mask_feature_prob": 0.0,
}  # fmt: skip
SEGFORMER = {
    "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16],
    "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
    "decoder_hidden_size": 16,
}  # fmt: skip
DETR = {
    "num_queries": 5, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "num_labels": 3,
}  # fmt: skip


def detr(first: int = 8, second: int = 16, **changes: Any) -> nn.Module:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=first, hidden_sizes=[first, second], depths=[1, 1], layer_type="basic",
        out_features=["stage2"],
    )  # fmt: skip
    config = DetrConfig(backbone_config=backbone, use_timm_backbone=False, **{**DETR, **changes})
    return Outputs(DetrForObjectDetection(config))


def clip() -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    return Outputs(
        CLIPModel(CLIPConfig(text_config=CLIP_TEXT, vision_config=CLIP_IMAGE, projection_dim=8))
    )


# ---- written out --------------------------------------------------------------------------------


class Autoencoder(nn.Module):
    """A variational autoencoder of images, its noise an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, 2, 1)
        )
        self.up = nn.Sequential(
            nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.SiLU(), nn.Upsample(scale_factor=2),
            nn.Conv2d(8, 3, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, log = self.down(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log.clamp(-30, 20)) * noise
        return self.up(z).tanh(), mean, log


class Denoiser(nn.Module):
    """The UNet of a diffusion model: attention over pixels and over a text, and the time."""

    def __init__(self, c: int = 8) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, c), nn.SiLU(), nn.Linear(c, 2 * c))
        self.first, self.down = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 2 * c, 3, 2, 1)
        self.norm, self.middle = nn.GroupNorm(4, 2 * c), nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.own = nn.MultiheadAttention(2 * c, 2, batch_first=True)
        self.text = nn.MultiheadAttention(2 * c, 2, kdim=6, vdim=6, batch_first=True)
        self.up, self.last = nn.Conv2d(2 * c, c, 3, padding=1), nn.Conv2d(2 * c, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * torch.exp(torch.arange(4) * -2.0)
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        skip = self.first(x)
        y = self.down(nn.functional.silu(skip)) + time[..., None, None]
        y = self.middle(nn.functional.silu(self.norm(y)))
        flat = y.flatten(2).transpose(1, 2)
        flat = flat + self.own(flat, flat, flat, need_weights=False)[0]
        flat = flat + self.text(flat, text, text, need_weights=False)[0]
        y = flat.transpose(1, 2).unflatten(2, y.shape[2:])
        y = self.up(nn.functional.interpolate(y, scale_factor=2.0))
        return self.last(torch.cat([y, skip], 1))


class Mixer(nn.Module):
    """MLP-Mixer: one perceptron across patches, one across channels."""

    def __init__(self, c: int = 8, patches: int = 16) -> None:
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, c, 4, 4), nn.Linear(c, 5)
        self.norms = nn.ModuleList(nn.LayerNorm(c) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(patches, 24), nn.GELU(), nn.Linear(24, patches))
        self.along = nn.Sequential(nn.Linear(c, 24), nn.GELU(), nn.Linear(24, c))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = y + self.across(self.norms[0](y).transpose(1, 2)).transpose(1, 2)
        return self.head((y + self.along(self.norms[1](y))).mean(1))


class DenseNet(nn.Module):
    """Layers that read all those before them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(), nn.Conv2d(8 + 4 * k, 4, 3, 1, 1))
            for k in range(3)
        )
        self.pool, self.head = nn.AvgPool2d(2), nn.Linear(20, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        for layer in self.layers:
            y = torch.cat([y, layer(y)], 1)
        return self.head(self.pool(y).mean((2, 3)))


class Pyramid(nn.Module):
    """Features of three resolutions, resized by bilinear interpolation and added: FPN."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(c, 8, 3, 2, 1) for c in (3, 8, 8))
        self.sides = nn.ModuleList(nn.Conv2d(8, 4, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        features = []
        for stage in self.stages:
            x = stage(x).relu()
            features.append(x)
        found = [self.sides[2](features[2])]
        for k in (1, 0):
            size = features[k].shape[2:]
            up = nn.functional.interpolate(found[0], size=size, mode="bilinear")
            found.insert(0, self.sides[k](features[k]) + up)
        return found


class StateSpace(nn.Module):
    """A diagonal state-space layer as a causal convolution of any length: S4D."""

    def __init__(self, c: int = 6, state: int = 4) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.rand(c, state) + 0.1)
        self.read = nn.Parameter(torch.randn(c, state))
        self.out = nn.Linear(c, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(x.shape[1])
        kernel = torch.einsum("cs,csl->cl", self.read, torch.exp(-self.decay[..., None] * at))
        apart = at[:, None] - at
        weights = torch.where(apart >= 0, kernel[:, apart.clamp(min=0)], 0.0)
        return self.out(torch.einsum("cts,bsc->btc", weights, x)).relu() + x


class Llama(nn.Module):
    """Keys and values in buffers that a call writes in place, after any number of tokens."""

    def __init__(self, length: int = 64) -> None:
        super().__init__()
        self.length, self.embed = length, nn.Embedding(31, 16)
        self.qkv, self.out = nn.Linear(16, 48, bias=False), nn.Linear(16, 31, bias=False)
        self.norm = nn.RMSNorm(16)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, length, 8))

    def forward(self, tokens: torch.Tensor, past: int) -> torch.Tensor:
        end = past + tokens.shape[1]
        torch._check(end <= self.length)
        x = self.embed(tokens)
        q, k, v = (
            t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        self.keys[:, :, past:end], self.values[:, :, past:end] = k, v
        mask = torch.arange(end)[None] <= torch.arange(past, end)[:, None]
        y = nn.functional.scaled_dot_product_attention(
            q, self.keys[:, :, :end], self.values[:, :, :end], attn_mask=mask
        )
        return self.out(x + y.transpose(1, 2).flatten(2))


def with_past(
    b: int, n: int, past: int, layers: int = 2, width: int = 4
) -> tuple[torch.Tensor, ...]:
    return (ids(b, n), *(torch.randn(b, 2, past, width) for _ in range(2 * layers)))


def two_texts(b: int, s: int, t: int) -> tuple[Any, ...]:
    return ids(b, s), None, ids(b, t)


_TEXTS = ((1, 1, 1), (1, 7, 3), (3, 2, 1), (2, 13, 5), (5, 11, 17))
_PAST = ((1, 1, 1), (1, 1, 13), (2, 3, 7), (3, 1, 11), (1, 5, 2))

ARCHITECTURES: dict[str, Architecture] = {
    "resnet": images(modules.ResNet),
    "mobilenet_v3": images(modules.MobileNetV3),
    "convnext": images(modules.ConvNeXt),
    "densenet": images(DenseNet),
    "pyramid": images(Pyramid),
    "vit": batches(modules.ViT, 3, 16, 16),
    "mixer": batches(Mixer, 3, 16, 16),
    "swin": Architecture(
        lambda: nn.Sequential(
            modules.SwinBlock(8, 2, 0), modules.SwinBlock(8, 2, 1)
        ),
        lambda b, h, w: (image(b, 2 * h, 2 * w, 8),), ((0, 1, 2),), "b h/2 w/2", (2, 3, 4),
        ((1, 1, 2), (3, 2, 2), (1, 5, 3), (2, 7, 1), (5, 4, 5), (1, 3, 2), (3, 11, 7)),
    ),
    "unet": Architecture(
        modules.UNet,
        lambda b, h, w: (image(b, 2, 2 * h, 2 * w), torch.rand(b) * 9), ((0, 2, 3), (0,)),
        "b h/2 w/2", (2, 8, 6), ((1, 4, 4), (3, 5, 7), (1, 13, 11), (2, 3, 17), (5, 6, 2)),
    ),
    "autoencoder": Architecture(
        Autoencoder,
        lambda b, h, w: (image(b, 3, 4 * h, 4 * w), image(b, 4, h, w)), ((0, 2, 3), (0, 2, 3)),
        "b h/4 w/4", (2, 6, 5),
        ((1, 1, 1), (3, 2, 7), (1, 11, 3), (2, 5, 5), (5, 3, 13), (7, 2, 2)),
    ),
    "diffusion unet": Architecture(
        Denoiser,
        lambda b, h, w, s: (image(b, 3, 2 * h, 2 * w), torch.rand(b) * 9, image(b, s, 6)),
        ((0, 2, 3), (0,), (0, 1)), "b h/2 w/2 s", (2, 6, 5, 4),
        ((1, 2, 2, 1), (3, 3, 4, 7), (1, 7, 5, 2), (2, 11, 3, 13), (5, 2, 3, 5)),
    ),
    "detr": images(detr),
    "segformer": images(lambda: hub("Segformer", "Model", **SEGFORMER)),
    "mobilenet_v2": batches(lambda: hub("MobileNetV2", "Model", depth_multiplier=0.2), 3, 32, 32),
    "efficientnet": images(
        lambda: hub("EfficientNet", "Model", in_channels=[32], out_channels=[8], hidden_dim=320,
                    kernel_sizes=[3], strides=[2], num_block_repeats=[1], expand_ratios=[2],
                    depthwise_padding=[], width_coefficient=0.25)
    ),
    "regnet": images(
        lambda: hub("RegNet", "Model", embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1],
                    groups_width=4)
    ),
    "dinov2": batches(lambda: hub("Dinov2", "Model", **VISION), 3, 16, 16),
    "deit": batches(lambda: hub("DeiT", "Model", **VISION), 3, 16, 16),
    "lstm": Architecture(
        modules.Recurrent, lambda b: (ids(5, b) % 11,), ((1,),), "b", (3,), BATCHES
    ),
    "mamba": Architecture(
        modules.Mamba, lambda b: (image(b, 7, 6),), ((0,),), "b", (3,), BATCHES
    ),
    "state space": Architecture(
        StateSpace, lambda b, s: (image(b, s, 6),), ((0, 1),), "b s", (2, 5), TOKENS
    ),
    "bert": masked(encoder("Bert")),
    "roberta": masked(encoder("Roberta")),
    "albert": masked(encoder("Albert", embedding_size=8)),
    "electra": masked(encoder("Electra", embedding_size=8)),
    "distilbert": masked(
        lambda: hub("DistilBert", "Model", vocab_size=31, dim=16, n_layers=2, n_heads=4,
                    hidden_dim=24, max_position_embeddings=64)
    ),
    "deberta": masked(encoder("DebertaV2", relative_attention=True, position_buckets=8,
                              pos_att_type=["p2c", "c2p"])),
    "modernbert": masked(encoder("ModernBert", pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                 cls_token_id=1, sep_token_id=2)),
    "fnet": tokens(lambda: hub("FNet", "Model", **{**SMALL, "pad_token_id": 0})),
    "gpt2": tokens(
        lambda: hub("GPT2", "LMHeadModel", {"use_cache": False}, vocab_size=31, n_positions=64,
                    n_embd=16, n_layer=2, n_head=4)
    ),
    "llama": tokens(decoder("Llama")),
    "mistral": tokens(decoder("Mistral", sliding_window=4)),
    "qwen2": tokens(decoder("Qwen2")),
    "qwen3": tokens(decoder("Qwen3", head_dim=4)),
    "gemma": tokens(decoder("Gemma", num_key_value_heads=1, head_dim=4)),
    "gemma2": tokens(decoder("Gemma2", head_dim=4)),
    "phi3": tokens(decoder("Phi3", pad_token_id=0)),
    "opt": tokens(
        lambda: hub("OPT", "ForCausalLM", {"use_cache": False}, vocab_size=31, hidden_size=16,
                    num_hidden_layers=2, ffn_dim=24, num_attention_heads=4,
                    max_position_embeddings=64, word_embed_proj_dim=16)
    ),
    "gpt_neox": tokens(decoder("GPTNeoX")),
    "bloom": tokens(
        lambda: hub("Bloom", "ForCausalLM", {"use_cache": False}, vocab_size=31, hidden_size=16,
                    n_layer=2, n_head=4)
    ),
    "mixtral": tokens(mixture("Mixtral", num_local_experts=4)),
    "qwen2 moe": tokens(mixture("Qwen2Moe", num_experts=4, num_experts_per_tok=2,
                                moe_intermediate_size=8, shared_expert_intermediate_size=8)),
    "llama with given cache": Architecture(
        cached, with_past, ((0, 1), (0, 2), (0, 2), (0, 2), (0, 2)), "b n past", (2, 2, 3), _PAST
    ),
    "llama with own cache": Architecture(
        Llama, lambda n, past: (ids(1, n), past), ((1,), True), "n past", (3, 5),
        ((1, 0), (7, 1), (1, 8), (1, 9), (13, 10), (2, 23)),
    ),
    "t5": Architecture(
        lambda: hub("T5", "Model", {"use_cache": False}, **T5), two_texts, ((0, 1), None, (0, 1)),
        "b s t", (2, 5, 3), _TEXTS,
    ),
    "bart": Architecture(
        lambda: hub("Bart", "Model", {"use_cache": False}, **BART), two_texts,
        ((0, 1), None, (0, 1)), "b s t", (2, 5, 3), _TEXTS,
    ),
    "whisper": Architecture(
        lambda: hub("Whisper", "Model", {"use_cache": False}, **WHISPER),
        lambda b, t: (image(b, 8, 20), None, ids(b, t)), ((0,), None, (0, 1)), "b t", (2, 4),
        TOKENS,
    ),
    "wav2vec2": Architecture(
        lambda: hub("Wav2Vec2", "Model", **WAVES), lambda b, t: (image(b, t),), ((0, 1),), "b t",
        (2, 120), ((1, 101), (3, 64), (1, 257), (2, 83), (5, 47)),
    ),
    "clip": Architecture(
        clip, lambda b, s, n: (ids(b, s), image(n, 3, 8, 8)), ((0, 1), (0,)), "b s n", (2, 4, 3),
        _TEXTS,
    ),
}  # fmt: skip
