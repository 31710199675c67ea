"""A language model writes text: keys and values of earlier tokens stay where they are.

A model like LLaMA is exported from PyTorch once, for any number of new tokens after any number of
earlier ones, and compiled once: the whole prompt goes through the same program as each token after
it. Its buffers of keys and values are state, of which a call writes the new positions alone. A
version for one token at a time streams the weights as fast as memory gives them.

    python examples/12_generate.py                a small model, random weights, checked
    python examples/12_generate.py --large        100 million parameters, and how fast it is
"""

import sys
import time

import numpy as np

import weft

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    raise SystemExit(print("this example needs PyTorch: pip install 'weft[torch]'")) from None

SMALL = {"words": 61, "width": 32, "heads": 4, "groups": 2, "hidden": 48, "layers": 1}
LARGE = {"words": 16384, "width": 768, "heads": 12, "groups": 4, "hidden": 2048, "layers": 12}
LENGTH = 256  # of prompt and answer together


class Layer(nn.Module):
    """Attention over all earlier positions, whose heads share keys in groups, and a gated MLP."""

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.register_buffer("keys", torch.zeros(1, groups, LENGTH, self.size))
        self.register_buffer("values", torch.zeros(1, groups, LENGTH, self.size))

    def split(self, x):
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def forward(self, x, turn, mask, past, end):
        y = self.before(x)
        self.keys[:, :, past:end] = turned(self.split(self.k(y)), turn)
        self.values[:, :, past:end] = self.split(self.v(y))
        keys, values = self.keys[:, :, :end], self.values[:, :, :end]
        q = turned(self.split(self.q(y)), turn)
        z = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(z.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def turned(x, turn):
    """Rotary positions: pairs of elements turned by the angles whose (cos, sin) is ``turn``."""
    (cos, sin), (a, b) = turn, x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Llama(nn.Module):
    """From tokens (1, n), which follow on ``past`` others, to scores of the next one."""

    def __init__(self, words: int, width: int, heads: int, groups: int, hidden: int, layers: int):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.layers = nn.ModuleList(Layer(width, heads, groups, hidden) for _ in range(layers))
        self.norm, size = nn.RMSNorm(width), width // heads
        self.register_buffer("speeds", 10000.0 ** (-torch.arange(0, size, 2) / size))

    def forward(self, tokens, past):
        end = past + tokens.shape[1]
        torch._check(end <= LENGTH)
        at = torch.arange(past, end)[:, None]
        angles, mask = at * self.speeds, torch.arange(end)[None] <= at
        x, turn = self.embed(tokens), (angles.cos(), angles.sin())
        for layer in self.layers:
            x = layer(x, turn, mask, past, end)
        return self.head(self.norm(x[:, -1]))


def generate(model, prompt, count):
    """``count`` tokens after ``prompt``, the likeliest each time, and the seconds of each call."""
    tokens, past, found, seconds = prompt, 0, [], []
    for _ in range(count):
        begin = time.perf_counter()
        scores = model(tokens, past)
        seconds.append(time.perf_counter() - begin)
        past += tokens.shape[1]
        tokens = scores.argmax(-1, keepdim=True)
        found.append(int(tokens))
    return found, seconds


large = "--large" in sys.argv
torch.manual_seed(0)
model = Llama(**(LARGE if large else SMALL)).eval().requires_grad_(False)
prompt = torch.randint(0, 61, (1, 17))
sizes = {"tokens": {1: torch.export.Dim("n", max=LENGTH - 1)}, "past": torch.export.Dim.DYNAMIC}
exported = torch.export.export(model, (prompt, 3), dynamic_shapes=sizes)
options = weft.Options() if large else weft.Options(effort="quick")
program = weft.compile(exported, specialize=[{"n": 1}] if large else [], options=options)

found, seconds = generate(program, prompt, 40)
expected, eager = generate(model, prompt, 40)
assert found == expected, (found, expected)
keys = program.state["layers.0.keys"]
np.testing.assert_allclose(keys, model.layers[0].keys, rtol=1e-4, atol=1e-5)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters; the prompt, then one by one:")
print(*found, "\nas PyTorch does")
if large:
    for name, times in ("weft", seconds), ("PyTorch", eager):
        print(
            f"{name}: {np.median(times[1:]) * 1e3:.1f} ms a token, {times[0] * 1e3:.1f} the prompt"
        )
