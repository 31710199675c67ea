"""Windows: the box of a tensor that one iteration of some loops touches, in closed form.

    loops i_t = i // 32, k_t = k // 64, accesses A[i, k + 1]   →   A[32·i_t + 0…31, 64·k_t + 1…64]

The base of a window follows the loops linearly; what an access adds to it is bounded over all
instances, so that rectangular tiles, skewed and multi-level ones have windows of constant size.
Dims that the loops say nothing about contribute their whole range, a size in the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv, Term, to_expr, variable
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.bounds import bounds

Use = tuple[Statement, Access]


@dataclass(frozen=True, slots=True)
class Window:
    """``size`` elements along one dim of a tensor, the first at ``sum(step * loop) + first``."""

    steps: tuple[int, ...]  # by loop
    first: Expr  # over parameters
    size: Expr  # over parameters, not negative in the context


def windows(scop: Scop, uses: Sequence[Use], loops: Sequence[Loop]) -> tuple[Window, ...] | None:
    """The window of all ``uses`` of one tensor along each of its dims, for one iteration of
    ``loops``; None where they move apart, or their sizes have no closed form."""
    found = []
    for dim in range(len(uses[0][1].indices)):
        steps = {_steps(affine(a.indices[dim]), s, _forms(s, loops)) for s, a in uses}
        if len(steps) > 1:
            return None
        (step,) = steps
        rests = [(s, affine(a.indices[dim]) - _moved(step, _forms(s, loops))) for s, a in uses]
        limits = bounds(scop, rests)
        if limits is None:
            return None
        found.append(Window(step, limits.lower, limits.size))
    return tuple(found)


def inside(window: Window, index: Expr, values: Sequence[Expr]) -> Expr:
    """Where ``index`` lies in ``window`` for given ``values`` of the loops: 0 … size - 1."""
    return to_expr(affine(index) - affine(start(window, values)))


def start(window: Window, values: Sequence[Expr]) -> Expr:
    """The first element of ``window`` for given ``values`` of the loops."""
    moved = _moved(window.steps, [affine(v) for v in values])
    return to_expr(moved + affine(window.first))


def _forms(statement: Statement, loops: Sequence[Loop]) -> list[Affine]:
    return [affine(loop.at[statement.name]) for loop in loops]


def _moved(steps: Sequence[int], forms: Sequence[Affine]) -> Affine:
    return sum((form.scaled(step) for step, form in zip(steps, forms, strict=True)), Affine())


def _steps(index: Affine, statement: Statement, forms: Sequence[Affine]) -> tuple[int, ...]:
    """How the part of ``index`` that ``forms`` determine, up to a remainder, moves with them."""
    known = _Combinations(frozenset(statement.dims), len(forms))
    for k, form in enumerate(forms):
        known.add(form, [Fraction(int(n == k)) for n in range(len(forms))])
    floors = {t for form in forms for t, _ in form.terms if isinstance(t, FloorDiv)}
    for floor in sorted(floors, key=lambda f: (f.divisor, repr(f))):
        steps = known.solve(Affine(((floor, 1),)))
        if steps is not None:  # numerator = divisor * floor + remainder
            known.add(floor.numerator, [step * floor.divisor for step in steps])
    for dim, steps in _bands(statement, known):
        known.add(variable(dim), steps)
    whole = known.integers(index)
    if whole is not None:
        return whole
    parts = (known.integers(Affine((term,))) for term in index.terms)
    total = [0] * len(forms)
    for part in parts:
        total = [a + b for a, b in zip(total, part or [0] * len(forms), strict=True)]
    return tuple(total)


def _bands(statement: Statement, known: _Combinations) -> Iterator[tuple[str, list[Fraction]]]:
    """The dims that the domain keeps within a constant of a combination of the loops."""
    limits: dict[tuple[str, int], list[list[Fraction]]] = {}
    for form in (affine(c.expr) for c in statement.domain):
        for term, sign in form.terms:
            if isinstance(term, str) and abs(sign) == 1 and term in statement.dims:
                rest = form - variable(term).scaled(sign)
                steps = known.solve(rest)
                if steps is not None and any(steps):
                    limits.setdefault((term, sign), []).append([-sign * s for s in steps])
    for (dim, sign), found in limits.items():
        other = limits.get((dim, -sign), [])
        common = next((steps for steps in found if steps in other), None)
        if sign > 0 and common is not None:
            yield dim, common


class _Combinations:
    """What is known of affine forms as combinations of some loops, by Gaussian elimination;
    parameters and constants are left aside."""

    def __init__(self, dims: frozenset[str], width: int) -> None:
        self.dims = dims
        self.width = width
        self.rows: list[tuple[Term, dict[Term, Fraction], list[Fraction]]] = []

    def add(self, form: Affine, steps: Sequence[Fraction]) -> None:
        """``form`` is the sum of ``steps`` times the loops; forgotten if it is known already."""
        rest, known = self._reduce(form)
        if rest:
            pivot = next(iter(rest))
            scale = rest[pivot]
            row = {t: c / scale for t, c in rest.items()}
            left = [(a - b) / scale for a, b in zip(steps, known, strict=True)]
            self.rows.append((pivot, row, left))

    def solve(self, form: Affine) -> list[Fraction] | None:
        rest, known = self._reduce(form)
        return None if rest else known

    def integers(self, form: Affine) -> tuple[int, ...] | None:
        steps = self.solve(form)
        if steps is None or any(s.denominator > 1 for s in steps):
            return None
        return tuple(int(s) for s in steps)

    def _reduce(self, form: Affine) -> tuple[dict[Term, Fraction], list[Fraction]]:
        """``form`` less what is known: the rest, and the steps of what was taken off."""
        rest = {t: Fraction(c) for t, c in form.terms if self._varies(t)}
        steps = [Fraction(0)] * self.width
        for pivot, row, known in self.rows:
            factor = rest.get(pivot)
            if factor:
                for t, c in row.items():
                    rest[t] = rest.get(t, Fraction(0)) - factor * c
                steps = [a + factor * b for a, b in zip(steps, known, strict=True)]
        return {t: c for t, c in rest.items() if c}, steps

    def _varies(self, term: Term) -> bool:
        names = {term} if isinstance(term, str) else term.numerator.variables()
        return bool(names & self.dims)
