"""CUDA C++ → code of a GPU, by NVIDIA's runtime compiler, which needs neither a toolkit nor a GPU.

It comes with the extra ``weft[cuda]``, a pinned line of it: later ones write PTX that the drivers
of today refuse. It runs in worker processes: it is slow, it is not ours, and threads gain nothing.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

from weft.ir.errors import CompileError

PACKAGE = "nvidia-cuda-nvrtc"
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


class KernelUse(msgspec.Struct, frozen=True):
    """What the assembler says of a kernel: ``registers`` of a thread, bytes of ``shared`` memory of
    a block, and bytes ``spilled`` to memory of a thread, stored and loaded."""

    name: str
    registers: int
    shared: int
    spilled: int


class Cubin(msgspec.Struct, frozen=True):
    """``code`` for a GPU, what its kernels use, and what it took, in seconds of the processor."""

    code: bytes
    kernels: tuple[KernelUse, ...]
    seconds: float = 0.0


def nvrtc_library() -> Path:
    """The compiler's library. Raises ``CompileError`` (WEFT-E0509) where it is not installed."""
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if re.fullmatch(r"libnvrtc\.so\.\d+|nvrtc64_\w+\.dll", file.name):
            return Path(str(file.locate()))
    raise CompileError(
        "WEFT-E0509",
        "NVIDIA's compiler is not installed",
        why=f"there is no package {PACKAGE}",
        hint="pip install 'weft[cuda]'; or read source(\"cuda\"), which needs no compiler",
    )


@cache
def _nvrtc() -> ctypes.CDLL:
    library = nvrtc_library()
    for beside in sorted(library.parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(beside))  # it looks for them elsewhere, unless they are loaded
    return ctypes.CDLL(str(library))


def cubin(text: str, architecture: str, more: Sequence[str] = ()) -> Cubin:
    """``text`` for a GPU of ``architecture``, "sm_90a" say.

    Raises ``CompileError``: WEFT-E0509 without the compiler, E0510 where it refuses the text.
    """
    library, program, start = _nvrtc(), ctypes.c_void_p(), time.process_time()
    source, name = text.encode(), b"kernels.cu"
    library.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None)
    try:
        flags = [f"--gpu-architecture={architecture}", "-lineinfo", "--ptxas-options=-v", *more]
        given = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        failed = library.nvrtcCompileProgram(program, len(flags), given)
        log = _text(library, program, "ProgramLog").decode(errors="replace")
        if failed:
            raise CompileError(
                "WEFT-E0510",
                f"NVIDIA's compiler refuses the kernels for {architecture}",
                why=" ".join(log.split())[-2000:],
            )
        code, taken = _text(library, program, "CUBIN"), time.process_time() - start
        return Cubin(code, kernel_uses(log), taken)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    held = ctypes.create_string_buffer(max(1, size.value))
    getattr(library, f"nvrtcGet{what}")(program, held)
    return held.raw[: size.value].removesuffix(b"\0" if what == "ProgramLog" else b"")


def kernel_uses(log: str) -> tuple[KernelUse, ...]:
    """What the assembler's ``log`` says of each kernel."""
    found: list[KernelUse] = []
    for part in log.split("ptxas info")[1:]:
        if entry := _ENTRY.search(part):
            found.append(KernelUse(entry[1], 0, 0, 0))
        if found and (spills := _SPILLS.search(part)):
            stored = int(spills[1]) + int(spills[2])
            found[-1] = msgspec.structs.replace(found[-1], spilled=stored)
        if found and (used := _USED.search(part)):
            registers, shared = int(used[1]), int(used[2] or 0)
            found[-1] = msgspec.structs.replace(found[-1], registers=registers, shared=shared)
    return tuple(found)


def cubin_job(text: str, architecture: str) -> bytes:
    """The payload of a "cubin" job."""
    return msgspec.msgpack.encode((text, architecture))


def compile_cubin(payload: bytes) -> bytes:
    """A "cubin" job, as ``cubin_job`` packs it, to a packed ``Cubin``."""
    text, architecture = msgspec.msgpack.decode(payload, type=tuple[str, str])
    return msgspec.msgpack.encode(cubin(text, architecture))
