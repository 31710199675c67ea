"""A host program of kernels in loop IR → object code, and what calls need to know about it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.codegen.llvm.program import emit_program
from weft.codegen.llvm.target import lacking
from weft.codegen.machines.host import host_processor
from weft.codegen.objects.native_library import pool_object
from weft.driver.object_code import ObjectCode
from weft.driver.passes import Passes
from weft.ir.program import Program
from weft.runtime.compiled import Compiled, InPlace, array_specs


def program_code(
    program: Program,
    constants: Mapping[str, np.ndarray],
    code: ObjectCode,
    passes: Passes,
) -> Compiled:
    """``program``, whose constants hold ``constants``, as machine code behind one entry point."""
    entry = f"weft_{program.name}"
    kernels = passes.run("llvm", lambda: [code.emitted(k) for k in program.kernels])
    symbols = {k.name: made.symbols for k, made in zip(program.kernels, kernels, strict=True)}
    main = emit_program(program, symbols, entry, code.machine, strict=passes.options.strict)
    texts = [*dict.fromkeys(k.text for k in kernels), main]
    objects = passes.run("object", lambda: code.objects(texts))
    messages = {kernel.name: kernel.messages for kernel in program.kernels}
    return Compiled(
        name=program.name,
        inputs=array_specs(program, program.inputs, tuple(b.name for b in program.inputs)),
        outputs=array_specs(program, program.outputs, tuple(b.name for b in program.outputs)),
        parameters=program.parameters,
        target=code.target,
        entry=entry,
        objects=tuple(objects),
        pool=pool_object(code.target),
        processor="" if lacking(code.target) else host_processor(),
        constants=tuple((b.name, constants[b.name]) for b in program.constants),
        derived=program.derived,
        in_place=tuple(InPlace(o, i, shared=True) for o, i in program.in_place),
        scalars=program.scalars,
        checks=tuple(messages[step.kernel] for step in program.steps),
        llvm=tuple(texts),
    )
