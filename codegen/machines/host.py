"""The host processor as a record. Cache sizes come from the kernel's tables."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from functools import cache
from operator import le
from pathlib import Path

from weft.codegen.amx_permission import request_amx
from weft.codegen.architectures import architecture_of
from weft.codegen.llvm.target import LlvmTarget, host_target
from weft.codegen.machines.named import RECORDS
from weft.codegen.target import Cpu, Target, machine_of
from weft.ir.machine import TYPICAL, Cache, Machine

# Of x86 and of ARM.
_IDENTITY = (
    "vendor_id", "cpu family", "model", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
)  # fmt: skip
_PACKAGE = 4  # a last cache more than 4 times the record's is shared with other virtual machines
_CPU0 = Path("/sys/devices/system/cpu/cpu0/cache")


def host() -> Target:
    """The host processor; its cores are those that this process may run on."""
    return Target("host", host_target(), host_machine(), cpu_count())


@cache
def host_machine() -> Machine:
    """The host's machine record, with the cache sizes that the kernel reports."""
    caches, target = told_caches(), host_target()
    return machine_of(target, as_recorded(caches, target) if caches else TYPICAL.caches)


def as_recorded(caches: tuple[Cache, ...], target: LlvmTarget) -> tuple[Cache, ...]:
    """``caches`` with the last one completed from the record of such a processor, if there is one.

    Its bandwidth, which kernels do not report and in which makers differ by a factor of five, and
    what its prefetchers follow. And its size, if the reported one is many times as large:
    hypervisors report the whole package, which other machines share (of 480 MiB, two cores were
    found to have 60 to 90).
    """
    record = _record_of(caches, target)
    if record is None:
        return caches
    *inner, last = caches
    like = record.caches[-1]
    size = like.size if last.size > _PACKAGE * like.size else last.size
    return (*inner, replace(like, size=size, line=last.line, cores=last.cores, ways=last.ways))


def _record_of(caches: tuple[Cache, ...], target: LlvmTarget) -> Cpu | None:
    """The record of LLVM's processor name, or else the largest record whose features and caches
    ``target`` has: names derive from model numbers, which hypervisors invent, and newer processors
    have names without a record."""
    sizes = [cache.size for cache in caches]
    family = [r for r in RECORDS if r.architecture == architecture_of(target.triple)]
    fitting = [r for r in family if len(r.caches) == len(sizes)]
    named = [record for record in fitting if record.llvm == target.cpu]
    alike = [r for r in fitting if r.may_stand_for(target.cpu)]
    within = [r for r in alike if all(map(le, _sizes(r), sizes))]
    within.sort(key=_sizes, reverse=True)
    like = (
        record for record in within if record.features <= target.enabled
    )  # features take LLVM a while
    return named[0] if named else next(like, None)


def _sizes(record: Cpu) -> list[int]:
    return [cache.size for cache in record.caches]


def cpu_count() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def host_processor() -> str:
    """A hash of this processor's model and features as the kernel reports them, and of refused
    permissions; '' if the kernel does not report them.

    Code for one processor runs on any with the same hash, without asking LLVM, which takes a while
    to load.
    """
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return ""
    fields = dict(_field(line) for line in first.splitlines())
    told = [f"{name}: {fields[name]}" for name in _IDENTITY if name in fields]
    if "amx_tile" in fields.get("flags", "").split() and not request_amx():
        told.append("tiles: refused")
    return hashlib.sha256("\n".join(told).encode()).hexdigest() if told else ""


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def told_caches() -> tuple[Cache, ...]:
    """The caches of a processor as the kernel reports them, smallest first; () if it does not."""
    found: dict[int, Cache] = {}
    for folder in sorted(_CPU0.glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            level = int((folder / "level").read_text())
            size = _bytes((folder / "size").read_text().strip())
            line = int((folder / "coherency_line_size").read_text())
            cores = _count((folder / "shared_cpu_list").read_text())
        except (OSError, ValueError):
            return ()  # no such tables: typical sizes are used
        if kind in ("Data", "Unified"):
            found[level] = Cache(size, line, cores=cores, ways=_ways(folder))
    return tuple(found[level] for level in sorted(found))


def _ways(folder: Path) -> int:
    """Associativity as the kernel reports it; some processors' is missing."""
    try:
        return int((folder / "ways_of_associativity").read_text()) or TYPICAL.caches[0].ways
    except (OSError, ValueError):
        return TYPICAL.caches[0].ways


def _bytes(text: str) -> int:
    scale = {"K": 1024, "M": 1024 * 1024}.get(text[-1:], 1)
    return int(text.rstrip("KM")) * scale


def _count(text: str) -> int:
    """The number of processors in a list such as "0-3,8"."""
    ranges = (part.partition("-") for part in text.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
