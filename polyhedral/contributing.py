"""Contributing: reductions run where they change something.

    for o < 9: for r < 5:                       for o < 9: for max(0, 4 - o) <= r < min(5, 9 - o):
        y[o] += 0 <= o + r - 4 < 5       →          y[o] += 0 <= o + r - 4 < 5
                ? x[o + r - 4] : 0                          ? x[o + r - 4] : 0

An instance that contributes the identity of its monoid changes nothing: padding under a sum, -inf
under a maximum, a condition of the user's that is false. Where dims then have fewer values for all
others, they get these. Bounds that depend on other loops, as above, are given where at least half
of the instances go; where they would depend on loops that vectors run along, which evaluate a
condition for many elements at once, only where hardly any remain.

What is 0 times something that may be infinite contributes; so does -0.0 where the program has not
written what it is added to. Also known as: index set reduction, sparse iteration spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Select,
    literal,
    rewrite,
    substitute,
    walk,
)
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scop import Constraint, Scop, Statement
from weft.polyhedral.analysis.counting import Counter, Unbounded, region
from weft.polyhedral.analysis.intervals import (
    Ranges,
    certain,
    extents,
    facts,
    ranges_of,
    restricted,
)
from weft.polyhedral.prepare import MAX_READS
from weft.polyhedral.transform.inline_producer import inline_producer, why_not_inline

# Conditions that vectors would evaluate become loop bounds where so much less runs, times the bits
# of a result: 32 in float32. With vectors of 512 bits, bounds are slower up to 16 or 28.
FEWER = 1024


def contributing(scop: Scop) -> Scop:
    """``scop`` with the domains of its reductions cut to what may change a result."""
    found = tuple(s if s.update is None else _cut(scop, s) for s in scop.statements)
    return scop if found == scop.statements else replace(scop, statements=found)


def _cut(scop: Scop, s: Statement) -> Statement:
    known = facts(s.domain)
    needed = tuple(f for f in dict.fromkeys(_needed(scop, s)) if f not in known)
    if not needed:
        return s
    before, after = ranges_of(scop, s), ranges_of(scop, s, needed)
    if any(low is not None and high is not None and low > high for low, high in after.values()):
        return s  # nothing contributes: rare, and no statement has an empty domain for it
    cut = restricted(s, {d: r for d, r in after.items() if r != before.get(d)})
    news = [f for f in needed if not certain(f, after)]
    along = _along_vectors(s, after)
    bits = scop.tensor(s.writes[0].tensor).dtype.bits
    for more, fewer in (
        ([f for f in news if not f.variables() & along], 2),
        (news, FEWER // bits),
    ):
        less = _under(cut, more)
        if _instances(less) * fewer <= _instances(cut) < inf:
            cut = less
    return cut


def _along_vectors(s: Statement, ranges: Ranges) -> frozenset[str]:
    """The dims of the last index that is written and has several values: where vectors lie."""
    for index in reversed(s.writes[0].indices):
        names = affine(index).variables()
        if extents(names, ranges) not in ([], [1]):
            return names
    return frozenset()


def _under(s: Statement, more: Sequence[Affine]) -> Statement:
    """``s`` where ``more`` forms are at least 0."""
    known = facts(s.domain)
    news = (Constraint(to_expr(f)) for f in more if f not in known)
    return replace(s, domain=(*s.domain, *news))


def _instances(s: Statement) -> float:
    """How many instances ``s`` has, about, for sizes that are large where they are open."""
    counter = Counter()
    try:
        return counter.nominal(counter.total(s.dims, region(s.domain)))
    except Unbounded:
        return inf


# ---- what contributes nothing -------------------------------------------------------------------


def _needed(scop: Scop, s: Statement) -> Iterator[Affine]:
    """Forms that are at least 0 in every instance of ``s`` that may change a result."""
    assert s.update is not None
    through = _through(scop, s)
    if any(a.may for a in (*through.reads, *s.writes)) or _is_given(scop, s):
        return  # an index that is data is checked wherever it is computed
    results = _results(through)
    conditions = [n.condition for r in results for n in walk(r) if isinstance(n, Select)]
    for condition in dict.fromkeys(conditions):
        for holds in (True, False):
            form = conjunction(condition, holds)
            if form.exact and form.facts():
                left = [_folded(r, condition, not holds) for r in results]
                if all(map(_is_number, left, s.update.monoid.identity)):
                    yield from form.facts()


def _is_given(scop: Scop, s: Statement) -> bool:
    """Whether ``s`` may fold into what the caller's array holds: -0.0, which is no sum of 0.0."""
    target = s.writes[0].tensor
    others = (o for o in scop.statements if o.update is None)
    return scop.tensor(target).role == "inout" and not any(
        w.tensor == target for o in others for w in o.writes
    )


def _is_number(value: Expr, number: object) -> bool:
    return isinstance(value, Literal) and value.value == number


def _through(scop: Scop, s: Statement) -> Statement:
    """``s`` reading through what is computed element by element, where that has conditions."""
    for name in _producers(scop, s):
        statement = scop.statement(s.name)
        producer = scop.statement(name)
        if len(statement.reads) + len(producer.reads) > MAX_READS:
            break
        if not why_not_inline(scop, producer):
            scop = inline_producer(scop, name)
    return scop.statement(s.name)


def _producers(scop: Scop, s: Statement) -> list[str]:
    """What ``s`` reads through, the nearest first: where nothing has a condition, nothing."""
    writers: dict[str, list[Statement]] = {}
    for statement in scop.statements:
        for write in statement.writes:
            writers.setdefault(write.tensor, []).append(statement)
    found: dict[str, Statement] = {}
    pending = [s]
    while pending and len(found) < MAX_READS:
        for access in pending.pop().reads:
            made = writers.get(access.tensor, [])
            if len(made) == 1 and made[0].update is None and made[0].name not in found:
                found[made[0].name] = made[0]
                pending.append(made[0])
    return list(found) if any(map(_has_condition, found.values())) else []


def _has_condition(s: Statement) -> bool:
    return any(isinstance(node, Select) for expr in s.body.expressions for node in walk(expr))


def _results(s: Statement) -> list[Expr]:
    """The contributions of ``s`` in terms of its reads and dims alone."""
    values: dict[str, Expr] = {}
    for name, expr in s.body.lets:
        values[name] = substitute(expr, values)
    return [substitute(result, values) for result in s.body.results]


def _folded(expr: Expr, condition: Expr, holds: bool) -> Expr:
    """``expr`` where ``condition`` is ``holds``, as far as it is a number then."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Select(asked, yes, no) if asked == condition:
                return yes if holds else no
            case Select(_, yes, no) if isinstance(yes, Literal) and yes == no:
                return yes
            case Apply("mul", args) if node.dtype.is_integer:
                zero = literal(0, node.dtype)
                return zero if zero in args else _number(node)
            case Apply() | Cast():
                return _number(node)
        return None

    return rewrite(expr, change)


def _number(node: Expr) -> Expr | None:
    if all(isinstance(child, Literal) for child in node.children):
        return literal(evaluate(node, {}).item(), node.dtype)
    return None
