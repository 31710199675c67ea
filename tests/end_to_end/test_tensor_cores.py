"""Tensor cores through the whole compiler: right in the twin, refused or wrong with a fault."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.codegen.cuda import nvrtc, twin
from weft.codegen.cuda.nvrtc import cubin
from weft.frontend.operators.matmul import matmul
from weft.ir.errors import CompileError, ExecutionError, IllegalScheduleError

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)


@weft.kernel
def product(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


@weft.kernel
def single(A: weft.f32[n, h], B: weft.f32[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def by_hand(kernel=product, instruction: str = "mma.m16n8k16.f16", **how) -> weft.Schedule:
    s = weft.schedule(kernel, options=TWIN).tile({"i": 32, "j": 32}).distribute("i_p")
    s = s.reorder(["k", "i_p_S1", "j_p_S1"])
    s = s.tensorize(["k"], ["i_p_S1"], "j_p_S1", instruction=instruction, **how)
    return s.set_kinds({"i_t": "grid", "j_t": "grid", "i_p": "block", "j_p": "block"})


def kernels_of(program: weft.Executable) -> str:
    return program.source("cuda").split("#endif\n\n", 1)[1]


SHAPES = ((1, 1, 1), (33, 17, 31), (64, 96, 32), (40, 8, 100), (5, 3, 0))


@pytest.mark.parametrize("stages", [0, 1, 2])
def test_a_product_by_hand_of_all_sizes(stages: int) -> None:
    schedule = by_hand(warps=(2, 2), depth=16, stages=stages)
    program = product.compile(schedule, options=TWIN)
    text = kernels_of(program)
    assert "mma_m16n8k16_f16(" in text
    assert ("load_matrices<4, true>(" in text) == ("copy_async<8>(" in text) == (stages > 0)
    random = np.random.default_rng(0)
    for rows, columns, depth in SHAPES:
        a = random.standard_normal((rows, depth)).astype(np.float16)
        b = random.standard_normal((depth, columns)).astype(np.float16)
        c = np.full((rows, columns), np.nan, np.float32)
        program(a, b, c)
        np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)


def test_tf32_is_asked_for_by_name_alone() -> None:
    """It takes 10 bits of the fraction: exact on those, off by less than 2**-9 on others."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "mma_m16n8k8_tf32(" not in kernels_of(single.compile(options=TWIN))
    schedule = by_hand(single, "mma.m16n8k8.tf32", warps=(1, 1), depth=16, stages=2)
    program = single.compile(schedule, options=TWIN)
    assert "mma_m16n8k8_tf32(" in kernels_of(program)
    random = np.random.default_rng(1)
    a, b = random.random((33, 20), np.float32), random.random((20, 40), np.float32)
    c = np.full((33, 40), np.nan, np.float32)
    program(a, b, c)
    exact = a.astype(float) @ b.astype(float)
    assert 0 < (abs(c - exact) / exact).max() < 2.0**-9
    a, b = a.astype(np.float16).astype(np.float32), b.astype(np.float16).astype(np.float32)
    program(a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-5)


def wide(x: weft.Expr) -> weft.Expr:
    return x.astype("float32")


def layouts(n: int, m: int, h: int) -> dict[str, tuple[weft.Tensor, Callable[..., np.ndarray]]]:
    k = weft.reduce_axis((0, h), name="k")

    def made(a, b, body):
        A = weft.placeholder(a, dtype="bfloat16", name="A")
        B = weft.placeholder(b, dtype="bfloat16", name="B")
        return weft.compute((n, m), lambda i, j: weft.sum(body(A, B, i, j), axis=k), name="C")

    return {
        "NT": (
            made((n, h), (m, h), lambda A, B, i, j: wide(A[i, k]) * wide(B[j, k])),
            lambda a, b: a @ b.T,
        ),
        "TN": (
            made((h, n), (h, m), lambda A, B, i, j: wide(A[k, i]) * wide(B[k, j])),
            lambda a, b: a.T @ b,
        ),
    }


@pytest.mark.parametrize("name", ["NT", "TN"])
def test_operands_are_read_as_they_lie(name: str) -> None:
    """Rows or columns of either operand are neighbours in memory: lines are copied in any case."""
    tensor, oracle = layouts(50, 40, 36)[name]
    program = weft.compile(tensor, options=TWIN)
    assert kernels_of(program).count("copy_async<8>(") == 2  # no step is left for the main loop
    random = np.random.default_rng(2)
    given = [
        random.standard_normal([int(n.value) for n in x.shape]).astype(x.dtype.numpy)
        for x in program.inputs
    ]
    want = oracle(*(x.astype(float) for x in given))
    np.testing.assert_allclose(program(*given), want, rtol=1e-4, atol=1e-4)


def test_batches_round_once() -> None:
    a = weft.placeholder((3, 35, 18), dtype="float16", name="a")
    b = weft.placeholder((3, 18, 9), dtype="float16", name="b")
    program = weft.compile(matmul(a, b), options=TWIN)
    text = kernels_of(program)
    assert "mma_m16n8k16_f16(" in text and text.count("WEFT_KERNEL(") == 1
    random = np.random.default_rng(3)
    x = random.standard_normal((3, 35, 18)).astype(np.float16)
    y = random.standard_normal((3, 18, 9)).astype(np.float16)
    want = x.astype(float) @ y.astype(float)
    np.testing.assert_allclose(program(x, y).astype(float), want, rtol=2**-10, atol=1e-3)


def test_sums_of_integers_are_exact() -> None:
    k = weft.reduce_axis((0, 70), name="k")
    A = weft.placeholder((33, 70), dtype="uint8", name="A")
    B = weft.placeholder((70, 40), dtype="int8", name="B")
    body = lambda i, j: weft.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k)  # noqa: E731
    program = weft.compile(weft.compute((33, 40), body, name="C"), options=TWIN)
    assert "mma_m16n8k32_u8_s8(" in kernels_of(program)
    random = np.random.default_rng(4)
    a = random.integers(0, 256, (33, 70)).astype(np.uint8)
    b = random.integers(-128, 128, (70, 40)).astype(np.int8)
    assert np.array_equal(program(a, b), a.astype(np.int32) @ b.astype(np.int32))


