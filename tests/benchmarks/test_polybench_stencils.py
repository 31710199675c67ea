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


def test_a_call_gives_numpys_answers() -> None:
    check_answers(BENCHMARKS)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.name)
def test_the_function_in_python_gives_numpys_answers(benchmark: Benchmark) -> None:
    check_python(benchmark)


def test_the_printed_c_gives_numpys_answers() -> None:
    check_printed_c(list(BENCHMARKS))


@pytest.mark.long
def test_the_compiled_kernels_give_numpys_answers_and_access_nothing_else() -> None:
    check_guarded("stencils")
