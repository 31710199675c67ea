"""The process in which peers run: as many threads for each as for Weft, and the best BLAS kernels.

Libraries read these settings when they are loaded, so a suite runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
_CORE_TYPE = "OPENBLAS_CORETYPE"
CORE_TYPES = ("", "Haswell", "SkylakeX", "SapphireRapids")  # "": what OpenBLAS detects

_PRODUCT = """
import time, numpy
a = numpy.ones((768, 768), numpy.float32)
times = []
for _ in range(6):
    start = time.process_time()
    a @ a
    times.append(time.process_time() - start)
print(min(times))
"""


def wanted(threads: int, environment: Mapping[str, str]) -> dict[str, str]:
    """What of ``environment`` has to change for ``threads`` threads; nothing where it has been."""
    changes = {name: str(threads) for name in _THREADS if environment.get(name) != str(threads)}
    if _CORE_TYPE not in environment:
        changes[_CORE_TYPE] = best_core_type(environment)
    return changes


def best_core_type(environment: Mapping[str, str]) -> str:
    """Of NumPy's OpenBLAS, by the processor time of a product in a process for each."""
    times = {name: _time(name, environment) for name in CORE_TYPES}
    return min(times, key=times.__getitem__)


def _time(core_type: str, environment: Mapping[str, str]) -> float:
    given = {**environment, **dict.fromkeys(_THREADS, "1"), _CORE_TYPE: core_type}
    command = [sys.executable, "-c", _PRODUCT]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else float("inf")  # instructions it lacks


def run_apart(arguments: Sequence[str], changes: Mapping[str, str]) -> int:
    """``python -m weft.benchmarks`` with ``arguments`` in the changed environment: exit code."""
    command = [sys.executable, "-m", "weft.benchmarks", *arguments]
    return subprocess.run(command, env={**os.environ, **changes}).returncode
