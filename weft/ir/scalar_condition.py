"""Conditions as conjunctions of quasi-affine inequalities, and a prover for more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.ir.scalar_affine import Affine, Range, Ranges, affine_bounds, to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Affine forms that are at least 0, and such that are 0.

    ``exact``: they hold together exactly where the condition does; otherwise they only follow
    from it.
    """

    at_least: tuple[Affine, ...] = ()
    equal: tuple[Affine, ...] = ()
    exact: bool = True

    def __and__(self, other: Conjunction) -> Conjunction:
        return Conjunction(
            self.at_least + other.at_least, self.equal + other.equal, self.exact and other.exact
        )

    def facts(self) -> tuple[Affine, ...]:
        """Everything as forms that are at least 0."""
        both = tuple(side for form in self.equal for side in (form, form.scaled(-1)))
        return self.at_least + both


def conjunction(condition: Expr, holds: bool = True, known: Sequence[Affine] = ()) -> Conjunction:
    """What follows from ``condition`` being ``holds``.

    ``known``, forms that are at least 0, tell on which side of each other different numbers are.
    """
    found = Conjunction()
    stack = [(condition, holds)]
    while stack:
        node, value = stack.pop()
        match node:
            case Apply("and", args) if value:
                stack.extend((arg, True) for arg in reversed(args))
            case Apply("or", args) if not value:
                stack.extend((arg, False) for arg in reversed(args))
            case Apply("not", (arg,)):
                stack.append((arg, not value))
            case Literal(constant) if bool(constant) == value:
                pass
            case _:
                found = found & _comparison(node, value, known)
    return found


_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def _comparison(node: Expr, value: bool, known: Sequence[Affine]) -> Conjunction:
    match node:
        case Apply(op, (left, right)) if op in _NEGATED:
            a, b = to_affine(left), to_affine(right)
            if a is None or b is None:
                return Conjunction(exact=False)
            match op if value else _NEGATED[op]:
                case "lt":
                    return Conjunction(at_least=((b - a).plus(-1),))
                case "le":
                    return Conjunction(at_least=(b - a,))
                case "gt":
                    return Conjunction(at_least=((a - b).plus(-1),))
                case "ge":
                    return Conjunction(at_least=(a - b,))
                case "eq":
                    return Conjunction(equal=(a - b,))
                case "ne":
                    for side in (a - b, b - a):
                        if proves(known, {}, side):
                            return Conjunction(at_least=(side.plus(-1),))
    return Conjunction(exact=False)


def narrow(ranges: Ranges, facts: Sequence[Affine]) -> dict[str, Range]:
    """``ranges`` cut down to where ``facts`` (forms that are at least 0) can hold."""
    result = dict(ranges)
    for _ in range(2):  # a fact may tighten a range that another one uses
        for fact in facts:
            for term, coefficient in fact.terms:
                if isinstance(term, str):
                    rest = fact - Affine(((term, coefficient),))
                    _, most = affine_bounds(rest, result)
                    if most is not None:
                        result[term] = _cut(result.get(term, (None, None)), coefficient, most)
    return result


def _cut(known: Range, coefficient: int, rest: int) -> Range:
    """The part of ``known`` where coefficient * x + rest >= 0 is possible."""
    low, high = known
    if coefficient > 0:
        least = -(rest // coefficient)
        return (least if low is None else max(low, least), high)
    most = rest // -coefficient
    return (low, most if high is None else min(high, most))


def proves(facts: Sequence[Affine], ranges: Ranges, goal: Affine, depth: int = 3) -> bool:
    """Whether ``goal >= 0`` follows from facts (``fact >= 0``) and ranges, as far as easily seen.

    Subtracts multiples of up to ``depth`` facts from the goal, each time one that removes a term,
    until what remains is not negative by interval arithmetic. Sound, not complete.
    """
    low, _ = affine_bounds(goal, ranges)
    if low is not None and low >= 0:
        return True
    if depth == 0:
        return False
    for fact in facts:
        for term, coefficient in fact.terms:
            have = goal.coefficient(term)
            if have and have % coefficient == 0 and have // coefficient > 0:
                rest = goal - fact.scaled(have // coefficient)
                if proves(facts, ranges, rest, depth - 1):
                    return True
    return False
