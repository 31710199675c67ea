from __future__ import annotations

import pytest

from tests.benchmarks.polybench_checks import (
    check_answers,
    check_guarded,
    check_printed_c,
    check_python,
)
from weft.benchmarks.polybench.benchmark import Benchmark
from weft.benchmarks.polybench.stencils import BENCHMARKS


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.name)
def test_the_compiled_kernel_gives_numpys_answers(benchmark: Benchmark) -> None:
    check_answers(benchmark, benchmark.dtype)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.name)
def test_the_function_in_python_gives_numpys_answers(benchmark: Benchmark) -> None:
    check_python(benchmark)


def test_the_printed_c_gives_numpys_answers() -> None:
    check_printed_c(list(BENCHMARKS))


def test_no_access_is_outside_its_buffer() -> None:
    check_guarded("stencils")
