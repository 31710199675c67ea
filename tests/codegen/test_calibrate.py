from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest

from weft.codegen import calibrate as module
from weft.codegen.calibrate import Measured, calibrate, calibrated
from weft.codegen.calibration_ir import CHAINED, calibration_ir
from weft.codegen.llvm.target import host_target, inspect
from weft.codegen.machines.host import cpu_count, host

LEVELS = len(host().machine.caches)
MEASURED = Measured(
    3.5e9, 4, 2, 2, (1.0,) * LEVELS, 9.9e9, 1e-6, 1e11, (2e9,) * LEVELS, 19e9, 3e-5
)  # fmt: skip


def test_what_is_timed_is_still_there_after_llvm() -> None:
    target = host_target()
    code = inspect(calibration_ir(target.vector_bytes, 12), target).optimised
    parts = code.split("define ")[1:]
    functions = {part.split("@")[1].split("(")[0]: part for part in parts}
    assert functions["fma"].count("@llvm.fma.") == 12
    assert functions["latency"].count("@llvm.fma.") == 1
    assert functions["read"].count("= load <") == functions["copy"].count("= load <") == 8
    assert functions["copy"].count("store <") == 8
    chained = functions["clock"].count(" xor i64") + functions["clock"].count(" add i64")
    assert chained >= CHAINED


def test_rates_are_numbers_that_a_processor_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS", 2)
    monkeypatch.setattr(module, "SECONDS", 2e-4)
    monkeypatch.setattr(module, "MOST", 1 << 22)
    found = calibrate()
    assert 1e8 < found.frequency < 1e10
    assert found.fma_latency >= 1 and found.fma_per_cycle >= 1 and found.loads_per_cycle >= 1
    assert len(found.bandwidths) == len(host().machine.caches)
    assert all(0 < rate < 10_000 for rate in (*found.bandwidths, found.memory_bandwidth / 1e9))
    assert (found.barrier is None) == (cpu_count() == 1)
    assert found.barrier is None or 0 < found.barrier < 1
    assert (found.wake is None) == (cpu_count() == 1) and (found.wake is None or 0 < found.wake < 1)
    least = (*(rate * found.frequency for rate in found.bandwidths[1:]), found.memory_bandwidth)
    assert len(found.streams) == LEVELS
    assert all(0.99 * one <= most for one, most in zip(least[-1:], found.streams[-1:], strict=True))
    assert found.shared_bandwidth >= found.memory_bandwidth


def test_the_record_has_what_was_measured_and_all_else_of_the_host() -> None:
    target, plain = calibrated(MEASURED), host()
    machine = target.machine
    assert target.name == "host-calibrated" and target.llvm == plain.llvm
    assert (machine.frequency, machine.memory_bandwidth, machine.barrier) == (3.5e9, 9.9e9, 1e-6)
    assert [c.bandwidth for c in machine.caches] == list(MEASURED.bandwidths)
    assert [c.size for c in machine.caches] == [c.size for c in plain.machine.caches]
    assert machine.features == plain.machine.features
    assert (machine.shared_bandwidth, machine.wake) == (19e9, 3e-5)
    assert machine.peaks.frequency > 3.5e9
    assert all(rate > 2e9 for rate in machine.peaks.bandwidths)
    lanes = host_target().vector_bytes // 4
    assert 2 * lanes * machine.peaks.fma * machine.frequency == pytest.approx(1e11)
    assert machine.peaks.accesses == plain.machine.peaks.accesses
    alone = calibrated(replace(MEASURED, barrier=None))
    assert alone.machine.barrier == plain.machine.barrier


def test_cache_sizes_to_read_lie_between_levels() -> None:
    sizes = [32 << 10, 1 << 20, 32 << 20]
    for level, size in enumerate(sizes):
        chosen = module._inside(level, sizes)
        assert chosen <= size and (level == 0 or chosen >= 2 * sizes[level - 1])
        assert chosen % (8 * host_target().vector_bytes) == 0


def test_functions_return_at_all() -> None:
    code = module._Code()
    for run in (code.clock, code.latency, code.fma, code.meet):
        assert run(3) >= 0
    block = ctypes.create_string_buffer(8192 + 64)
    at = ctypes.addressof(block)
    at += -at % 64
    for read in (code.read, code.streams, code.together):
        assert read(at, 8192, 2) >= 0
    block[at - ctypes.addressof(block)] = b"x"
    assert code.copy(at, 4096, 2) >= 0 and block.raw.count(b"x") == 2
    assert code.wake() > 0
