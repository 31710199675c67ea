"""The text of kernels → object code for the processor here, by a C++ compiler of the user's."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.ir.errors import CompileError

COMPILERS = ("c++", "g++", "clang++")
SECONDS = 600.0
_FLAGS = (
    "-std=c++17", "-O1", "-c", "-fPIC", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off",
    "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fwrapv", "-w",
    "-fno-threadsafe-statics", "-fcf-protection=none",
)  # fmt: skip


def twin_compiler() -> str:
    """The C++ compiler on the PATH. Raises ``CompileError`` (WEFT-E0507) where there is none."""
    for name in COMPILERS:
        if found := shutil.which(name):
            return found
    raise CompileError(
        "WEFT-E0507",
        "there is no C++ compiler to make a twin of GPU kernels with",
        why=f"none of {', '.join(COMPILERS)} is on the PATH",
        hint="install one, g++ say; or compile for sm_90a, which needs none",
    )


def twin_object(text: str, more: Sequence[str] = ()) -> bytes:
    """Object code of ``text``, CUDA C++ that ``print_program`` wrote, for the processor here; with
    ``more`` flags for the compiler.

    Raises ``CompileError``: WEFT-E0507 without a compiler, E0508 where it refuses the text.
    """
    compiler, header = twin_compiler(), Path(__file__).parent / "twin.hpp"
    with tempfile.TemporaryDirectory(prefix="weft-twin-") as folder:
        source, made = Path(folder) / "kernels.cpp", Path(folder) / "kernels.o"
        source.write_text(text)
        command = [compiler, *_FLAGS, *more, "-include", str(header), str(source), "-o", str(made)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _refused(compiler, str(error)) from None
        if done.returncode != 0 or not made.is_file():
            raise _refused(compiler, done.stderr[-2000:])
        return made.read_bytes()


def _refused(compiler: str, why: str) -> CompileError:
    return CompileError(
        "WEFT-E0508",
        f"{compiler} does not compile the twin",
        why=" ".join(why.split()),
        hint="it has to know C++17",
    )
