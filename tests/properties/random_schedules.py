"""Random (program, schedule) pairs, steered: most are legal and not the identity, many are illegal
by exactly one dependence.

The enumeration says at each step where a schedule stands, so that a legal one can grow move by move
and then be broken once. All of it follows from the pair's number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from random import Random

from tests.properties.enumeration import Array, TooLarge
from tests.properties.executions import difference, run, run_original
from tests.properties.named_moves import LOCAL, LOOPS, TEXTUAL, NamedMove
from tests.properties.random_affine import Affine, inputs_of, random_affine
from tests.properties.tree_moves import BREAKS, MOVES, choose, identical, loops
from tests.properties.verdicts import Program
from weft.ir.errors import BudgetError, CompileError, IllegalScheduleError, InternalError
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Scop
from weft.polyhedral.proof.legality import check_bounds
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled

SCHEDULES = 8  # for each program
MOST_LOOPS = 14
DATA_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Subject:
    """A program with its enumeration."""

    affine: Affine
    oracle: Program
    results: dict[object, dict[str, Array]] = field(default_factory=dict)  # by sizes, when known


@dataclass(slots=True)
class Pair:
    """One program under one schedule; ``oracle`` enumerates the transformed program."""

    seed: int
    subject: Subject
    scheduled: Scheduled
    oracle: Program
    moves: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def changed(self) -> bool:
        """Whether storage or instances are not those of the original."""
        return self.scheduled.scop is not self.subject.affine.scop

    @property
    def identity(self) -> bool:
        start = initial(self.subject.affine.scop).tree
        return not self.changed and identical(self.scheduled.tree, start)


class MoveFailed(Exception):
    """A named transformation neither worked nor refused in its own words."""


@lru_cache(maxsize=4)
def subject_of(number: int) -> Subject:
    """Program ``number``; its sizes are limited where its accesses are in bounds for few only."""
    for attempt in count():
        affine = random_affine(number, attempt)
        if not affine.closed and not _in_bounds(affine.scop):
            affine = affine.close()
        oracle = Program(affine.scop, affine.sizes)
        if not oracle.outside():  # shapes fit the sizes chosen at first
            return Subject(affine, oracle)
    raise AssertionError


def _in_bounds(scop: Scop) -> bool:
    try:
        check_bounds(scop)
    except CompileError:
        return False
    return True


def random_pair(seed: int) -> Pair:
    """Pair ``seed``: the same one each time. Raises ``MoveFailed``."""
    r = Random(f"pair {seed}")
    subject = subject_of(seed // SCHEDULES)
    pair = Pair(seed, subject, initial(subject.affine.scop), subject.oracle)
    if r.random() < DATA_SHARE:
        for _ in range(r.choice((1, 1, 2))):
            _change_data(r, pair, TEXTUAL)
    aim = r.random()
    if aim < 0.05:
        for _ in range(r.randint(1, 5)):
            _move(r, pair, MOVES, lambda tree: True)
        return pair
    for _ in range(12):
        _move(r, pair, MOVES, lambda tree: pair.oracle.judge(tree, 0).legal)
        if len(pair.moves) >= 5:
            break
    if r.random() < (0.5 if pair.changed else 0.15):
        _change_data(r, pair, LOCAL)
    if aim > 0.51:
        _break(r, pair)
    return pair


def _break(r: Random, pair: Pair) -> None:
    """One more move, after which one dependence is violated."""
    count = len(pair.moves)
    for _ in range(35):
        _move(r, pair, BREAKS, lambda tree: _one(pair, tree))
        if len(pair.moves) > count:
            return


def _one(pair: Pair, tree: Tree) -> bool:
    verdict = pair.oracle.judge(tree, 1)
    return verdict.injective and len(verdict.violated) == 1


def _move(r: Random, pair: Pair, table: dict, wanted) -> None:  # type: ignore[no-untyped-def,type-arg]
    """A random move, kept if its tree is ``wanted``."""
    if r.random() < 0.5:
        move = choose(r, table)
        tree = move(r, pair.scheduled.scop, pair.scheduled.tree)
        made = None
        if tree is not None:
            made = Scheduled(pair.scheduled.original, pair.scheduled.scop, tree)
        name = move.__name__
    else:
        named = choose(r, LOOPS)  # type: ignore[arg-type]
        made, name = _apply(r, pair, named), named.__name__  # type: ignore[arg-type]
    if made is None or len(loops(made.tree)) > MOST_LOOPS:
        return
    if wanted(made.tree):
        pair.scheduled = made
        pair.moves.append(name)


def _apply(r: Random, pair: Pair, move: NamedMove) -> Scheduled | None:
    try:
        return move(r, pair.scheduled)
    except (IllegalScheduleError, BudgetError) as error:
        pair.refused[f"{move.__name__[1:]} {error.code}"] += 1
    except Exception as error:
        raise MoveFailed(f"{move.__name__[1:]} failed: {type(error).__name__}: {error}") from error
    return None


def expected_at(subject: Subject, values: Mapping[str, int]) -> Mapping[str, Array]:
    """What the original program gives, computed once for all schedules. Raises ``Stopped``."""
    known, key = subject.results, tuple(values.items())
    if key not in known:
        original = subject.affine.scop
        known[key] = run_original(original, values, inputs_of(original, dict(values)))
    return known[key]


def _sound(subject: Subject, made: Scheduled, oracle: Program) -> bool:
    """A guess: whether the changed program gives the same values at the largest sizes."""
    if oracle.outside() or not oracle.judge(made.tree, 0).legal:
        return False
    sizes = subject.affine.sizes[-1]
    inputs = inputs_of(subject.affine.scop, sizes)
    try:
        return not difference(run(made.scop, made.tree, sizes, inputs), expected_at(subject, sizes))
    except InternalError:  # it reads outside its tensors
        return False


def _change_data(r: Random, pair: Pair, table: dict[NamedMove, int]) -> None:
    """A transformation of storage or instances, if one of a few applies and stays small."""
    for _ in range(4):
        move = choose(r, table)  # type: ignore[arg-type]
        made = _apply(r, pair, move)  # type: ignore[arg-type]
        if made is None or made.scop is pair.scheduled.scop:
            continue
        try:
            oracle = Program(made.scop, pair.subject.affine.sizes)
        except TooLarge:
            continue
        if r.random() < 0.85 and not _sound(pair.subject, made, oracle):
            continue
        pair.scheduled, pair.oracle = made, oracle
        pair.moves.append(move.__name__)
        return
