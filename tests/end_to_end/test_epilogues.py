"""What is computed from a product's sums is computed in the registers that hold them, on a GPU: one
kernel, no array of sums in memory, the results of NumPy in float64."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import weft

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)
ERF = np.vectorize(math.erf)


def wide(x: weft.Expr) -> weft.Expr:
    return x.astype("float32")


def sums(n: int, m: int, h: int, dtype: str = "float16") -> weft.Tensor:
    k = weft.reduce_axis((0, h), name="k")
    a = weft.placeholder((n, h), dtype=dtype, name="A")
    b = weft.placeholder((h, m), dtype=dtype, name="B")
    body = lambda i, j: weft.sum(wide(a[i, k]) * wide(b[k, j]), axis=k)  # noqa: E731
    return weft.compute((n, m), body, name="C")


def compiled(results: weft.Tensor | list[weft.Tensor], cores: bool = True) -> weft.Executable:
    """``results`` as one kernel that needs no memory of its own."""
    program = weft.compile(results, options=TWIN)
    text = program.source("cuda").split("#endif\n\n", 1)[1]
    assert text.count("WEFT_KERNEL(") == 1 and ("mma_m16n8k" in text) == cores, text
    arena = re.search(r"_arena\(.*\n  return (.*);", text)
    assert arena is not None and arena[1] == "0"
    return program


def random(seed: int, program: weft.Executable) -> dict[str, np.ndarray]:
    made = np.random.default_rng(seed)
    shapes = {x.name: [int(n.value) for n in x.shape] for x in program.inputs}
    types = {x.name: x.dtype.numpy for x in program.inputs}
    return {name: made.standard_normal(s).astype(types[name]) for name, s in shapes.items()}


def exact(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value.astype(float) for name, value in values.items()}


SIZES = ((70, 61, 40), (128, 64, 64), (33, 17, 0), (129, 65, 31), (16, 8, 16), (17, 127, 7))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bias_and_activation(size: tuple[int, int, int]) -> None:
    n, m, h = size
    c, bias = sums(n, m, h), weft.placeholder((m,), name="bias")
    body = lambda i, j: weft.maximum(c[i, j] + bias[j], 0.0).astype("float16")  # noqa: E731
    program = compiled(weft.compute((n, m), body, name="D"), cores=h >= 16)
    given = random(0, program)
    x = exact(given)
    want = np.maximum(x["A"] @ x["B"] + x["bias"], 0)
    found = program(*given.values()).astype(float)
    np.testing.assert_allclose(found, want, rtol=2**-10, atol=1e-3)


def test_the_sums_are_a_result_too() -> None:
    """They are stored once, and what is computed from them does not read them back."""
    c = sums(45, 52, 33)
    d = weft.compute((45, 52), lambda i, j: weft.exp(c[i, j] * -0.1), name="D")
    program = compiled([c, d])
    given = random(1, program)
    want = exact(given)["A"] @ exact(given)["B"]
    first, second = program(*given.values())
    np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second, np.exp(want * -0.1), rtol=1e-4, atol=1e-4)


def test_gelu_of_a_value_that_is_used_twice_and_a_residual() -> None:
    n, m = 40, 50
    c = sums(n, m, 33, "bfloat16")
    bias = weft.placeholder((m,), name="bias")
    other = weft.placeholder((n, m), dtype="bfloat16", name="R")
    t = weft.compute((n, m), lambda i, j: weft.tanh(c[i, j] + bias[j]) + 1.0, name="T")

    def body(i: weft.Expr, j: weft.Expr) -> weft.Expr:
        gelu = t[i, j] * 0.5 * (1.0 + weft.erf(t[i, j] * math.sqrt(0.5)))
        return (gelu + wide(other[i, j])).astype("bfloat16")

    program = compiled(weft.compute((n, m), body, name="G"))
    given = random(2, program)
    x = exact(given)
    value = np.tanh(x["A"] @ x["B"] + x["bias"]) + 1
    want = value * 0.5 * (1 + ERF(value * math.sqrt(0.5))) + x["R"]
    np.testing.assert_allclose(program(*given.values()).astype(float), want, rtol=2**-7, atol=1e-2)


def test_a_transposed_result() -> None:
    c = sums(35, 24, 18)
    program = compiled(weft.compute((24, 35), lambda j, i: c[i, j] * 2.0, name="D"))
    given = random(3, program)
    want = 2 * (exact(given)["A"] @ exact(given)["B"]).T
    np.testing.assert_allclose(program(*given.values()), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("images", [1, 2])
def test_a_convolution_with_bias(images: int) -> None:
    """Of one image the loop over images has one turn: the tile has rows that are nobody's."""
    p, q = weft.reduce_axis((0, 3), name="p"), weft.reduce_axis((0, 3), name="q")
    c = weft.reduce_axis((0, 16), name="c")
    x = weft.placeholder((images, 6, 9, 16), dtype="float16", name="X")
    w = weft.placeholder((3, 3, 16, 24), dtype="float16", name="W")
    bias = weft.placeholder((24,), name="bias")

    def body(b, y, z, f):
        return weft.sum(wide(x[b, y + p, z + q, c]) * wide(w[p, q, c, f]), axis=(p, q, c))

    shape = (images, 4, 7, 24)
    o = weft.compute(shape, body, name="O")
    relu = lambda b, y, z, f: weft.maximum(o[b, y, z, f] + bias[f], 0.0)  # noqa: E731
    end = weft.compute(shape, relu, name="D")
    program = compiled(end)
    given = random(4, program)
    known = exact(given)
    windows = np.lib.stride_tricks.sliding_window_view(known["X"], (3, 3), (1, 2))
    want = np.maximum(np.einsum("byzcpq,pqcf->byzf", windows, known["W"]) + known["bias"], 0)
    np.testing.assert_allclose(program(*given.values()), want, rtol=1e-4, atol=1e-4)


