"""Legality by enumeration: every instance, every element, every pair. Shares no code with isl.

Slow and obvious; for Scops of some hundred instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from tests.polyhedral.scops import evaluate, holds, instances
from weft.ir.scalar_expr import Cast, Expr, Load, walk
from weft.ir.schedule_tree import Band, Leaf, Mark, Sequence, Tree, statements_below
from weft.ir.scop import Access, Scop, Statement

HIGH = 6  # no dim of the Scops tested reaches it

Element = tuple[str, tuple[int, ...]]


class Instance(NamedTuple):
    statement: str
    point: tuple[int, ...]


class Event(NamedTuple):
    """What an instance touches."""

    instance: Instance
    reads: frozenset[Element]
    writes: frozenset[Element]
    folds: frozenset[Element]  # elements of an update, both read and written


def all_parameters(scop: Scop, low: int = 0, high: int = 9) -> Iterator[dict[str, int]]:
    """Every parameter value in the context, which must be bounded by [low, high)."""
    for values in product(range(low, high), repeat=len(scop.parameters)):
        env = dict(zip(scop.parameters, values, strict=True))
        if holds(scop.context, env):
            yield env


def plain(index: Expr) -> bool:
    """Whether a subscript of a may access is known: no data, only dims and parameters."""
    return not any(isinstance(node, Load | Cast) for node in walk(index))


def touched(scop: Scop, access: Access, env: Mapping[str, int]) -> frozenset[Element]:
    if not holds(access.guard, env):
        return frozenset()
    if access.may:
        sizes = [evaluate(size, env) for size in scop.tensor(access.tensor).shape]
        known = {k: evaluate(i, env) for k, i in enumerate(access.body_indices) if plain(i)}
        ranges = [[p for p in range(s) if known.get(k, p) == p] for k, s in enumerate(sizes)]
        points = product(*ranges)
        return frozenset((access.tensor, point) for point in points)
    return frozenset({(access.tensor, tuple(evaluate(i, env) for i in access.indices))})


def events(scop: Scop, parameters: Mapping[str, int], high: int = HIGH) -> list[Event]:
    """All instances in the initial order."""
    found: list[tuple[tuple[int, ...], Event]] = []
    for number, s in enumerate(scop.statements):
        for env in instances(s, parameters, -1, high):
            key = tuple(env[p] if isinstance(p, str) else p for p in s.position)
            reads = [touched(scop, a, env) for a in s.reads]
            writes = [touched(scop, a, env) for a in s.writes]
            folded = frozenset().union(*writes) if s.update else frozenset()
            instance = Instance(s.name, tuple(env[d] for d in s.dims))
            event = Event(instance, frozenset().union(*reads), frozenset().union(*writes), folded)
            found.append(((*key, *[0] * (20 - len(key)), number), event))
    return [event for _, event in sorted(found, key=lambda pair: pair[0])]


def conflicts(scop: Scop, parameters: Mapping[str, int]) -> Iterator[tuple[Event, Event, bool]]:
    """(first, second, free): pairs in initial order that touch one element, one of them writing;
    ``free`` if they are updates that may change places."""
    order = events(scop, parameters)
    for k, first in enumerate(order):
        for second in order[k + 1 :]:
            plain = (
                first.reads & second.writes
                or (first.writes - first.folds) & (second.reads | second.writes)
                or first.folds & (second.reads | second.writes)
            )
            if not plain:
                continue
            yield first, second, _free(scop, first, second)


def _free(scop: Scop, first: Event, second: Event) -> bool:
    """Whether the only conflict is that both fold into the same elements, in reduction dims."""
    name = first.instance.statement
    update = scop.statement(name).update
    if name != second.instance.statement:
        return _fold_alike(scop, first, second)
    if update is None:
        return False
    if update.monoid.laws != {"associative", "commutative"}:
        return False
    if first.reads & second.writes or first.writes & second.reads:
        return False
    dims = scop.statement(name).dims
    pairs = zip(dims, first.instance.point, second.instance.point, strict=True)
    return all(dim in update.dims for dim, a, b in pairs if a != b)


def _fold_alike(scop: Scop, first: Event, second: Event) -> bool:
    """Whether two statements with one component and the same lawful monoid meet only in folding."""
    one, two = scop.statement(first.instance.statement), scop.statement(second.instance.statement)
    if one.update is None or two.update is None or len(one.writes) + len(two.writes) != 2:
        return False
    if one.update.monoid != two.update.monoid:
        return False
    if one.update.monoid.laws != {"associative", "commutative"}:
        return False
    return not (first.reads & second.writes or first.writes & second.reads)


class Place(NamedTuple):
    """One entry of an instance's time: the value of a loop, or a place in a sequence."""

    value: int
    loop: str
    kind: str


def time(tree: Tree, statement: Statement, env: Mapping[str, int]) -> list[Place]:
    """When ``tree`` runs an instance."""
    row: list[Place] = []
    while True:
        match tree:
            case Leaf():
                return row
            case Mark(_, child):
                tree = child
            case Band(loops, child):
                for loop in loops:
                    row.append(Place(evaluate(loop.at[statement.name], env), loop.name, loop.kind))
                tree = child
            case Sequence(parts):
                [(k, tree)] = [
                    (k, p) for k, p in enumerate(parts) if statement.name in statements_below(p)
                ]
                row.append(Place(k, "", "serial"))


class Verdict(NamedTuple):
    legal: bool  # order kept, no concurrent conflict
    injective: bool
    carries: frozenset[str]  # loops that carry any dependence but a reduction
    carries_reduction: frozenset[str]


def judge(scop: Scop, tree: Tree) -> Verdict:
    """What ``legality.check`` should say."""
    legal = injective = True
    carries: set[str] = set()
    reductions: set[str] = set()
    for parameters in all_parameters(scop):
        times = {}
        for s in scop.statements:
            for env in instances(s, parameters, -1, HIGH):
                times[Instance(s.name, tuple(env[d] for d in s.dims))] = time(tree, s, env)
        rows = [(i.statement, tuple(p.value for p in row)) for i, row in times.items()]
        injective = injective and len(set(rows)) == len(rows)
        for first, second, free in conflicts(scop, parameters):
            one, two = times[first.instance], times[second.instance]
            differing = [(a, b) for a, b in zip(one, two, strict=False) if a.value != b.value]
            if not differing:
                legal = legal and free
                continue
            a, b = differing[0]
            if a.loop:
                (reductions if free else carries).add(a.loop)
            backwards = a.value > b.value and not free
            concurrent = a.kind == "parallel" or (a.kind == "vector" and not free)
            legal = legal and not backwards and not concurrent
    return Verdict(legal, injective, frozenset(carries), frozenset(reductions))
