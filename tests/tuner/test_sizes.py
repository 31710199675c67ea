"""One plan for several sizes: ranges beside enumeration, names of versions beside real programs."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type"

from __future__ import annotations

from itertools import combinations, pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.tuner.stubs import Inside
from weft.benchmarks.polybench.run import SUITE
from weft.ir import dtypes
from weft.ir.errors import CompileError
from weft.runtime.records import Records
from weft.tuner.confirm import Gain
from weft.tuner.sizes import VERSIONS, WORTH, names_by_version, ranges_of, replaces, several

OPTIONS = weft.Options(threads=1, cache=False, target="x86-64-v3")


@weft.kernel
def product(A: weft.f64[N, K], B: weft.f64[K, M], C: weft.f64[N, M]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def best_by_enumeration(sizes: list[int], gains: np.ndarray) -> float:
    """The greatest value of any cut into at most ``VERSIONS`` ranges, each of which costs."""
    count = len(sizes)
    cuts = [k for k in range(1, count) if sizes[k] > sizes[k - 1]]
    best = -np.inf
    for number in range(VERSIONS):
        for chosen in combinations(cuts, number):
            edges = [0, *chosen, count]
            value = sum(gains[a:b].sum(axis=0).max() for a, b in pairwise(edges))
            best = max(best, value - log(WORTH) * count * (number + 1))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_ranges_are_the_best_there_are(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 9))
    sizes = sorted(random.integers(1, 12, count).tolist())
    gains = random.normal(0, 0.2, (count, int(random.integers(1, 5))))
    found = ranges_of(sizes, gains)
    value = sum(r.value for r in found) - log(WORTH) * count * len(found)
    assert value == pytest.approx(best_by_enumeration(sizes, gains))
    starts = [r.start for r in found]
    assert starts[0] == sizes[0] and starts == sorted(set(starts)) and len(starts) <= VERSIONS
    for k, r in enumerate(found):
        end = starts[k + 1] if k + 1 < len(starts) else np.inf
        inside = [n for n, size in enumerate(sizes) if r.start <= size < end]
        assert r.value == pytest.approx(gains[inside, r.plan].sum())


@pytest.mark.parametrize("name", ["gemm", "lu", "atax", "jacobi-2d", "syrk", "gesummv"])
@pytest.mark.long
def test_decisions_of_versions_are_those_of_the_program(name: str) -> None:
    """What one version alone decides otherwise changes that version, and no other."""
    kernel = SUITE[name].make(dtypes.float64)
    versions = {f"{kernel.scop.name}.versions": f"{kernel.scop.parameters[-1]} >= 40"}
    own = {d.name: d.chosen for d in weft.compile(kernel, options=OPTIONS).plan.decisions}
    cut = weft.compile(kernel, options=OPTIONS, plan=versions).plan
    statements = [s.name for s in kernel.scop.statements]
    groups = names_by_version(statements, cut.decisions, 2)
    named = [*groups[0].values(), *groups[1].values()]
    assert len(set(named)) == len(named)
    assert set(named) == {d.name for d in cut.decisions[1:]}
    for group in groups:
        known = {n: m for n, m in group.items() if n in own}
        assert len(known) > len(own) / 2
        assert {n: cut[m] for n, m in known.items()} == {n: own[n] for n in known}
    sized = {n for n, value in own.items() if n.endswith("_tile") and isinstance(value, int)}
    for n in sorted(sized & set(groups[0]) & set(groups[1]))[:1]:
        one, other = groups[1][n], groups[0][n]
        made = weft.compile(kernel, options=OPTIONS, plan={**versions, one: 24}).plan
        assert made[one] == 24 and made[other] == own[n] != 24


SURE, EVEN = Gain(1.2, 1.1, 1.3), Gain(1.0, 0.99, 1.01)


@pytest.mark.parametrize(
    ("gains", "taken"),
    [
        ([SURE, SURE], True),
        ([SURE, EVEN], True),
        ([EVEN, EVEN], False),
        ([SURE, Gain(0.95, 0.9, 1.01)], False),  # slower at one call, as likely as not
        ([SURE, None], False),
        ([], False),
    ],
)
def test_a_plan_that_may_be_slower_at_one_call_is_not_taken(
    gains: list[Gain | None], taken: bool
) -> None:
    assert replaces(gains) is taken


def call(n: int) -> tuple[Any, ...]:
    random = np.random.default_rng(n)
    return tuple(random.random((n, n)) for _ in range(3))


def test_several_calls_are_told_from_one() -> None:
    assert several([call(2), call(3)]) and several([{"A": 1}])
    assert not several(call(2)) and not several([]) and not several(None) and not several("ab")


@pytest.mark.long
def test_calls_of_several_sizes_end_to_end(tmp_path: Path) -> None:
    calls = [call(n) for n in (8, 40)]
    copies = [[a.copy() for a in each] for each in calls]
    records = tmp_path / "records"
    found = weft.tune(product, calls, trials=4, options=OPTIONS, records=records)
    assert len(found.outcomes) == 2 and found.trials >= 2
    for given, before in zip(calls, copies, strict=True):
        for a, b in zip(given, before, strict=True):
            np.testing.assert_array_equal(a, b)  # what is timed is not the caller's
    run = weft.compile(product, options=OPTIONS, plan=found.plan)
    for n in (0, 1, 7, 8, 9, 40, 41):
        A, B, C = call(n)
        expected = C + A @ B
        run(A, B, C)
        np.testing.assert_allclose(C, expected, rtol=1e-12)


@pytest.mark.long
def test_a_call_that_does_not_run_is_named(tmp_path: Path) -> None:
    """The untuned program refuses the second call: no plan is compared with nothing."""

    @weft.kernel
    def gather(A: weft.f64[N], I: weft.i64[N], B: weft.f64[N]):  # noqa: E741
        for i in range(N):
            B[i] = A[I[i]]

    good = (np.ones(3), np.zeros(3, np.int64), np.ones(3))
    bad = (np.ones(4), np.full(4, 99), np.ones(4))
    with pytest.raises(CompileError, match="WEFT-E1103: gather does not run untuned"):
        weft.tune(gather, [good, bad], trials=2, options=OPTIONS, records=tmp_path / "records")


def test_the_options_of_a_kernel_count(inside: Inside, tmp_path: Path) -> None:
    own = weft.kernel(options=OPTIONS)(product.__wrapped__)
    records = tmp_path / "records"
    weft.tune(own, call(8), trials=1, records=records)
    with Records(records) as kept:
        contexts = {line.split('"context": "')[1].split(" threads")[0] for line in kept.exported()}
    assert contexts == {"1"}
