"""How many points does a set of loops have? Sums over linear bounds, in closed form.

    for i in range(N): for j in range(i): for k in range(j, N)   →   N**3/3 - N/3

Loops are summed from the innermost outwards. Where two bounds compete, the sum is split into the
parts where one of them is the tighter; where a loop may be empty, its outer loops are restricted to
where it is not. Bounds divided by constants, and floors, count by their mean value; the result then
says that it is not exact. Sizes are taken to be large: ``N - 2`` loops for ``range(1, N - 1)``,
whatever that is for ``N = 0``.

See Pugh, "Counting solutions to Presburger formulas" (1994).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv
from weft.ir.scop import Constraint
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine, symbol

LARGE = 1000  # no size without a value is smaller
_SPLITS = 64


class Unbounded(Exception):
    """A loop has no linear bound."""


@dataclass(slots=True)
class Region:
    """Points with every one of ``limits`` at least 0; ``share`` of them count."""

    limits: list[Polynomial]
    share: Fraction = Fraction(1)
    exact: bool = True


def region(constraints: Sequence[Constraint]) -> Region:
    """The region that ``constraints`` describe. Conditions on remainders (``i % 3 == 1``) count as
    the share of remainders that meet them, other equalities with a floor as one in its divisor."""
    found = Region([of_affine(form)[0] for form in _implied(constraints)])
    remainders: dict[tuple[Affine, int], set[int]] = {}
    for constraint in constraints:
        form = affine(constraint.expr)
        floors = [t for t, _ in form.terms if isinstance(t, FloorDiv)]
        inside = _remainders(form, constraint.equality)
        if inside is not None:
            of, kept = inside
            remainders[of] = remainders.get(of, kept) & kept
            found.exact = False
            continue
        if constraint.equality and floors:
            found.share /= max(f.divisor for f in floors)
            found.exact = False
            continue
        limit, exact = of_affine(form)
        found.exact &= exact
        found.limits.append(limit)
        if constraint.equality:
            found.limits.append(limit * -1)
    for (_, divisor), kept in remainders.items():
        found.share *= Fraction(len(kept), divisor)
    return found


def _implied(constraints: Sequence[Constraint]) -> list[Affine]:
    """Constant bounds of single variables that follow from those of one other, each at least 0:
    ``b <= 3`` and ``4*a + b >= 0`` → ``a >= 0``. Without them, digits of an index, such as those of
    panels within panels, would be summed over in too many parts."""
    forms = [affine(c.expr) for c in constraints if not c.equality]
    plain = [f for f in forms if all(isinstance(term, str) for term, _ in f.terms)]
    lows: dict[object, int] = {}
    highs: dict[object, int] = {}
    found: list[Affine] = []

    def bound(form: Affine) -> bool:
        """Note what a form of one variable says; whether that is more than was known."""
        ((name, factor),) = form.terms
        limits, sign = (lows, 1) if factor > 0 else (highs, -1)
        limit = sign * -(form.constant // abs(factor))
        if name in limits and sign * limits[name] >= sign * limit:
            return False
        limits[name] = limit
        return True

    for form in plain:
        if len(form.terms) == 1:
            bound(form)
    for form in plain:
        if len(form.terms) == 2:
            for one, (name, factor) in (form.terms, form.terms[::-1]):
                end = (highs if factor > 0 else lows).get(name)
                if end is not None and bound(Affine((one,), form.constant + factor * end)):
                    sign = 1 if one[1] > 0 else -1
                    limit = (lows if sign > 0 else highs)[one[0]]
                    found.append(Affine(((one[0], sign),), -sign * limit))
    return found


def _remainders(form: Affine, equality: bool) -> tuple[tuple[Affine, int], set[int]] | None:
    """What ``form >= 0`` (``== 0``) is a condition on, if on the remainder of something divided by
    a number alone: both of these, and the remainders that meet it."""
    floor = next((t for t, _ in form.terms if isinstance(t, FloorDiv)), None)
    if floor is None:
        return None
    divisor, (factor, rest) = floor.divisor, divmod(-form.coefficient(floor), floor.divisor)
    remainder = floor.numerator - Affine(((floor, divisor),))
    offset = form - remainder.scaled(factor)
    if rest or not offset.is_constant:
        return None
    values = ((r, factor * r + offset.constant) for r in range(divisor))
    kept = {r for r, value in values if value == 0 or (value > 0 and not equality)}
    return (floor.numerator, divisor), kept


@dataclass(slots=True)
class Counter:
    """Sums over regions. ``sizes`` are the parameters' values where they are known; they decide
    which of two sizes is larger, where that matters, and nothing else. ``exact`` becomes False when
    a sum is not."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    exact: bool = True
    _splits: int = 0
    _bounds: dict[tuple[str, Polynomial], tuple[Fraction, Polynomial]] = field(default_factory=dict)
    _nominal: dict[Polynomial, float] = field(default_factory=dict)

    def total(
        self, names: Sequence[str], region: Region, weight: Polynomial | None = None
    ) -> Polynomial:
        """The sum of ``weight`` (default 1) over all values of ``names``, outermost first.

        Raises Unbounded.
        """
        self.exact &= region.exact
        self._splits = 0
        factor = number(region.share) * (weight if weight is not None else number(1))
        return self._sum(tuple(names), tuple(region.limits), factor)

    def _sum(
        self, names: tuple[str, ...], limits: tuple[Polynomial, ...], weight: Polynomial
    ) -> Polynomial:
        if not weight.terms:
            return weight
        if not names:
            never = any(self.nominal(limit) < 0 for limit in limits)
            return Polynomial() if never else weight
        name, outer = names[-1], names[:-1]
        lows, highs, rest = self.bounds(name, limits)
        if not lows or not highs:
            raise Unbounded(name)
        for bounds, sign in ((lows, 1), (highs, -1)):
            tight = self.tightest(bounds, sign, outer, rest)
            if len(tight) > 1:
                return self._split(names, rest, (lows, highs), tight, sign, weight)
            bounds[:] = tight
        room = highs[0] - lows[0]
        if not self.holds(room + 1, outer, rest):
            rest = (*rest, room)
        return self._sum(outer, rest, weight.summed(name, lows[0], highs[0]))

    def _split(
        self,
        names: tuple[str, ...],
        rest: tuple[Polynomial, ...],
        bounds: tuple[list[Polynomial], list[Polynomial]],
        tight: list[Polynomial],
        sign: int,
        weight: Polynomial,
    ) -> Polynomial:
        """The sum where the first of ``tight`` bounds is the tighter one, and where it is not."""
        one, two, *_ = tight
        ahead = (one - two) * sign
        inner = symbol(names[-1])
        others = [b for b in bounds[sign < 0] if b not in (one, two)]
        lows, highs = (bounds[0], others) if sign < 0 else (others, bounds[1])
        kept = [inner - low for low in lows] + [high - inner for high in highs]
        self._splits += 1
        names_only = not ahead.variables() & set(names)
        if names_only or self._splits > _SPLITS:  # sizes decide, or too many parts
            self.exact &= ahead == Polynomial()
            chosen = one if self.nominal(ahead) >= 0 else two
            return self._sum(names, (*rest, *kept, (inner - chosen) * sign), weight)
        first = (*rest, ahead, *kept, (inner - one) * sign)
        second = (*rest, ahead * -1 - 1, *kept, (inner - two) * sign)
        return self._sum_of_parts(names, (first, second), weight)

    def _sum_of_parts(
        self,
        names: tuple[str, ...],
        parts: Sequence[tuple[Polynomial, ...]],
        weight: Polynomial,
    ) -> Polynomial:
        """The sum over both parts of a region. Where one has bounds, so has the other, unless its
        limits contradict each other: then it is empty, and bounds that they imply were dropped."""
        sums: list[Polynomial] = []
        unbounded = Unbounded(names[-1])
        for limits in parts:
            try:
                sums.append(self._sum(names, limits, weight))
            except Unbounded as error:
                unbounded = error
        if not sums:
            raise unbounded
        self.exact &= len(sums) == len(parts)
        return sum(sums, Polynomial())

    def bounds(
        self, name: str, limits: Sequence[Polynomial]
    ) -> tuple[list[Polynomial], list[Polynomial], tuple[Polynomial, ...]]:
        """Lower and upper bounds (inclusive) of ``name``, and the limits that do not mention it."""
        lows: list[Polynomial] = []
        highs: list[Polynomial] = []
        rest = []
        for limit in limits:
            key = name, limit
            if key not in self._bounds:
                self._bounds[key] = _bound(name, limit)
            factor, bound = self._bounds[key]
            if factor == 0:
                rest.append(limit)
                continue
            self.exact &= factor in (1, -1)
            group = lows if factor > 0 else highs
            if bound not in group:
                group.append(bound)
        return lows, highs, tuple(rest)

    def tightest(
        self,
        bounds: Sequence[Polynomial],
        sign: int,
        names: Sequence[str],
        limits: Sequence[Polynomial],
    ) -> list[Polynomial]:
        """``bounds`` without those that another one implies: greatest for +1, least for -1."""
        kept: list[Polynomial] = []
        for bound in bounds:
            if any(self.holds((k - bound) * sign, names, limits) for k in kept):
                continue
            kept = [k for k in kept if not self.holds((bound - k) * sign, names, limits)]
            kept.append(bound)
        return kept

    def holds(self, form: Polynomial, names: Sequence[str], limits: Sequence[Polynomial]) -> bool:
        """Whether ``form`` is certainly at least 0 wherever ``limits`` are. Each variable goes to
        the end of its range where ``form`` is least."""
        if not names:
            return self._certain(form)
        name, outer = names[-1], tuple(names[:-1])
        factor = form.slope(name)
        if factor == 0:
            return self.holds(form, outer, limits)
        exact = self.exact
        lows, highs, _ = self.bounds(name, limits)
        self.exact = exact
        ends = lows if factor > 0 else highs
        return any(self.holds(form.replaced(name, end), outer, limits) for end in ends)

    def _certain(self, form: Polynomial) -> bool:
        """Whether a linear form of sizes is at least 0 for all of them that are large."""
        total = 0
        for monomial, c in form.terms:
            if not monomial:
                total += c
            elif c < 0 and monomial[0][0] not in self.sizes:
                return False
            else:
                total += c * self.sizes.get(monomial[0][0], LARGE)
        return total >= 0

    def nominal(self, form: Polynomial) -> float:
        """The value of ``form`` where the sizes are what is known of them, else large."""
        if form not in self._nominal:
            self._nominal[form] = form.about(
                {n: self.sizes.get(n, LARGE) for n in form.variables()}
            )
        return self._nominal[form]


def _bound(name: str, limit: Polynomial) -> tuple[Fraction, Polynomial]:
    """The coefficient of ``name`` in ``limit`` >= 0, and the bound that follows, rounded inwards on
    average where the coefficient is not 1."""
    factor = limit.slope(name)
    if factor == 0:
        return factor, limit
    others = limit - symbol(name) * factor
    slack = (abs(factor) - 1) / (2 * abs(factor)) if factor.denominator == 1 else 0
    return factor, others * (-1 / factor) + (slack if factor > 0 else -slack)
