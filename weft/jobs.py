"""Jobs for compiler workers: pure functions from bytes to bytes (``weft.worker`` names them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from weft.codegen.llvm_target import LlvmTarget, to_object
from weft.errors import WeftError


class Pool(Protocol):
    """What runs jobs; ``weft.worker_pool.WorkerPool`` is one."""

    def run(
        self, job: str, payloads: Sequence[bytes], *, timeout: float | None = None
    ) -> list[bytes | WeftError]: ...


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


def compile_objects(
    texts: Sequence[str], target: LlvmTarget, pool: Pool, *, timeout: float | None = None
) -> list[bytes]:
    """Object code of several modules, in order; raises the first failure.

    ``timeout``: seconds for one module, the last resort against a compiler that hangs.
    """
    done = pool.run("object", [object_job(text, target) for text in texts], timeout=timeout)
    objects: list[bytes] = []
    for result in done:
        if isinstance(result, WeftError):
            raise result
        objects.append(result)
    return objects
