"""Small models with open sizes: where they are open, and arguments of other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

DYNAMIC = torch.export.Dim.DYNAMIC


class Layer(nn.Module):
    """Attention and a perceptron, as in GPT-2 and BERT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        b, s, width = x.shape
        parts = self.qkv(self.norms[0](x)).split(width, 2)
        q, k, v = (p.view(b, s, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class Decoder(nn.Module):
    """GPT-2: causal attention over learnt positions."""

    def __init__(
        self, width: int = 8, heads: int = 2, layers: int = 1, positions: int = 16
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(31, width), nn.Embedding(positions, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 31, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Encoder(nn.Module):
    """BERT: a mask, and the first position apart."""

    def __init__(self, width: int = 8, heads: int = 2, positions: int = 16) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(31, width), nn.Embedding(positions, width)
        self.layer, self.pooler = Layer(width, heads), nn.Linear(width, width)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        y = self.layer(x, mask[:, None, None, :] != 0)
        return y, torch.tanh(self.pooler(y[:, 0]))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        y = F.relu(self.second(y) + y)
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Cached(nn.Module):
    """A layer of LLaMA: rotated positions, grouped heads, and keys and values of earlier calls."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 24, bias=False) for _ in range(2))
        self.down = nn.Linear(24, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.register_buffer("steps", 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))

    def rotated(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        angles = torch.cat([at[:, None] * self.steps] * 2, -1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        past, y = keys.shape[2], self.norms[0](x)
        at = torch.arange(past, past + x.shape[1])
        q = self.rotated(self.split(self.q(y), self.heads), at)
        k = self.rotated(self.split(self.k(y), self.groups), at)
        k, v = torch.cat([keys, k], 2), torch.cat([values, self.split(self.v(y), self.groups)], 2)
        mask = torch.arange(k.shape[2])[None] <= at[:, None]
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.out(z.transpose(1, 2).reshape(x.shape))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


def _ids(b: int, s: int) -> torch.Tensor:
    return torch.randint(0, 31, (b, s))


def _mask(b: int, s: int) -> torch.Tensor:
    mask = torch.randint(0, 2, (b, s))
    mask[:, :1] = 1
    return mask


def _names() -> dict[int, Any]:
    return {0: torch.export.Dim("b"), 1: torch.export.Dim("s", max=16)}


Made = tuple[Callable[[], nn.Module], Callable[[int, int], tuple[Any, ...]], Any]
MODELS: dict[str, Made] = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1)),
        lambda b, s: (torch.randn(b, 8),),
        ({0: torch.export.Dim("n")},),
    ),
    "decoder": (Decoder, lambda b, s: (_ids(b, s),), (_names(),)),
    "encoder": (Encoder, lambda b, s: (_ids(b, s), _mask(b, s)), (_names(), _names())),
    "images": (
        Images, lambda b, s: (torch.randn(b, 3, 12, 15),), ({0: torch.export.Dim("n")},)
    ),
    "images of any size": (
        Images,
        lambda b, s: (torch.randn(b, 3, s + 9, 2 * s + 7),),
        ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},),
    ),
    "cached": (
        Cached,
        lambda b, s: (torch.randn(b, s, 16), *(torch.randn(b, 2, s + b, 4) for _ in range(2))),
        ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 2: DYNAMIC}, {0: DYNAMIC, 2: DYNAMIC}),
    ),
}  # fmt: skip


def exported_open(name: str) -> tuple[nn.Module, Any]:
    """The model ``name``, and what PyTorch exports of it."""
    torch.manual_seed(0)
    make, arguments, shapes = MODELS[name]
    model = make().eval()
    return model, torch.export.export(model, arguments(2, 5), dynamic_shapes=shapes)
