"""A job for a compiler worker: run a function of LLVM IR that may be wrong in any way."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import msgspec

from weft.codegen.instruction_trial import ENTRY
from weft.codegen.llvm_target import LlvmTarget, to_object
from weft.codegen.native_library import link
from weft.errors import CompileError


def run_trial(payload: bytes) -> bytes:
    """LLVM IR of a function ``ENTRY``, a target and the operands of the function's calls, as
    ``trial_job`` packs them; to what the first operand of each call is afterwards.

    Without calls the function is only assembled: this processor need not know its code.
    """
    kind = tuple[str, LlvmTarget, list[list[bytes]]]
    text, target, calls = msgspec.msgpack.decode(payload, type=kind)
    code = to_object(text, target)
    return msgspec.msgpack.encode(_called(code, calls) if calls else [])


def _called(code: bytes, calls: Sequence[Sequence[bytes]]) -> list[bytes]:
    try:
        library = link([code], [ENTRY], {})
    except RuntimeError as error:  # nothing defines a function that is called, say
        raise CompileError("WEFT-E0021", "its code cannot be linked", why=str(error)) from error
    results = []
    for operands in calls:
        memory = [ctypes.create_string_buffer(operand, len(operand)) for operand in operands]
        kinds = [ctypes.c_void_p] * len(memory)
        ctypes.CFUNCTYPE(None, *kinds)(library[ENTRY])(*map(ctypes.addressof, memory))
        results.append(memory[0].raw)
    return results


def trial_job(text: str, target: LlvmTarget, calls: Sequence[Sequence[bytes]]) -> bytes:
    """The payload of a "trial" job."""
    return msgspec.msgpack.encode((text, target, calls))
