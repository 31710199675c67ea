from __future__ import annotations

import time

from weft.benchmarks import fma_peak
from weft.benchmarks.fma_peak import FmaPeak
from weft.benchmarks.timing import Contestant, interleaved, interleaved_restored
from weft.codegen.llvm_target import host_target, inspect


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


def test_medians_of_plain_contestants() -> None:
    assert interleaved({"a": lambda: time.sleep(0.001)}, seconds=0.01, rounds=6)["a"] >= 1.0


def test_the_peak_performs_what_it_counts() -> None:
    lanes, chains, turns = 4, 12, 200_000
    code = inspect(fma_peak.loop(lanes, chains), host_target()).optimised
    body = code[code.index("\nloop:") : code.index("\ndone:")]
    assert body.count("@llvm.fma.v4f64") == chains  # LLVM once knew the value of one of them
    peak = FmaPeak()
    assert peak.operations in (2 * turns * 4 * 12, 2 * turns * 8 * 24)
    assert 0.1 < peak.gflops(0.02) < 1000
