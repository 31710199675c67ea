"""Processors by name: Weft's and registered records, any other that LLVM knows of these families;
and users' records."""

from __future__ import annotations

from dataclasses import replace as with_fields
from functools import cache

from weft.codegen.architectures import ARCHITECTURES, Architecture
from weft.codegen.llvm.cpus import cpu_features, cpu_names
from weft.codegen.machines import aarch64, x86_64
from weft.codegen.target import Cpu, Target, target_of
from weft.ir.errors import CompileError, did_you_mean
from weft.ir.registry import Place, Registry

RECORDS = (*x86_64.RECORDS, *aarch64.RECORDS)


HOST = ("host", "host-calibrated")  # the processor here, as a target


def register_target(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, E0006 for what is no record."""
    if not isinstance(found, Cpu) or name in HOST:
        raise CompileError(
            "WEFT-E0006",
            f"target {name!r} is no record of a processor",
            where=place.text,
            why=f"it is the processor here: {name} has no record"
            if name in HOST
            else f"it is a {type(found).__name__}, not a weft.Cpu",
        )
    TARGETS.add(name, found, place, replace)


TARGETS: Registry[str, Cpu] = Registry("target", "weft.targets", register_target)
for _record in RECORDS:
    TARGETS.add(_record.name, _record, Place("codegen/machines", (_record.name,)))


def target_names() -> list[str]:
    """Names of all records: Weft's own, then registered ones."""
    own = [record.name for record in RECORDS]
    return [*own, *(name for name in TARGETS.names() if name not in own)]


_made: dict[str, tuple[Cpu, Target]] = {}


def target_named(name: str) -> Target:
    """The processor ``name``: a record's, or else LLVM's. Raises ``CompileError`` (WEFT-E0002),
    with suggestions of similar names."""
    TARGETS.load()
    record = TARGETS.known(name)
    if record is None and not any(name in cpu_names(family) for family in ARCHITECTURES):
        record = TARGETS.find(name)  # a newly installed plug-in
    if record is None:
        return _known_to_llvm(name)
    made, target = _made.get(name, (None, None))
    if target is None or made is not record:
        target = target_recorded(with_fields(record, name=name))
        _made[name] = record, target
    return target


@cache
def _known_to_llvm(name: str) -> Target:
    for architecture in ARCHITECTURES:
        if name in cpu_names(architecture):
            return target_of(_like_the_nearest(architecture, name))
    known = target_names()
    every = [*known, *(n for a in ARCHITECTURES for n in cpu_names(a))]
    raise CompileError(
        "WEFT-E0002",
        f"there is no target {name[:60]!r}",
        hint=did_you_mean(name, every)
        + f"targets: host, {', '.join(known)}, and LLVM's names of processors",
    )


def _like_the_nearest(architecture: Architecture, name: str) -> Cpu:
    """The processor that LLVM calls ``name``, with the memory levels of the record that has most of
    its features; its clock and pipelines are unknown."""
    features = cpu_features(architecture, name)
    if not features:
        raise CompileError(
            "WEFT-E0002",
            f"{name} is no target",
            why=f"it is a processor of 32 bits, not {architecture.name}",
        )
    family = [r for r in RECORDS if r.architecture == architecture and r.may_stand_for(name)]
    within = [r for r in family if r.features <= features]
    nearest = max(within or family[:1], key=lambda record: len(record.features))
    return with_fields(nearest, name=name, llvm=name, more="", rates={})


def target_recorded(record: Cpu) -> Target:
    """The processor of a user's ``record``. Raises ``CompileError`` (WEFT-E0023) if LLVM does not
    know its name, or knows it as a 32-bit one."""
    family = record.architecture
    known = (*cpu_names(family), *(own.llvm for own in RECORDS if own.architecture == family))
    if record.llvm not in known:
        why = f"LLVM has no {family.name} processor {record.llvm!r}"
        raise _no_record(record, why, did_you_mean(record.llvm, known).rstrip())
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
