"""Whole compiled programs in the cache: what identifies one, and getting it back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache as memoise
from pathlib import Path

import llvmlite.binding as llvm
import msgspec
import numpy as np

import weft
from weft.codegen.llvm.target import LlvmTarget
from weft.codegen.target import Target
from weft.driver.options import Options
from weft.ir.errors import ArtifactError
from weft.runtime import artifact
from weft.runtime.cache import Cache
from weft.runtime.compiled import Compiled


def cache_key(
    program: str,
    constants: Iterable[tuple[str, np.ndarray]],
    target: Target,
    options: Options,
) -> bytes:
    """All that a compiled program depends on.

    ``program``: the canonical text of what is compiled, names that show in errors and in calls
    included. ``constants``: by name; their bytes enter as hashes. Weft itself enters by its source
    files and LLVM by its version.
    """
    hashes = [(name, str(array.dtype), array.shape, _digest(array)) for name, array in constants]
    return msgspec.msgpack.encode(
        (program, hashes, repr(target), options.key, _weft_fingerprint(), llvm.llvm_version_info)
    )


def _digest(array: np.ndarray) -> bytes:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha256(flat.data).digest()


@memoise
def _weft_fingerprint() -> str:
    """A hash over name, size and time of Weft's source files: editing one empties the cache."""
    root = Path(weft.__file__).resolve().parent
    found: list[tuple[str, int, int]] = []
    for folder, _, names in os.walk(root, followlinks=True):
        for name in names:
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                found.append((os.path.join(folder, name), status.st_size, status.st_mtime_ns))
    text = "\n".join(f"{os.path.relpath(n, root)} {size} {at}" for n, size, at in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()


def find(cache: Cache | None, key: bytes, target: LlvmTarget) -> Compiled | None:
    """The program stored under ``key``; None where there is no sound one for ``target``."""
    payload = cache.get(key) if cache is not None else None
    if cache is None or payload is None:
        return None
    try:
        found = artifact.decode(payload, str(cache.path(key)), checked=True)
    except ArtifactError:
        found = None
    if found is None or found.target != target:
        cache.discard(key)
        return None
    return found


def store(cache: Cache | None, key: bytes, compiled: Compiled) -> bool:
    """Keep ``compiled`` under ``key``; whether that worked."""
    return cache is not None and cache.put(key, artifact.encode(compiled))
