"""What is measured on a GPU: each row a program of Weft's, and the same in PyTorch's words, which
is its answer in float64 and, as it stands, what it is timed beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import weft
from weft.benchmarks.conv import Conv, resnet
from weft.frontend.operators.activations import gelu
from weft.frontend.operators.attention import attention
from weft.frontend.operators.norm import layer_norm, rms_norm
from weft.frontend.operators.shape import transpose
from weft.frontend.operators.softmax import softmax
from weft.frontend.operators.window import padded
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Tensor

Shape = tuple[int, ...]

ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22}
"""The distance of neighbours around 1: twice what one rounding may be off, relative."""
SUMS = 2e-4  # of the largest element: sums in float32, in any order
FUNCTIONS = 2e-5  # the same of functions and of sums along a row
NORM = 1e-5  # epsilon of normalisations


@dataclass(frozen=True, slots=True)
class GpuRow:
    """``build`` the result, from placeholders whose names are the arguments of ``torch``, in order,
    a lambda over ``torch``, ``F`` (torch.nn.functional) and ``math``.

    Results may be off by ``rounding`` of themselves and ``tolerance`` of the largest. Inputs are
    standard normal times what ``scales`` has for their name. ``limit``: a dtype whose product is
    the ceiling of ``operations``, "copy" for that of the bytes, or "" for none. ``operands``: what
    of the inputs is multiplied, where that is all: a lambda. ``small`` rows are checked alone.
    """

    name: str
    group: str
    build: Callable[[], Tensor]
    torch: str
    rounding: float
    tolerance: float
    limit: str = ""
    operations: float = 0.0
    scales: Mapping[str, float] = field(default_factory=dict)
    operands: str = ""
    small: bool = False


def rows() -> Iterator[GpuRow]:
    """Every row; small ones, of sizes that no tile divides, first."""
    yield from _small()
    for dtype in ("bfloat16", "float16"):
        for size in PRODUCTS:
            yield product(size, dtype)
    for layout in ("NT", "TN", "TT"):
        yield product((4096, 4096, 4096), "bfloat16", layout)
        yield product((16, 4096, 4096), "bfloat16", layout)
    yield product((4096, 4096, 4096), "float32")
    yield product((512, 512, 512), "float32")
    for shape in ROWS:
        for name in LINES:
            yield line(name, shape, "bfloat16")
    for shape, perm in TRANSPOSES:
        yield transposed(shape, perm, "bfloat16")
    for shape in ATTENTIONS:
        yield attended(shape, causal=False)
        yield attended(shape, causal=True)
    for shape in DECODED:
        yield attended(shape, causal=False, queries=1)
    for conv in dict.fromkeys(resnet((3, 4, 6, 3), bottleneck=True)):
        yield convolved(conv, 32)


def _small() -> Iterator[GpuRow]:
    for size in ((1, 1, 1), (33, 65, 17), (129, 127, 66), (17, 40, 300)):
        yield product(size, "float16", small=True)
        yield product(size, "float32", small=True)
    for layout in ("NN", "NT", "TN", "TT"):
        yield product((70, 45, 50), "bfloat16", layout, small=True)
    for name in LINES:
        yield line(name, (5, 257), "bfloat16", small=True)
        yield line(name, (3, 31), "float32", small=True)
    for shape, perm in (((37, 53), (1, 0)), ((2, 5, 7, 33), (0, 2, 3, 1))):
        yield transposed(shape, perm, "bfloat16", small=True)
    yield attended((1, 2, 33, 16), causal=True, small=True)
    yield attended((1, 2, 1025, 48), causal=False, queries=1, small=True)
    for conv in CONVS:
        yield convolved(conv, 2, small=True)


# ---- Products


PRODUCTS: tuple[Shape, ...] = (  # rows, lanes, depth
    (8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024),
    (512, 512, 512), (8192, 8192, 1024), (1024, 1024, 16384), (4096, 11008, 4096),
    (1, 4096, 4096), (16, 4096, 4096), (64, 8192, 8192), (128, 4096, 4096), (16, 16384, 1024),
    (1000, 1111, 1013),
)  # fmt: skip


def product(size: Shape, dtype: str, layout: str = "NN", small: bool = False) -> GpuRow:
    """a · b, rounded once; ``layout``: N as it is multiplied, T transposed, of a and of b."""
    m, n, k = size
    left, right = (x if way == "N" else f"{x}.T" for x, way in zip("ab", layout, strict=True))
    return GpuRow(
        f"gemm {dtype} {m}x{n}x{k}{'' if layout == 'NN' else f' {layout}'}",
        f"gemm {dtype}",
        lambda: _product(size, dtype, layout),
        f"lambda a, b: {left} @ {right}",
        ROUNDING[dtype],
        SUMS,
        dtype if dtype != "float32" else "",
        2.0 * m * n * k,
        operands=f"lambda a, b: ({left}, {right})" if dtype != "float32" else "",
        small=small,
    )


def _product(size: Shape, dtype: str, layout: str) -> Tensor:
    m, n, h = size
    down, along = layout[0] == "T", layout[1] == "T"
    a = weft.placeholder((h, m) if down else (m, h), dtype=dtype, name="a")
    b = weft.placeholder((n, h) if along else (h, n), dtype=dtype, name="b")
    k = weft.reduce_axis((0, h), name="k")

    def body(i: Expr, j: Expr) -> Expr:
        left, right = a[(k, i) if down else (i, k)], b[(j, k) if along else (k, j)]
        return weft.sum(_wide(left) * _wide(right), axis=k)

    return _rounded(weft.compute((m, n), body, name="sums"), dtype)


def _wide(x: Expr) -> Expr:
    return x.astype("float32")


def _rounded(x: Tensor, dtype: str) -> Tensor:
    if x.dtype.name == dtype:
        return x
    return weft.compute(x.shape, lambda *i: x[i].astype(dtype), name="rounded")


# ---- Rows, each by itself, and elements


ROWS: tuple[Shape, ...] = ((32768, 768), (8192, 4096), (2048, 16384))


def _softmax(x: Tensor, _: Mapping[str, Tensor]) -> Tensor:
    """In float32, as PyTorch has it; one rounding at the end."""
    wide = weft.compute(x.shape, lambda *i: _wide(x[i]), name="wide")
    return _rounded(_one(softmax(wide)), x.dtype.name)


def _chain(x: Tensor, more: Mapping[str, Tensor]) -> Tensor:
    """As residual branches are joined; one rounding at the end."""
    r, q, scale, bias = (more[name] for name in ("r", "q", "scale", "bias"))

    def body(i: Expr, j: Expr) -> Expr:
        moved = (_wide(x[i, j]) + _wide(r[i, j])) * _wide(scale[j]) + _wide(bias[j])
        return (weft.maximum(moved, 0.0) + _wide(q[i, j])).astype(x.dtype)

    return weft.compute(x.shape, body, name="chain")


@dataclass(frozen=True, slots=True)
class Line:
    """An operator on rows: ``whole`` and ``vectors`` name what it takes besides x."""

    build: Callable[[Tensor, Mapping[str, Tensor]], Tensor]
    torch: str
    vectors: Sequence[str] = ()
    whole: Sequence[str] = ()


LINES: dict[str, Line] = {
    "softmax": Line(_softmax, "F.softmax(x, -1)"),
    "layer norm": Line(
        lambda x, more: _one(layer_norm(x, more["scale"], more["bias"], epsilon=NORM)),
        f"F.layer_norm(x, x.shape[-1:], scale, bias, {NORM})",
        ("scale", "bias"),
    ),
    "rms norm": Line(
        lambda x, more: _one(rms_norm(x, more["scale"], epsilon=NORM)),
        f"F.rms_norm(x, x.shape[-1:], scale, {NORM})",
        ("scale",),
    ),
    "gelu": Line(
        lambda x, _: weft.compute(x.shape, lambda *i: gelu(_wide(x[i])).astype(x.dtype), name="g"),
        "F.gelu(x)",
    ),
    "residual chain": Line(
        _chain, "torch.relu((x + r) * scale + bias) + q", ("scale", "bias"), ("r", "q")
    ),
}


def _one(found: object) -> Tensor:
    """The only result of an operator that may have several."""
    assert isinstance(found, Tensor)
    return found


def line(name: str, shape: Shape, dtype: str, small: bool = False) -> GpuRow:
    own = LINES[name]
    names = ("x", *own.whole, *own.vectors)

    def build() -> Tensor:
        shapes = {n: shape[-1:] if n in own.vectors else shape for n in names}
        made = {n: weft.placeholder(s, dtype=dtype, name=n) for n, s in shapes.items()}
        return own.build(made["x"], made)

    return GpuRow(
        f"{name} {dtype} {'x'.join(map(str, shape))}",
        name,
        build,
        f"lambda {', '.join(names)}: {own.torch}",
        ROUNDING[dtype],
        FUNCTIONS,
        "copy",
        small=small,
    )


# ---- Transposes


TRANSPOSES: tuple[tuple[Shape, Shape], ...] = (
    ((8192, 8192), (1, 0)),
    ((64, 256, 56, 56), (0, 2, 3, 1)),
    ((8, 4096, 16, 64), (0, 2, 1, 3)),
)


def transposed(shape: Shape, perm: Shape, dtype: str, small: bool = False) -> GpuRow:
    return GpuRow(
        f"transpose {dtype} {'x'.join(map(str, shape))} to {''.join(map(str, perm))}",
        "transpose",
        lambda: _one(transpose(weft.placeholder(shape, dtype=dtype, name="x"), perm=perm)),
        f"lambda x: x.permute({', '.join(map(str, perm))}).contiguous()",
        0.0,
        0.0,
        "copy",
        small=small,
    )


# ---- Attention


ATTENTIONS: tuple[Shape, ...] = ((4, 16, 2048, 64), (2, 16, 2048, 128), (32, 16, 512, 64))


DECODED: tuple[Shape, ...] = ((4, 32, 8192, 128),)  # one query each, as text is generated


def attended(shape: Shape, causal: bool, queries: int = 0, small: bool = False) -> GpuRow:
    """Batch, heads, positions, features; as many ``queries``, or as many as there are positions.
    Weights are rounded once each, as their sum has them: of random values, results are off by less
    than one rounding of the largest."""
    batch, heads, positions, features = shape
    pairs = positions * (positions + 1) // 2 if causal else (queries or positions) * positions

    def build() -> Tensor:
        asked = (batch, heads, queries or positions, features)
        given = zip("qkv", (asked, shape, shape), strict=True)
        q, k, v = (weft.placeholder(size, dtype="bfloat16", name=n) for n, size in given)
        (y,) = attention(q, k, v, causal=causal)
        return _one(y)

    return GpuRow(
        f"attention {'causal ' * causal}bfloat16 {'x'.join(map(str, shape))}"
        + f" of {queries}" * bool(queries),
        "attention",
        build,
        f"lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal={causal})",
        ROUNDING["bfloat16"],
        ROUNDING["bfloat16"] / 2,
        "bfloat16",
        4.0 * batch * heads * features * pairs,
        small=small,
    )


# ---- Convolutions: ResNet-50's, channels last, with the bias and what follows


CONVS = (  # small ones
    Conv(16, 24, 3, 1, 9, "relu"), Conv(5, 7, 3, 2, 9, ""), Conv(32, 40, 1, 1, 7, "add relu"),
)  # fmt: skip


def convolved(conv: Conv, batch: int, dtype: str = "float16", small: bool = False) -> GpuRow:
    taps, pad = conv.channels * conv.kernel**2, conv.kernel // 2
    adds = "add" in conv.then.split()
    text = f"F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, {conv.stride}, {pad})"
    text = f"{text}.permute(0, 2, 3, 1){' + r' * adds}"
    text = f"torch.relu({text})" if "relu" in conv.then.split() else text
    return GpuRow(
        f"conv {dtype} n{batch} {conv.label}",
        f"conv {conv.kind}",
        lambda: _convolved(conv, batch, dtype),
        f"lambda x, w, b{', r' * adds}: {text}",
        ROUNDING[dtype],
        SUMS,
        dtype,
        2.0 * batch * conv.filters * conv.out**2 * taps,
        {"w": taps**-0.5},
        small=small,
    )


def _convolved(conv: Conv, batch: int, dtype: str) -> Tensor:
    side, pad = conv.side, (conv.kernel // 2,) * 2 + (0,)
    shape = (batch, conv.out, conv.out, conv.filters)
    x = weft.placeholder((batch, side, side, conv.channels), dtype=dtype, name="x")
    sizes = (conv.filters, conv.kernel, conv.kernel, conv.channels)
    w = weft.placeholder(sizes, dtype=dtype, name="w")
    b = weft.placeholder((conv.filters,), dtype=dtype, name="b")
    r = weft.placeholder(shape, dtype=dtype, name="r")
    p, q, c = (
        weft.reduce_axis((0, size), name=n) for n, size in zip("pqc", sizes[1:], strict=True)
    )
    wide = padded(x, pad, pad, 0)

    def body(n: Expr, y: Expr, z: Expr, f: Expr) -> Expr:
        at = wide[n, y * conv.stride + p, z * conv.stride + q, c]
        return weft.sum(_wide(at) * _wide(w[f, p, q, c]), axis=(p, q, c))

    sums = weft.compute(shape, body, name="sums")

    def end(*i: Expr) -> Expr:
        value = sums[i] + _wide(b[i[3]])
        value = value + _wide(r[i]) if "add" in conv.then.split() else value
        value = weft.maximum(value, 0.0) if "relu" in conv.then.split() else value
        return value.astype(dtype)

    return weft.compute(shape, end, name="result")
