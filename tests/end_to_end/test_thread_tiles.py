"""Products of float32 as tiles of threads, through the whole compiler: right in the twin for sizes
that no tile divides, and what is planted in them is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.benchmarks.gpu.rows import product
from weft.codegen.cuda import nvrtc, twin
from weft.codegen.cuda.nvrtc import cubin
from weft.ir.errors import CompileError, ExecutionError

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)
CALL = "fma_m32n32k2_f32("


def kernels_of(program: weft.Executable) -> str:
    return program.source("cuda").split("#endif\n\n", 1)[1]


def given(size: tuple[int, int, int], layout: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = size
    random = np.random.default_rng(seed)
    a = random.standard_normal((k, m) if layout[0] == "T" else (m, k), np.float32)
    return a, random.standard_normal((n, k) if layout[1] == "T" else (k, n), np.float32)


def exact(a: np.ndarray, b: np.ndarray, layout: str) -> np.ndarray:
    left, right = a.astype(float), b.astype(float)
    return (left.T if layout[0] == "T" else left) @ (right.T if layout[1] == "T" else right)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("size", [(33, 65, 17), (64, 32, 2)], ids=str)
def test_products_of_every_layout(size: tuple[int, int, int], layout: str) -> None:
    program = weft.compile(product(size, "float32", layout).build(), options=TWIN)
    assert CALL in kernels_of(program)
    a, b = given(size, layout)
    np.testing.assert_allclose(program(a, b), exact(a, b, layout), rtol=1e-5, atol=1e-5)


def test_a_tile_of_several_warps() -> None:
    program = weft.compile(product((1024, 1027, 5), "float32").build(), options=TWIN)
    assert "WEFT_KERNEL(64)" in kernels_of(program)
    a, b = given((1024, 1027, 5), "NN")
    np.testing.assert_allclose(program(a, b), exact(a, b, "NN"), rtol=1e-5, atol=1e-5)


def test_one_program_for_all_sizes() -> None:
    n, m, h = (weft.var(name) for name in "nmh")
    a, b = weft.placeholder((n, h), name="a"), weft.placeholder((h, m), name="b")
    k = weft.reduce_axis((0, h), name="k")
    sums = weft.compute((n, m), lambda i, j: weft.sum(a[i, k] * b[k, j], axis=k), name="sums")
    program = weft.compile(sums, options=TWIN)
    assert CALL in kernels_of(program)
    for size in ((1, 1, 1), (3, 5, 0), (0, 4, 2), (129, 37, 5), (31, 130, 33)):
        x, y = given(size, "NN")
        np.testing.assert_allclose(program(x, y), exact(x, y, "NN"), rtol=1e-5, atol=1e-5)


def test_what_is_no_number_stays_where_it_is() -> None:
    """Zeros that fill up a tile meet no infinity of another row or lane."""
    program = weft.compile(product((33, 35, 17), "float32").build(), options=TWIN)
    a, b = given((33, 35, 17), "NN")
    a[32, 16], b[3, 34] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = exact(a, b, "NN")
    np.testing.assert_allclose(program(a, b), want, rtol=1e-5, atol=1e-5)


def test_what_follows_runs_on_the_sums() -> None:
    a, b = weft.placeholder((40, 30), name="a"), weft.placeholder((30, 50), name="b")
    bias = weft.placeholder((50,), name="bias")
    k = weft.reduce_axis((0, 30), name="k")
    sums = weft.compute((40, 50), lambda i, j: weft.sum(a[i, k] * b[k, j], axis=k), name="sums")
    body = lambda i, j: weft.maximum(sums[i, j] + bias[j], 0.0)  # noqa: E731
    program = weft.compile(weft.compute((40, 50), body, name="D"), options=TWIN)
    text = kernels_of(program)
    assert CALL in text and text.count("WEFT_KERNEL(") == 1
    x, y = given((40, 50, 30), "NN")
    c = np.random.default_rng(1).standard_normal(50, np.float32)
    want = np.maximum(exact(x, y, "NN") + c, 0)
    np.testing.assert_allclose(program(x, y, c), want, rtol=1e-5, atol=1e-5)


FAULTS = {  # in a kernel's text
    "a wait dropped": ("copies_wait<", "// copies_wait<"),
    "another lane's row": ("= lane_index();", "= (lane_index() ^ 4);"),
    "one step for both": ("_a[0 * 8 + number", "_a[0 * 8 + 0 * number"),
    "no barrier": ("block_barrier();", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def small() -> weft.Executable:
    return weft.compile(product((40, 33, 50), "float32").build(), options=TWIN)


@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_catches_faults_in_the_text(name: str, small: weft.Executable) -> None:
    head, kernels = small.source("cuda").split("#endif\n\n", 1)
    old, new = FAULTS[name]
    assert old in kernels, kernels
    count = 2 if name == "another lane's row" else -1
    code = twin.twin_object(f"{head}#endif\n\n{kernels.replace(old, new, count)}")
    other = weft.Executable(replace(small._compiled, objects=(code,)))
    a, b = given((40, 33, 50), "NN")
    try:
        found = other(a, b)
    except ExecutionError as error:
        assert "barrier" in str(error)
        return
    assert not np.allclose(found, exact(a, b, "NN"), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_assembler_takes_it_without_spilling(architecture: str) -> None:
    try:
        nvrtc.nvrtc_library()
    except CompileError:
        pytest.skip("NVIDIA's compiler is not installed")
    options = weft.Options(target=architecture, workers=0)
    text = weft.compile(product((4096,) * 3, "float32").build(), options=options).source("cuda")
    assert [kernel.spilled for kernel in cubin(text, architecture).kernels] == [0]
