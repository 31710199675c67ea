"""Jobs for compiler workers: pure functions from bytes to bytes, named in ``worker.JOBS``.

A worker imports all that this file does before its first job: LLVM, and no more.
"""

from __future__ import annotations

import msgspec

from weft.codegen.llvm.target import LlvmTarget, to_object


def echo(payload: bytes) -> bytes:
    """The payload itself: is the worker alive?"""
    return payload


def compile_object(payload: bytes) -> bytes:
    """LLVM IR and a target, as ``object_job`` packs them, to object code."""
    text, target = msgspec.msgpack.decode(payload, type=tuple[str, LlvmTarget])
    return to_object(text, target)


def object_job(text: str, target: LlvmTarget) -> bytes:
    """The payload of an "object" job."""
    return msgspec.msgpack.encode((text, target))
