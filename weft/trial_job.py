"""A job for a compiler worker: run a function of LLVM IR that may be wrong in any way."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import msgspec

from weft.codegen.instruction_trial import ENTRY
from weft.codegen.llvm_target import host_target, to_object
from weft.codegen.native_library import link


def run_trial(payload: bytes) -> bytes:
    """LLVM IR of a function ``ENTRY`` and the operands of its calls, as ``trial_job`` packs them;
    to what the first operand of each call is afterwards."""
    text, calls = msgspec.msgpack.decode(payload, type=tuple[str, list[list[bytes]]])
    tracker = link([to_object(text, host_target())], [ENTRY], {})
    results = []
    for operands in calls:
        memory = [ctypes.create_string_buffer(operand, len(operand)) for operand in operands]
        kinds = [ctypes.c_void_p] * len(memory)
        ctypes.CFUNCTYPE(None, *kinds)(tracker[ENTRY])(*map(ctypes.addressof, memory))
        results.append(memory[0].raw)
    return msgspec.msgpack.encode(results)


def trial_job(text: str, calls: Sequence[Sequence[bytes]]) -> bytes:
    """The payload of a "trial" job."""
    return msgspec.msgpack.encode((text, calls))