def test_a_convolution_is_a_product_of_its_pixels() -> None:
    p, q = weft.reduce_axis((0, 3), name="p"), weft.reduce_axis((0, 3), name="q")
    c = weft.reduce_axis((0, 16), name="c")
    X = weft.placeholder((2, 6, 9, 16), dtype="float16", name="X")
    W = weft.placeholder((3, 3, 16, 24), dtype="float16", name="W")

    def body(b, y, z, f):
        return weft.sum(wide(X[b, y + p, z + q, c]) * wide(W[p, q, c, f]), axis=(p, q, c))

    program = weft.compile(weft.compute((2, 4, 7, 24), body, name="O"), options=TWIN)
    assert "mma_m16n8k16_f16(" in kernels_of(program)
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 6, 9, 16)).astype(np.float16)
    w = random.standard_normal((3, 3, 16, 24)).astype(np.float16)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), (3, 3), (1, 2))
    want = np.einsum("byzcpq,pqcf->byzf", windows, w.astype(float))
    np.testing.assert_allclose(program(x, w), want, rtol=1e-4, atol=1e-4)


def test_what_is_no_tile_of_warps_is_refused() -> None:
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0424[^$]*no whole issues"):
        by_hand(warps=(4, 1))
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0424[^$]*no multiple"):
        by_hand(warps=(1, 1), depth=24)
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0424[^$]*how many warps"):
        by_hand()
    deep = by_hand(warps=(1, 1), depth=256, stages=16)
    with pytest.raises(CompileError, match=r"WEFT-E0506[^$]*shared memory"):
        product.compile(deep, options=TWIN)


FAULTS = {  # in a kernel's text, each as a writer of kernels might make it
    "a wait dropped": ("copies_wait<0>();", ""),
    "a wait for one group less": ("copies_wait<0>();", "copies_wait<1>();"),
    "a barrier dropped": ("copies_wait<0>();\n      block_barrier();", "copies_wait<0>();"),
    "no commit": ("copies_commit();", ""),
    "another lane's row": ("= lane_index();", "= (lane_index() ^ 1);"),
    "not transposed": ("<4, true>", "<4, false>"),
    "a line's place": ("swizzled<2, 3, 3>", "swizzled<1, 3, 3>"),
    "one operand for both": ("_b[column_", "_b[0 * column_"),
}  # fmt: skip


@pytest.fixture(scope="module")
def staged() -> weft.Executable:
    return product.compile(by_hand(warps=(2, 2), depth=32, stages=2), options=TWIN)


@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_catches_faults_in_the_text(name: str, staged: weft.Executable) -> None:
    text = staged.source("cuda")
    head, kernels = text.split("#endif\n\n", 1)
    old, new = FAULTS[name]
    assert old in kernels, kernels
    count = 1 if name == "a line's place" else -1
    code = twin.twin_object(f"{head}#endif\n\n{kernels.replace(old, new, count)}")
    other = weft.Executable(replace(staged._compiled, objects=(code,)))
    random = np.random.default_rng(6)
    a = random.standard_normal((40, 100)).astype(np.float16)
    b = random.standard_normal((100, 33)).astype(np.float16)
    c = np.full((40, 33), np.nan, np.float32)
    try:
        other(a, b, c)
    except ExecutionError as error:
        assert "barrier" in str(error)
        return
    assert not np.allclose(c, a.astype(float) @ b.astype(float), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_assembler_takes_it_without_spilling(
    architecture: str, staged: weft.Executable
) -> None:
    try:
        nvrtc.nvrtc_library()
    except CompileError:
        pytest.skip("NVIDIA's compiler is not installed")
    found = cubin(staged.source("cuda"), architecture)
    assert [kernel.spilled for kernel in found.kernels] == [0]
