from __future__ import annotations

import time

import pytest

from weft.benchmarks import fma_peak
from weft.benchmarks.fma_peak import FmaPeak
from weft.benchmarks.timing import (
    Contestant,
    interleaved_restored,
    spread,
)
from weft.codegen.llvm.target import host_target, inspect


def test_contestants_take_turns_and_are_prepared_before_each() -> None:
    log: list[str] = []
    contestants = {
        name: Contestant(lambda n=name: log.append(n), lambda n=name: log.append(f"prepare {n}"))  # type: ignore[misc]
        for name in "ab"
    }
    times = interleaved_restored(contestants, seconds=0.05, rounds=3)
    assert log[:4] == ["prepare a", "a", "prepare b", "b"] and log[:4] == log[4:8]
    assert len(times["a"]) == len(times["b"]) == 3


def test_a_slow_contestant_runs_once() -> None:
    runs: list[int] = []

    def slow() -> None:
        runs.append(1)
        time.sleep(0.02)

    times = interleaved_restored({"slow": Contestant(slow)}, seconds=0.01)
    assert len(runs) == 1 and times["slow"][0] >= 20


@pytest.mark.parametrize("unit", fma_peak.UNITS, ids=lambda unit: unit.dtype)
@pytest.mark.parametrize("width", [32, 64])
def test_the_peak_performs_what_it_counts(unit: fma_peak.Unit, width: int) -> None:
    if fma_peak.unit_of(unit.dtype, host_target()) is not unit or (unit.depth > 1 and width < 64):
        pytest.skip("another processor's instruction")
    chains = fma_peak.accumulators(width)
    code = inspect(fma_peak.loop(unit, width, chains), host_target()).optimised
    body = code[code.index("\nloop:") : code.index("\ndone:")]
    name = unit.intrinsic if unit.depth > 1 else "@llvm.fma.v"
    assert body.count(name) == chains  # LLVM once knew the value of one of them
    assert body.count(" call ") == chains or body.count("tail call") == chains


def test_the_rate_is_that_of_a_processor() -> None:
    peak = FmaPeak()
    assert peak.operations in (2 * 200_000 * 4 * 12, 2 * 200_000 * 8 * 24)
    start = time.perf_counter()
    peak()
    assert 0.1 < peak.operations / (time.perf_counter() - start) / 1e9 < 1000


def test_the_spread_is_that_of_the_median() -> None:
    steady, wild = [1.0] * 9, [1.0, 2.0, 3.0] * 3
    assert spread(steady) == 0.0
    assert spread(wild) == pytest.approx(1.57 * 2.0 / 3 / 2.0)
    assert spread(wild * 4) == pytest.approx(spread(wild) / 2)
    assert spread([1.0]) == 1.0
