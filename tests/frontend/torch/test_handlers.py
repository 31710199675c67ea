"""Every family of handlers computes what PyTorch computes, on shapes and dtypes that tempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

import torch.nn.functional as F  # noqa: E402

from tests.frontend.torch.run_torch import direct  # noqa: E402
from weft.frontend.torch.exported import import_exported  # noqa: E402
from weft.ir.errors import ExecutionError, UnsupportedError  # noqa: E402

aten = torch.ops.aten
i64, i32, i8, u8, f64, bf16 = (
    torch.int64, torch.int32, torch.int8, torch.uint8, torch.float64, torch.bfloat16,
)  # fmt: skip


def r(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Random numbers: floats around 0, small integers of both signs, bools."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    low = 0 if dtype in (u8, torch.bool) else -4
    return torch.randint(low, 2 if dtype is torch.bool else 5, shape, generator=generator).to(dtype)


def ids(*shape: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(1))


def odd() -> torch.Tensor:
    """Numbers that are none, infinities, and zeros of both signs."""
    return torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -2.5, 3.0])


def series_arguments() -> torch.Tensor:
    """On both sides of where one series takes over from another, and far out."""
    near = torch.tensor([0.0, 1e-3, 5.6, 5.7, 8.99, 9.01, 30.0, 80.0])
    return torch.cat([near, -near, torch.linspace(-12, 12, 49)])


SERIES = [
    getattr(torch.special, name)
    for name in (
        "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0",
        "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
        "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "i0", "i0e", "i1", "i1e",
        "spherical_bessel_j0", "airy_ai",
    )
]  # fmt: skip

CHEBYSHEV = [
    getattr(torch.special, f"{shifted}chebyshev_polynomial_{kind}")
    for kind in "tuvw"
    for shifted in ("", "shifted_")
]

REDUCTIONS_AT = ("sum", "prod", "amax", "amin", "mean")

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
nonzero = torch.tensor([-3, -2, 1, 2, 5])

POINTWISE: dict[str, Case] = {
    "broadcast": (lambda a, b: a + b * 2, (r(3, 1, 5), r(7, 1))),
    "not contiguous": (lambda a, b: a - b, (r(5, 3).t(), r(3, 10)[:, ::2])),
    "empty": (lambda a, b: a * b, (r(0, 3), r(1, 3))),
    "alpha": (lambda a, b: torch.sub(a, b, alpha=3), (r(4), r(4, seed=1))),
    "rsub": (lambda a: torch.rsub(a, 2, alpha=3), (r(4),)),
    "int and float": (lambda a, b: a + b, (r(4, dtype=i32), r(4))),
    "int and number": (lambda a: a * 1.5, (r(4, dtype=i64),)),
    "scalar tensor keeps dtype": (lambda a, b: a * b, (r(4), torch.tensor(2.0, dtype=f64))),
    "int8 and int64": (lambda a, b: a * b, (r(9, dtype=i8), r(9, dtype=i64, seed=1))),
    "uint8 and int8": (lambda a, b: a - b, (r(9, dtype=u8), r(9, dtype=i8))),
    "bools": (lambda a, b: (a + b, a * b), (r(9, dtype=torch.bool), r(9, dtype=torch.bool))),
    "bfloat16": (lambda a, b: a * 0.3 + b, (r(9, dtype=bf16), r(9, dtype=bf16, seed=1))),
    "true division of ints": (lambda a, b: a / b, (r(5, dtype=i64), nonzero)),
    "divisions": (
        lambda a, b: [torch.div(a, b, rounding_mode=m) for m in (None, "trunc", "floor")],
        (odd()[:, None], odd()[None]),
    ),
    "divisions of ints": (
        lambda a, b: [torch.div(a, b, rounding_mode=m) for m in ("trunc", "floor")],
        (r(9, 1, dtype=i64), nonzero),
    ),
    "remainders": (
        lambda a, b: (torch.remainder(a, b), torch.fmod(a, b)), (odd()[:, None], odd()[None])
    ),
    "remainders of ints": (
        lambda a, b: (a % b, torch.fmod(a, b)), (r(9, 1, dtype=i32), nonzero.int())
    ),
    "powers": (
        lambda a: [torch.pow(a, e) for e in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5)], (odd(),)
    ),
    "powers of tensors": (lambda a, b: a.abs() ** b, (r(4, 1), r(5))),
    "powers of ints": (lambda a: (a**2, a**3, 2**a.abs()), (r(9, dtype=i64),)),
    "extremes": (
        lambda a, b: (torch.maximum(a, b), torch.minimum(a, b), torch.fmax(a, b), torch.fmin(a, b)),
        (odd()[:, None], odd()[None]),
    ),
    "clamp": (lambda a: (a.clamp(-1, 2), a.clamp(min=0), a.clamp(max=0)), (odd(),)),
    "clamp by tensors": (lambda a, b, c: torch.clamp(a, b, c), (r(5), r(3, 1), r(5, seed=2))),
    "comparisons": (
        lambda a, b: (a == b, a != b, a < b, a <= b, a > b, a >= b), (odd()[:, None], odd()[None])
    ),
    "int against float number": (lambda a: (a > 1.5, a == 2), (r(9, dtype=i64),)),
    "logic": (
        lambda a, b: (torch.logical_and(a, b), torch.logical_or(a, b), torch.logical_xor(a, b),
                      torch.logical_not(a)),
        (r(9), r(9, dtype=i32)),
    ),
    "bits": (
        lambda a, b: (a & b, a | b, a ^ b, ~a, a << b.abs(), a >> b.abs()),
        (r(9, dtype=i64), r(9, dtype=i64, seed=1)),
    ),
    "where": (lambda c, a, b: torch.where(c, a, b), (r(5, 1) > 0, r(7), r(7, dtype=f64))),
    "tests": (
        lambda a: (a.isnan(), a.isinf(), a.isfinite(), a.isposinf(), a.isneginf(), a.signbit()),
        (odd(),),
    ),
    "tests of ints": (lambda a: (a.isnan(), a.isfinite(), a.signbit()), (r(5, dtype=i32),)),
    "functions": (
        lambda a: [getattr(torch, f)(a) for f in (
            "cos", "sin", "exp", "exp2", "expm1", "sigmoid", "tanh", "erf", "atan", "asinh",
            "floor", "ceil", "trunc", "round", "sign", "sgn", "abs", "neg", "relu", "square",
        )],
        (r(11),),
    ),
    "functions of what is positive": (
        lambda a: [getattr(torch, f)(a) for f in (
            "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal",
        )],
        (r(11).abs() + 0.1,),
    ),
    "functions of ints": (lambda a: (a.sqrt(), a.exp(), a.floor(), a.abs()), (r(9, dtype=i64),)),
    "hypot": (lambda a, b: torch.hypot(a, b), (odd()[:, None], odd()[None])),
    "atan2": (lambda a, b: (torch.atan2(a, b), a.copysign(b)), (r(7), r(7, seed=1))),
    "activations": (
        lambda a: [f(a) for f in (
            F.gelu, F.silu, F.mish, F.softplus, F.elu, F.selu, F.celu, F.hardswish, F.hardsigmoid,
            F.leaky_relu, F.logsigmoid, F.hardtanh, F.softshrink, F.tanhshrink,
        )] + [F.gelu(a, approximate="tanh")],
        (r(3, 7),),
    ),
    "special": (
        lambda a: (torch.special.erfc(a), a.lgamma(), a.digamma()),
        (torch.cat([odd(), torch.tensor([9.0, -1.0, -0.5, 1.0, 2.0, 0.1, 4.9, -7.3, 60.0])]),),
    ),
    "inverse error function": (
        lambda a: torch.erfinv(a), (torch.tensor([0.0, 1, -1, 2, 0.5, -0.999999, 0.99, 1e-5]),)
    ),
    "scaled complementary error function": (torch.special.erfcx, (r(9) * 3,)),
    "quantiles": (
        torch.special.ndtri,
        (torch.tensor([0.0, 1e-38, 1e-8, 0.0499, 0.05, 0.5, 0.951, 1 - 6e-8, 1, 1.5, -0.1]),),
    ),
    "Bessel and Airy": (lambda a: [f(a) for f in SERIES], (series_arguments(),)),
    "Chebyshev": (
        lambda a, n: [f(g(a), n) for f in CHEBYSHEV for g in (torch.sin, lambda a: a)],
        (r(9, 1) * 2, torch.tensor([-1.0, 0, 1, 2, 3.7, 6, 9])),
    ),
    "Chebyshev's ends": (
        lambda a, n: [f(a, n) for f in CHEBYSHEV],
        (torch.tensor([[1.0], [-1.0], [0.5]]), torch.tensor([0.0, 1, 4, 7])),
    ),
    "zeta": (
        torch.special.zeta,
        (
            torch.tensor([1, 0.5, 1.5, 2, 3, 4, 7.5, 20, 2, 3, 2, 3, 2.5, 2, 3]),
            torch.tensor([2, 2, 2, 0.1, 5, 9, 1.5, 0.7, -2.5, -3.7, -20.25, -15.5, -1.5, -3, 0]),
        ),
    ),
    "polygamma": (
        lambda a: [torch.polygamma(n, a) for n in range(4)],
        (torch.tensor([0.1, 0.5, 1, 3, 10, 50, -0.5, -1.3, -7.25]),),
    ),
    "angles": (lambda a: torch.angle(a), (odd(),)),
    "conversions": (
        lambda a: (a.int(), a.to(u8), a.bool(), a.to(bf16), a.double()), (r(9).abs() * 5,)
    ),
    "bits of floats": (lambda a: a.view(i32), (r(5),)),
}  # fmt: skip


def _chosen(x: torch.Tensor, name: str, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The values, and what is at the places: PyTorch leaves open at which of equal ones."""
    values, places = getattr(x, name)(dim)
    return values, x.gather(dim, places.unsqueeze(dim)).squeeze(dim)


