"""The size symbols of one graph while it is imported: what is known of them, and what is assumed.

Sizes are expressions over symbols from where they enter a front end on. Two that operators take for
equal are *unified*: one symbol stands for both from then on, and a call where they differ is
refused. What else an import takes for granted of sizes is *assumed*: a condition that calls keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd

from weft.ir import dtypes
from weft.ir.build import shape_of
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Var,
    literal,
    rewrite,
    substitute,
    variable_list,
)
from weft.ir.scalar_polynomial import (
    Polynomial,
    from_polynomial,
    polynomial,
    without_common_factors,
)
from weft.ir.scalar_printer import scalar_text
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import Size, as_size


@dataclass(eq=False, slots=True)
class SizeSymbols:
    """``ranges`` of symbols by name, and the ``assumptions`` that calls keep. ``equal``: symbols
    that stand for other sizes; ``numbers``: quotients and the like that are the same in all
    calls; ``traced``: lower bounds of symbols that a tracer took for granted, and calls need not
    keep as long as nothing depends on them."""

    ranges: dict[str, Range] = field(default_factory=dict)
    assumptions: list[Expr] = field(default_factory=list)
    equal: dict[str, Expr] = field(default_factory=dict)
    numbers: dict[Expr, Expr] = field(default_factory=dict)
    traced: dict[str, int] = field(default_factory=dict)

    def open(self, name: str, low: int | None = 0, high: int | None = None) -> None:
        """Make ``name`` a symbol from ``low``, at least 0, to ``high``, both included."""
        low = max(low or 0, 0)
        self.ranges[name] = low, high
        if low:
            self.assumptions.append(Var(name) >= low)
        if high is not None:
            self.assumptions.append(Var(name) <= high)

    def assume(self, condition: object) -> None:
        """``condition`` holds in every call."""
        if isinstance(condition, Expr):
            self.assumptions.append(condition)

    def assume_equal(self, left: Size, right: Size) -> None:
        """Two sizes are equal in every call, unless that is known anyway."""
        apart = polynomial(as_size(self.normal(left)) - as_size(self.normal(right)))
        if apart:
            unit = gcd(*apart.values())
            above = {m: c // unit for m, c in apart.items() if c > 0}
            below = {m: -c // unit for m, c in apart.items() if c < 0}
            self.assume(from_polynomial(above).equal(from_polynomial(below)))

    def learn(self) -> None:
        """Let equalities among the assumptions decide how sizes are written: a // b == 2 is that
        number from now on, 16 * m == 16 * n makes one symbol of two, and n == 2 * (n // 2) makes n
        a multiple of another symbol, so that n // 2 is that, without a remainder."""
        equalities = [a for a in self.assumptions if isinstance(a, Apply) and a.op == "eq"]
        before = -1
        while len(self.equal) + len(self.numbers) > before:
            before = len(self.equal) + len(self.numbers)
            for equality in equalities:
                left, right = equality.args
                self._learn(polynomial(as_size(self.normal(left)) - as_size(self.normal(right))))

    def _learn(self, apart: Polynomial) -> None:
        """What follows from ``apart`` being 0."""
        apart = without_common_factors(apart)
        factors = [m for m in apart if m]
        if len(factors) == 1 and len(factors[0]) == 1 and not isinstance(factors[0][0], Var):
            value, rest = divmod(-apart.get((), 0), apart[factors[0]])
            if not rest:
                self.numbers[factors[0][0]] = literal(value)
        elif not self._solve(apart):
            self._divide(apart)

    def _divide(self, apart: Polynomial) -> None:
        """A symbol is a multiple of a number where all else in ``apart`` is."""
        for name in list(self.ranges):
            unit = gcd(*(c for m, c in apart.items() if m != (Var(name),)))
            if apart.get((Var(name),)) in (1, -1) and unit > 1:
                low, high = self.ranges[name]
                part = f"{name}_by_{unit}"
                self.open(part, -(-(low or 0) // unit), None if high is None else high // unit)
                self.traced[part] = -(-self.traced.get(name, 0) // unit)
                self._replace(name, Var(part) * unit)
                return

    def _replace(self, name: str, size: Expr) -> None:
        """``size`` in the place of the symbol ``name``."""
        self.equal[name] = size
        for other in self.equal:
            self.equal[other] = as_size(self.normal(self.equal[other]))
        self.numbers = {as_size(self.normal(e)): value for e, value in self.numbers.items()}

    def normal(self, size: Size) -> Size:
        """``size`` such that equal ones look equal."""
        return shape_of((self.simple(as_size(size)),))[0]

    def simple(self, number: Expr) -> Expr:
        """``number``, an expression over sizes, with what is known of them."""
        return simplify(rewrite(substitute(number, self.equal), self._decided), self.ranges)

    def _decided(self, node: Expr) -> Expr | None:
        """The number that a quotient of sizes is, the one operand that a minimum or maximum is."""
        if self.numbers and isinstance(node, Apply) and node.op in ("floordiv", "mod"):
            return self.numbers.get(simplify(node, self.ranges))
        match node:
            case Apply("min" | "max" as op, (left, right)) if left.dtype == dtypes.int64:
                low, high = bounds(left - right, self.ranges)
                if low is not None and low >= 0:
                    return left if op == "max" else right
                if high is not None and high <= 0:
                    return right if op == "max" else left
        return None

    def at_least(self, size: Size, least: int) -> bool:
        """Whether ``size`` is known to be at least that much."""
        low, _ = bounds(as_size(size), self.ranges)
        return low is not None and low >= least

    def assume_at_least(self, size: Size, least: int) -> bool:
        """Whether ``size`` is at least that much in every call: it is known, or the tracer took it
        for granted, and then it is assumed."""
        found = as_size(self.normal(size))
        if self.at_least(found, least):
            return True
        traced = {
            n: (max(low or 0, self.traced.get(n, 0)), high)
            for n, (low, high) in self.ranges.items()
        }
        low, _ = bounds(found, traced)
        if low is None or low < least:
            return False
        self.assume(found >= least)
        return True

    def assume_at_most(self, size: Size, most: int) -> None:
        """``size`` is at most that much in every call, unless that is known anyway."""
        found = as_size(self.normal(size))
        _, high = bounds(found, self.ranges)
        if high is not None and high <= most:
            return
        self.assume(found <= most)
        if isinstance(found, Var) and found.name in self.ranges:
            self.ranges[found.name] = self.ranges[found.name][0], most

    def unify(self, left: Size, right: Size) -> bool:
        """Let ``left`` and ``right`` be one size from now on: whether a symbol could be given up
        for it, or the range of one be narrowed."""
        if self._within(left, right) or self._within(right, left):
            return True
        return self._solve(polynomial(as_size(self.normal(left)) - as_size(self.normal(right))))

    def _solve(self, apart: Polynomial) -> bool:
        """Whether a symbol could be given up because ``apart`` is 0."""
        names = [v for m in apart for factor in m for v in variable_list(factor)]
        for name in reversed(list(self.ranges)):
            factor = apart.get((Var(name),))
            if factor in (1, -1) and names.count(name) == 1:
                rest = {m: -c * factor for m, c in apart.items() if m != (Var(name),)}
                self._replace(name, from_polynomial(rest))
                return True
        return False

    def _within(self, least: Size, size: Size) -> bool:
        """Of ``least``, min(n, 1024) say, and n: let n be at most 1024."""
        match self.normal(least), self.normal(size):
            case Apply("min", (Var(name), Literal(most)) | (Literal(most), Var(name))), Var(other):
                if name == other and name in self.ranges:
                    self.assume_at_most(Var(name), int(most))
                    return True
        return False

    def assumed(self, symbols: Iterable[str]) -> tuple[Expr, ...]:
        """The assumptions about ``symbols``, not decided by ranges, which are assumptions too."""
        known = set(symbols)
        stated = (simplify(substitute(a, self.equal)) for a in self.assumptions)
        return tuple(
            dict.fromkeys(
                a for a in stated if not isinstance(a, Literal) and {*variable_list(a)} <= known
            )
        )

    def conditions(self) -> tuple[str, ...]:
        """All that calls keep, in words: equal sizes, and the assumptions."""
        equal = [f"{name} == {scalar_text(size)}" for name, size in self.equal.items()]
        return tuple(dict.fromkeys((*equal, *map(scalar_text, self.assumed(self.ranges)))))
