"""The C that Weft is timed against is what a user of PolyBench writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.benchmarks.polybench.c_peer import (
    FAST,
    aligned_copy,
    compile_c,
    compilers,
    published_loops,
    sizes_of,
)
from weft.benchmarks.polybench.run import SUITE
from weft.codegen.c_printer import print_c
from weft.ir.dtypes import as_dtype


def printed(name: str) -> str:
    benchmark = SUITE[name]
    scop = benchmark.make(as_dtype(benchmark.dtype)).lowered.scop
    inputs = benchmark.inputs(np.dtype(benchmark.dtype), **benchmark.sizes("mini"))
    return print_c(published_loops(scop, sizes_of(scop, inputs)))


def test_symm_as_published() -> None:
    assert printed("symm").split("#endif\n\n")[1] == (
        "void kernel_symm(\n"
        "    double alpha,\n"
        "    double beta,\n"
        "    double C[restrict 20][30],\n"
        "    const double A[restrict 20][20],\n"
        "    const double B[restrict 20][30]) {\n"
        "  C = __builtin_assume_aligned(C, 64);\n"
        "  A = __builtin_assume_aligned(A, 64);\n"
        "  B = __builtin_assume_aligned(B, 64);\n"
        "  double temp2;\n"
        "  for (int64_t i = 0; i < 20; i++) {\n"
        "    for (int64_t j = 0; j < 30; j++) {\n"
        "      temp2 = 0.0;\n"
        "      for (int64_t k = 0; k < i; k++) {\n"
        "        C[k][j] += alpha * B[i][j] * A[i][k];\n"
        "        temp2 += B[k][j] * A[i][k];\n"
        "      }\n"
        "      C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * temp2;\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


def test_time_steps_are_constants_and_small_arrays_live_on_the_stack() -> None:
    assert "for (int64_t t = 0; t < 20; t++) {" in printed("jacobi-2d")
    assert "  _Alignas(64) double z[40];\n" in printed("durbin")
    assert "path[i][j] = min_i32(path[i][j], path[i][k] + path[k][j]);" in printed("floyd-warshall")


@pytest.mark.skipif(not compilers(), reason="no C compiler on this machine")
def test_small_numbers_stay_what_they_are_beside_fast_c(tmp_path: Path) -> None:
    benchmark = SUITE["gemm"]
    scop = benchmark.make(as_dtype(benchmark.dtype)).lowered.scop
    inputs = benchmark.inputs(np.dtype(benchmark.dtype), **benchmark.sizes("mini"))
    for compiler in compilers().values():
        compile_c(scop, sizes_of(scop, inputs), compiler, FAST, tmp_path)
        assert np.float32(1e-38) * np.float32(0.5) > 0


def test_arrays_are_aligned() -> None:
    for count in (1, 7, 1000):
        copy = aligned_copy(np.arange(count, dtype=np.float32))
        assert copy.ctypes.data % 64 == 0 and copy[-1] == count - 1
