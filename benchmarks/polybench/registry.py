"""All benchmarks of the suite, by name."""

from __future__ import annotations

from weft.benchmarks.polybench import blas, datamining, kernels, medley, solvers, stencils
from weft.benchmarks.polybench.benchmark import Benchmark

SUITE: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for module in (blas, kernels, solvers, datamining, medley, stencils)
    for benchmark in module.BENCHMARKS
}
