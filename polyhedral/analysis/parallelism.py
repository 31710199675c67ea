"""How many iterations of a loop may run at the same time: all of them over how often it starts.

    for w in range(T + N - 1):                        wavefronts of a skewed loop
      parallel for t in range(max(0, w - N + 1), min(T, w + 1)): …

runs T * N iterations in T + N - 1 wavefronts: T * N / (T + N - 1) at a time, on average. This is
Brent's W / S of the loop; the longest wavefront has min(T, N).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import ceil, gcd

from weft.polyhedral.analysis.counting import Counter
from weft.polyhedral.analysis.nest_coordinates import NestCoordinates
from weft.polyhedral.analysis.polynomials import Polynomial, number, symbol
from weft.polyhedral.schedule_tree import Loop


@dataclass(frozen=True, slots=True)
class Parallelism:
    """``iterations`` over all ``starts``."""

    iterations: Polynomial
    starts: Polynomial

    def about(self, values: Mapping[str, float]) -> float:
        starts = self.starts.about(values)
        return self.iterations.about(values) / starts if starts > 0 else 1.0

    def __mul__(self, other: Parallelism) -> Parallelism:
        return reduced(self.iterations * other.iterations, self.starts * other.starts)

    def shown(self, rounded: Callable[[Polynomial], Polynomial]) -> str:
        """In the sizes; a number of its own to the next integer."""
        if not self.starts.variables():
            alone = self.iterations / self.starts.constant()
            return str(alone) if alone.variables() else str(ceil(alone.constant()))
        short = reduced(rounded(self.iterations), rounded(self.starts))
        if not short.starts.variables():
            return short.shown(rounded)
        return f"{_factor(short.iterations)} / {_factor(short.starts)}"

    def __str__(self) -> str:
        return self.shown(lambda form: form)


ONE = Parallelism(number(1), number(1))


def parallelism(
    nest: NestCoordinates, loops: list[Loop], counter: Counter
) -> dict[str, Parallelism]:
    """Parallel loop → what of it and of the parallel loops around it may run at once."""
    found: dict[str, Parallelism] = {}
    total = ONE
    for depth, loop in enumerate(loops):
        if loop.kind == "parallel":
            total = total * _turns(nest, depth, counter)
            found[loop.name] = total
    return found


def reduced(iterations: Polynomial, starts: Polynomial) -> Parallelism:
    """Without what both have in common: powers, and a factor that leaves ``starts`` integers."""
    if not starts.terms:
        return Parallelism(iterations, number(1))
    for name in sorted(starts.variables() & iterations.variables()):
        while _divides(name, starts) and _divides(name, iterations):
            starts, iterations = _without(name, starts), _without(name, iterations)
    content = Fraction(reduce(gcd, (c for _, c in starts.terms)), starts.divisor)
    return Parallelism(iterations / content, starts / content)


def _turns(nest: NestCoordinates, depth: int, counter: Counter) -> Parallelism:
    """Of the loop at ``depth``; in closed form also where it is one number each time."""
    before, after = nest.summed(depth), nest.summed(depth + 1)
    fixed = nest.fixed[depth]
    if fixed is not None and fixed.coordinate not in nest.known(depth):
        each = nest.span(fixed.coordinate, depth) / fixed.step
        exact = counter.nominal(before) * counter.nominal(each)
        if not each.variables() & set(nest.names) and counter.nominal(after) >= 0.99 * exact:
            return Parallelism(each, number(1))
    return reduced(after, before)


def _divides(name: str, form: Polynomial) -> bool:
    return 0 not in form.coefficients(name)


def _without(name: str, form: Polynomial) -> Polynomial:
    """``form`` divided by the variable ``name``."""
    total = Polynomial()
    for power, factor in form.coefficients(name).items():
        rest = factor
        for _ in range(power - 1):
            rest = rest * symbol(name)
        total = total + rest
    return total


def _factor(form: Polynomial) -> str:
    return f"({form})" if len(form.terms) > 1 else str(form)