def test_sums_of_integers_are_scaled_where_they_lie() -> None:
    k = weft.reduce_axis((0, 70), name="k")
    a = weft.placeholder((33, 70), dtype="uint8", name="A")
    b = weft.placeholder((70, 40), dtype="int8", name="B")
    body = lambda i, j: weft.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)  # noqa: E731
    c = weft.compute((33, 40), body, name="C")
    program = compiled(weft.compute((33, 40), lambda i, j: wide(c[i, j]) * 0.5, name="D"))
    made = np.random.default_rng(5)
    x = made.integers(0, 256, (33, 70)).astype(np.uint8)
    y = made.integers(-128, 128, (70, 40)).astype(np.int8)
    assert np.array_equal(program(x, y), (x.astype(int) @ y.astype(int)) * 0.5)


def test_one_thread_keeps_its_own_sum() -> None:
    """No tensor cores for float32: the sum of a thread is a scalar of its own."""
    k = weft.reduce_axis((0, 33), name="k")
    a, b = weft.placeholder((41, 33), name="A"), weft.placeholder((33, 53), name="B")
    c = weft.compute((41, 53), lambda i, j: weft.sum(a[i, k] * b[k, j], axis=k), name="C")
    end = weft.compute((41, 53), lambda i, j: weft.maximum(c[i, j], 0.0), name="D")
    program = compiled(end, cores=False)
    given = random(6, program)
    want = np.maximum(exact(given)["A"] @ exact(given)["B"], 0)
    np.testing.assert_allclose(program(*given.values()), want, rtol=1e-4, atol=1e-4)


@weft.kernel
def product(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


@weft.kernel
def added(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


@pytest.mark.parametrize("size", [(1, 1, 1), (0, 5, 3), (40, 33, 0), (129, 65, 40)], ids=str)
@pytest.mark.parametrize("kernel", [product, added], ids=["written", "added"])
def test_loop_kernels_of_open_sizes(kernel: weft.Kernel, size: tuple[int, int, int]) -> None:
    """What the caller has in C counts where it is added to, and there alone."""
    n, m, h = size
    made = np.random.default_rng(7)
    a = made.standard_normal((n, h)).astype(np.float16)
    b = made.standard_normal((h, m)).astype(np.float16)
    c = made.standard_normal((n, m)).astype(np.float32)
    want = a.astype(float) @ b.astype(float) + (c if kernel is added else 0)
    kernel.compile(options=TWIN)(a, b, c)
    np.testing.assert_allclose(c, want, rtol=1e-4, atol=1e-4)
