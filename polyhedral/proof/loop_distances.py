"""How far apart a loop runs the two ends of a pair of instances, as one expression over both.

In these expressions a dim ``i`` of the source is called ``0 i``, one of the sink ``1 i``, and a
parameter ``n`` is called ``p n``, so that no two of them can be confused.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv, Term
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Statement
from weft.polyhedral.proof.dependences import Dependence


class LoopDistances:
    """What loops do to pairs of instances, each worked out once for a pair of statements."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str, str], Affine] = {}
        self._distances: dict[tuple[int, str, str], Affine] = {}
        self._parts: dict[Affine, tuple[Part, ...] | None] = {}
        self._loops: list[Loop] = []  # stay alive, so that their ids stay theirs

    def of(self, loop: Loop, source: Statement, sink: Statement) -> Affine:
        """The value of ``loop`` at the sink minus that at the source."""
        key = (id(loop), source.name, sink.name)
        if key not in self._distances:
            self._loops.append(loop)
            self._distances[key] = self._at(loop, sink, "1") - self._at(loop, source, "0")
        return self._distances[key]

    def parts(self, distance: Affine) -> tuple[Part, ...] | None:
        """``parts``, remembered."""
        if distance not in self._parts:
            self._parts[distance] = parts(distance)
        return self._parts[distance]

    def _at(self, loop: Loop, statement: Statement, end: str) -> Affine:
        key = (id(loop), statement.name, end)
        if key not in self._values:
            value = affine(loop.at[statement.name])
            self._values[key] = _renamed(value, frozenset(statement.dims), end)
        return self._values[key]


def _renamed(form: Affine, dims: frozenset[str], end: str) -> Affine:
    def rename(term: Term) -> Term:
        if isinstance(term, str):
            return f"{end} {term}" if term in dims else f"p {term}"
        return FloorDiv(_renamed(term.numerator, dims, end), term.divisor)

    return Affine(tuple((rename(t), c) for t, c in form.terms), form.constant)


@dataclass(frozen=True, slots=True)
class Part:
    """``factor * (left // T - right // T)``, factor > 0, where ``distance`` is left - right.

    Where there are no such floors, ``distance`` itself.
    """

    distance: Affine
    left: FloorDiv | None = None
    right: FloorDiv | None = None

    @property
    def divisor(self) -> int:
        return self.left.divisor if self.left is not None else 1


def parts(distance: Affine) -> tuple[Part, ...] | None:
    """``distance`` as a sum of positive multiples of parts; None if a floor is left alone."""
    floors = [(t, c) for t, c in distance.terms if isinstance(t, FloorDiv)]
    rest = tuple((t, c) for t, c in distance.terms if isinstance(t, str))
    found = [Part(Affine(rest, distance.constant))] if rest or distance.constant else []
    while floors:
        one, factor = floors.pop(0)
        other = next((t for t, c in floors if c == -factor and t.divisor == one.divisor), None)
        if other is None:
            return None
        floors.remove((other, -factor))
        left, right = (one, other) if factor > 0 else (other, one)
        found.append(Part(left.numerator - right.numerator, left, right))
    return tuple(found)


def uniform(
    dependence: Dependence, source_dims: frozenset[str], sink_dims: frozenset[str]
) -> dict[tuple[str, str], int]:
    """(dim of the source, dim of the sink) → their constant distance, from equal indices.

    ``A[2 * i + n]`` written and ``A[2 * j + n - 6]`` read means j - i = 3.
    """
    write, read = dependence.source_access, dependence.sink_access
    found: dict[tuple[str, str], int] = {}
    if write.may or read.may:
        return found
    for left, right in zip(map(affine, write.indices), map(affine, read.indices), strict=True):
        one, two = _single(left, source_dims), _single(right, sink_dims)
        if one and two and one[1:] == two[1:]:
            found[one[0], two[0]] = (left.constant - right.constant) // one[1]
    return found


def _single(
    form: Affine, dims: frozenset[str]
) -> tuple[str, int, tuple[tuple[Term, int], ...]] | None:
    """(dim, coefficient, parameter terms) of a form with one dim outside floors and none inside."""
    own = [(atom, c) for atom, c in form.terms if isinstance(atom, str) and atom in dims]
    rest = tuple(term for term in form.terms if term not in own)
    if len(own) != 1 or Affine(rest).variables() & dims:
        return None
    return str(own[0][0]), own[0][1], rest
