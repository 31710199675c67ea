"""Compile a printed kernel with the C compiler of this machine and run it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from weft.codegen.c_printer import print_c
from weft.ir.loop_ir import Buffer, Check, Kernel, walk

COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
SKIPPED = "no C compiler on this machine: what is printed is not run"
FLAGS = ("-O1", "-std=c11", "-fwrapv", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
LENIENT = ("-Wno-unused-parameter", "-Wno-unknown-pragmas", "-Wno-type-limits")


def compiled(texts: Sequence[str], flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """A library of all ``texts``."""
    assert COMPILER is not None
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, text in enumerate(texts):
            files.append(Path(folder) / f"k{number}.c")
            files[-1].write_text(text)
        library = Path(folder) / "kernels.so"
        command = [COMPILER, *flags, *LENIENT, "-shared", "-fPIC", "-o", library, *files, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + texts[0]
        return ctypes.CDLL(str(library))


def run_c(
    kernel: Kernel,
    parameters: Mapping[str, int],
    arrays: Mapping[str, np.ndarray],
    library: ctypes.CDLL | None = None,
) -> tuple[dict[str, np.ndarray], int, tuple[int, int]]:
    """The buffers after a run on aligned copies, the status and its detail."""
    library = library or compiled([print_c(kernel)])
    memory = {b.name: aligned(arrays[b.name]) for b in kernel.buffers}
    given: list[object] = [ctypes.c_int64(parameters[p]) for p in kernel.parameters]
    given += [_argument(b, memory[b.name]) for b in kernel.buffers]
    detail = (ctypes.c_int64 * 2)()
    checks = any(isinstance(s, Check) for s in walk(kernel.body))
    given += [detail] if checks else []
    code = getattr(library, f"kernel_{kernel.name}")(*given)
    return memory, code if checks else 0, (detail[0], detail[1])


def aligned(array: np.ndarray, to: int = 64) -> np.ndarray:
    """A copy that starts at a multiple of ``to`` bytes."""
    raw = np.empty(array.nbytes + to, np.uint8)
    start = -raw.ctypes.data % to
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _argument(buffer: Buffer, array: np.ndarray) -> object:
    if buffer.shape or buffer.writable or buffer.aliases:
        return ctypes.c_void_p(array.ctypes.data)
    return np.ctypeslib.as_ctypes_type(array.dtype)(array.item(0))
