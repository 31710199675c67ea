"""Which processor a compilation is for: ``Options.target`` as a record."""

from __future__ import annotations

from dataclasses import dataclass

from weft import calibration
from weft.codegen.calibrate import calibrated
from weft.codegen.llvm_target import lacking
from weft.codegen.machines.host import host
from weft.codegen.machines.named import RECORDS, target_named, target_recorded
from weft.codegen.target import Cpu, Target
from weft.options import Options
from weft.try_instruction import with_instructions


def target_for(options: Options) -> Target:
    """The record of ``options.target``, with ``options.instructions``.

    Raises ``CompileError``: WEFT-E0002 if there is none, E0004 for "host-calibrated" where nothing
    was measured, E0023 for a record of a processor that LLVM does not know, E0021 if one of the
    instructions is none of that target, or does not compute what it says.
    """
    return with_instructions(_named(options), options.instructions)


def _named(options: Options) -> Target:
    match options.target:
        case "host":
            return host()
        case calibration.NAME:
            return calibration.calibrated_host(options)
        case Cpu() as record:
            return target_recorded(record)
        case name:
            return target_named(name)


@dataclass(frozen=True, slots=True)
class Listed:
    """A target and what of it is lacking here (): its code runs."""

    target: Target
    lacking: tuple[str, ...]


def listed(options: Options) -> tuple[Listed, ...]:
    """The processor here, as assumed and, if it was, as measured; and every record."""
    found = [host()]
    measured = calibration.measured_host(options)
    if measured is not None:
        found.append(calibrated(measured))
    found += [target_named(record.name) for record in RECORDS]
    return tuple(Listed(target, lacking(target.llvm)) for target in found)


def thread_count(options: Options) -> int:
    """For how many threads programs are scheduled: those asked for, or one for each core."""
    return options.threads or target_for(options).cores
