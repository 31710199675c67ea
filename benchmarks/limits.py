"""What the machine could do in the very run that is measured: arithmetic, and copying memory."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from weft.benchmarks.fma_peak import FmaPeak
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.machines.host import host_machine, told_caches
from weft.codegen.objects.native_library import link

_LEAST_MOVED = 64 << 20  # bytes in one run of a copy: a millisecond or more
_CHECKED = 24  # times the bytes of a row, what memory has to hold
SAMPLES = 20


@dataclass(slots=True)
class Probe:
    """A loop of known ``work`` (operations or bytes) and its best rate so far, per second."""

    work: float
    run: Callable[[], object]
    best: float = 0.0

    def loop(self, times: int) -> None:
        """``run``, ``times`` times."""
        for _ in range(times):
            self.run()

    def note(self, milliseconds: Sequence[float]) -> None:
        """Times of one run each."""
        self.best = max([self.best, *(self.work / (1e-3 * ms) for ms in milliseconds)])


class Limits:
    """The probes of one run, on as many threads as everybody else; made when they are asked for."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(max_workers=threads)
        self._probes: dict[tuple[str, int], Probe] = {}

    def of(self, limit: str, size: int = 0) -> dict[str, Probe]:
        """By name the probes that are the limit: of the multiply-adds of a dtype, of "copy"
        where about ``size`` bytes are read and written in all (0: more than any cache holds); none
        of ""."""
        if not limit:
            return {}
        if limit != "copy":
            return {f"{limit} peak": self._probe(limit, 0)}
        moved = _rounded(size) if size else beyond_caches()
        return {name: self._probe(name, moved) for name in ("plain copy", "streaming copy")}

    def best(self, limit: str) -> float:
        """Operations or bytes per second, the best so far."""
        return max((probe.best for probe in self.of(limit).values()), default=0.0)

    def _probe(self, name: str, moved: int) -> Probe:
        key = (name, moved)
        if key not in self._probes:
            self._probes[key] = self._copy(name, moved) if moved else self._arithmetic(name)
        return self._probes[key]

    def _arithmetic(self, dtype: str) -> Probe:
        loop = FmaPeak(dtype)
        return Probe(self._threads * loop.operations, self._together([loop] * self._threads))

    def _copy(self, name: str, moved: int) -> Probe:
        share = moved // self._threads
        repeat = max(1, _LEAST_MOVED // max(moved, 1))
        copies = [
            Copy(share, streaming=name == "streaming copy", repeat=repeat)
            for _ in range(self._threads)
        ]
        return Probe(float(sum(copy.moved for copy in copies) * repeat), self._together(copies))

    def _together(self, runs: Sequence[Callable[[], object]]) -> Callable[[], object]:
        """All at once, each on a thread of its own; the caller runs the first."""
        if len(runs) == 1:
            return runs[0]

        def run() -> None:
            others = [self._pool.submit(one) for one in runs[1:]]
            runs[0]()
            for other in others:
                other.result()

        return run


def _rounded(size: int) -> int:
    """To a power of two, so that rows of about one size share their probes."""
    return 1 << max(12, round(math.log2(size)))


def beyond_caches() -> int:
    """Bytes that no cache holds, whosesoever: four times the last one that is told; less, down to
    twice, where memory is short, since answers and what they are checked with take some twenty
    times as much."""
    last = max(cache.size for cache in told_caches() or host_machine().caches)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(2 * last, min(4 * last, memory // _CHECKED))


# ---- How fast memory is copied: vector loads and stores, plain and past the caches.


_UNROLL = 8  # vectors a turn: several cache lines in flight
_Copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Copy:
    """Calling it copies ``moved / 2`` bytes from one place to another, ``repeat`` times.

    ``moved``: bytes read and written by one copy. A store that is not ``streaming`` may read the
    line that it replaces; that is not counted.
    """

    def __init__(self, moved: int, *, streaming: bool, repeat: int = 1) -> None:
        target = host_target()
        step = _UNROLL * target.vector_bytes
        size = max(step, moved // 2 // step * step)
        self.moved = 2 * size
        text = loop(target.vector_bytes, streaming=streaming)
        self._tracker = link([to_object(text, target)], ("copy",), {})
        self._copy = _Copy(self._tracker["copy"])
        self._held = [np.ones(size + 64, np.uint8) for _ in range(2)]
        target_at, source_at = (array.ctypes.data + -array.ctypes.data % 64 for array in self._held)
        self._arguments = (target_at, source_at, size, repeat)

    def __call__(self) -> None:
        self._copy(*self._arguments)


def loop(vector_bytes: int, *, streaming: bool) -> str:
    """LLVM text of ``copy(target, source, bytes, repeat)``: aligned, a whole number of turns.

    "no-builtins" keeps LLVM from calling libc's memcpy instead.
    """
    vector = f"<{vector_bytes // 8} x i64>"
    flag = ", !nontemporal !0" if streaming else ""
    moves = []
    for k in range(_UNROLL):
        moves += [
            f"  %s{k} = getelementptr i8, ptr %from, i64 {k * vector_bytes}",
            f"  %t{k} = getelementptr i8, ptr %to, i64 {k * vector_bytes}",
            f"  %x{k} = load {vector}, ptr %s{k}, align {vector_bytes}",
            f"  store {vector} %x{k}, ptr %t{k}, align {vector_bytes}{flag}",
        ]
    return "\n".join(
        [
            "define void @copy(ptr noalias %target, ptr noalias %source, i64 %bytes, i64 %repeat)"
            ' "no-builtins" {',
            "entry:",
            "  br label %again",
            "again:",
            "  %r = phi i64 [ 0, %entry ], [ %rn, %copied ]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %again ], [ %in, %loop ]",
            "  %from = getelementptr i8, ptr %source, i64 %i",
            "  %to = getelementptr i8, ptr %target, i64 %i",
            *moves,
            f"  %in = add i64 %i, {_UNROLL * vector_bytes}",
            "  %more = icmp slt i64 %in, %bytes",
            "  br i1 %more, label %loop, label %copied",
            "copied:",
            "  fence seq_cst",
            "  %rn = add i64 %r, 1",
            "  %once = icmp slt i64 %rn, %repeat",
            "  br i1 %once, label %again, label %done",
            "done:",
            "  ret void",
            "}",
            "!0 = !{i32 1}",
        ]
    )
