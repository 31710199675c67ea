"""Libraries held to AVX2: a process in which the processor says that it has nothing newer.

Libraries ask the ``cpuid`` instruction what they may use. Linux can make that instruction fault
(``arch_prctl(ARCH_SET_CPUID, 0)``, processors of Intel since Ivy Bridge, of AMD since Zen 4); who
catches the fault answers in its place. So do the lines of C below, which a C compiler makes a
library that is loaded before all others, in the suite's process and in those that it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from weft.benchmarks.polybench.c_peer import compilers

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
