"""A failing pair made smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.properties.enumeration import TooLarge
from tests.properties.random_schedules import Pair, Subject
from tests.properties.tree_moves import bands, clean, put
from tests.properties.verdicts import Program
from weft.ir.scalar_expr import literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree
from weft.ir.scop import Body, Scop

ROUNDS = 60


def smaller(pair: Pair, problem: Callable[[Pair], str]) -> Pair:
    """``pair`` with fewer statements, loops, kinds and reads, as long as its ``problem`` begins
    with the same words. Programs whose storage has changed stay as they are."""
    if pair.changed:
        return pair
    wanted = _words(problem, pair)
    for _ in range(ROUNDS):
        better = (c for c in _candidates(pair) if _words(problem, c) == wanted)
        found = next(better, None)
        if found is None:
            break
        pair = found
    return pair


def _words(problem: Callable[[Pair], str], pair: Pair) -> str:
    try:
        return " ".join(problem(pair).split()[:4])
    except Exception as error:
        return type(error).__name__


def _candidates(pair: Pair) -> Iterator[Pair]:
    of = pair.scheduled
    for scop, tree in _smaller(of.scop, of.tree):
        try:
            oracle = Program(scop, pair.subject.affine.sizes)
        except TooLarge:
            continue
        subject = Subject(replace(pair.subject.affine, scop=scop), oracle)
        yield Pair(pair.seed, subject, replace(of, original=scop, scop=scop, tree=tree), oracle)


def _smaller(scop: Scop, tree: Tree) -> Iterator[tuple[Scop, Tree]]:
    for s in scop.statements if len(scop.statements) > 1 else ():
        rest = tuple(x for x in scop.statements if x is not s)
        below = _without(tree, s.name)
        if below is not None:
            yield replace(scop, statements=rest), clean(below)
    for number, s in enumerate(scop.statements):
        for k in range(len(s.reads)):
            plain = tuple(literal(0, r.dtype) for r in s.body.results)
            reads = s.reads[:k] + s.reads[k + 1 :]
            if any(a.may for a in reads):
                continue
            new = replace(s, reads=reads, body=Body((), plain))
            statements = (*scop.statements[:number], new, *scop.statements[number + 1 :])
            yield replace(scop, statements=statements), tree
    for band in bands(tree):
        for k, loop in enumerate(band.loops):
            before, after = band.loops[:k], band.loops[k + 1 :]
            yield scop, clean(put(tree, band, replace(band, loops=(*before, *after))))
            if loop.kind != "serial":
                serial = Loop(loop.name, loop.at)
                yield scop, put(tree, band, replace(band, loops=(*before, serial, *after)))


def _without(tree: Tree, statement: str) -> Tree | None:
    match tree:
        case Leaf(name):
            return None if name == statement else tree
        case Sequence(parts):
            kept = [p for part in parts if (p := _without(part, statement)) is not None]
            return Sequence(tuple(kept)) if kept else None
        case Band(loops, child):
            below = _without(child, statement)
            if below is None:
                return None
            own = tuple(
                replace(x, at={s: v for s, v in x.at.items() if s != statement}) for x in loops
            )
            return Band(own, below)
    return tree
