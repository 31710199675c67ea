from __future__ import annotations

import ctypes

import numpy as np
import pytest

from weft.benchmarks import limits as copy_bandwidth
from weft.benchmarks.limits import Copy, Limits, Probe
from weft.codegen.llvm.target import host_target, inspect, to_object
from weft.codegen.objects.native_library import link


@pytest.mark.parametrize("streaming", [False, True])
def test_a_copy_copies_and_touches_nothing_else(streaming: bool) -> None:
    width = host_target().vector_bytes
    text = copy_bandwidth.loop(width, streaming=streaming)
    tracker = link([to_object(text, host_target())], ("copy",), {})
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    copy = ctypes.CFUNCTYPE(None, pointer, pointer, size, size)(tracker["copy"])
    memory = np.zeros(8 * width * 5 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    source, target = (memory[start + k * 16 * width :][: 16 * width] for k in (0, 1))
    source[:] = np.random.default_rng(0).integers(1, 255, source.size)
    given = source.copy()
    copy(target.ctypes.data, source.ctypes.data, source.size, 2)
    assert (target == given).all() and (source == given).all()
    assert not memory[:start].any() and not memory[start + 32 * width :].any()


@pytest.mark.parametrize("streaming", [False, True])
def test_a_copy_is_vectors_and_no_call(streaming: bool) -> None:
    code = inspect(copy_bandwidth.loop(32, streaming=streaming), host_target())
    assert "memcpy" not in code.assembly
    assert ("!nontemporal" in code.optimised) == streaming


def test_bytes_are_those_read_and_written() -> None:
    step = 8 * host_target().vector_bytes
    assert Copy(4 * step + 3, streaming=False).moved == 4 * step
    assert Copy(0, streaming=False).moved == 2 * step  # at least one turn


def test_a_probe_keeps_its_best_rate() -> None:
    runs: list[int] = []
    probe = Probe(6e9, lambda: runs.append(1))
    probe.loop(3)
    assert len(runs) == 3
    probe.note([3000.0, 2000.0])
    probe.note([6000.0])
    assert probe.best == 3e9


def test_limits_are_made_once_for_each_size_and_dtype() -> None:
    limits = Limits(2)
    (name, probe), *_ = limits.of("float32").items()
    assert name == "float32 peak" and limits.of("float32")[name] is probe
    assert set(limits.of("copy", 1 << 16)) == {"plain copy", "streaming copy"}
    assert limits.of("copy", 60_000) == limits.of("copy", 1 << 16)  # about as many bytes
    assert limits.of("") == {} and limits.best("") == 0.0
    probe.loop(1)
    probe.note([1.0])
    assert limits.best("float32") == probe.work * 1e3
    assert probe.work == 2 * Limits(1).of("float32")[name].work  # two threads
