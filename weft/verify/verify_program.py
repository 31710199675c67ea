"""A whole program on small sizes: its host program interpreted, its machine code run."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from weft.driver.compiler import machine_code
from weft.driver.lowered import Lowered
from weft.ir.errors import WeftWarning
from weft.ir.program_interpreter import interpret_program
from weft.ir.program_printer import print_program
from weft.runtime.executable import Executable
from weft.verify.ladder import Ladder
from weft.verify.oracle import Arrays


def check_program(
    lower: Callable[[], Lowered], inputs: Arrays, ladder: Ladder, *, interpreted: bool = True
) -> None:
    """Two more steps of ``ladder``: "assemble", left out unless ``interpreted``, and "llvm"."""
    lowered = ladder.make("assemble", lambda: quietly(lower))
    if interpreted:
        ladder.step("assemble", lambda: _text(lowered), lambda: _interpreted(lowered, inputs))
    compiled = ladder.make("llvm", lambda: machine_code(lowered, ladder.setting.target))
    ladder.step("llvm", lambda: "\n".join(compiled.llvm), lambda: run(Executable(compiled), inputs))


def quietly(lower: Callable[[], Lowered]) -> Lowered:
    """Nobody wants to see how small instances are compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)
        return lower()


def run(executable: Executable, inputs: Arrays) -> Arrays:
    """The outputs in order; ``inputs`` stay as they are."""
    names = [spec.name for spec in executable.inputs]
    copies = [np.array(a) for a in inputs]
    results = executable.run(dict(zip(names, copies, strict=True)))
    return [results[spec.name] for spec in executable.outputs]


def _text(lowered: Lowered) -> str:
    parts = [lowered.assembly.prepare, lowered.program]
    return "\n".join(print_program(part) for part in parts if part is not None)


def _interpreted(lowered: Lowered, inputs: Arrays) -> Arrays:
    constants = dict(lowered.source.constants)
    prepare = lowered.assembly.prepare
    if prepare is not None:
        made = interpret_program(prepare, [], constants)
        constants |= {b.name: a for b, a in zip(prepare.outputs, made, strict=True)}
    return interpret_program(lowered.program, [np.array(a) for a in inputs], constants)