def holes(*shape: int) -> torch.Tensor:
    """Random numbers, half of them NaN, the last row all of them."""
    x = r(*shape)
    x[r(*shape, seed=1) > 0] = float("nan")
    x[-1] = float("nan")
    return x


REDUCTIONS: dict[str, Case] = {
    "medians without NaN": (
        lambda x: (x.nanmedian(), *_chosen(x, "nanmedian", 1), x.nanmedian(0, keepdim=True)[0]),
        (holes(7, 6),),
    ),
    "medians of ints without NaN": (lambda x: _chosen(x, "nanmedian", 1), (r(5, 7, dtype=i64),)),
    "modes": (
        lambda x: (*_chosen(x, "mode", 0), *_chosen(x, "mode", -1), x[0, 0].mode().values),
        (r(6, 7, dtype=i32),),
    ),
    "modes with NaN": (lambda x: x.mode(0), (torch.tensor([float("nan"), 2, 2, float("nan"), 1]),)),
    "histograms of all that there is": (
        lambda x: (x.histc(5), x.histc(1), torch.full_like(x, 2.0).histc(4), x.histc(3, -1, 1)),
        (r(7, 3),),
    ),
    "sums": (lambda a: (a.sum(), a.sum(1), a.sum((0, -1), keepdim=True)), (r(3, 5, 7),)),
    "sum of bools": (lambda a: (a.sum(), a.sum(0)), (r(5, 3, dtype=torch.bool),)),
    "sum of int8": (lambda a: (a.sum(), a.prod(), a.cumsum(0)), (r(5, dtype=i8),)),
    "sum in a dtype": (lambda a: a.sum(0, dtype=f64), (r(5, 3),)),
    "sum of bfloat16": (lambda a: a.sum(), (r(1000, dtype=bf16),)),
    "over nothing": (lambda a: (a.sum(0), a.mean(1), a.prod(0), a.any(0), a.all(0)), (r(0, 3),)),
    "of a scalar": (
        lambda a: (a.sum(0), a.mean(-1), a.amax(0), a.argmax(0), a.softmax(0), a.cumsum(0)),
        (r(),),
    ),
    "products": (lambda a: (a.prod(), a.prod(1), a.mean((0, 2))), (r(3, 5, 2),)),
    "extremes": (lambda a: (a.amax(1), a.amin((0, 1)), a.max(), a.min()), (r(3, 5),)),
    "extremes with places": (lambda a: (*a.max(1), *a.min(0, keepdim=True)), (r(5, 7),)),
    "places": (lambda a: (a.argmax(), a.argmin(1), a.argmax(0, keepdim=True)), (r(3, 5),)),
    "places of NaN": (lambda a: (a.argmax(), *a.max(0)), (odd(),)),
    "any and all": (
        lambda a: (a.any(), a.all(1), a.any(0, keepdim=True)), (r(3, 5, dtype=u8),)
    ),
    "variance": (
        lambda a: (a.var(), a.std(1), a.var((0, 1), correction=0), *torch.var_mean(a, 1)),
        (r(5, 7) + 100,),
    ),
    "variance of one": (lambda a: a.var(0), (r(1, 3),)),
    "norms": (
        lambda a: [torch.linalg.vector_norm(a, p, dim=1) for p in (
            0, 1, 2, 3, float("inf"), -float("inf"))],
        (r(3, 5),),
    ),
    "softmax": (lambda a: (a.softmax(1), a.log_softmax(0), a.logsumexp(1)), (r(3, 5) * 50,)),
    "running": (lambda a: (a.cumsum(1), a.cumprod(0)), (r(3, 5),)),
    "running extremes": (lambda a: (*a.cummax(0), *a.cummin(0)), (odd(),)),
    "sorted": (lambda a: (*a.sort(dim=1, stable=True), *a.sort(0, descending=True)), (r(5, 7),)),
    "topk": (lambda a: (*a.topk(3, 1), *a.topk(2, 0, largest=False)), (r(5, 7),)),
    "kthvalue": (lambda a: (*a.kthvalue(2), *a.kthvalue(3, 0, keepdim=True)), (r(5, 7),)),
    "searchsorted": (
        lambda a, b: (torch.searchsorted(a, b), torch.searchsorted(a, b, right=True)),
        (torch.tensor([1.0, 2, 2, 5]), torch.tensor([0.0, 2, 5, 6, float("nan")])),
    ),
    "cdist": (lambda a, b: [torch.cdist(a, b, p) for p in (1, 2, 3)], (r(5, 3), r(2, 3))),
    "medians": (lambda a: (a.median(), *a.median(0), *a.median(1, keepdim=True)), (r(4, 7),)),
    "median of NaN": (lambda a: (a.median(), *a.median(0)), (odd(),)),
    "logcumsumexp": (lambda a: a.logcumsumexp(0), (torch.stack([odd()[1:], -odd()[1:]]) * 20,)),
    "histc": (lambda a: torch.histc(a, 4, -1, 1), (r(50),)),
}  # fmt: skip

