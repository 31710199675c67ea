"""A user's instructions are tried out before the first use: what is emitted beside the semantics.

What LLVM makes of foreign text is foreign, too: it may refuse it by ending the process, and the
code may be none that this processor knows. So it runs in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from weft.codegen.instruction_trial import operand_types, trial_module, trials
from weft.codegen.llvm_target import host_target, lacking
from weft.codegen.target import Target
from weft.errors import CompileError, WeftError
from weft.polyhedral.instruction import ACCUMULATOR, Instruction
from weft.trial_job import trial_job
from weft.worker_pool import WorkerPool

TRIAL_SECONDS = 60.0


def with_instructions(target: Target, instructions: Sequence[Instruction]) -> Target:
    """``target`` with ``instructions`` before its own, each tried out where this processor is one
    for which ``target``'s code runs.

    Raises ``CompileError`` (WEFT-E0021) where what is emitted computes something else than the
    semantics, or does not run.
    """
    if not instructions:
        return target
    if not lacking(target.llvm):
        for one in instructions:
            tried(one)
    machine = target.machine
    extensions = (*instructions, *machine.extensions)
    return replace(target, machine=replace(machine, extensions=extensions))


_TRIED: dict[str, str] = {}


def tried(instruction: Instruction) -> None:
    """Run ``instruction`` on random operands, in a process of its own, once in this one's life."""
    if instruction.emission is None:
        return
    key = repr(instruction)
    if key not in _TRIED:
        _TRIED[key] = _trial(instruction)
    if _TRIED[key]:
        raise CompileError(
            "WEFT-E0021",
            f"instruction {instruction.name} does not compute what its semantics say",
            why=_TRIED[key],
            hint="arguments are vectors over results, then steps of the sum, the last fastest",
        )


def _trial(instruction: Instruction) -> str:
    """What is wrong with ``instruction``, or ''."""
    made = trials(instruction)
    job = trial_job(trial_module(instruction, host_target()), [t.given() for t in made])
    with WorkerPool(1) as pool:
        (answer,) = pool.run("trial", [job], timeout=TRIAL_SECONDS)
    if isinstance(answer, WeftError):
        return f"its code does not run: {answer.why or answer.what}"
    results = msgspec.msgpack.decode(answer, type=list[bytes])
    dtype = operand_types(instruction)[ACCUMULATOR].numpy
    for trial, raw in zip(made, results, strict=True):
        wrong = trial.differs(np.frombuffer(raw, dtype))
        if wrong:
            return wrong
    return ""
