"""The process in which peers run: as many threads for each as for Weft, the best BLAS kernels, and
instructions that do not end it.

Libraries read these settings when they are loaded, so a suite runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click

from weft.benchmarks.polybench.c_peer import compilers

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


# ---- Libraries held to AVX2: a process in which the processor says that it has nothing newer.
#
# Libraries ask the ``cpuid`` instruction what they may use. Linux can make that instruction fault
# (``arch_prctl(ARCH_SET_CPUID, 0)``, processors of Intel since Ivy Bridge, of AMD since Zen 4);
# who catches the fault answers in its place. So do the lines of C below, which a C compiler makes
# a library that is loaded before all others, in the suite's process and in those that it starts.


TARGET = "x86-64-v3"  # the record that Weft compiles for beside them

_SOURCE = r"""
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SET_CPUID = 0x1012 }; /* ARCH_SET_CPUID: 0 makes the instruction fault in this thread */

static unsigned without(unsigned bits, const int *numbers) {
  while (*numbers >= 0) bits &= ~(1u << *numbers++);
  return bits;
}

/* Bits of leaf 7, of all that came after AVX2 and works on vectors or tiles. */
static const int b0[] = {16, 17, 21, 26, 27, 28, 30, 31, -1}; /* AVX512 F DQ IFMA PF ER CD BW VL */
static const int c0[] = {1, 6, 11, 12, 14, -1};     /* AVX512 VBMI, VBMI2, VNNI, BITALG, VPOPCNT */
static const int d0[] = {2, 3, 8, 22, 23, 24, 25, -1}; /* 4VNNIW 4FMAPS VP2INT AMX AVX512-FP16 */
static const int a1[] = {4, 5, 21, 23, -1};         /* AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA */
static const int d1[] = {4, 5, 8, 10, 19, -1};      /* AVX-VNNI-INT8, -NE-CONVERT, AMX, AVX10 */

static void answer(int number, siginfo_t *info, void *context) {
  greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *at = (const unsigned char *)regs[REG_RIP];
  unsigned leaf = regs[REG_RAX], sub = regs[REG_RCX], a, b, c, d;
  if (at[0] != 0x0f || at[1] != 0xa2) { /* a fault of another kind */
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  syscall(SYS_arch_prctl, SET_CPUID, 1);
  __cpuid_count(leaf, sub, a, b, c, d);
  syscall(SYS_arch_prctl, SET_CPUID, 0);
  if (leaf == 7 && sub == 0) b = without(b, b0), c = without(c, c0), d = without(d, d0);
  if (leaf == 7 && sub == 1) a = without(a, a1), d = without(d, d1);
  regs[REG_RAX] = a, regs[REG_RBX] = b, regs[REG_RCX] = c, regs[REG_RDX] = d;
  regs[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, 0);
  syscall(SYS_arch_prctl, SET_CPUID, 0);
}
"""
_LIBRARY = "avx2_only.so"
_SEEN = "import llvmlite.binding as b; print(b.get_host_cpu_features().get('avx512f', False))"


class Unheld(Exception):
    """Libraries cannot be held to AVX2 here; why, in words."""


def held(environment: Mapping[str, str]) -> bool:
    """Whether ``environment`` is that of ``changes``."""
    return Path(environment.get("LD_PRELOAD", "")).name == _LIBRARY


@contextmanager
def changes() -> Iterator[dict[str, str]]:
    """What of the environment makes a process one of AVX2 alone, as long as the context lasts.

    Raises ``Unheld``.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = _built(Path(folder))
        changed = {
            "LD_PRELOAD": str(library),
            "WEFT_TARGET": TARGET,
            "OPENBLAS_CORETYPE": "Haswell",
        }
        given, command = {**os.environ, **changed}, [sys.executable, "-c", _SEEN]
        seen = subprocess.run(command, env=given, capture_output=True, text=True)
        if seen.stdout.strip() != "False":
            raise Unheld("this processor or kernel does not let cpuid fault")
        yield changed


def _built(folder: Path) -> Path:
    compiler = next(iter(compilers().values()), None)
    if compiler is None:
        raise Unheld("this takes gcc or clang")
    source, library = folder / "avx2_only.c", folder / _LIBRARY
    source.write_text(_SOURCE)
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unheld(done.stderr)
    return library
