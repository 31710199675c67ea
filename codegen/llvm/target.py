"""What emitters of LLVM IR need to know of a processor, and LLVM as a library: IR → object code.

``LlvmTarget`` is plain data and part of every cache key. ``to_object`` verifies, optimises and
assembles one module; ``native_library`` maps objects into this process.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cache

from weft.codegen.amx_permission import request_amx
from weft.codegen.architectures import architecture_of
from weft.codegen.llvm.library import binding as llvm
from weft.ir.errors import InternalError


@dataclass(frozen=True, slots=True)
class LlvmTarget:
    """``vector_bytes``: width of the vectors that kernels use; ``fma``: fused multiply-add in
    hardware (without it the mathematical functions call the C library's slow ``fma``); ``half``:
    conversions between float16 and float32 in hardware."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    fma: bool = True
    half: bool = True

    @property
    def enabled(self) -> frozenset[str]:
        """LLVM's names of the features that code may use."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))


@cache
def host_target() -> LlvmTarget:
    """The processor that runs this process."""
    features = llvm.get_host_cpu_features()
    if not request_amx():
        features.update({name: False for name in features if name.startswith("amx-")})
    has = {name for name, on in features.items() if on}
    triple = llvm.get_process_triple()
    return llvm_target(triple, llvm.get_host_cpu_name(), has, features.flatten())


def llvm_target(triple: str, cpu: str, features: Set[str], text: str = "") -> LlvmTarget:
    """The processor ``cpu`` (LLVM's name) with ``features``; ``text``: the feature string for LLVM,
    by default just these."""
    family = architecture_of(triple)
    return LlvmTarget(
        triple,
        cpu,
        text or ",".join([family.always, *(f"+{name}" for name in sorted(features))]).strip(","),
        family.register_file(features).bytes,
        fma=not family.fma or family.fma in features,
        half=not family.half or family.half in features,
    )


def lacking(target: LlvmTarget) -> tuple[str, ...]:
    """What is missing here to run code for ``target``: features, or its triple."""
    host = host_target()
    if target.triple.split("-")[0] != host.triple.split("-")[0]:
        return (target.triple,)
    return tuple(sorted(target.enabled - host.enabled))


@dataclass(frozen=True, slots=True)
class Inspected:
    """What object code was made of and what it does: LLVM IR after optimisation, assembly."""

    optimised: str
    assembly: str


def to_object(module_text: str, target: LlvmTarget) -> bytes:
    """Verified, optimised and assembled LLVM IR; ``InternalError`` if LLVM refuses it."""
    module, machine = _optimised(module_text, target)
    return machine.emit_object(module)


def inspect(module_text: str, target: LlvmTarget) -> Inspected:
    """The optimised IR and the assembly of ``module_text``, for people."""
    module, machine = _optimised(module_text, target)
    return Inspected(str(module), machine.emit_assembly(module))


def _optimised(text: str, target: LlvmTarget) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """LLVM's module and target machine."""
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
    optimise(module, machine)
    return module, machine


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """LLVM's passes, in place, but for what the emitter decides: vectors, tiles, unrolling."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_interleaving = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
