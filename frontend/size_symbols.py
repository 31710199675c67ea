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
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, rewrite, substitute, variable_list
from weft.ir.scalar_polynomial import from_polynomial, polynomial
from weft.ir.scalar_printer import scalar_text
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import Size, as_size


@dataclass(eq=False, slots=True)
class SizeSymbols:
    """``ranges`` of symbols by name, and the ``assumptions`` that calls keep. ``equal``: symbols
    that stand for other sizes."""

    ranges: dict[str, Range] = field(default_factory=dict)
    assumptions: list[Expr] = field(default_factory=list)
    equal: dict[str, Expr] = field(default_factory=dict)

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

    def normal(self, size: Size) -> Size:
        """``size`` such that equal ones look equal."""
        return shape_of((self.simple(as_size(size)),))[0]

    def simple(self, number: Expr) -> Expr:
        """``number``, an expression over sizes, with what is known of them."""
        return simplify(rewrite(substitute(number, self.equal), self._decided), self.ranges)

    def _decided(self, node: Expr) -> Expr | None:
        """The one operand that a minimum or maximum of sizes is."""
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
        apart = polynomial(as_size(self.normal(left)) - as_size(self.normal(right)))
        names = [v for m in apart for factor in m for v in variable_list(factor)]
        for name in reversed(list(self.ranges)):
            factor = apart.get((Var(name),))
            if factor in (1, -1) and names.count(name) == 1:
                rest = {m: -c * factor for m, c in apart.items() if m != (Var(name),)}
                self.equal[name] = from_polynomial(rest)
                for other in self.equal:
                    self.equal[other] = as_size(self.normal(self.equal[other]))
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