VIEWS: dict[str, Case] = {
    "written as strided": (
        lambda x, y: (torch.as_strided_scatter(x, y, (2, 3), (5, 2), 1),
                      torch.as_strided_scatter(x, y[:, :1], (2, 1), (1, 1))),
        (r(3, 5), r(2, 3, seed=1)),
    ),
    "reshape": (lambda a: (a.reshape(-1), a.view(5, 6) + 0, a.unsqueeze(-1) * 1), (r(3, 10),)),
    "squeeze": (lambda a: (a.squeeze() * 2, a.squeeze(1) * 2, a.squeeze((1, 3)) + 1),
                (r(3, 1, 5, 1),)),
    "transposed": (lambda a: (a.mT * 2, a.permute(2, 0, 1) * 2, a.movedim(0, -1) + 1),
                   (r(2, 3, 5),)),
    "expanded": (lambda a: a.expand(2, -1, 5) * 2, (r(3, 1),)),
    "expanded result": (lambda a: (a * 2).expand(4, 3), (r(3),)),
    "sliced": (lambda a: (a[1:-1, ::2] * 2, a[..., -3:] * 2, a[5:, 9:] * 2), (r(5, 7),)),
    "selected": (lambda a: (a[-1] * 2, a[:, 0] * 2), (r(3, 5),)),
    "split": (lambda a: [p * 2 for p in (*a.split(2, 1), *a.chunk(2), *a.unbind(0))], (r(3, 5),)),
    "flipped": (lambda a: (a.flip(0), a.flip(-1, 0), a.roll((1, -2), (0, 1))), (r(3, 5),)),
    "flipped empty": (lambda a: a.flip(0) + 1, (r(0, 2),)),
    "diagonal": (lambda a: (a.diagonal() * 2, a.diagonal(-1, 2, 0) * 2), (r(3, 4, 5),)),
    "unfolded": (lambda a: a.unfold(1, 3, 2) * 2, (r(2, 8),)),
    "triangles": (lambda a: (a.tril(), a.triu(1), a.tril(-2)), (r(2, 4, 5),)),
    "together": (lambda a, b: (torch.cat([a, b], 1), torch.stack([a, a])), (r(2, 3), r(2, 4))),
    "together of dtypes": (lambda a, b: torch.cat([a, b]), (r(2, dtype=i32), r(3))),
    "together with nothing": (lambda a, b: torch.cat([a, b], 1), (r(0), r(2, 4))),
    "repeated": (lambda a: (a.repeat(2, 1, 3), a.repeat_interleave(2, 0)), (r(2, 3),)),
    "padded": (
        lambda a: (F.pad(a, (1, 2)), F.pad(a, (-1, 0, 2, 1), value=3), F.pad(a, (0, 0))), (r(3, 5),)
    ),
    "padded from inside": (
        lambda a: (F.pad(a, (1, 2), "reflect"), F.pad(a, (2, 1), "replicate"),
                   F.pad(a, (2, 1), "circular")),
        (r(2, 3, 5),),
    ),
    "written slices": (
        lambda a, b: aten.slice_scatter(a, b, 1, 1, None, 2), (r(3, 6), r(3, 3, seed=1))
    ),
    "written diagonals": (
        lambda a, b: (a.diagonal_scatter(b, 1), a.diagonal_scatter(b, -1)), (r(4, 4), r(3))
    ),
    "written": (lambda a, b: (a.clone().fill_(2), a.clone().copy_(b)), (r(3, 5), r(5, dtype=f64))),
    "written to a part": (lambda a: _written(a), (r(3, 5),)),
    "as strided": (lambda a: torch.as_strided(a, (2, 3), (1, 4), 1) * 2, (r(3, 5),)),
    "shuffled": (lambda a: (F.pixel_shuffle(a, 2), F.channel_shuffle(a, 4)), (r(1, 8, 3, 2),)),
}  # fmt: skip


