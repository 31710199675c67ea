"""A user's instructions are tried out before the first use: what is emitted beside the semantics.

What LLVM makes of foreign text is foreign, too: it may refuse it by ending the process, and the
code may be none that this processor knows. So it is assembled, for the target, and run in a process
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from weft.codegen.instruction_trial import Trial, operand_types, trial_module, trials
from weft.codegen.llvm_target import LlvmTarget, lacking
from weft.codegen.target import Target
from weft.errors import CompileError, WeftError
from weft.polyhedral.instruction import ACCUMULATOR, Instruction
from weft.trial_job import trial_job
from weft.worker_pool import WorkerPool

TRIAL_SECONDS = 60.0


def with_instructions(target: Target, instructions: Sequence[Instruction]) -> Target:
    """``target`` with ``instructions`` before its own, each tried out: of equal ones they are used.

    Raises ``CompileError`` (WEFT-E0021) where what is emitted is no code for ``target``; and, if
    such code runs on this processor, where it computes something else than the semantics.
    """
    if not instructions:
        return target
    for one in instructions:
        tried(one, target)
    machine = target.machine
    extensions = (*instructions, *machine.extensions)
    return replace(target, machine=replace(machine, extensions=extensions))


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with an instruction: the words of an error."""

    what: str
    why: str
    hint: str


_TRIED: dict[tuple[str, LlvmTarget], _Fault | None] = {}


def tried(instruction: Instruction, target: Target) -> None:
    """Assemble ``instruction`` for ``target`` and, where that runs here, run it on random operands;
    in a process of its own, once in this one's life."""
    if instruction.emission is None:
        return
    key = (repr(instruction), target.llvm)
    if key not in _TRIED:
        _TRIED[key] = _fault(instruction, target.llvm)
    fault = _TRIED[key]
    if fault is not None:
        raise CompileError(
            "WEFT-E0021",
            f"instruction {instruction.name} {fault.what}",
            where=f"target {target.name!r}",
            why=fault.why,
            hint=fault.hint,
        )


def _fault(instruction: Instruction, target: LlvmTarget) -> _Fault | None:
    made = [] if lacking(target) else trials(instruction)
    job = trial_job(trial_module(instruction, target), target, [t.given() for t in made])
    with WorkerPool(1) as pool:
        (answer,) = pool.run("trial", [job], timeout=TRIAL_SECONDS)
    if isinstance(answer, WeftError):
        return _Fault(
            "does not run" if made else "cannot be assembled",
            answer.why or answer.what,
            "emit what this target has and LLVM can assemble here, or name another target",
        )
    wrong = _difference(instruction, made, msgspec.msgpack.decode(answer, type=list[bytes]))
    if not wrong:
        return None
    return _Fault(
        "does not compute what its semantics say",
        wrong,
        "arguments are vectors over results, then steps of the sum, the last fastest",
    )


def _difference(instruction: Instruction, made: Sequence[Trial], results: Sequence[bytes]) -> str:
    """The first of ``results`` that is not what it should be, or ''."""
    dtype = operand_types(instruction)[ACCUMULATOR].numpy
    told = (
        trial.differs(np.frombuffer(raw, dtype)) for trial, raw in zip(made, results, strict=True)
    )
    return next(filter(None, told), "")
