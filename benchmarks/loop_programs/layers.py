"""Layers of neural networks as loops."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import math

import weft
from weft.benchmarks.loop_programs.program import Program, float32, zeros32


@weft.kernel
def softmax_rows(x: weft.f32["N", "M"], y: weft.f32["N", "M"]):
    for i in range(N):
        top = weft.f32(-1e30)
        for j in range(M):
            top = max(top, x[i, j])
        total = weft.f32(0.0)
        for j in range(M):
            y[i, j] = math.exp(x[i, j] - top)
            total += y[i, j]
        for j in range(M):
            y[i, j] = y[i, j] / total


@weft.kernel
def layer_norm(x: weft.f32["N", "M"], g: weft.f32["M"], b: weft.f32["M"], y: weft.f32["N", "M"]):
    for i in range(N):
        mean = weft.f32(0.0)
        for j in range(M):
            mean += x[i, j]
        mean = mean / M
        var = weft.f32(0.0)
        for j in range(M):
            d = x[i, j] - mean
            var += d * d
        scale = 1.0 / math.sqrt(var / M + 1e-5)
        for j in range(M):
            y[i, j] = (x[i, j] - mean) * scale * g[j] + b[j]


@weft.kernel
def attention(
    q: weft.f32["N", "D"], k: weft.f32["N", "D"], v: weft.f32["N", "D"], y: weft.f32["N", "D"]
):
    s = weft.empty((N,), weft.f32)
    for i in range(N):
        top = weft.f32(-1e30)
        for j in range(N):
            s[j] = 0.0
            for d in range(D):
                s[j] += q[i, d] * k[j, d]
            top = max(top, s[j])
        total = weft.f32(0.0)
        for j in range(N):
            s[j] = math.exp(s[j] - top)
            total += s[j]
        for d in range(D):
            y[i, d] = 0.0
        for j in range(N):
            for d in range(D):
                y[i, d] += s[j] / total * v[j, d]


@weft.kernel
def causal_attention_scores(q: weft.f32["N", "D"], k: weft.f32["N", "D"], s: weft.f32["N", "N"]):
    for i in range(N):
        for j in range(i + 1):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += q[i, d] * k[j, d]


@weft.kernel
def rnn(x: weft.f32["T", "N"], W: weft.f32["N", "N"], h: weft.f32["T + 1", "N"]):
    for t in range(T):
        for i in range(N):
            s = x[t, i]
            for j in range(N):
                s += W[i, j] * h[t, j]
            h[t + 1, i] = math.tanh(s)


LAYERS = {
    "softmax_rows": Program(
        softmax_rows, lambda n: (float32(n, n, n + 1), zeros32(n, n + 1)), 1500
    ),
    "layer_norm": Program(
        layer_norm,
        lambda n: (float32(n, n, n + 1), float32(n, n + 1), float32(n, n + 1), zeros32(n, n + 1)),
        2000,
    ),
    "attention": Program(
        attention, lambda n: (*(float32(n + i, n, 32) for i in range(3)), zeros32(n, 32)), 800
    ),
    "causal_attention_scores": Program(
        causal_attention_scores,
        lambda n: (float32(n, n, 40), float32(n, n, 40), zeros32(n, n)),
        1500,
    ),
    "rnn": Program(
        rnn, lambda n: (float32(n, n, n), float32(n, n, n) / (n + 1), zeros32(n + 1, n)), 400
    ),
}  # fmt: skip
