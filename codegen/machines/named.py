"""Processors by name: the records, and every other one that LLVM knows of their families; and by
records of users."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from functools import cache

from weft.codegen.architectures import ARCHITECTURES, Architecture
from weft.codegen.llvm.cpus import cpu_features, cpu_names
from weft.codegen.machines import aarch64, x86_64
from weft.codegen.target import Cpu, Target, target_of
from weft.ir.errors import CompileError

RECORDS = (*x86_64.RECORDS, *aarch64.RECORDS)


@cache
def target_named(name: str) -> Target:
    """The processor ``name``: a record's, or else LLVM's name of one. Raises ``CompileError``
    (WEFT-E0002), which suggests names like it."""
    for record in RECORDS:
        if record.name == name:
            return target_of(record)
    for architecture in ARCHITECTURES:
        if name in cpu_names(architecture):
            return target_of(_like_the_nearest(architecture, name))
    known = [record.name for record in RECORDS]
    every = dict.fromkeys([*known, *(n for a in ARCHITECTURES for n in cpu_names(a))])
    near = get_close_matches(name, every, n=4)
    raise CompileError(
        "WEFT-E0002",
        f"there is no target {name[:60]!r}",
        hint=(f"did you mean {' or '.join(near)}? " if near else "")
        + f"targets: host, {', '.join(known)}, and LLVM's names of processors",
    )


def _like_the_nearest(architecture: Architecture, name: str) -> Cpu:
    """What LLVM calls ``name``, with the memory of the record that has most of its features, whose
    clock and pipelines are another processor's."""
    features = cpu_features(architecture, name)
    if not features:
        raise CompileError(
            "WEFT-E0002",
            f"{name} is no target",
            why=f"it is a processor of 32 bits, not {architecture.name}",
        )
    family = [r for r in RECORDS if r.architecture == architecture]
    within = [r for r in family if r.features <= features]
    nearest = max(within or family[:1], key=lambda record: len(record.features))
    return replace(nearest, name=name, llvm=name, more="", rates={})


def target_recorded(record: Cpu) -> Target:
    """The processor of a user's ``record``. Raises ``CompileError`` (WEFT-E0023) where LLVM knows
    none of its name, or one of 32 bits."""
    family = record.architecture
    known = (*cpu_names(family), *(own.llvm for own in RECORDS if own.architecture == family))
    if record.llvm not in known:
        near = get_close_matches(record.llvm, known, n=4)
        why = f"LLVM has no {family.name} processor {record.llvm!r}"
        raise _no_record(record, why, f"did you mean {' or '.join(near)}?" if near else "")
    if not record.features:
        raise _no_record(record, f"{record.llvm} has 32 bits and is not {family.name}", "")
    return target_of(record)


def _no_record(record: Cpu, why: str, hint: str) -> CompileError:
    return CompileError(
        "WEFT-E0023",
        "this is no record of a processor",
        where=f"Cpu {record.name!r}",
        why=why,
        hint=hint or "llvm: LLVM's name, whose features the processor has",
    )
