"""What the operations of an accelerator can compute, as derived from their semantics.

    Capability ::= Transfer | Compute
    Transfer ::= operation, local: Address, main: Address, into, rows: Span, columns: Span
    Compute  ::= operation, step: Statement, extents, loops: HardwareLoop…, target: Address,
                 operands: Address…, copies: Copy…
    Address  ::= memory, base: (field, factor)…, constant, bits, steps: dim -> number | field, group
    HardwareLoop ::= dim, field, offset     field + offset iterations

* A loop with constant bounds is *inside* the instruction: a dim of ``step``, a statement as in
  ``polyhedral.map_instruction``. A loop whose bound is a field is a hardware loop.
* A loop over micro-operations (``words``) reads the addresses of its operands: ``bits`` of the
  word, plus ``steps``.
* ``copies``: other memories that it writes, at the address of its target: a function of the
  target's new value, ``Load(0)``.
* Inner loops over contiguous addresses form one element of ``group`` addresses.
* ``first``: the value that it starts a reduction from, whatever the target held; None: it
  accumulates onto the target. Its loops in ``repeats`` accumulate, each iteration of all others
  starts anew.
* A transfer copies rows between a main memory and another one, dense in the latter, with zero
  padding before, after and between rows. A ``Span`` counts field ``size`` + ``offset``, or only
  ``offset``.

The compiler cannot use an operation of any other form: see ``read_semantics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir.accelerator import Operation
from weft.ir.scalar_expr import Expr, Load, rewrite, substitute
from weft.ir.scop import Statement

Step = int | str  # elements: a constant, or the value of a field


@dataclass(frozen=True, slots=True)
class Bits:
    """The ``width`` bits of a micro-operation from bit ``place`` on."""

    place: int
    width: int


@dataclass(frozen=True, slots=True)
class Address:
    memory: str
    base: tuple[tuple[str, int], ...]
    constant: int
    bits: Bits | None
    steps: Mapping[str, Step]
    group: int = 1


@dataclass(frozen=True, slots=True)
class HardwareLoop:
    dim: str
    field: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Words:
    """A loop over the micro-operations in ``memory`` from field ``begin`` up to, excluding,
    ``end``."""

    dim: str
    memory: str
    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class Copy:
    memory: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Compute:
    operation: Operation
    step: Statement
    extents: Mapping[str, int]
    loops: tuple[HardwareLoop, ...]
    words: Words | None
    target: Address
    operands: tuple[Address, ...]
    copies: tuple[Copy, ...] = ()
    first: Expr | None = None
    repeats: frozenset[str] = frozenset()

    @property
    def value(self) -> Expr:
        """The target's new value: ``Load(0)`` is its old one, ``Load(k + 1)`` operand k."""
        (result,) = self.step.body.results
        moved = rewrite(result, _later)
        if self.step.update is None:
            return moved
        monoid = self.step.update.monoid
        old = Load(0, (), monoid.dtypes[0])
        put = {monoid.left[0].name: old, monoid.right[0].name: moved}
        return substitute(monoid.combined[0], put)


@dataclass(frozen=True, slots=True)
class Span:
    """The elements of a row, or the rows: the fields with their number, and with the padding before
    and after."""

    size: str | None = None
    before: str | None = None
    after: str | None = None
    offset: int = 0

    @property
    def most(self) -> int | None:
        """The number at once if no field says it."""
        return None if self.size is not None else self.offset


@dataclass(frozen=True, slots=True)
class Transfer:
    """``into``: from main memory. Rows are ``step`` elements apart in main memory."""

    operation: Operation
    local: Address
    main: Address
    into: bool
    rows: Span
    columns: Span
    step: Step


@dataclass(frozen=True, slots=True)
class Capabilities:
    """``refusals``: operation → why the compiler cannot use it."""

    transfers: tuple[Transfer, ...]
    computes: tuple[Compute, ...]
    refusals: Mapping[str, str]


def _later(node: Expr) -> Expr | None:
    """Operand k renumbered to k + 1; the old value is number 0."""
    if isinstance(node, Load) and isinstance(node.source, int):
        return Load(node.source + 1, (), node.dtype)
    return None
