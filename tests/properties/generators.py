"""Pairs by a generator of your own: ``python -m tests.properties.fuzz --generator my_pairs:pair``.

A generator is a function of the pair's number, in a module on Python's path, that returns the same
pair for the same number: a program of integer arrays and an order for it, legal or not. This one is
complete:

    # my_pairs.py
    import random
    import weft
    from weft.polyhedral.transform.initial import initial
    from weft.polyhedral.transform.skew import reverse
    from weft.polyhedral.transform.skew import skew

    @weft.kernel
    def sweep(T: weft.i64, A: weft.i64["N"]):
        for t in range(T):
            for i in range(1, N - 1):
                A[i] = 3 * A[i - 1] - A[i + 1]

    def pair(number):
        r = random.Random(number)
        s = skew(initial(sweep.scop), "i", "t", r.randint(-2, 2))
        return reverse(s, r.choice("ti")) if r.random() < 0.3 else s

What it returns is one of

    Scheduled      what the functions of ``weft.polyhedral.transform`` take and return: they check
                   what they need themselves and leave legality to the checkers, so here is where
                   illegal orders come from
    Schedule       of ``weft.schedule``: its methods are checked at once, so what is left is legal
    (Scop, Tree)   anything, well-formed or not
    Scop           a program alone, in its own order; for ``--scheduler``, too

or one of these and a list of the sizes to look at: ``return s, [{"N": 4, "T": 2}, …]``. Otherwise
small sizes are chosen that the program's context allows. Programs of many instances are left out,
and so are values that do not fit into 32 bits: the oracle enumerates in NumPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from random import Random

from tests.properties.enumeration import TooLarge, mask, shape
from tests.properties.random_affine import Affine
from tests.properties.random_schedules import Pair, Subject
from tests.properties.verdicts import Program
from weft.driver.schedule_value import Schedule
from weft.ir.errors import CompileError
from weft.ir.scalar_expr import Expr, Literal, walk
from weft.ir.schedule_tree import Band, Leaf, Mark, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.schedule_tree import walk as nodes_of
from weft.ir.scop import Scop
from weft.ir.scop_verifier import verify
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled

Given = Schedule | Scheduled | tuple[Scop, Tree] | Scop
Generator = Callable[[int], Given | tuple[Given, Sequence[Mapping[str, int]]]]

SMALL = (0, 1, 2, 3, 5)
CHOICES = 8  # of sizes, for each program
LARGE = 1 << 31


class NoPair(Exception):
    """There is nothing to examine; why not."""


def load(name: str) -> Generator:
    """The generator called ``module:function``. Raises ``SystemExit`` with what is wrong."""
    module, _, function = name.partition(":")
    try:
        found: Generator = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SystemExit(f"--generator {name}: {error}") from None
    return found


def pair_of(generator: Generator, number: int) -> Pair:
    """Pair ``number`` of ``generator``. Raises ``NoPair`` where it cannot be examined."""
    made, sizes = _made(generator, number)
    subject = _subject(made.original, sizes, number)
    original, scop = made.original, made.scop
    same = scop == original
    made = Scheduled(original, original if same else scop, made.tree)
    loops = (x for node in nodes_of(made.tree) if isinstance(node, Band) for x in node.loops)
    _enumerable(e for loop in loops for e in loop.at.values())
    try:
        oracle = subject.oracle if same else Program(_plain(scop), subject.affine.sizes)
    except TooLarge:
        raise NoPair("too large to enumerate") from None
    return Pair(number, subject, made, oracle, ["given"])


def subject_of(generator: Generator, number: int) -> Subject:
    """The program of pair ``number``. Raises ``NoPair`` where it cannot be examined."""
    made, sizes = _made(generator, number)
    return _subject(made.original, sizes, number)


def _made(generator: Generator, number: int) -> tuple[Scheduled, Sequence[Mapping[str, int]]]:
    try:
        return _parts(generator(number))
    except CompileError as error:
        raise NoPair(f"refused when made, {error.code}") from error


def _parts(given: object) -> tuple[Scheduled, Sequence[Mapping[str, int]]]:
    sizes: Sequence[Mapping[str, int]] = ()
    match given:
        case (program, list() | tuple() as chosen):
            given, sizes = program, chosen
    match given:
        case Schedule():
            return given.scheduled, sizes
        case Scheduled():
            return given, sizes
        case (Scop() as scop, (Band() | Leaf() | Mark() | TreeSequence()) as tree):
            return Scheduled(scop, scop, tree), sizes
        case Scop():
            return initial(given), sizes
    raise TypeError(f"a generator returns no {type(given).__name__}: see {__name__}")


def _subject(scop: Scop, sizes: Sequence[Mapping[str, int]], number: int) -> Subject:
    try:
        verify(scop)
    except CompileError as error:
        raise NoPair(f"ill-formed, {error.code}") from error
    chosen = [dict(s) for s in sizes] or _small(_plain(scop), number)
    while chosen:  # fewer, until they are not too large
        try:
            return Subject(Affine("given", scop, tuple(chosen), False), Program(scop, chosen))
        except TooLarge:
            chosen.pop()
    raise NoPair("too large to enumerate")


def _small(scop: Scop, number: int) -> list[dict[str, int]]:
    """Some of the small sizes that the context allows, the smallest first."""
    names, found = scop.parameters, []
    for values in sorted(product(SMALL, repeat=min(len(names), 5)), key=sum):
        sizes = dict.fromkeys(names, 1) | dict(zip(names, values, strict=False))
        fits = mask(scop.context, sizes, 1).all()
        if fits and all(min(shape(scop, t.name, sizes), default=0) >= 0 for t in scop.tensors):
            found.append(sizes)
    r = Random(f"sizes {number}")
    return [found[k] for k in sorted(r.sample(range(len(found)), min(len(found), CHOICES)))]


def _plain(scop: Scop) -> Scop:
    """``scop``; raises ``NoPair`` where its indices may not fit what the oracle computes with."""
    exprs: list[Expr] = [c.expr for c in scop.context]
    for s in scop.statements:
        exprs += [c.expr for c in s.domain]
        exprs += [i for a in (*s.reads, *s.writes) for i in a.indices]
        exprs += [c.expr for a in (*s.reads, *s.writes) for c in a.guard]
    exprs += [size for t in scop.tensors for size in t.shape]
    _enumerable(exprs)
    return scop


def _enumerable(exprs: Iterable[Expr]) -> None:
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Literal) and abs(int(node.value)) >= LARGE:
                raise NoPair("values beyond 32 bits")
