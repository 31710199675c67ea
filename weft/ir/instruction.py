"""Instructions: what a target computes at once, in the IR that programs are written in.

    Instruction ::= name, semantics: Statement, extents, operands, registers, cycles, emission, …
    Operand     ::= scope, place: Expr…
    Emission    ::= Intrinsic(symbol, arguments)              a function of LLVM's, or any other
                  | Assembly(template, constraints, arguments)  one line of a processor's own text
                  | Pattern(text, arguments)                   the body of a function in LLVM IR
                  | Tiles(symbol, registers, word)             a matrix unit, with its own registers
                  | Warp(symbol, threads, line)                the threads of a GPU's warp, together

``semantics`` is one point of the instruction, an update whose target is the accumulator:

    acc[lane] += a * b[lane]                    multiply-add of an element that all lanes have
    acc[lane] += a[q] * b[lane, q]              dot product of ``q`` elements, as many lanes at once
    acc[i, j] += a[i, k] * b[k, j]              matrix unit

* ``extents`` says how many points along each dim one issue computes. Dims that the accumulator
  moves along tell results apart, the others are summed up inside, in an order that is the
  instruction's own (so the monoid must allow that).
* An ``Operand`` says where an issue takes (or leaves) the elements of a tensor of the semantics:
  in which ``scope`` (a register, or a memory that the target names), and at which ``place`` there,
  affine in the dims: ``(4 * lane + q,)`` in a vector register, (thread, number) in a fragment
  of several threads' registers. What is laid out like that in memory is loaded as it is.
  ``elements`` of a fragment is the inverse: the dims at ``thread`` and ``number``. Where ``copies``
  threads have each element, ``place`` is that of one of them.
* ``emission`` takes the operands as vectors over (dims of the accumulator …, dims summed up) with
  the last one fastest, repeated along dims that they do not move along; the accumulator has
  the former only. None: the emitter's own code. ``Tiles`` has them in scope "tile": registers that
  only the unit computes with, filled from memory and stored to it (``codegen/llvm/tiles.py``).
* ``offset``: an ``Intrinsic`` that takes another signedness gets ``tensor + amount`` instead, by
  flipping sign bits; as products are linear, ``amount`` times the sum of the other operand is taken
  off the result.
* ``rounds``: how results may differ from the semantics'; '' if they are the same.
* With ``any_update`` the monoid and the contribution stand for any others on operands of the same
  shapes.
* ``cycles`` are those of one issue, ``registers`` hold accumulators and operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Cast, Expr, Load, Var, literal, rewrite, variable_names
from weft.ir.scop import Access, Statement

ACCUMULATOR = "acc"


@dataclass(frozen=True, slots=True)
class Operand:
    place: tuple[Expr, ...]
    scope: str = "register"
    elements: Mapping[str, Expr] = field(default_factory=dict)
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A call of the function ``symbol``, LLVM's ("llvm.fma.v8f32") or one of the process, on
    ``arguments``, operands by name."""

    symbol: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assembly:
    """One line of a processor's assembly, ``template``, with ``$0`` for the result and ``$1`` … for
    ``arguments``, operands by name; ``constraints`` are those of LLVM's inline assembly."""

    template: str
    constraints: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """LLVM IR: the body of a function, ``text``, over ``%acc``, ``%a`` …, which are ``arguments``,
    operands by name; its last instruction returns the result."""

    text: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tiles:
    """``symbol`` takes the numbers of three of so many ``registers``: sums, ``a`` and ``b``. Of
    what is summed up, ``word`` elements lie side by side in ``b``, as in a dot product's vectors.
    """

    symbol: str
    registers: int
    word: int


@dataclass(frozen=True, slots=True)
class Warp:
    """A function of the kernels' prelude, ``symbol``, that all ``threads`` of a warp call at once
    on fragments: operands in scope "fragment". ``line``: bytes that shared memory is read and
    filled in at a time."""

    symbol: str
    threads: int
    line: int


VectorEmission = Intrinsic | Assembly | Pattern
Emission = VectorEmission | Tiles | Warp


