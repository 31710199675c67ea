"""Small models of well-known architectures, with random weights: what the front end must take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Model = tuple[nn.Module, tuple[Any, ...]]


def conv_bn(c: int, k: int, kernel: int, act: type[nn.Module] | None, **how: Any) -> nn.Sequential:
    padding = kernel // 2 * how.get("dilation", 1)
    layers = [nn.Conv2d(c, k, kernel, padding=padding, bias=False, **how), nn.BatchNorm2d(k)]
    return nn.Sequential(*layers, *([act()] if act else []))


class ResidualBlock(nn.Module):
    def __init__(self, c: int, k: int, stride: int) -> None:
        super().__init__()
        self.a = conv_bn(c, k, 3, nn.ReLU, stride=stride)
        self.b = conv_bn(k, k, 3, None)
        self.skip = conv_bn(c, k, 1, None, stride=stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.b(self.a(x)) + self.skip(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 8, 7, nn.ReLU, stride=2), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(ResidualBlock(8, 8, 1), ResidualBlock(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.flatten(self.pool(self.layers(self.stem(x))), 1))


class SqueezeExcite(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(c, 4, 1), nn.Conv2d(4, c, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class MobileNetV3(nn.Module):
    def __init__(self, c: int = 8) -> None:
        super().__init__()
        self.stem = conv_bn(3, c, 3, nn.Hardswish, stride=2)
        self.expand = conv_bn(c, 3 * c, 1, nn.Hardswish)
        self.depthwise = conv_bn(3 * c, 3 * c, 5, nn.Hardswish, groups=3 * c, stride=2)
        self.se, self.project = SqueezeExcite(3 * c), conv_bn(3 * c, 12, 1, None)
        self.fc = nn.Sequential(
            nn.Linear(12, 16), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(16, 4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.se(self.depthwise(self.expand(self.stem(x)))))
        return self.fc(F.adaptive_avg_pool2d(y, 1).flatten(1))


class ConvNeXtBlock(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.norm, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.gamma = nn.Parameter(torch.full((c,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.Sequential(ConvNeXtBlock(8), ConvNeXtBlock(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.patches(x)).mean((-2, -1))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1) + self.positions
        return self.encoder(y)[:, 0]


class SwinBlock(nn.Module):
    """Attention in shifted windows, with a bias by relative position and a mask."""

    def __init__(self, c: int, size: int, shift: int) -> None:
        super().__init__()
        self.size, self.shift = size, shift
        self.qkv, self.out, self.norm = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.LayerNorm(c)
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, 2))
        at = torch.stack(torch.meshgrid(*[torch.arange(size)] * 2, indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None]) + size - 1
        self.register_buffer("index", apart[0] * (2 * size - 1) + apart[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        n, size = self.size * self.size, self.size
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        y = y.view(b, h // size, size, w // size, size, c).transpose(2, 3).reshape(-1, n, c)
        q, k, v = self.qkv(y).reshape(-1, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / (c // 2) ** 0.5
        scores = scores + self.table[self.index.view(-1)].view(n, n, 2).permute(2, 0, 1)
        image = x.new_zeros(h, w)
        image[h - self.shift :] = 1
        regions = image.view(h // size, size, w // size, size).transpose(1, 2).reshape(-1, 1, 1, n)
        mask = (regions != regions.transpose(2, 3)).repeat(b, 1, 1, 1)
        scores = scores.masked_fill(mask, -100.0)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c))
        y = y.view(b, h // size, w // size, size, size, c).transpose(2, 3).reshape(b, h, w, c)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 8, 3, stride=2, padding=1)
        self.norm, self.middle = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.transposed = nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.last = nn.Conv2d(6, 1, 1)
        self.time = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * torch.exp(torch.arange(3) * -0.5)
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        y = F.silu(self.norm(self.down(x))) + time[..., None, None]
        up = F.interpolate(F.silu(self.middle(y)), scale_factor=2.0, mode="nearest")
        y = self.transposed(y) + up[:, :4]
        return self.last(torch.cat([y, x], 1))


class Recurrent(nn.Module):
    def __init__(self, width: int = 6, hidden: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.lstm, self.gru = nn.LSTM(width, hidden, 2, bidirectional=True), nn.GRU(2 * hidden, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y, (h, _) = self.lstm(self.embed(ids))
        return self.gru(y)[0] + h.mean()


class Mamba(nn.Module):
    """A selective state space layer (Gu and Dao, 2023), its recurrence written out."""

    def __init__(self, c: int = 6, state: int = 4) -> None:
        super().__init__()
        self.input, self.conv = nn.Linear(c, 2 * c), nn.Conv1d(c, c, 4, padding=3, groups=c)
        self.select, self.step = nn.Linear(c, 2 * state + 1), nn.Linear(1, c)
        self.a = nn.Parameter(torch.log(torch.arange(1.0, state + 1).repeat(c, 1)))
        self.d, self.out, self.state = nn.Parameter(torch.ones(c)), nn.Linear(c, c), state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        y, gate = self.input(x).chunk(2, -1)
        y = F.silu(self.conv(y.transpose(1, 2))[..., :length].transpose(1, 2))
        step, b, c = self.select(y).split([1, self.state, self.state], -1)
        step = F.softplus(self.step(step))
        decay = torch.exp(step[..., None] * -self.a.exp())
        drive = (step * y)[..., None] * b[:, :, None]
        h, found = torch.zeros_like(drive[:, 0]), []
        for t in range(length):
            h = decay[:, t] * h + drive[:, t]
            found.append((h * c[:, t, None]).sum(-1))
        return self.out((torch.stack(found, 1) + y * self.d) * F.silu(gate))


def _image(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def _ids(*shape: int, below: int = 31) -> torch.Tensor:
    return torch.randint(0, below, shape)


MODELS: dict[str, Callable[[], Model]] = {
    "resnet": lambda: (ResNet(), (_image(2, 3, 33, 32),)),
    "mobilenet_v3": lambda: (MobileNetV3(), (_image(1, 3, 19, 23),)),
    "convnext": lambda: (ConvNeXt(), (_image(1, 3, 32, 28),)),
    "vit": lambda: (ViT(), (_image(2, 3, 16, 16),)),
    "swin": lambda: (
        nn.Sequential(SwinBlock(8, 2, 0), SwinBlock(8, 2, 1)), (_image(2, 6, 4, 8),)
    ),
    "unet": lambda: (UNet(), (_image(2, 2, 16, 12), torch.tensor([3.0, 7.0]))),
    "lstm": lambda: (Recurrent(), (_ids(5, 3, below=11),)),
    "mamba": lambda: (Mamba(), (_image(2, 7, 6),)),
}  # fmt: skip


class Outputs(nn.Module):
    """A model of ``transformers``: its tensors alone, as a tuple."""

    def __init__(self, model: nn.Module, **fixed: Any) -> None:
        super().__init__()
        self.model, self.fixed = model, fixed

    def forward(self, *args: torch.Tensor, **named: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(*args, **named, **self.fixed, return_dict=True)
        return tuple(v for v in found.values() if isinstance(v, torch.Tensor))


_SMALL = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 24}  # fmt: skip


def bert() -> Model:
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**_SMALL, max_position_embeddings=16))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    return Outputs(model), (_ids(2, 5), mask)


def gpt2() -> Model:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=31, n_positions=16, n_embd=16, n_layer=2, n_head=4)
    return Outputs(GPT2LMHeadModel(config), use_cache=False), (_ids(2, 5),)


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_SMALL, num_key_value_heads=2, max_position_embeddings=16)
    return LlamaForCausalLM(config)


def llama() -> Model:
    return Outputs(_llama(), use_cache=False), (_ids(2, 5),)


class Cached(nn.Module):
    """One step of decoding, with the keys and values of earlier ones as arguments."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.model(ids, past_key_values=cache, use_cache=True)
        layers = found.past_key_values.layers
        return found.logits, *(t for layer in layers for t in (layer.keys, layer.values))


