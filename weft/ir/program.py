"""IR 6, the host program: kernels in order over one arena, behind one entry point.

    Program ::= name, parameters, inputs, outputs, constants, arena: Size, buffers, steps, kernels,
                derived, in_place, scalars
    Buffer  ::= name, dtype, shape: Expr…, place
    Place   ::= Input(i) | Output(i) | Constant(name) | Arena(offset) | Aligned(i, offset)
    Step    ::= Launch(kernel, arguments: buffer names, parameters: Expr…)

* One call runs the steps in order on a fresh arena. ``Launch`` runs one kernel to its end, on as
  many of the call's threads as its work is worth: a kernel that is one parallel loop in equal
  chunks, a region as ``loop_ir`` says, any other on one thread.
* Buffers at one place may overlap in time but not in liveness; a buffer that is a view of another
  (a reshape) has the same place.
* ``Aligned`` is what input i holds, from the beginning of a cache line: there, if it begins at one,
  and else in the arena, where it is copied before the first step.
* Parameters are size symbols, bound from the inputs' shapes at the call; an input of ``scalars``,
  of dtype int64 and without dimensions, is the parameter of its name; ``derived`` gives those
  that are functions of earlier ones. Offsets and ``arena`` may be expressions over them.
* An (output, input) pair of ``in_place`` shares one pointer: the input is overwritten.
* The native entry point is
  ``int32 entry(void** inputs, void** outputs, void** constants, void* arena, int64* parameters,
  int64* status, int32 threads)``; it returns 0, or the code of the first failed Check with
  ``status`` = (step number, code, detail 0, detail 1), whatever was in it before. The arena is at
  least ``int64 entry_arena(int64* parameters, int32 threads)`` bytes (-1: too many to count),
  64-byte aligned: ``Program.arena`` and behind it scratch memory, that of all threads together and
  then each thread's own. Of ``threads``, no step is worth more than
  ``int32 entry_threads(int64* parameters, int32 threads)``: who passes these to ``entry`` spares
  it the asking where that is one.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.dtypes import DType
from weft.ir.loop_ir import Kernel
from weft.ir.scalar_expr import Expr

ALIGNMENT = 64  # bytes, of the arena and of all that lies in it


@dataclass(frozen=True, slots=True)
class Input:
    index: int


@dataclass(frozen=True, slots=True)
class Output:
    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    name: str


@dataclass(frozen=True, slots=True)
class Arena:
    offset: Expr  # bytes, a multiple of ``ALIGNMENT``


@dataclass(frozen=True, slots=True)
class Aligned:
    index: int
    offset: Expr  # bytes, a multiple of ``ALIGNMENT``


Place = Input | Output | Constant | Arena | Aligned


@dataclass(frozen=True, slots=True)
class Buffer:
    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: str
    arguments: tuple[str, ...]  # buffer names, one per kernel buffer
    parameters: tuple[Expr, ...] | None = None  # of the kernel; None: those of the same names


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    parameters: tuple[str, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    buffers: tuple[Buffer, ...]  # every buffer that a step names, the above included
    arena: Expr  # bytes
    steps: tuple[Launch, ...]
    kernels: tuple[Kernel, ...]
    derived: tuple[tuple[str, Expr], ...] = ()  # parameter = function of earlier parameters
    in_place: tuple[tuple[int, int], ...] = ()  # (output, input) pairs that share one pointer
    scalars: tuple[int, ...] = ()  # inputs whose value is a parameter
