"""The emitted text is CUDA that NVIDIA's compiler takes, where it is installed."""

from __future__ import annotations

import msgspec
import pytest

import weft
from weft.benchmarks.polybench.run import SUITE
from weft.codegen.cuda import nvrtc
from weft.codegen.cuda.nvrtc import Cubin, KernelUse, cubin_job, kernel_uses
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CompileError
from weft.workers.worker_pool import WorkerPool

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel_0' for 'sm_90a'
ptxas info    : Function properties for kernel_0
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1088 bytes smem
ptxas info    : Compiling entry function 'kernel_1' for 'sm_90a'
ptxas info    : Function properties for kernel_1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


SPILLED = 16  # bytes, around a call that divides doubles


def test_what_the_assembler_says() -> None:
    assert kernel_uses(LOG) == (KernelUse("kernel_0", 32, 1088, 16), KernelUse("kernel_1", 8, 0, 0))


def test_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "PACKAGE", "no-such-package")
    with pytest.raises(CompileError, match=r"WEFT-E0509[^$]*weft\[cuda\]"):
        nvrtc.nvrtc_library()


def installed() -> bool:
    try:
        nvrtc.nvrtc_library()
    except CompileError:
        return False
    return True


needs = pytest.mark.skipif(
    not installed(), reason="NO NVRTC: emitted CUDA is not assembled; pip install 'weft[cuda]'"
)


@needs
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "bool"])
def test_small_types_assemble(dtype: str) -> None:
    x = weft.placeholder((100,), dtype=dtype, name="x")
    y = weft.compute((100,), lambda i: weft.maximum(x[i], x[99 - i]).astype("float32"), name="y")
    text = weft.compile(y, options=weft.Options(target="sm_80")).source("cuda")
    (kernel,) = nvrtc.cubin(text, "sm_80").kernels
    assert kernel.registers and not kernel.spilled


@weft.kernel
def halves(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for q in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, q]) * weft.float32(B[q, j])


@needs
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_shared_memory_that_a_launch_asks_for_assembles(architecture: str) -> None:
    """A kernel may not declare 72 KiB; so it declares none."""
    options = weft.Options(target=architecture, cache=False)
    s = weft.schedule(halves, options=options).tile({"i": 64, "j": 32})
    s = s.reorder(["q", "i_p", "j_p"])
    how = {"warps": (2, 2), "depth": 128, "stages": 3}
    s = s.tensorize(["q"], ["i_p"], "j_p", instruction="mma.m16n8k16.f16", **how)
    text = halves.compile(s.set_kinds({"i_t": "grid", "j_t": "grid"}), options=options).source(
        "cuda"
    )
    (kernel,) = nvrtc.cubin(text, architecture).kernels
    assert "WEFT_LAUNCH_ASKING(" in text and not kernel.shared and not kernel.spilled


@needs
def test_text_that_is_no_cuda_is_refused() -> None:
    with pytest.raises(CompileError, match="WEFT-E0510"):
        nvrtc.cubin("no C++", "sm_90a")


@needs
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_polybench_assembles_almost_without_spills(architecture: str) -> None:
    options = weft.Options(target=architecture, workers=0)
    texts = [
        benchmark.make(as_dtype(benchmark.dtype)).compile(options=options).source("cuda")
        for benchmark in SUITE.values()
    ]
    with WorkerPool(2) as pool:
        answers = pool.run("cubin", [cubin_job(text, architecture) for text in texts], timeout=60.0)
    for name, answer in zip(SUITE, answers, strict=True):
        assert isinstance(answer, bytes), (name, answer)
        made = msgspec.msgpack.decode(answer, type=Cubin)
        assert made.code[:4] == b"\x7fELF" and made.kernels, name
        assert all(0 < k.registers <= 255 and k.spilled <= SPILLED for k in made.kernels), name
