"""What an artifact carries to be proved once more: ``weft check`` reads it, calls never do.

    Certificate ::= interface, program, units: Unit…
    Unit        ::= original: Scop, scheduled: Scop, tree, kernels: UnitKernel…
    UnitKernel  ::= name, statements…

* A *unit* is a cluster of a graph or a loop kernel: what it computes, the statements that it was
  compiled as, and their order. Its kernels run its statements in turn, nest by nest. Those that
  depend on constants alone have run when compiling, and are no kernels of the program.
* ``program`` is the host program. Its kernels have no bodies: loop IR is not proved.
* ``interface`` says which artifact the certificate is of: a digest of how that is called and of its
  object code. It tells a certificate from that of another program, not from a forged one.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

from weft.ir import instruction, loop_ir, program, scalar_expr, schedule_tree, scop
from weft.ir.dtypes import DType
from weft.ir.encoding import MALFORMED, Encoding
from weft.ir.errors import ArtifactError
from weft.ir.loop_ir import Kernel
from weft.ir.program import Program
from weft.ir.schedule_tree import Payload, Tree
from weft.ir.scop import Scop
from weft.ir.tensor_expr import Monoid
from weft.runtime.artifact_header import interface
from weft.runtime.compiled import Compiled

MOST = 1 << 26  # bytes of a certificate, unpacked
_SIZE = 4  # bytes of its size, in front
_MALFORMED: tuple[type[Exception], ...] = (*MALFORMED, zlib.error)


@dataclass(frozen=True, slots=True)
class UnitKernel:
    name: str
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """``scheduled``, run as ``tree`` says, is to compute what ``original`` does; ``kernels``, one
    after the other, are to be that."""

    original: Scop
    scheduled: Scop
    tree: Tree
    kernels: tuple[UnitKernel, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    interface: str
    program: Program
    units: tuple[Unit, ...]


def certificate_of(compiled: Compiled, main: Program, units: tuple[Unit, ...]) -> bytes:
    """The certificate of ``compiled``, whose host program is ``main``, as an artifact holds it."""
    return encode(Certificate(digest(compiled), without_bodies(main), units))


def without_bodies(main: Program) -> Program:
    """``main`` with its kernels' signatures alone."""
    return replace(main, kernels=tuple(map(_signature, main.kernels)))


def _signature(kernel: Kernel) -> Kernel:
    return replace(kernel, body=loop_ir.Block(()), messages=())


def digest(compiled: Compiled) -> str:
    """What a certificate says that it is of: how ``compiled`` is called, and its object code."""
    found = hashlib.sha256(interface(compiled))
    for code in compiled.objects:
        found.update(hashlib.sha256(code).digest())
    return found.hexdigest()


def encode(certificate: Certificate) -> bytes:
    """``certificate`` in as few bytes as are quickly had; equal ones give equal bytes."""
    unpacked = encoding().encode(certificate)
    return len(unpacked).to_bytes(_SIZE, "little") + zlib.compress(unpacked, 1)


def decode(data: bytes, where: str) -> Certificate:
    """The certificate in ``data``, of the artifact at ``where``. Raises ``ArtifactError``:
    WEFT-E0707 where there is none, E0708 where it is malformed."""
    if not data:
        raise ArtifactError(
            "WEFT-E0707",
            "the artifact has no certificate",
            where=where,
            hint="save it with one: certificate=True, or weft compile without --no-certificate",
        )
    try:
        size = int.from_bytes(data[:_SIZE], "little")
        if size > MOST:
            raise ValueError(f"{size} bytes are too many")
        stream = zlib.decompressobj()
        unpacked = stream.decompress(data[_SIZE:], size + 1)
        if len(unpacked) != size or not stream.eof or stream.unused_data:
            raise ValueError(f"it does not unpack to {size} bytes")
        return encoding().decode(unpacked, Certificate)
    except _MALFORMED as error:
        raise ArtifactError(
            "WEFT-E0708", "the certificate is malformed", where=where, why=str(error)
        ) from None


PROGRAMS: tuple[type, ...] = (
    Program, program.Buffer, *get_args(program.Place), program.Launch,
    Kernel, loop_ir.Buffer, loop_ir.Block,
    *get_args(Tree), schedule_tree.Loop, *get_args(Payload),
    instruction.Instruction, instruction.Operand, *get_args(instruction.Emission),
    instruction.Offset,
    Scop, scop.Constraint, scop.Tensor, scop.Access, scop.Body, scop.Update, scop.Origin,
    scop.Statement, Monoid, DType,
    scalar_expr.Literal, scalar_expr.Var, scalar_expr.Load, scalar_expr.Apply,
    scalar_expr.Cast, scalar_expr.Bitcast, scalar_expr.Select,
)  # fmt: skip
"""The classes of host programs, schedules and affine statements, as ``Encoding`` takes them."""


def encoding_with(classes: tuple[type, ...]) -> Encoding:
    """Of ``classes``, and of what they have of ``PROGRAMS`` in them."""
    return Encoding((*classes, *PROGRAMS), {(scalar_expr.Load, "source"): int})


@cache
def encoding() -> Encoding:
    return encoding_with((Certificate, Unit, UnitKernel))
