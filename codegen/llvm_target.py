"""What an emitter of LLVM IR must know about a processor, and LLVM as a library: IR → object code.

``LlvmTarget`` is plain data and part of every cache key. ``to_object`` verifies, optimises and
assembles one module; ``native_library`` maps objects into this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from weft.errors import InternalError


@dataclass(frozen=True, slots=True)
class LlvmTarget:
    """``vector_bytes``: width of the vectors that kernels use; ``fma``: fused multiply-add in
    hardware (without it the mathematical functions call the C library's ``fma``, which is right
    and slow); ``half``: conversions between float16 and float32 in hardware."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    fma: bool = True
    half: bool = True


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@cache
def host_target() -> LlvmTarget:
    """The processor that runs this process."""
    _initialise()
    features = llvm.get_host_cpu_features()
    has = {name for name, on in features.items() if on}
    if "avx512f" in has and "avx512vl" in has and "avx512bw" in has and "avx512dq" in has:
        width = 64
    else:
        width = 32 if "avx2" in has else 16
    triple = llvm.get_process_triple()
    x86 = triple.startswith(("x86_64", "i386", "i686"))
    return LlvmTarget(
        triple,
        llvm.get_host_cpu_name(),
        features.flatten(),
        width,
        fma="fma" in has or not x86,
        half="f16c" in has or not x86,
    )


@dataclass(frozen=True, slots=True)
class Inspected:
    """What object code was made of and what it does: LLVM IR after optimisation, assembly."""

    optimised: str
    assembly: str


def to_object(module_text: str, target: LlvmTarget) -> bytes:
    """Verified, optimised and assembled LLVM IR; ``InternalError`` if LLVM refuses it."""
    module, machine = _optimised(module_text, target)
    return bytes(machine.emit_object(module))


def inspect(module_text: str, target: LlvmTarget) -> Inspected:
    """What ``to_object`` makes of ``module_text``, for people to read."""
    module, machine = _optimised(module_text, target)
    return Inspected(str(module), str(machine.emit_assembly(module)))


def _optimised(text: str, target: LlvmTarget) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    _initialise()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(
            "WEFT-E0901", "LLVM refused the code of a kernel", why=str(error)
        ) from error
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    # Vectors, register tiles and unrolling are the emitter's own decisions.
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_interleaving = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module, machine