def _written(a: torch.Tensor) -> torch.Tensor:
    b = a.clone()
    b[1] = 7
    b[:, ::2] += 1
    b[0].mul_(3)
    return b


INDEXING: dict[str, Case] = {
    "places, as many as asked for": (
        lambda x: [torch.nonzero_static(x > 0, size=n, fill_value=9) for n in (0, 1, 4, 30)],
        (r(3, 7),),
    ),
    "places of nothing": (
        lambda x: (torch.nonzero_static(x, size=2), torch.nonzero_static(x[:0], size=2)),
        (torch.zeros(3, 2),),
    ),
    "rows made shorter": (
        lambda w, i: [aten.embedding_renorm(w, i, 0.5, p) for p in (1.0, 2.0, float("inf"))],
        (r(5, 3), torch.tensor([[0, 3], [3, 4]])),
    ),
    "index": (lambda a, i: (a[i], a[:, i], a[i, i]), (r(5, 7), torch.tensor([0, -1, 3]))),
    "index of tensors": (
        lambda a, i, j: a[i[:, None], j],
        (r(5, 7), ids(3, below=5), ids(2, below=7)),
    ),
    "index apart": (lambda a, i: a[i, :, i], (r(5, 3, 4), ids(2, below=4))),
    "gather": (lambda a, i: (a.gather(1, i), a.gather(-2, i[:2])), (r(3, 5), ids(3, 2, below=3))),
    "take": (lambda a, i: (a.index_select(1, i), a.take(i)), (r(3, 5), ids(4, below=5))),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=1), (r(7, 3), ids(2, 5, below=7))),
    "put": (lambda a, i, v: a.index_put((i,), v), (r(5, 2), torch.tensor([3, 0]), r(2, seed=1))),
    "put and add": (
        lambda a, i, v: a.index_put((i,), v, accumulate=True),
        (r(5), ids(9, below=5), r(9)),
    ),
    "index add": (lambda a, i, v: a.index_add(0, i, v), (r(3, 2), ids(5, below=3), r(5, 2))),
    "scatter": (
        lambda a, i, v: (a.scatter(1, i, v), a.scatter(1, i, 2.0), a.scatter_add(1, i, v)),
        (r(3, 5), torch.tensor([[0, 2], [4, 1], [3, 0]]), r(3, 2, seed=1)),
    ),
    "scatter reduce": (
        lambda a, i, v: [
            a.scatter_reduce(0, i, v, how, include_self=whole)
            for how in REDUCTIONS_AT
            for whole in (True, False)
        ],
        (r(4), ids(7, below=3), r(7, seed=1)),
    ),
    "means of integers at indices": (
        lambda a, i, v: a.scatter_reduce(0, i, v, "mean"),
        (r(4, dtype=i64), ids(7, below=3), r(7, dtype=i64, seed=1)),
    ),
    "index reduce": (
        lambda a, i, v: [
            a.index_reduce(1, i, v, how, include_self=whole)
            for how in REDUCTIONS_AT[1:]
            for whole in (True, False)
        ],
        (r(2, 4), ids(5, below=3), r(2, 5, seed=1)),
    ),
    "put of elements": (
        lambda a, i, v: (a.put(i, v), a.put(i, v, accumulate=True)),
        (r(2, 3), torch.tensor([0, -1, 3]), r(3, seed=1)),
    ),
    "mask": (
        lambda a, m: (a.index_put((m,), torch.tensor(7.0)), a.index_put((m[:, 0],), a[0, 0], True)),
        (r(3, 5), r(3, 5) > 0),
    ),
    "a value for each place of a mask": (
        lambda a, m, v: (
            a.index_put([m], v),
            a.index_put([m], v[0]),
            a.index_put([m], v[:1], True),
            a.index_put([m], v[:, :1]),
            a.index_put([m & ~m], v[:0]),
        ),
        (r(4, 3, 2), (torch.arange(12) % 3 == 1).view(4, 3), r(4, 2, seed=1)),
    ),
    "masked scatter": (
        lambda a, m, v: (a.masked_scatter(m, v), a.masked_scatter(m[:, :1], v)),
        (r(3, 5), r(3, 5, seed=1) > 0, r(4, 5, seed=2)),
    ),
    "masked fill": (lambda a, m: a.masked_fill(m, -1), (r(3, 5), r(5) > 0)),
    "bags": (
        lambda w, i, o, f: [
            F.embedding_bag(i, w, o, mode="sum"),
            F.embedding_bag(i, w, o, mode="mean", padding_idx=2),
            F.embedding_bag(i, w, o, mode="sum", per_sample_weights=f, padding_idx=-1),
            F.embedding_bag(i, w, o, mode="mean", include_last_offset=True),
            F.embedding_bag(i.view(3, 3), w, mode="sum"),
        ],
        (r(5, 7), ids(9, below=5), torch.tensor([0, 2, 2, 7, 9]), r(9)),
    ),
}

