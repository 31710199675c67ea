"""What the operations of an accelerator can be used for, read off their semantics.

    Ability  ::= Transfer | Compute
    Transfer ::= operation, local: Address, main: Address, into, rows: Span, columns: Span
    Compute  ::= operation, step: Statement, extents, iterations: Turn…, target: Address,
                 operands: Address…, copies: Copy…
    Address  ::= memory, base: (field, factor)…, constant, bits, steps: dim -> number | field, group
    Turn     ::= dim, field, offset     the loop of as many iterations as the field and ``offset`` say

* A loop of constant bounds is *inside* the instruction: it is a dim of ``step``, a statement as
  ``polyhedral.instruction`` has it. A loop whose bound is a field is one of its iterations.
* A loop over micro-operations (``words``) looks up in each iteration where its operands are:
  ``bits`` of the word, and ``steps`` from there.
* ``copies``: what else it writes, at the address of its target: a function of what the target holds
  then, which ``Load(0)`` stands for.
* Loops inside that go over neighbours in a memory make one element of them, of ``group`` addresses.
* ``first``: the value from which on it sums up, whatever its target held; without one it adds to
  that. Its iterations of ``repeats`` add to what it began with, all others begin anew.
* A transfer copies rows between a main memory and another one, dense in the latter, zeros before,
  after and between them. A ``Span`` counts what its field says and ``offset``, or only that.

An operation that is none of these cannot be used by the compiler: see ``read_semantics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir.accelerator import Operation
from weft.ir.scalar_expr import Expr, Load, rewrite, substitute
from weft.ir.scop import Statement

Step = int | str  # so many elements, or as many as the field says


@dataclass(frozen=True, slots=True)
class Bits:
    """``width`` bits of a micro-operation from bit ``place``."""

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
    """Iterations over the micro-operations in ``memory`` from field ``begin`` to before ``end``."""

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
        """What the target holds afterwards, over ``Load(0)``: what it held, and ``Load(k + 1)``:
        operand k."""
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
    """Elements of a row, or rows: how many fields ``size``, ``before`` and ``after`` say."""

    size: str | None = None
    before: str | None = None
    after: str | None = None
    offset: int = 0

    @property
    def most(self) -> int | None:
        """How many there are at once where no field says it."""
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
    """``refusals``: operation -> why it is of no use."""

    transfers: tuple[Transfer, ...]
    computes: tuple[Compute, ...]
    refusals: Mapping[str, str]


def _later(node: Expr) -> Expr | None:
    """Operand k as number k + 1; what was there before, as number 0."""
    if isinstance(node, Load) and isinstance(node.source, int):
        return Load(node.source + 1, (), node.dtype)
    return None
