"""Expressions over integers that stand for numbers, read as numbers in fixed point.

    max(Σ_c x[c] * w[k, c] * a[k] + b[k], 0)        x: int8 at exponent e
    →
    max(Σ_c int32(x[c]) * int32(v[k, c]) + d[k], 0)  at exponent e + f

v is w * a as int8 at the exponent f that suits it best, d is b as int32 at that of the sum:
constants are rounded once, from float64. What is read is sums, products with constants (or of two
int8), min, max, selections and loads; all else raises ``NotIntegral``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import frexp

import numpy as np

from weft.graph.exponents import LARGEST, integers, weights_exponent
from weft.graph.factors import factors, into_sums, is_number, plus, times
from weft.graph.fixed_point import (
    ROOM,
    Fixed,
    TooLarge,
    aligned,
    at,
    finest,
    narrowed,
    negated,
    wide,
)
from weft.graph.known import Constants, Known, NotIntegral, elements
from weft.graph.whole_program import Key, key_of
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    apply,
    cast,
    literal,
    select,
)
from weft.ir.tensor_expr import Monoid, Reduce, Tensor, tensors_read

PRECISE = 15  # bits of a factor that is no int8, if there is room; and the fewest:
FEWEST = 7


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor of integers that stands for numbers: each times 2**``exponent``, in a range."""

    tensor: Tensor
    exponent: int
    low: int = -LARGEST
    high: int = LARGEST


