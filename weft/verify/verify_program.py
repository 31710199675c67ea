"""A whole program on small sizes: its host program interpreted, its machine code run."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from weft.codegen.llvm.target import LlvmTarget
from weft.driver.compiler import lower_graph, machine_code
from weft.driver.object_code import ObjectCode
from weft.driver.options import Options
from weft.driver.program_code import Lowered
from weft.ir.errors import WeftWarning
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph
from weft.ir.program_interpreter import interpret_program
from weft.ir.program_printer import print_program
from weft.runtime.compiled import Compiled
from weft.runtime.executable import Executable
from weft.verify.ladder import Ladder
from weft.verify.oracle import Arrays


def check_program(
    graph: Graph,
    inputs: Arrays,
    ladder: Ladder,
    machine: Machine,
    target: LlvmTarget,
    *,
    interpreted: bool = True,
) -> None:
    """Two more steps of ``ladder``: "assemble", left out unless ``interpreted``, and "llvm"."""
    lowered = ladder.make("assemble", lambda: _lowered(graph, ladder.options, machine))
    if interpreted:
        ladder.step("assemble", lambda: _text(lowered), lambda: _interpreted(lowered, inputs))
    compiled = ladder.make("llvm", lambda: _compiled(graph, lowered, target))
    ladder.step(
        "llvm",
        lambda: "\n".join(compiled.llvm),
        lambda: run(Executable(compiled), inputs),
    )


def _lowered(graph: Graph, options: Options, machine: Machine) -> Lowered:
    """``graph`` lowered without a word: nobody wants to see how small instances are compiled."""
    quiet = replace(
        options, verify="normal", cache=False, workers=0, texts=False, dump=None, print_after=(),
        logs=(),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)
        return lower_graph(graph, quiet, machine)


def _compiled(graph: Graph, lowered: Lowered, target: LlvmTarget) -> Compiled:
    with ObjectCode(target, lowered.passes.options) as code:
        return machine_code(graph, lowered, code)


def run(executable: Executable, inputs: Arrays) -> Arrays:
    """The outputs in order; ``inputs`` stay as they are."""
    names = [spec.name for spec in executable.inputs]
    copies = [np.array(a) for a in inputs]
    results = executable.run(dict(zip(names, copies, strict=True)))
    return [results[spec.name] for spec in executable.outputs]


def _text(lowered: Lowered) -> str:
    assembly = lowered.assembly
    programs = [assembly.main] if assembly.prepare is None else [assembly.prepare, assembly.main]
    return "\n".join(map(print_program, programs))


def _interpreted(lowered: Lowered, inputs: Arrays) -> Arrays:
    constants = dict(lowered.constants)
    prepare = lowered.assembly.prepare
    if prepare is not None:
        made = interpret_program(prepare, [], constants)
        constants |= {b.name: a for b, a in zip(prepare.outputs, made, strict=True)}
    return interpret_program(lowered.assembly.main, [np.array(a) for a in inputs], constants)
