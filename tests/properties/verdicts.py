"""Verdicts on schedules by enumeration: the times of all conflicting pairs, compared at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.properties.enumeration import (
    FREE,
    KEPT,
    UNORDERED,
    Array,
    Column,
    Enumerated,
    Record,
    column,
    elements,
    enumerate_scop,
    enumerated,
    mask,
    shape,
    uses_of,
)
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop

Entry = Loop | int


def paths(tree: Tree) -> dict[str, tuple[Entry, ...]]:
    """For every statement the loops around it, and its places in sequences, outermost first."""
    found: dict[str, tuple[Entry, ...]] = {}
    stack: list[tuple[Tree, tuple[Entry, ...]]] = [(tree, ())]
    while stack:
        node, above = stack.pop()
        match node:
            case Leaf(name):
                found[name] = above
            case Band(loops, child):
                stack.append((child, (*above, *loops)))
            case Mark(_, child):
                stack.append((child, above))
            case TreeSequence(parts):
                stack += [(part, (*above, place)) for place, part in enumerate(parts)]
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """What ``legality.check`` should say of a tree."""

    violated: frozenset[int]  # records
    injective: bool
    carries: frozenset[str]  # loops that carry any dependence but a reduction
    carries_reduction: frozenset[str]

    @property
    def legal(self) -> bool:
        return self.injective and not self.violated


class Program:
    """A Scop enumerated at several choices of sizes: judges schedules for it."""

    def __init__(self, scop: Scop, choices: Sequence[Mapping[str, int]]) -> None:
        self.scop = scop
        self.records: dict[Record, int] = {}
        self.at = [enumerate_scop(scop, sizes, self.records) for sizes in choices]

    def judge(self, tree: Tree, most: int | None = None) -> Verdict:
        """The verdict on ``tree``; incomplete once more than ``most`` records are violated."""
        above = paths(tree)
        violated: set[int] = set()
        carries: set[str] = set()
        reductions: set[str] = set()
        injective = True
        for one in reversed(self.at):  # the largest first
            if most is not None and (len(violated) > most or not injective):
                break
            rows, kinds, names = times(one, above)
            injective = injective and not _together(one, rows).any()
            if one.source.size:
                bad, loop = _compare(one, rows, kinds, names)
                violated.update(np.unique(one.record[bad]).tolist())
                carries.update(loop[one.order != FREE].tolist())
                reductions.update(loop[one.order == FREE].tolist())
        return Verdict(
            frozenset(violated), injective, frozenset(carries - {""}), frozenset(reductions - {""})
        )

    def describe(self, number: int) -> str:
        """Record ``number`` in words."""
        record = next(r for r, n in self.records.items() if n == number)
        one, two = (uses_of(self.scop)[k] for k in (record.source, record.sink))
        before, after = (self.scop.statements[u.statement].name for u in (one, two))
        how = ("", " (free)", " (unordered)")[record.order]
        return f"{before} -> {after} on {one.access.tensor}{how}"

    def outside(self) -> str:
        """An instance that accesses a tensor outside its shape, or ''."""
        return next((text for one in self.at if (text := outside(one))), "")


PARALLEL, VECTOR = 2, 1
_KIND = {"serial": 0, "unrolled": 0, "vector": VECTOR, "parallel": PARALLEL}


def times(one: Enumerated, above: Mapping[str, Sequence[Entry]]) -> tuple[Array, Array, Array]:
    """(time of each instance, kind and loop name by statement and place)."""
    longest = max((len(path) for path in above.values()), default=0) + 1
    rows = np.zeros((one.count, longest), np.int64)
    kinds = np.zeros((len(one.points), longest), np.int64)
    names = np.full((len(one.points), longest), "", object)
    for number, s in enumerate(one.scop.statements):
        env = one.env(number)
        start = one.first[number]
        end = start + one.points[number][""].size
        for k, entry in enumerate(above[s.name]):
            if isinstance(entry, int):
                rows[start:end, k] = entry
            else:
                rows[start:end, k] = column(entry.at[s.name], env)
                kinds[number, k] = _KIND[entry.kind]
                names[number, k] = entry.name
    return rows, kinds, names


def _compare(one: Enumerated, rows: Array, kinds: Array, names: Array) -> tuple[Array, Array]:
    """(which pairs are in the wrong order or concurrent, the loop that tells them apart)."""
    difference = rows[one.sink] - rows[one.source]
    at = (difference != 0).argmax(1)
    step = difference[np.arange(at.size), at]
    kind = kinds[one.owner[one.source], at]
    bad = _wrong(one.order, step, kind)
    loop = names[one.owner[one.source], at].copy()
    loop[step == 0] = ""
    return bad, loop


def _wrong(order: Array, step: Array, kind: Array) -> Array:
    bad = (order == KEPT) & (step <= 0)
    return bad | ((step != 0) & ((kind == PARALLEL) | ((kind == VECTOR) & (order != FREE))))


def _together(one: Enumerated, rows: Array) -> Array:
    """Instances that run when another one of their statement does."""
    tagged = np.column_stack([one.owner, rows])
    order = np.lexsort(tagged.T)
    same = (tagged[order][1:] == tagged[order][:-1]).all(1)
    found = np.zeros(one.count, bool)
    found[order[1:][same]] = True
    found[order[:-1][same]] = True
    return found


Instance = tuple[str, Sequence[int]]  # statement, point


def is_violation(
    scop: Scop, tree: Tree, sizes: Mapping[str, int], first: Instance, second: Instance
) -> bool:
    """Whether ``tree`` runs two instances in the wrong order, at the same time although they
    conflict, or as one. At any sizes: only these two are looked at."""
    if (first[0], list(first[1])) == (second[0], list(second[1])):
        return False
    both = [first] if first[0] == second[0] else [first, second]
    names = [s.name for s in scop.statements]
    both.sort(key=lambda instance: names.index(instance[0]))
    found, number = [], {}
    for name, _ in both:
        s = scop.statement(name)
        rows = [p for n, p in (first, second) if n == name]
        columns = {d: np.array([row[k] for row in rows]) for k, d in enumerate(s.dims)}
        columns[""] = np.arange(len(rows))
        env: dict[str, Column] = {**sizes, **columns}
        if not mask((*s.domain, *scop.context), env, len(rows)).all():
            return False
        number[name] = sum(f[""].size for f in found)
        found.append(columns)
    ends = number[first[0]], number[second[0]] + (first[0] == second[0])
    smaller = replace(scop, statements=tuple(scop.statement(name) for name, _ in both))
    one = enumerated(smaller, sizes, tuple(found), {})
    above = paths(tree)
    rows_of, kinds, loops = times(one, {name: above[name] for name, _ in both})
    if first[0] == second[0] and (rows_of[0] == rows_of[1]).all():
        return True
    bad, _ = _compare(one, rows_of, kinds, loops)
    forward = bad & (one.source == ends[0]) & (one.sink == ends[1])
    return bool((forward | (bad & (one.order == UNORDERED))).any())


def outside(one: Enumerated) -> str:
    """An instance of ``one`` that accesses a tensor outside its shape, or ''."""
    for use in uses_of(one.scop):
        access, number = use.access, use.statement
        if access.may:
            continue
        at, rows = elements(access, one.env(number), one.points[number][""].size)
        extent = np.array(shape(one.scop, access.tensor, one.sizes), np.int64)
        wrong = ((rows < 0) | (rows >= extent)).any(1) if rows.shape[1] else np.zeros(0, bool)
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            name = one.instance(one.first[number] + int(at[k]))
            return f"{name} touches {access.tensor}{rows[k].tolist()} for {dict(one.sizes)}"
    return ""
