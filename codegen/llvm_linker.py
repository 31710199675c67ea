"""Object code → memory of this process by LLVM's own linker, where ``elf_linker`` has no port."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from weft.codegen.llvm_target import initialised

_numbers = itertools.count()


class Linked:
    """What LLVM calls a resource tracker: addresses of the exported symbols."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def __getitem__(self, name: str) -> int:
        return int(self._tracker[name])

    def keep(self) -> None:
        """Leave it mapped for the rest of the process."""
        self._tracker._owned = True  # llvmlite's word for "never dispose of it"


@cache
def _jit() -> Any:
    """The process's one linker. It is leaked: workers may still run its code at exit."""
    llvm = initialised()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    jit = llvm.create_lljit_compiler(machine)
    jit._owned = True  # as above
    return jit


def link(objects: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]) -> Linked:
    """Map ``objects`` into the process, ``imports`` and libc resolved.

    Raises ``RuntimeError`` with LLVM's own words where the bytes are no object code for this
    machine or a symbol is missing.
    """
    builder = initialised().JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    builder.add_current_process()
    return Linked(builder.link(_jit(), f"weft{next(_numbers)}"))