PRODUCTS: dict[str, Case] = {
    "bilinear": (lambda a, b, w, c: F.bilinear(a, b, w, c), (r(7, 3), r(7, 5), r(2, 3, 5), r(2))),
    "trilinear, nothing summed": (
        lambda a, b: aten._trilinear(a, b, b, [1], [0], [0], []),
        (r(3, 5), r(4, 5)),
    ),
    "distances of rows": (
        lambda x: [torch.pdist(x, p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))],
        (r(7, 3),),
    ),
    "distances of one row": (lambda x: torch.pdist(x), (r(1, 3),)),
    "matrices": (lambda a, b: a @ b, (r(3, 5), r(5, 7))),
    "matrices of ints": (lambda a, b: a @ b, (r(3, 5, dtype=i64), r(5, 2, dtype=i64))),
    "batches": (lambda a, b: a @ b, (r(2, 1, 3, 5), r(7, 5, 2))),
    "vectors": (lambda a, b: (a @ b, b @ a.t(), b @ b), (r(3, 5), r(5))),
    "no inner dimension": (lambda a, b: a @ b, (r(3, 0), r(0, 2))),
    "addmm": (
        lambda c, a, b: (torch.addmm(c, a, b), torch.addmm(c, a, b, beta=0.5, alpha=2)),
        (r(7), r(3, 5), r(5, 7)),
    ),
    "addmm that ignores NaN": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0),
        (odd()[:7], r(3, 5), r(5, 7)),
    ),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, alpha=2), (r(3, 2), r(4, 3, 5), r(4, 5, 2))),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=3), (r(3, 2), r(4, 3, 5), r(4, 5, 2))),
    "linear": (
        lambda x, w, b: (aten.linear(x, w, b), aten.linear(x, w), aten.linear(x[0, 0], w, b)),
        (r(2, 3, 5), r(7, 5), r(7)),
    ),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (r(2, 3, 5), r(2, 4, 5))),
}