def llama_cached() -> Model:
    past = [torch.randn(2, 2, 3, 4) for _ in range(4)]
    return Cached(_llama()), (_ids(2, 1), *past)


def whisper() -> Model:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=31, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
        decoder_ffn_dim=24, max_source_positions=10, max_target_positions=8, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    named = WhisperModel(config)
    return Outputs(named, use_cache=False), (_image(1, 8, 20), None, _ids(1, 4))


def t5() -> Model:
    from transformers import T5Config, T5Model

    config = T5Config(
        vocab_size=31, d_model=16, d_kv=4, d_ff=24, num_layers=1, num_heads=4,
        relative_attention_num_buckets=8, decoder_start_token_id=0,
    )  # fmt: skip
    return Outputs(T5Model(config), use_cache=False), (_ids(2, 5), None, _ids(2, 3))


def clip() -> Model:
    from transformers import CLIPConfig, CLIPModel

    text = {**_SMALL, "max_position_embeddings": 8, "projection_dim": 8, "eos_token_id": 30,
            "bos_token_id": 0, "pad_token_id": 1}  # fmt: skip
    vision = {**{k: v for k, v in _SMALL.items() if k != "vocab_size"}, "image_size": 8,
              "patch_size": 4, "projection_dim": 8}  # fmt: skip
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
    ids = torch.tensor([[0, 5, 7, 30], [0, 9, 30, 30]])
    return Outputs(model), (ids, _image(2, 3, 8, 8))


def mixtral() -> Model:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(**_SMALL, num_key_value_heads=2, num_local_experts=4)
    model = MixtralForCausalLM(config)
    model.set_experts_implementation("batched_mm")
    return Outputs(model, use_cache=False), (_ids(1, 4),)


def gemma() -> Model:
    from transformers import GemmaConfig, GemmaForCausalLM

    config = GemmaConfig(**_SMALL, num_key_value_heads=1, head_dim=4)
    return Outputs(GemmaForCausalLM(config), use_cache=False), (_ids(2, 5),)


TRANSFORMERS: dict[str, Callable[[], Model]] = {
    f.__name__: f
    for f in (bert, gpt2, llama, llama_cached, whisper, t5, clip, gemma, mixtral)
}  # fmt: skip
