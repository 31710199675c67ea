"""Shared libraries by whatever linker there is: ld, lld, a C compiler, or the ziglang wheel."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from weft.codegen.llvm_target import host_target
from weft.errors import ArtifactError

SECONDS = 300.0  # zig builds its own C library first

# What is running in a pool of threads must stay where it is.
_FLAGS = ("-z", "nodelete", "-z", "noexecstack")


def link_shared(code: Path, path: Path, triple: str) -> None:
    """Make the shared library ``path`` of the object file ``code``, for ``triple``.

    It needs libc and, where the code calls that, libm. Raises ``ArtifactError``: WEFT-E0713 where
    no linker is found, E0714 with the linker's own words where none of them can do it.
    """
    said: list[str] = []
    for command in commands(code, path, triple):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said.append(f"{command[0]}: {error}")
            continue
        if done.returncode == 0 and path.is_file():
            return
        said.append(f"{command[0]}: {' '.join(done.stderr.split())[-500:]}")
    if said:
        raise ArtifactError(
            "WEFT-E0714",
            f"{path.name} cannot be linked",
            why="; ".join(said),
            hint="write an object file (.o), which needs no linker",
        )
    raise ArtifactError(
        "WEFT-E0713",
        f"there is no linker for {triple} to make {path.name}",
        why="neither a C compiler, nor ld, nor ld.lld, nor the ziglang wheel is here",
        hint="write an object file (.o), which needs none, or pip install ziglang",
    )


def commands(code: Path, path: Path, triple: str) -> Iterator[list[str]]:
    """How each linker here is called, the best first."""
    files = ["-o", str(path), str(code)]
    name = f"-soname={path.name}"
    machine, host = triple.split("-")[0], host_target().triple.split("-")[0]
    prefixes = [f"{machine}-linux-gnu-"] + ([""] if machine == host else [])
    passed = ["-shared", _through(*_FLAGS), _through(name)]
    flags = ["-shared", *_FLAGS, name]
    for prefix in prefixes:
        for compiler in (f"{prefix}cc", f"{prefix}gcc", f"{prefix}clang"):
            if found := shutil.which(compiler):
                yield [found, "-nostartfiles", *passed, *files, _through("--as-needed"), "-lm"]
        if found := shutil.which(f"{prefix}ld"):
            # By their whole names: these are there without a C compiler's files, too.
            yield [found, *flags, *files, "--as-needed", "-l:libc.so.6", "-l:libm.so.6"]
    if importlib.util.find_spec("ziglang") is not None:
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu"]
        yield [*zig, *passed, *files, "-lc", "-lm"]
    if found := shutil.which("ld.lld"):
        # It does not look for libraries by itself: the program that loads this one brings libc.
        yield [found, *flags, *files]


def _through(*flags: str) -> str:
    return ",".join(("-Wl", *flags))