def steep(*shape: int) -> torch.Tensor:
    """Random matrices whose triangles are far from singular."""
    return r(*shape) + 4 * torch.eye(shape[-1])


def definite(*shape: int) -> torch.Tensor:
    """Random symmetric matrices, positive definite."""
    return steep(*shape) @ steep(*shape).mT


solve = torch.linalg.solve_triangular
TRIANGULAR: dict[str, Case] = {
    "systems": (
        lambda a, b: [
            solve(a, b, upper=u, unitriangular=v)
            for u in (True, False) for v in (True, False)
        ],
        (steep(5, 5), r(5, 3)),
    ),
    "systems on the right": (
        lambda a, b: [solve(a, b, upper=u, left=False) for u in (True, False)],
        (steep(5, 5), r(3, 5)),
    ),
    "batches of systems": (
        lambda a, b: solve(a, b, upper=True), (steep(2, 1, 3, 3), r(4, 3, 1))
    ),
    "of size 1": (lambda a, b: solve(a, b, upper=True), (steep(1, 1), r(1, 2))),
    "of nothing": (
        lambda a, b: (solve(a, b, upper=True), *torch.linalg.cholesky_ex(a)),
        (r(0, 0), r(0, 2)),
    ),
    "singular": (
        lambda a, b: solve(a, b, upper=False), (torch.zeros(2, 2), r(2, 2))
    ),
    "as it was called before": (
        lambda b, a: [
            part for u in (True, False) for t in (True, False)
            for part in torch.triangular_solve(b, a, u, t)
        ],
        (r(5, 3), steep(5, 5)),
    ),
    "with Cholesky's factors": (
        lambda b, a: [torch.cholesky_solve(b, a, u) for u in (True, False)]
        + [torch.cholesky_inverse(a, u) for u in (True, False)],
        (r(5, 3), steep(5, 5)),
    ),
    "Cholesky's factors": (
        lambda a, b: [
            part for x in (a, b) for u in (True, False)
            for part in torch.linalg.cholesky_ex(x, upper=u)
        ],
        (definite(2, 7, 7), definite(1, 1)),
    ),
    "of what has none, which minor": (
        lambda a: torch.linalg.cholesky_ex(a).info,
        (torch.stack([definite(5, 5) - torch.diag(torch.eye(5)[k] * 999) for k in range(5)]),),
    ),
}  # fmt: skip

