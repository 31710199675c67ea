"""A host program of kernels in loop IR → object code, and what calls need to know about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.codegen.cuda.print_program import print_program
from weft.codegen.cuda.twin import twin_object
from weft.codegen.llvm.program import emit_program
from weft.codegen.llvm.target import LlvmTarget, host_target, lacking
from weft.codegen.machines.host import host_processor
from weft.codegen.objects.native_library import pool_object
from weft.driver.object_code import ObjectCode
from weft.driver.passes import Passes
from weft.driver.targets import target_for
from weft.ir.gpu import Gpu
from weft.ir.program import Program
from weft.runtime.compiled import Compiled, InPlace, array_specs


def program_code(
    program: Program,
    constants: Mapping[str, np.ndarray],
    code: ObjectCode,
    passes: Passes,
    sources: Mapping[str, Sequence[str]] | None = None,
) -> Compiled:
    """``program``, whose constants hold ``constants``, as machine code behind one entry point.
    ``sources``: what each of its kernels computes, in the user's terms."""
    gpu = target_for(passes.options).gpu
    if gpu is not None:
        return _launches(program, constants, gpu, code.target, passes, sources or {})
    entry = f"weft_{program.name}"
    kernels = passes.run("llvm", lambda: [code.emitted(k) for k in program.kernels])
    symbols = {k.name: made.symbols for k, made in zip(program.kernels, kernels, strict=True)}
    options = passes.options
    main = emit_program(
        program, symbols, entry, code.machine, strict=options.strict, quick=options.quick
    )
    texts = [*dict.fromkeys(k.text for k in kernels), main]
    objects = passes.run("object", lambda: code.objects(texts))
    return _compiled(program, constants, code.target, objects, texts)


def _launches(
    program: Program,
    constants: Mapping[str, np.ndarray],
    gpu: Gpu,
    target: LlvmTarget,
    passes: Passes,
    sources: Mapping[str, Sequence[str]],
) -> Compiled:
    """The same for ``gpu``: its kernels' text, and where ``target`` is the processor here, their
    twin on it as object code."""
    stage = "cuda" if program.name == "main" else f"cuda of {program.name}"
    text = passes.run(stage, lambda: print_program(program, gpu, sources), show=str)
    if target != host_target():
        return _compiled(program, constants, target, [], [])
    objects = passes.run("object", lambda: [twin_object(text)])
    return _compiled(program, constants, target, objects, [])


def _compiled(
    program: Program,
    constants: Mapping[str, np.ndarray],
    target: LlvmTarget,
    objects: Sequence[bytes],
    texts: Sequence[str],
) -> Compiled:
    messages = {kernel.name: kernel.messages for kernel in program.kernels}
    return Compiled(
        name=program.name,
        inputs=array_specs(program, program.inputs, tuple(b.name for b in program.inputs)),
        outputs=array_specs(program, program.outputs, tuple(b.name for b in program.outputs)),
        parameters=program.parameters,
        target=target,
        entry=f"weft_{program.name}",
        objects=tuple(objects),
        pool=pool_object(target) if objects else b"",
        processor="" if lacking(target) else host_processor(),
        constants=tuple((b.name, constants[b.name]) for b in program.constants),
        derived=program.derived,
        in_place=tuple(InPlace(o, i, shared=True) for o, i in program.in_place),
        scalars=program.scalars,
        checks=tuple(messages[step.kernel] for step in program.steps),
        llvm=tuple(texts),
    )
