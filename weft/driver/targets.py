"""Which processor a compilation is for: ``Options.target`` as a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from platformdirs import user_cache_path

from weft.codegen.calibrate import Measured, calibrate, calibrated
from weft.codegen.instruction_trial import (
    Trial,
    operand_types,
    trial_job,
    trial_module,
    trials,
)
from weft.codegen.llvm.target import LlvmTarget, lacking
from weft.codegen.machines.host import host
from weft.codegen.machines.named import target_named, target_names, target_recorded
from weft.codegen.machines.nvidia import GPUS
from weft.codegen.target import Cpu, Target
from weft.driver.options import Options
from weft.ir.errors import CompileError, WeftError, did_you_mean, short
from weft.ir.gpu import Gpu
from weft.ir.instruction import ACCUMULATOR, Instruction
from weft.ir.registry import Place, Registry
from weft.polyhedral.policy.gpu import thread_machine
from weft.runtime.cache import Cache
from weft.runtime.files import folder_named
from weft.workers.worker_pool import WorkerPool


def target_for(options: Options) -> Target:
    """The record of ``options.target``, with ``options.instructions``, by themselves or by name.

    Raises ``CompileError``: WEFT-E0002 if there is none, E0004 for "host-calibrated" where nothing
    was measured, E0009 for a name that no instruction has, E0023 for a record of a processor that
    LLVM does not know, E0021 if one of the instructions is none of that target, or does not compute
    what it says.
    """
    return with_instructions(_named(options), tuple(map(_instruction, options.instructions)))


def register_instruction(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, E0006 for no instruction."""
    if not isinstance(found, Instruction):
        raise CompileError(
            "WEFT-E0006",
            f"instruction {name} is a {type(found).__name__}, not a weft.Instruction",
            where=place.text,
            hint="weft.instruction describes one",
        )
    INSTRUCTIONS.add(name, found, place, replace)


INSTRUCTIONS: Registry[str, Instruction] = Registry(
    "instruction", "weft.instructions", register_instruction
)


def _instruction(given: Instruction | str) -> Instruction:
    found = INSTRUCTIONS.find(given) if isinstance(given, str) else given
    if found is None:
        known = INSTRUCTIONS.names()
        raise CompileError(
            "WEFT-E0009",
            f"there is no instruction {given!r}",
            hint=f"{did_you_mean(given, known)}registered: {', '.join(known)}"
            if known
            else "weft.register registers one",
        )
    return found


def _named(options: Options) -> Target:
    match options.target:
        case "host":
            return host()
        case name if name == CALIBRATED:
            return calibrated_host(options)
        case Cpu() as record:
            return target_recorded(record)
        case str(name) if (gpu := gpu_named(name)) is not None:
            own = LlvmTarget("nvptx64-nvidia-cuda", gpu.name, "", 0)
            runs = own if name in GPUS else host().llvm
            return Target(name, runs, thread_machine(gpu), 1, gpu)
        case name:
            return target_named(name)


TWIN = "cuda-twin"  # of the kernels of a GPU, on the processor here
DEFAULT_GPU = "sm_90a"


def gpu_named(name: str) -> Gpu | None:
    """The GPU of a target: "sm_80"; "cuda-twin:sm_80", or "cuda-twin" for ``DEFAULT_GPU``. None
    for another kind of target. Raises ``CompileError`` (WEFT-E0002) for a GPU without a record."""
    if name == "cuda":
        raise CompileError(
            "WEFT-E0002",
            "there is no target 'cuda'",
            why="kernels do not run on a device from here",
            hint=f"{TWIN} runs them on the processor; {', '.join(GPUS)} give their text",
        )
    twin, _, wanted = name.partition(":")
    if twin != TWIN:
        return GPUS.get(name)
    found = GPUS.get(wanted or DEFAULT_GPU)
    if found is None:
        raise CompileError(
            "WEFT-E0002",
            f"there is no GPU {short(wanted)}",
            hint=f"{did_you_mean(wanted, GPUS)}GPUs: {', '.join(GPUS)}",
        )
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    """A target and what of it is lacking here (): its code runs."""

    target: Target
    lacking: tuple[str, ...]


def listed(options: Options) -> tuple[Listed, ...]:
    """The processor here, as assumed and, if it was, as measured; and every record."""
    found = [host()]
    measured = measured_host(options)
    if measured is not None:
        found.append(calibrated(measured))
    found += map(target_named, target_names())
    return tuple(Listed(target, lacking(target.llvm)) for target in found)


def thread_count(options: Options) -> int:
    """For how many threads programs are scheduled: those asked for, or one for each core."""
    return options.threads or target_for(options).cores


# ---- A user's instructions are tried out before the first use: what is emitted beside the
# semantics.
#
# What LLVM makes of foreign text is foreign, too: it may refuse it by ending the process, and the
# code may be none that this processor knows. So it is assembled, for the target, and run in a
# process of its own.


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


# ---- What was measured of this processor, kept between runs: the record of "host-calibrated".
#
# Nothing is measured unasked: two compilations for "host" are alike on every machine of one kind.


CALIBRATED = "host-calibrated"


def calibrate_host(options: Options) -> Target:
    """Measure this processor, some seconds, and keep the result.

    Raises ``WeftError`` (WEFT-E0808) where it cannot be kept.
    """
    cache = _cache(options)
    measured = calibrate()
    if not cache.put(_key(), [msgspec.msgpack.encode(measured)]):
        raise _not_kept(str(cache.folder))
    return calibrated(measured)


def calibrated_host(options: Options) -> Target:
    """The record of this processor as it was measured. Raises ``CompileError`` (WEFT-E0004) where
    that has not been done, or for another processor."""
    found = measured_host(options)
    if found is None:
        raise CompileError(
            "WEFT-E0004",
            "this processor has not been measured",
            hint="weft targets --calibrate does it, once; or compile for host",
        )
    return calibrated(found)


def measured_host(options: Options) -> Measured | None:
    """What was measured of this processor, if it was."""
    try:
        cache = _cache(options)
        payload = cache.get(_key())
        if payload is None:
            return None
        found = msgspec.msgpack.decode(payload, type=Measured)
    except (WeftError, msgspec.MsgspecError):
        return None
    return found if len(found.bandwidths) == len(host().machine.caches) else None


def _key() -> bytes:
    """The processor as it is without measuring: another one asks anew."""
    target = host()
    return msgspec.msgpack.encode(("calibration", repr(target.llvm), repr(target.machine)))


def _cache(options: Options) -> Cache:
    """A folder beside the compiled programs, so that clearing these leaves it alone."""
    chosen = options.cache_dir
    folder = user_cache_path("weft") if chosen is None else folder_named(chosen)
    try:
        return Cache(folder / "calibration")
    except OSError as error:
        raise _not_kept(str(error)) from None


def _not_kept(why: str) -> WeftError:
    return WeftError(
        "WEFT-E0808", "what is measured cannot be kept", why=why, hint="see WEFT_CACHE_DIR"
    )