@dataclass(slots=True)
class Reading:
    """``held``: what computes each tensor that depends on quantised values.

    ``exponent``: of the result, where it is known; ``coarser``: by how much the exponents of
    weights exceed the best ones. ``weights`` collects these; ``sums`` the greatest magnitude of
    what is accumulated.
    """

    constants: Constants
    exponent: int | None
    coarser: int
    held: dict[Key, Held]
    weights: list[int] = field(default_factory=list)
    sums: int = 0

    def active(self, expr: Expr) -> bool:
        """Whether ``expr`` depends on quantised values."""
        return any(key_of(t) in self.held for t in tensors_read([expr]))

    def number(self, expr: Expr) -> Fixed:
        """``expr``, which depends on quantised values."""
        if not expr.dtype.is_float:
            raise NotIntegral(f"{expr.dtype} computed from quantised values")
        match expr:
            case Load(Tensor() as source, indices) if not any(map(self.active, indices)):
                held = self.held[key_of(source)]
                load = Load(held.tensor, indices, held.tensor.dtype)
                return Fixed(load, held.exponent, held.low, held.high)
            case Cast(arg):
                return self.number(arg)
            case Apply("add" | "sub"):
                return self.sum(expr)
            case Apply("mul" | "div" | "neg"):
                return self.product(factors(expr))
            case Apply("min" | "max" as op, (left, right)):
                return self.extremum(op, left, right)
            case Select(condition, if_true, if_false):
                return self.selected(condition, if_true, if_false)
            case Reduce(monoid_, _, (_,)) if monoid_.is_sum:
                return self.summed(expr)
            case Reduce(Monoid(_, (left,), (right,), (Apply("min" | "max" as op, args),)), _, (_,)):
                if set(args) == {left, right}:
                    return self.greatest(expr, op)
        raise NotIntegral(f"{_named(expr)} of quantised values")

    def sum(self, expr: Expr) -> Fixed:
        """All constants of a sum are one, rounded once."""
        found = list(self.terms(expr, 1))
        constants = [term if sign > 0 else -term for sign, term in found if not self.active(term)]
        terms = sorted((t for t in found if self.active(t[1])), key=lambda t: -t[0])
        (sign, first), *others = terms
        total = self.number(first) if sign > 0 else negated(self.number(first))
        for sign, term in others:
            one, two = aligned(total, self.number(term), self.constants.made)
            left, right = wide(one), wide(two)
            if sign > 0:
                low, high = one.low + two.low, one.high + two.high
                total = Fixed(left + right, one.exponent, low, high)
            else:
                low, high = one.low - two.high, one.high - two.low
                total = Fixed(left - right, one.exponent, low, high)
        return self.plus(total, plus(constants)) if constants else total

    def terms(self, expr: Expr, sign: int) -> Iterator[tuple[int, Expr]]:
        """What ``expr`` is the sum of, with signs."""
        match expr:
            case Apply("add" | "sub" as op, (left, right)) if self.active(expr):
                yield from self.terms(left, sign)
                yield from self.terms(right, sign if op == "add" else -sign)
                return
            case Apply("mul" | "div") if self.active(expr):
                scaled = self.distributed(factors(expr))
                if isinstance(scaled, Apply):
                    yield from self.terms(scaled, sign)
                    return
        yield sign, expr

    def distributed(self, parts: Sequence[Expr]) -> Expr | None:
        """The product of ``parts`` with its constants in the sums that it scales, if it does."""
        active = [p for p in parts if self.active(p)]
        fixed = [p for p in parts if not self.active(p)]
        if len(active) != 1 or not fixed:
            return None
        return into_sums(active[0], times(fixed), self.active)

    def plus(self, number: Fixed, expr: Expr) -> Fixed:
        """``number`` + ``expr``, which is constant."""
        known = self.constants.evaluated(expr)
        peak = float(np.abs(known.array).max(initial=0.0))
        if not np.isfinite(peak):
            raise NotIntegral("an infinite addend")
        exponent = max(number.exponent, finest(number.peak, number.exponent))
        if peak:
            exponent = max(exponent, frexp(peak)[1] - (ROOM.bit_length() - 2))
        if exponent > number.exponent and self.weights:
            raise TooLarge(exponent - number.exponent)
        number = at(number, exponent, self.constants.made)
        two = self.addend(known, exponent)
        low, high = number.low + two.low, number.high + two.high
        return Fixed(wide(number) + wide(two), exponent, low, high)

    def product(self, parts: Sequence[Expr]) -> Fixed:
        active = [p for p in parts if self.active(p)]
        fixed = [p for p in parts if not self.active(p)]
        if len(active) > 2:
            raise NotIntegral("a product of three quantised values")
        if any(isinstance(part, Apply) and part.op == "div" for part in active):
            raise NotIntegral("a division by quantised values")
        if (scaled := self.distributed(parts)) is not None:
            return self.number(scaled)
        number = self.both(active) if len(active) == 2 else self.number(active[0])
        return self.scaled(number, self.known(times(fixed))) if fixed else number

    def both(self, active: Sequence[Expr]) -> Fixed:
        """The product of two."""
        one, two = map(self.number, active)
        if not (one.is_int8 and two.is_int8):
            raise NotIntegral("a product of values of more than 8 bits")
        ends = [a * b for a in (one.low, one.high) for b in (two.low, two.high)]
        return Fixed(wide(one) * wide(two), one.exponent + two.exponent, min(ends), max(ends))

    def scaled(self, number: Fixed, known: Known) -> Fixed:
        """``number`` times a constant: a power of two, or as precisely as there is room."""
        array = known.array
        peak = float(np.abs(array).max(initial=0.0))
        if not np.isfinite(peak):
            raise NotIntegral("an infinite factor")
        if not known.axes and peak and frexp(peak)[0] == 0.5:
            number = replace(number, exponent=number.exponent + frexp(peak)[1] - 1)
            return number if array > 0 else negated(number)
        number = narrowed(number, ROOM.bit_length() - 1 - FEWEST, self.constants.made)
        bits = min(PRECISE, ROOM.bit_length() - 1 - number.peak.bit_length())
        exponent = frexp(peak)[1] - bits if peak else 0
        factor = integers(array, exponent, 1 << bits)
        ends = [int(f) * n for f in _ends(factor) for n in (number.low, number.high)]
        load = self.constants.load(known, factor.astype(np.int32), "factor")
        value = wide(number) * cast(load, dtypes.int32)
        return Fixed(value, number.exponent + exponent, min(ends), max(ends))

    def extremum(self, op: str, left: Expr, right: Expr) -> Fixed:
        one, two = self.alike(left, right)
        pick = min if op == "min" else max
        low, high = pick(one.low, two.low), pick(one.high, two.high)
        if isinstance(two.value, Literal) and (low, high) == (one.low, one.high):
            return one  # the bound does nothing
        return replace(one, value=apply(op, one.value, two.value), low=low, high=high)

    def selected(self, condition: Expr, if_true: Expr, if_false: Expr) -> Fixed:
        one, two = self.alike(if_true, if_false)
        if not self.active(if_true):
            one, two = two, one
        value = select(self.condition(condition), one.value, two.value)
        low, high = min(one.low, two.low), max(one.high, two.high)
        return Fixed(value, one.exponent, low, high)

    def condition(self, expr: Expr) -> Expr:
        if not self.active(expr):
            return expr
        match expr:
            case Apply("lt" | "le" | "gt" | "ge" as op, (left, right)):
                one, two = self.alike(left, right)
                swapped = not self.active(left)
                sides = (two, one) if swapped else (one, two)
                return apply(op, *(wide(side) for side in sides))
            case Apply("and" | "or" | "not" as op, args):
                return apply(op, *map(self.condition, args))
        raise NotIntegral("a condition on quantised values that does not compare them by order")

    def alike(self, left: Expr, right: Expr) -> tuple[Fixed, Fixed]:
        """Both in one dtype at one exponent, one that depends on quantised values first."""
        if not self.active(left):
            left, right = right, left
        one = self.number(left) if self.active(left) else None
        if one is None:
            raise NotIntegral("a choice of constants by quantised values")
        if self.active(right):
            one, two = aligned(one, self.number(right), self.constants.made)
        else:
            two = self.bound(self.known(right), one)
        if one.is_int8 and two.is_int8:
            return one, two
        return replace(one, value=wide(one)), replace(two, value=wide(two))

    # ---- sums -------------------------------------------------------------------------------

    def summed(self, expr: Reduce) -> Fixed:
        parts = factors(expr.values[0])
        fixed = [p for p in parts if not self.active(p)]
        active = [p for p in parts if self.active(p)]
        numbers = [p for p in fixed if is_number(p)]
        if len(fixed) > len(numbers) and len(active) == 1:
            return self.weighted(expr, active[0], self.known(times(fixed)))
        if numbers and active:  # a number goes out of the sum
            inner = replace(expr, values=(times([*active, *(set(fixed) - set(numbers))]),))
            return self.scaled(self.summed(inner), self.known(times(numbers)))
        number = self.number(expr.values[0])
        count = elements([axis.extent for axis in expr.axes])
        if count is None:
            raise NotIntegral("a sum over an open size")
        bounds = min(number.low, 0) * count, max(number.high, 0) * count
        return self.accumulated(expr, wide(number), number.exponent, bounds)

    def weighted(self, expr: Reduce, active: Expr, known: Known) -> Fixed:
        """Σ active * weights."""
        number = self.number(active)
        if not number.is_int8:
            raise NotIntegral("a product of values of more than 8 bits")
        best = weights_exponent(known.array) if np.isfinite(known.array).all() else None
        if best is None and known.array.any():
            raise NotIntegral("infinite weights")
        if best is None:  # all 0: at which the result needs no shift
            best = 0 if self.exponent is None else self.exponent - number.exponent
        exponent = best + self.coarser
        factor = integers(known.array, exponent)
        self.weights.append(exponent)
        load = self.constants.load(known, factor.astype(np.int8), "weights")
        bounds = _sum_bounds(expr, known, factor, number)
        value = wide(number) * cast(load, dtypes.int32)
        return self.accumulated(expr, value, number.exponent + exponent, bounds)

    def accumulated(
        self, expr: Reduce, value: Expr, exponent: int, bounds: tuple[int, int]
    ) -> Fixed:
        self.unconditional(expr)
        total = Reduce(monoid("add", value.dtype), expr.axes, (value,), expr.condition)
        found = Fixed(total, exponent, *bounds)
        self.sums = max(self.sums, found.peak)
        return found

    def greatest(self, expr: Reduce, op: str) -> Fixed:
        self.unconditional(expr)
        number = self.number(expr.values[0])
        fold = monoid(op, number.value.dtype)
        value: Expr = Reduce(fold, expr.axes, (number.value,), expr.condition)
        count = elements([axis.extent for axis in expr.axes])
        if expr.condition is not None or not count:  # nothing may be left: the end of the range
            bound = number.low if op == "max" else number.high
            value = apply(op, value, literal(bound, value.dtype))
        return replace(number, value=value)

    def unconditional(self, expr: Reduce) -> None:
        if expr.condition is not None and self.active(expr.condition):
            raise NotIntegral("a reduction over what quantised values say")

    # ---- constants --------------------------------------------------------------------------

    def known(self, expr: Expr) -> Known:
        return self.constants.evaluated(expr)

    def addend(self, known: Known, exponent: int) -> Fixed:
        """``known`` as int32 at ``exponent``."""
        array = integers(known.array, exponent, ROOM)
        low, high = map(int, _ends(array))
        value = self.constants.load(known, array.astype(np.int32), "addend")
        return Fixed(value, exponent, low, high)

    def bound(self, known: Known, beside: Fixed) -> Fixed:
        """``known`` to compare or to stand with ``beside``: int8 where that holds it, or where
        nothing but infinity is outside."""
        array = integers(known.array, beside.exponent, ROOM)
        narrow = beside.is_int8 and bool((np.abs(array) <= LARGEST)[np.isfinite(known.array)].all())
        if narrow:
            array = np.clip(array, -LARGEST, LARGEST)
        low, high = map(int, _ends(array))
        name, dtype = "bound", np.int8 if narrow else np.int32
        value = self.constants.load(known, array.astype(dtype), name)
        return Fixed(value, beside.exponent, low, high)


def _sum_bounds(expr: Reduce, known: Known, factor: np.ndarray, number: Fixed) -> tuple[int, int]:
    """Bounds of Σ ``number`` * ``factor`` over the axes of ``expr``."""
    along = tuple(d for d, axis in enumerate(known.axes) if axis in expr.axes)
    others = elements([axis.extent for axis in expr.axes if axis not in known.axes])
    if others is None:
        raise NotIntegral("a sum over an open size")
    positive = np.maximum(factor, 0).sum(axis=along) * others
    negative = np.minimum(factor, 0).sum(axis=along) * others
    low, high = number.low, number.high
    if expr.condition is not None:
        low, high = min(low, 0), max(high, 0)
    least = (positive * low + negative * high).min(initial=0)
    most = (positive * high + negative * low).max(initial=0)
    return int(least), int(most)


def _ends(array: np.ndarray) -> tuple[float, float]:
    return (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)


def _named(expr: Expr) -> str:
    match expr:
        case Apply(op):
            return op
        case Reduce(monoid_):
            return f"a fold by {monoid_.name}"
    return type(expr).__name__.lower()