CONVOLUTIONS: dict[str, Case] = {
    "plain": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (r(2, 3, 5, 7), r(4, 3, 3, 3), r(4))),
    "strides": (
        lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(0, 2), dilation=(1, 2)),
        (r(1, 2, 9, 11), r(3, 2, 3, 2)),
    ),
    "groups": (
        lambda x, w: F.conv2d(x, w, groups=2, padding="same"),
        (r(1, 4, 5, 5), r(6, 2, 3, 3)),
    ),
    "depthwise": (lambda x, w: F.conv2d(x, w, groups=3), (r(1, 3, 5, 5), r(3, 1, 3, 3))),
    "1d and 3d": (
        lambda x, w, y, v: (F.conv1d(x, w), F.conv3d(y, v)),
        (r(1, 2, 7), r(3, 2, 3), r(1, 1, 3, 4, 5), r(2, 1, 2, 2, 2)),
    ),
    "transposed": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        (r(2, 3, 4, 5), r(3, 2, 3, 3), r(2)),
    ),
    "no batch": (lambda x, w: F.conv2d(x, w), (r(0, 3, 5, 5), r(2, 3, 3, 3))),
    "channels last": (
        lambda x, w: F.conv2d(x, w),
        (r(1, 3, 5, 5).to(memory_format=torch.channels_last), r(2, 3, 3, 3)),
    ),
    "gradients": (
        lambda g, x, w: aten.convolution_backward(
            g, x, w, [4], [2, 1], [1, 0], [1, 2], False, [0, 0], 1, [True, True, True]
        ),
        (r(2, 4, 4, 3, seed=2), r(2, 3, 7, 7), r(4, 3, 3, 3)),
    ),
    "gradients of groups": (
        lambda g, x, w: aten.convolution_backward(
            g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2, [True, True, False]
        )[:2],
        (r(1, 6, 5, 5), r(1, 4, 5, 5), r(6, 2, 3, 3)),
    ),
    "gradients of transposed": (
        lambda g, x, w: aten.convolution_backward(
            g, x, w, [2], [2, 2], [1, 1], [1, 1], True, [1, 1], 1, [True, True, True]
        ),
        (r(2, 2, 8, 10), r(2, 3, 4, 5), r(3, 2, 3, 3)),
    ),
    "strides that leave a rest": (
        lambda g, x, w: aten.convolution_backward(
            g, x, w, None, [3, 3], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
        )[:2],
        (r(1, 1, 2, 2), r(1, 2, 7, 6), r(1, 2, 2, 2)),
    ),
}

POOLS: dict[str, Case] = {
    "maxima": (
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True), (r(2, 3, 7, 6),)
    ),
    "maxima of NaN": (lambda x: F.max_pool1d(x, 3, 1, 1), (odd()[None],)),
    "means": (
        lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2, count_include_pad=False,
                                                         ceil_mode=True)),
        (r(1, 2, 7, 6),),
    ),
    "adaptive": (
        lambda x: (F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, 1),
                   F.adaptive_avg_pool1d(x[0], 4)),
        (r(2, 3, 7, 6),),
    ),
    "adaptive maxima": (
        lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), (r(2, 3, 7, 6),)
    ),
    "gradient of maxima": (
        lambda g, x: aten.max_pool3d_with_indices_backward(
            g, x, [2, 2, 2], [2, 1, 2], [1, 0, 0], [1, 1, 1], False,
            aten.max_pool3d_with_indices(x, [2, 2, 2], [2, 1, 2], [1, 0, 0])[1]),
        (r(2, 2, 2, 3, 2, seed=1), r(2, 2, 3, 4, 5)),
    ),
    "gradient of the maxima of planes": (
        lambda g, x: aten.max_pool2d_with_indices_backward(
            g, x, [3, 3], [2, 2], [1, 1], [1, 1], False,
            aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])[1]),
        (r(2, 3, 4, 3), r(2, 3, 7, 6)),
    ),
    "means by another number": (
        lambda x: (
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False, divisor_override=7),
            F.avg_pool2d(x, 2, divisor_override=3),
        ),
        (r(2, 3, 7, 6),),
    ),
    "gradient of means": (
        lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, False, None),
        (r(2, 3, 4, 3), r(2, 3, 7, 6)),
    ),
    "gradient of adaptive": (
        lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), (r(2, 3, 3, 4), r(2, 3, 7, 6))
    ),
    "upsampled": (
        lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(
            x, size=(5, 7), mode="bilinear", align_corners=False)),
        (r(1, 2, 3, 4),),
    ),
}  # fmt: skip

NORMS: dict[str, Case] = {
    "layer": (lambda x, w: (F.layer_norm(x, (5,), w), F.layer_norm(x, (3, 5))), (r(2, 3, 5), r(5))),
    "layer of bfloat16": (lambda x: F.layer_norm(x, (5,)), (r(3, 5, dtype=bf16),)),
    "batch": (
        lambda x, m, v, w: F.batch_norm(x, m, v.abs(), w),
        (r(2, 3, 5), r(3), r(3), r(3, seed=4)),
    ),
    "batch in training": (
        lambda x, w, m, v: aten._native_batch_norm_legit_functional(
            x, w, None, m, v.abs(), True, 0.1, 1e-5
        )[:2],
        (r(4, 3, 5), r(3), r(3), r(3)),
    ),
    "group": (lambda x, w: F.group_norm(x, 2, w), (r(2, 6, 5), r(6))),
    "instance": (lambda x: F.instance_norm(x), (r(2, 3, 5, 4),)),
    "rms": (lambda x, w: F.rms_norm(x, (5,), w), (r(2, 3, 5), r(5))),
    "gradient": (
        lambda g, x, w: aten.native_layer_norm_backward(
            g,
            x,
            [5],
            *aten.native_layer_norm(x, [5], w, None, 1e-5)[1:],
            w,
            None,
            [True, True, False],
        )[:2],
        (r(3, 5), r(3, 5, seed=1), r(5)),
    ),
}


def _attention(**how: Any) -> Callable[..., Any]:
    return lambda q, k, v, *mask: aten.scaled_dot_product_attention(q, k, v, *mask, **how)


