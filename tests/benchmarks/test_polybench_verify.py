"""The judge of the suite lets no wrong answer pass, and says when a problem has none."""

from __future__ import annotations

import numpy as np
import pytest

from weft.benchmarks.polybench.benchmark import DATASETS, Arguments, Benchmark, Sizes
from weft.benchmarks.polybench.run import SUITE
from weft.benchmarks.polybench.solvers import gramschmidt_residual
from weft.benchmarks.polybench.verify import Run, distance, verify, wide


def by_oracle(benchmark: Benchmark) -> Run:
    """A program that is right by definition."""

    def run(arguments: Arguments) -> None:
        for name, value in benchmark.oracle(**wide(arguments)).items():
            arguments[name][...] = value

    return run


def nudge(run: Run, amount: float) -> Run:
    """``run`` with one element of one array off by ``amount`` of its norm."""

    def wrong(arguments: Arguments) -> None:
        run(arguments)
        arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
        last = arrays[-1].reshape(-1)
        least = 1 if last.dtype.kind == "i" else 0
        last[-1] += max(amount * float(np.linalg.norm(last)), least)

    return wrong


def sizes_of(benchmark: Benchmark) -> Sizes:
    return benchmark.sizes("mini")


def test_the_suite_is_the_published_one() -> None:
    assert len(SUITE) == 30
    assert sum(b.matrix for b in SUITE.values()) == 14
    for benchmark in SUITE.values():
        assert len(benchmark.published) == len(DATASETS)
        for dataset in DATASETS:
            assert benchmark.operations(**benchmark.sizes(dataset)) > 0
    assert SUITE["gemm"].sizes("large") == {"NI": 1000, "NJ": 1100, "NK": 1200}
    assert SUITE["atax"].sizes("extralarge") == {"M": 1800, "N": 2200}
    assert SUITE["deriche"].sizes("large") == {"W": 4096, "H": 2160}
    assert SUITE["adi"].sizes("extralarge") == {"TSTEPS": 1000, "N": 2000}


@pytest.mark.parametrize("name", ["jacobi-2d", "heat-3d", "floyd-warshall", "trisolv", "lu"])
def test_one_wrong_element_is_seen(name: str) -> None:
    benchmark = SUITE[name]
    dtype, run = benchmark.dtype, by_oracle(benchmark)
    sizes = sizes_of(benchmark)
    assert verify(benchmark, dtype, sizes, run, None, use_oracle=True).good
    assert not verify(benchmark, dtype, sizes, nudge(run, 1e-8), None, use_oracle=True).good


def test_a_kernel_that_does_nothing_is_seen_everywhere() -> None:
    for benchmark in SUITE.values():
        sizes = sizes_of(benchmark)
        verdict = verify(benchmark, benchmark.dtype, sizes, lambda _: None, None, use_oracle=True)
        assert not verdict.good, benchmark.name


def test_beyond_medium_the_unscheduled_program_is_the_judge() -> None:
    benchmark = SUITE["mvt"]
    run, sizes = by_oracle(benchmark), sizes_of(benchmark)
    assert verify(benchmark, "float64", sizes, run, run, use_oracle=False).good
    wrong = nudge(run, 1e-8)
    assert not verify(benchmark, "float64", sizes, run, wrong, use_oracle=False).good


def test_an_ill_conditioned_problem_gets_the_bound_that_it_has() -> None:
    benchmark = SUITE["durbin"]
    run, sizes = by_oracle(benchmark), {"N": 300}
    close = nudge(run, 1e-9)
    strict = verify(benchmark, "float64", sizes, close, None, use_oracle=True)
    assert not strict.good and strict.bound == 1e-10
    regular = benchmark.regular
    assert regular is not None
    moved = verify(benchmark, "float64", sizes, close, run, use_oracle=True)
    assert not moved.good  # the regular inputs have no such excuse


def test_nan_is_right_only_where_it_must_be() -> None:
    nan, one = np.array([np.nan, 1.0]), np.array([1.0, 1.0])
    assert distance({"A": nan}, {"A": nan}) == 0.0
    assert distance({"A": nan}, {"A": one}) == np.inf
    assert distance({"A": one}, {"A": nan}) == np.inf
    assert distance({"A": np.array([1.0, np.inf])}, {"A": one}) == np.inf


def test_orthogonalisation_may_stop_at_a_dependent_column_only() -> None:
    benchmark = SUITE["gramschmidt"]
    before = benchmark.inputs(np.dtype(np.float64), M=20, N=30)
    after = {name: value.copy() for name, value in before.items()}
    by_oracle(benchmark)(after)
    assert gramschmidt_residual(before, after) < 1e-14
    after["Q"][:, 2:] = np.nan
    assert gramschmidt_residual(before, after) == np.inf
    after["Q"][:, :2] = 0.0
    assert gramschmidt_residual(before, {**after, "Q": np.zeros((20, 30))}) > 0.1