@dataclass(frozen=True, slots=True)
class Offset:
    tensor: str
    amount: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a target computes at once: ``weft.instruction`` makes one, the page above says more.

    ``name`` in reports; ``semantics``: one point, an update of the accumulator; ``extents``: how
    many points along each dim one issue computes; ``operands``: where it takes elements from.
    ``registers`` hold accumulators and operands; ``cycles`` of one issue. ``any_update``: for any
    monoid and contribution. ``emission``: how it is written (None: the emitter's own code);
    ``offset``: of an operand that it takes in another signedness; ``rounds``: in words, how results
    may differ ('': not at all).
    """

    name: str
    semantics: Statement
    extents: Mapping[str, int]
    operands: Mapping[str, Operand]
    registers: int
    cycles: float
    any_update: bool = False
    emission: Emission | None = None
    offset: Offset | None = None
    rounds: str = ""

    @property
    def summed(self) -> tuple[str, ...]:
        """The dims that one issue sums up over."""
        update = self.semantics.update
        assert update is not None, "an instruction accumulates"
        return update.dims

    @property
    def tensors(self) -> tuple[str, ...]:
        """What it reads beside the accumulator, by number of the read."""
        return tuple(read.tensor for read in self.semantics.reads)

    @property
    def dtype(self) -> DType:
        """Of the accumulator."""
        update = self.semantics.update
        assert update is not None, "an instruction accumulates"
        return update.monoid.dtypes[0]

    @property
    def value(self) -> Expr:
        """What it folds into the accumulator, over its reads."""
        return self.semantics.body.results[0]

    @property
    def issued(self) -> Expr:
        """``value`` as what is emitted computes it: with the ``offset``."""
        if self.offset is None:
            return self.value
        number, amount = self.tensors.index(self.offset.tensor), self.offset.amount

        def change(node: Expr) -> Expr | None:
            match node:
                case Cast(Load(source)) if source == number:
                    return node + literal(amount, node.dtype)
            return None

        return rewrite(self.value, change)

    @property
    def excess(self) -> Expr:
        """What ``issued`` is more than ``value``, over the reads: ``amount * b``."""
        assert self.offset is not None, "there is an offset"
        number, amount = self.tensors.index(self.offset.tensor), self.offset.amount

        def change(node: Expr) -> Expr | None:
            match node:
                case Cast(Load(source)) if source == number:
                    return literal(amount, node.dtype)
            return None

        return rewrite(self.value, change)

    @property
    def depth(self) -> int:
        """How many points one issue sums up for each result."""
        depth = 1
        for dim in self.summed:
            depth *= self.extents[dim]
        return depth

    @property
    def unit(self) -> Tiles | None:
        """The matrix unit that computes it, if one does."""
        return self.emission if isinstance(self.emission, Tiles) else None

    @property
    def warp(self) -> Warp | None:
        """How a warp computes it, if one does."""
        return self.emission if isinstance(self.emission, Warp) else None

    @property
    def word(self) -> int:
        """How many of the points that one issue sums up lie side by side in panels."""
        return self.unit.word if self.unit else self.depth

    @property
    def across(self) -> tuple[str, ...]:
        """The dims of its results but for the rows: the lanes."""
        return tuple(d for d in self.extents if d not in (ROW, *self.summed))

    @property
    def rows(self) -> int:
        """How many rows of results one issue has."""
        return self.extents.get(ROW, 1)

    @property
    def lanes(self) -> int:
        """How many results one issue has in each row."""
        return prod(self.extents[d] for d in self.across)

    @property
    def per_cycle(self) -> float:
        """How many points it computes in a cycle."""
        return prod(self.extents.values()) / self.cycles

    def __str__(self) -> str:
        return self.name


ROW = "row"


def with_rows(instruction: Instruction) -> Instruction | None:
    """``instruction``, of one dim of results (the lanes), issued row by row: operands that do not
    move along the lanes have one more dim, which each of the results has, too.

    None where all operands move along the lanes: rows would have nothing in common.
    """
    own = instruction.semantics
    results = [d for d in own.dims if d not in instruction.summed]
    (target,) = own.writes
    if len(results) != 1:
        return instruction if ROW in results else None
    repeated = [
        all(results[0] not in variable_names(i) for i in read.indices) for read in own.reads
    ]
    if not any(repeated) or all(repeated):
        return None

    def moved(access: Access) -> Access:
        return replace(access, indices=(Var(ROW), *access.indices))

    reads = tuple(moved(r) if again else r for r, again in zip(own.reads, repeated, strict=True))
    whole = replace(
        own,
        dims=(ROW, *own.dims),
        position=(0, ROW, *own.position),
        writes=(moved(target),),
        reads=reads,
    )
    return replace(instruction, semantics=whole, extents={ROW: 1, **instruction.extents})


def labelled(instructions: Iterable[Instruction]) -> dict[str, Instruction]:
    """``instructions`` and what ``with_rows`` makes of them, each by a text of its own: its name,
    with a number where several have it (other operands, lanes or rows)."""
    found: dict[str, Instruction] = {}
    for own in instructions:
        for each in (own, with_rows(own)):
            if each is not None and each not in found.values():
                same = sum(known.name == each.name for known in found.values())
                found[f"{each.name} {same + 1}" if same else each.name] = each
    return found
