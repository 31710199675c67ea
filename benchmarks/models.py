"""The embedded models beside onnxruntime: answers on three inputs, latency, compile time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

import weft
from weft.benchmarks.timing import interleaved
from weft.frontend.zoo.registry import MODELS

RTOL, ATOL = 1e-3, 1e-4

# VmHWM, for ru_maxrss counts what the parent had before exec.
_COLD = """
import re, sys, time
from pathlib import Path
import weft
from weft.frontend.zoo.registry import MODELS
model = MODELS[sys.argv[1]].build()
start = time.perf_counter()
weft.compile(model, options=weft.Options(cache_dir=sys.argv[2], threads=1))
seconds = time.perf_counter() - start
print(seconds, re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def run(threads: int, quick: bool) -> list[dict[str, Any]]:
    """A row for each model: compile time and memory, answers beside onnxruntime's, latencies."""
    return [_row(name, threads, quick) for name in MODELS]


def _row(name: str, threads: int, quick: bool) -> dict[str, Any]:
    zoo = MODELS[name]
    model = zoo.build()
    with tempfile.TemporaryDirectory() as folder:
        cold, cold_kib = _compile_apart(name, folder)
        warm, _ = _compile_apart(name, folder)
        options = weft.Options(cache_dir=folder, threads=threads)
        executable = weft.compile(model, options=options)
    row: dict[str, Any] = {
        "name": name,
        "threads": threads,
        "compile_s": round(cold, 2),
        "compile_cached_s": round(warm, 2),
        "compile_peak_mib": cold_kib // 1024,
        "arena_bytes": executable.stats["arena_bytes"],
        "intermediate_bytes": executable.stats["intermediate_bytes"],
    }
    inputs = zoo.seeded_inputs(0)
    contestants = {"weft": lambda: executable.run(inputs)}
    peer = _onnxruntime(model.SerializeToString(), threads)
    if peer is not None:
        contestants["onnxruntime"] = lambda: peer.run(None, inputs)
        row["max_difference"], row["within_tolerance"] = _compare(executable, peer, zoo)
    times = interleaved(contestants, seconds=3.0 if quick else 15.0)
    for contestant, median in times.items():
        row[f"{contestant}_ms"] = round(median, 3)
    if peer is not None:
        row["ratio"] = round(times["weft"] / times["onnxruntime"], 3)
    return row


def _compile_apart(name: str, folder: str) -> tuple[float, int]:
    """Seconds and peak KiB of compiling in a fresh process whose cache is ``folder``."""
    command = [sys.executable, "-c", _COLD, name, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, kib = done.stdout.split()
    return float(seconds), int(kib)


def _onnxruntime(model: bytes, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _compare(executable: Any, peer: Any, zoo: Any) -> tuple[float, bool]:
    """Largest absolute difference over three inputs, and whether all are within tolerance."""
    worst, good = 0.0, True
    for seed in range(3):
        inputs: Mapping[str, np.ndarray] = zoo.seeded_inputs(seed)
        for got, expected in zip(
            executable.run(inputs).values(), peer.run(None, inputs), strict=True
        ):
            worst = max(worst, float(np.abs(got - expected).max()))
            good &= bool(np.allclose(got, expected, rtol=RTOL, atol=ATOL))
    return worst, good