qkv = r(2, 4, 5, 3), r(2, 4, 7, 3, seed=1), r(2, 4, 7, 3, seed=2)
ATTENTION: dict[str, Case] = {
    "plain": (_attention(), qkv),
    "causal": (_attention(is_causal=True, scale=0.3), qkv),
    "masked": (_attention(), (*qkv, r(5, 7))),
    "masked by bools": (_attention(), (*qkv, r(2, 1, 5, 7) > -0.5)),
    "no key left": (_attention(), (*qkv, torch.arange(5)[:, None] > torch.arange(7))),
    "three dimensions": (_attention(), tuple(t[0] for t in qkv)),
    "five dimensions": (_attention(), tuple(t[None] for t in qkv)),
    "groups": (_attention(enable_gqa=True), (qkv[0], qkv[1][:, :2], qkv[2][:, :2])),
    "with sums": (
        lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True),
        (qkv[0], qkv[0] * 2, qkv[0] + 1),
    ),
}

FACTORIES: dict[str, Case] = {
    "filled": (
        lambda a: (torch.full_like(a, 3), torch.zeros(2, dtype=i64), a.new_full((2,), 5),
                   a.new_ones(2), torch.ones_like(a, dtype=torch.bool)),
        (r(3),),
    ),
    "ranges": (
        lambda a: (torch.arange(7), torch.arange(2, 9, 3), torch.arange(0.0, 1.0, 0.3),
                   torch.linspace(0, 1, 5), torch.arange(5, 0, -2), a * torch.arange(3)),
        (r(3),),
    ),
    "identity": (lambda a: torch.eye(3) + a, (r(3),)),
    "constants": (lambda a: a + torch.tensor([1.0, 2.0, 3.0]), (r(3),)),
}  # fmt: skip

FAMILIES = {
    "pointwise": POINTWISE, "reductions": REDUCTIONS, "views": VIEWS, "indexing": INDEXING,
    "products": PRODUCTS, "triangular": TRIANGULAR, "convolutions": CONVOLUTIONS, "pools": POOLS,
    "norms": NORMS, "attention": ATTENTION, "factories": FACTORIES,
}  # fmt: skip
CASES = [(family, name) for family, cases in FAMILIES.items() for name in cases]


@pytest.mark.parametrize(("family", "name"), CASES, ids=["/".join(case) for case in CASES])
def test_as_pytorch(family: str, name: str) -> None:
    call, tensors = FAMILIES[family][name]
    expected = call(*tensors)
    expected = tuple(expected) if isinstance(expected, list) else expected
    found = direct(call, *tensors)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=1e-5, equal_nan=True)


def test_places_of_maxima_are_computed_where_somebody_reads_them() -> None:
    def operators(call: Any) -> list[str]:
        program = torch.export.export(Call(call), (r(1, 2, 6, 6),))
        return [node.op for node in import_exported(program).imported.graph.nodes]

    alone = operators(lambda x: F.max_pool2d(x, 2))
    both = operators(lambda x: F.max_pool2d(x, 2, return_indices=True))
    assert "max_pool" in alone and "max_pool_with_indices" not in alone
    assert "max_pool_with_indices" in both


class Call(torch.nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x)


KNOWN = {  # what has sizes that have to be known, here open too
    "reductions/sorted", "reductions/medians", "reductions/median of NaN",
    "reductions/medians without NaN", "reductions/medians of ints without NaN",
    "convolutions/plain", "convolutions/strides", "convolutions/groups", "convolutions/1d and 3d",
    "convolutions/transposed", "convolutions/channels last", "convolutions/gradients",
    "convolutions/gradients of groups", "convolutions/gradients of transposed",
    "convolutions/strides that leave a rest", "pools/adaptive", "pools/adaptive maxima",
    "pools/gradient of adaptive", "norms/batch", "attention/plain", "attention/causal",
    "attention/masked", "attention/masked by bools", "attention/no key left",
    "attention/three dimensions", "attention/five dimensions", "attention/groups",
    "attention/with sums",
}  # fmt: skip


@pytest.mark.parametrize(("family", "name"), CASES, ids=["/".join(case) for case in CASES])
def test_as_pytorch_with_open_sizes(family: str, name: str) -> None:
    call, tensors = FAMILIES[family][name]
    if f"{family}/{name}" in KNOWN:
        with pytest.raises(UnsupportedError) as caught:
            direct(call, *tensors, dynamic=True)
        assert caught.value.code == "WEFT-E0273"
        return
    expected = call(*tensors)
    expected = tuple(expected) if isinstance(expected, list) else expected
    found = direct(call, *tensors, dynamic=True)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_that_does_not_fit(index: int) -> None:
    x, i = r(3, 2), torch.tensor([0, index])
    calls = (
        lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i[:, None]), lambda x, i: x.scatter(0, i[:, None], 1.0),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ExecutionError):
            direct(call, x, i)
