"""Object code in this process: the thread pool once, each program while it is referenced.

Loading links, but never compiles, and on x86-64 it needs no LLVM. Code is trusted: the reader of an
artifact or of the cache has checked its origin.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Protocol

from weft.codegen.amx_permission import request_amx
from weft.codegen.llvm.library import binding as llvm
from weft.codegen.llvm.runtime import runtime_ir
from weft.codegen.llvm.target import LlvmTarget, host_target, lacking, to_object
from weft.codegen.objects import elf_linker
from weft.ir.errors import CallError

Entry = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,  # inputs
    ctypes.c_void_p,  # outputs
    ctypes.c_void_p,  # constants
    ctypes.c_void_p,  # arena
    ctypes.c_void_p,  # parameters
    ctypes.c_void_p,  # status
    ctypes.c_int32,  # threads
)
ArenaBytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32)
Threads = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)
_RUNTIME = (
    "weft_acquire",
    "weft_team",
    "weft_launch",
    "weft_barrier",
    "weft_release",
    "weft_workers",
    "weft_enter",
    "weft_leave",
)
_lock = Lock()
_pool: dict[str, int] = {}


class Library(Protocol):
    """Linked code, valid while it is referenced: an address for each symbol that it defines."""

    def __getitem__(self, name: str) -> int: ...

    def keep(self) -> None:
        """Leave it mapped for the rest of the process."""


def link(objects: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]) -> Library:
    """Map ``objects`` into the process, ``imports`` and libc resolved; addresses of ``exports``.

    Raises ``RuntimeError`` if the bytes are no object code for this machine or a symbol is missing.
    """
    if platform.machine() != "x86_64":
        return link_by_llvm(objects, exports, imports)
    request_amx()
    library = elf_linker.link(objects, imports)
    for name in exports:
        library[name]
    return library


@cache
def pool_object(target: LlvmTarget) -> bytes:
    """The thread pool's object code, compiled now."""
    return to_object(runtime_ir(target.triple), target)


def runtime(pool: bytes = b"") -> Mapping[str, int]:
    """Addresses of the thread pool's functions.

    There is one pool, that of the first caller: ``pool``, or one compiled now. It is never
    unloaded.
    """
    with _lock:
        if not _pool:
            library = link([pool or pool_object(host_target())], _RUNTIME, {})
            library.keep()
            _pool.update({name: library[name] for name in _RUNTIME})
        return _pool


def workers() -> int:
    """Worker threads that this process has started."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(runtime()["weft_workers"])())


@contextmanager
def compiled_floats(*, strict: bool) -> Iterator[None]:
    """A context in which this thread has the floating-point mode of compiled code
    (``llvm/float_mode``)."""
    functions = runtime()
    enter = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32)(functions["weft_enter"])
    leave = ctypes.CFUNCTYPE(None, ctypes.c_int64)(functions["weft_leave"])
    caller = enter(strict)
    try:
        yield
    finally:
        leave(caller)


class NativeProgram:
    """The entry point of a linked program, callable with addresses (the GIL is released)."""

    __slots__ = ("arena_bytes", "entry", "threads")

    def __init__(self, objects: Sequence[bytes], entry: str, pool: bytes = b"") -> None:
        """``pool``: as for ``runtime``. ``RuntimeError`` where ``objects`` cannot be linked here or
        do not define ``entry``."""
        names = (entry, f"{entry}_arena", f"{entry}_threads")
        imports = {
            name: address for name, address in runtime(pool).items() if name != "weft_workers"
        }
        library = link(objects, names, imports)
        self.entry = Entry(library[entry])
        self.arena_bytes = ArenaBytes(library[f"{entry}_arena"])
        self.threads = Threads(library[f"{entry}_threads"])
        for function in (self.entry, self.arena_bytes, self.threads):
            function.code = library  # type: ignore[attr-defined]  # keeps it mapped


class ForeignProgram:
    """A stand-in for a ``NativeProgram``: code for ``target``, which this processor cannot run."""

    __slots__ = ("_target",)

    def __init__(self, target: LlvmTarget) -> None:
        self._target = target

    def entry(self, *_: object) -> int:
        raise CallError(
            "WEFT-E0613",
            f"the program was compiled for another processor ({self._target.cpu})",
            why=f"{host_target().cpu} lacks {', '.join(lacking(self._target))}",
            hint="save it and run it there, or compile it for this one",
        )

    arena_bytes = threads = entry


# ---- LLVM's own linker, for processors without a port of ``elf_linker``.


_numbers = itertools.count()


class Linked:
    """LLVM's resource tracker: addresses of the exported symbols."""

    def __init__(self, tracker: llvm.ResourceTracker) -> None:
        self._tracker = tracker

    def __getitem__(self, name: str) -> int:
        return self._tracker[name]

    def keep(self) -> None:
        """Leave it mapped for the rest of the process."""
        self._tracker._owned = True  # llvmlite's flag for "never dispose of it"


@cache
def _jit() -> llvm.LLJIT:
    """The process's one linker. It is leaked: workers may still run its code at exit."""
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    jit = llvm.create_lljit_compiler(machine)
    jit._owned = True  # as above
    return jit


def link_by_llvm(
    objects: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]
) -> Linked:
    """Map ``objects`` into the process, ``imports`` and libc resolved.

    Raises ``RuntimeError`` with LLVM's own words where the bytes are no object code for this
    machine or a symbol is missing.
    """
    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    builder.add_current_process()
    return Linked(builder.link(_jit(), f"weft{next(_numbers)}"))
