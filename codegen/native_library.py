"""Object code in this process: the thread pool once, each program while somebody holds it.

Loading links; it never compiles. What is linked is trusted: the reader of an artifact or of the
cache has checked where the bytes come from.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm

from weft.codegen.llvm_runtime import runtime_ir
from weft.codegen.llvm_target import LlvmTarget, host_target, lacking, to_object
from weft.errors import CallError

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
)
_numbers = itertools.count()


@cache
def _jit() -> llvm.LLJIT:
    """The process's one linker. It is leaked: workers may still run its code at exit."""
    host_target()  # initialises LLVM
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    jit = llvm.create_lljit_compiler(machine)
    jit._owned = True  # llvmlite's word for "never dispose of it"
    return jit


def link(
    objects: Sequence[bytes], exports: Sequence[str], imports: dict[str, int]
) -> llvm.ResourceTracker:
    """Map ``objects`` into the process, ``imports`` and libc resolved; addresses by name.

    Raises ``RuntimeError`` with LLVM's own words where the bytes are no object code for this
    machine or a symbol is missing. The code stays mapped while the result is referenced.
    """
    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    builder.add_current_process()
    return builder.link(_jit(), f"weft{next(_numbers)}")


@cache
def runtime() -> dict[str, int]:
    """Addresses of the thread pool's functions; the pool is never unloaded."""
    target = host_target()
    tracker = link([to_object(runtime_ir(target.triple), target)], _RUNTIME, {})
    tracker._owned = True  # as above: it would be unloaded with the last reference
    return {name: int(tracker[name]) for name in _RUNTIME}


def workers() -> int:
    """Worker threads that this process has started."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(runtime()["weft_workers"])())


class NativeProgram:
    """The entry point of a linked program, callable with addresses (the GIL is released)."""

    __slots__ = ("arena_bytes", "entry", "threads")

    def __init__(self, objects: Sequence[bytes], entry: str) -> None:
        """``RuntimeError`` where ``objects`` cannot be linked here or do not define ``entry``."""
        names = (entry, f"{entry}_arena", f"{entry}_threads")
        imports = {name: address for name, address in runtime().items() if name != "weft_workers"}
        tracker = link(objects, names, imports)
        self.entry = Entry(tracker[entry])
        self.arena_bytes = ArenaBytes(tracker[f"{entry}_arena"])
        self.threads = Threads(tracker[f"{entry}_threads"])
        for function in (self.entry, self.arena_bytes, self.threads):
            function.code = tracker  # type: ignore[attr-defined]  # whoever calls keeps it mapped


class ForeignProgram:
    """In place of a ``NativeProgram``: code for ``target``, which this processor cannot run."""

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


def load(
    objects: Sequence[bytes], entry: str, target: LlvmTarget
) -> NativeProgram | ForeignProgram:
    """The entry point of ``objects``, code for ``target``; one that refuses calls if the processor
    here is another. Raises ``RuntimeError`` as ``NativeProgram`` does."""
    return ForeignProgram(target) if lacking(target) else NativeProgram(objects, entry)
