"""The process in which peers run: as many threads for each as for Weft, the best BLAS kernels, and
instructions that do not end it.

Libraries read these settings when they are loaded, so a suite runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import click

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
_CORE_TYPE = "OPENBLAS_CORETYPE"
CORE_TYPES = ("", "Haswell", "SkylakeX", "SapphireRapids")  # "": what OpenBLAS detects
_ONEDNN = "ONEDNN_MAX_CPU_ISA"
ONEDNN_LIMITS = ("ALL", "AVX512_CORE_FP16", "AVX512_CORE_BF16", "AVX2")  # "ALL": what it detects

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
_SMALL_PRODUCT = """
import torch
a = torch.ones(64, 64, dtype=torch.bfloat16)
a @ a
"""


def wanted(threads: int, environment: Mapping[str, str]) -> dict[str, str]:
    """What of ``environment`` has to change for ``threads`` threads; nothing where it has been."""
    changes = {name: str(threads) for name in _THREADS if environment.get(name) != str(threads)}
    if _CORE_TYPE not in environment:
        changes[_CORE_TYPE] = best_core_type(environment)
    if _ONEDNN not in environment and find_spec("torch"):
        changes[_ONEDNN] = widest_onednn(environment)
    return changes


def widest_onednn(environment: Mapping[str, str]) -> str:
    """The newest instructions with which PyTorch's oneDNN survives a product of bfloat16: on some
    virtual machines its use of matrix units ends the process."""
    for limit in ONEDNN_LIMITS:
        given = {**environment, _ONEDNN: limit}
        done = subprocess.run(
            [sys.executable, "-c", _SMALL_PRODUCT], env=given, capture_output=True
        )
        if done.returncode >= 0:
            return limit
        click.echo(f"oneDNN with {_ONEDNN}={limit} ends by signal {-done.returncode}", err=True)
    return ONEDNN_LIMITS[-1]


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
    code = subprocess.run(command, env={**os.environ, **changes}).returncode
    if code < 0:
        click.echo(f"the suite was ended by signal {-code} in the row after the last one", err=True)
    return code
