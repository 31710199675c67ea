"""What the compiler hands over: everything that a call needs, as plain frozen data.

``Compiled`` is what an artifact and the cache store and what an ``Executable`` runs. It holds no
handle, pointer or isl object; what explains it is worked out when somebody asks. What only this
process knows of it, how long it took and whence it came, is no part of an artifact: equal
compilations give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from weft.codegen.llvm.target import LlvmTarget, inspect, lacking
from weft.codegen.machines.host import host_processor
from weft.ir.dtypes import DType
from weft.ir.errors import CallError, ExecutionError
from weft.ir.plan import Plan
from weft.ir.program import Buffer, Input, Output, Place, Program
from weft.ir.scalar_expr import Expr

_TWIN = {  # codes of ``codegen/cuda/twin.hpp``
    -1: "some of the {1} threads of block {0} never meet a barrier that others wait at",
    -2: "there is no memory for the stacks of a block's threads",
    -3: "a block uses {0} bytes of shared memory, and its launch asked for {1}",
}


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One input or output as the caller sees it: ``name``, ``dtype``, and ``shape`` in int64
    expressions over size symbols. ``alignment``: bytes that the code relies on; 1: any address that
    NumPy gives."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class InPlace:
    """``output`` is computed in the memory of ``input``, by their numbers.

    ``shared``: the code itself takes one pointer for both. Otherwise it computes apart and the
    result is copied into the argument at the end.
    """

    output: int
    input: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """What the code was proved for: ``condition`` (bool, over parameters), in words for a user."""

    condition: Expr
    text: str


class Estimate(NamedTuple):
    """What a call takes on one thread by the cost model, in seconds: about ``seconds``, and never
    less than ``bound``."""

    seconds: float
    bound: float


def sizes_of_a_model() -> CallError:
    """The error for a model whose costs are asked for at sizes."""
    return CallError(
        "WEFT-E0609",
        "estimates for sizes are of loop kernels alone",
        hint="compile a model for its sizes: weft.compile(…, shapes=…)",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A compiled program.

    ``name``, ``inputs`` and ``outputs`` as callers see them; ``parameters``: the integers that the
    code is given, by name, and ``derived``: those of them that are computed from others.
    ``in_place``: outputs in the memory of inputs. ``guards``: what calls must keep. ``target``: the
    processor that it is for. ``objects``: position-independent object code; together with ``pool``,
    that of ``llvm/runtime`` (empty: to be compiled), it defines ``entry`` and ``entry_arena`` as
    ``weft/ir/program.py`` describes. ``processor``: one that runs it, in the words of
    ``host_processor``, or '' where none is known to. ``constants``: read-only C-contiguous arrays
    in the order of the program's constants. ``checks``: for each step what its kernel's check codes
    mean, code k at k - 1; ``{0}`` and ``{1}`` stand for the two details. ``scalars``: inputs whose
    value, an integer, is the parameter of their name. ``llvm``: the modules' text. ``texts``: the
    IRs, stage by stage. ``stats``: counts, JSON data. ``explain``: what was decided and why, in
    words, and ``weighed`` the same of a loop kernel at sizes of the caller's, with or without what
    alternatives would have cost and which do not apply (None: nobody knows any more); ``estimate``:
    the time of a call at such sizes (None: the same); ``plan``: the decisions as data.
    ``certificate``: what ``weft check`` proves once more, as ``runtime/certificate.py`` writes it
    (empty: nothing). ``seconds``: what each stage of the compiler took, in this process;
    ``from_cache``: none did.
    """

    name: str
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    parameters: tuple[str, ...]
    target: LlvmTarget
    entry: str
    objects: tuple[bytes, ...]
    pool: bytes = b""
    processor: str = ""
    constants: tuple[tuple[str, np.ndarray], ...] = ()
    derived: tuple[tuple[str, Expr], ...] = ()
    in_place: tuple[InPlace, ...] = ()
    scalars: tuple[int, ...] = ()
    guards: tuple[Guard, ...] = ()
    checks: tuple[tuple[str, ...], ...] = ()
    llvm: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    stats: Mapping[str, object] = field(default_factory=dict)
    explain: Callable[[], str] = str
    weighed: Callable[[bool, Mapping[str, int]], str] | None = None
    estimate: Callable[[Mapping[str, int]], Estimate] | None = None
    plan: Plan = field(default_factory=Plan)
    certificate: bytes = b""
    seconds: Mapping[str, float] = field(default_factory=dict)
    from_cache: bool = False

    def text(self, stage: str) -> str:
        """The program after ``stage``. Raises ``CallError`` (WEFT-E0609)."""
        texts = self.texts
        if stage not in texts:
            raise CallError(
                "WEFT-E0609",
                f"there is no text of stage {stage!r}",
                hint=f"stages: {', '.join(texts) or 'none were kept'}",
            )
        return texts[stage]

    def source(self, language: str) -> str:
        """The generated code: "llvm" or "asm", or "cuda" where that is what the program is compiled
        to. Raises ``CallError`` (WEFT-E0609)."""
        if language == "cuda" and "cuda" in self.texts:
            return self.texts["cuda"]
        if language not in ("llvm", "asm"):
            raise CallError(
                "WEFT-E0609", f"there is no source in {language!r}", hint='"llvm" or "asm"'
            )
        modules = self.llvm
        if not modules:
            raise CallError("WEFT-E0609", "this artifact was saved without its texts")
        if language == "llvm":
            return "\n".join(modules)
        return "\n".join(inspect(module, self.target).assembly for module in modules)

    def failure(self, step: int, code: int, first: int, second: int) -> ExecutionError:
        """What check ``code`` of ``step`` says, of two details, ``first`` and ``second``."""
        checks = self.checks
        messages = checks[step] if 0 <= step < len(checks) else ()
        if 1 <= code <= len(messages):
            message = messages[code - 1]
            if "{0}" not in message:
                message += " (at {0}, {1})"
            message = message.replace("{0}", str(first)).replace("{1}", str(second))
        elif code in _TWIN:
            message = _TWIN[code].format(first, second)
        else:
            message = f"check {code} failed (at {first}, {second})"
        return ExecutionError("WEFT-E0610", message, where=f"step {step} of {self.name}")


def missing_here(compiled: Compiled) -> tuple[str, ...]:
    """What the code needs and the processor here lacks; () where it runs.

    LLVM, which takes a while to load, is not asked where the processor is the one that is known.
    """
    if compiled.processor and compiled.processor == host_processor():
        return ()
    return lacking(compiled.target)


def array_specs(
    program: Program, buffers: tuple[Buffer, ...], names: tuple[str, ...]
) -> tuple[ArraySpec, ...]:
    """Specs of ``buffers`` (inputs or outputs) under the users' ``names``, with the alignment
    that the kernels which take them, or what is computed in their place, rely on."""
    places = {b.name: b.place for b in program.buffers}
    replaced: dict[Place, Place] = {Output(o): Input(i) for o, i in program.in_place}
    formals = {kernel.name: kernel.buffers for kernel in program.kernels}
    needed = {buffer.place: 1 for buffer in buffers}
    for step in program.steps:
        for argument, formal in zip(step.arguments, formals[step.kernel], strict=True):
            for place in (places[argument], replaced.get(places[argument])):
                if place is not None and place in needed:
                    needed[place] = max(needed[place], formal.alignment)
    return tuple(
        ArraySpec(name, b.dtype, b.shape, needed[b.place])
        for name, b in zip(names, buffers, strict=True)
    )
