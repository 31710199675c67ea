"""LLVM as a library: llvmlite's ``binding``, imported when it is first asked for something.

Programs that are loaded run without it.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from weft.ir.interrupts import uninterrupted


@cache
def _initialised() -> ModuleType:
    """LLVM's binding, ready to compile for any processor."""
    with uninterrupted():
        import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    return llvm


class _Binding:
    def __getattr__(self, name: str) -> object:
        return getattr(_initialised(), name)


if TYPE_CHECKING:
    from llvmlite import binding as binding
else:
    binding = _Binding()
