"""What to do instead of a step that is refused: variants of it, tried out on the spot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from itertools import islice
from typing import Any

from weft.errors import BudgetError, IllegalScheduleError
from weft.polyhedral.transform.expand import can_expand

TRIES = 16  # variants, so that an answer takes no longer than a few steps


def way_out(schedule: Any, method: str, args: Seq[Any], kwargs: Mapping[str, Any]) -> str:
    """A hint at a legal variant of a step that is illegal; '' where none is found."""
    find = _VARIANTS.get(method)
    if find is None:
        return ""
    for attempt in islice(find(schedule, args, kwargs), TRIES):
        made = schedule
        try:
            for name, arguments, named in attempt:
                made = getattr(made, name)(*arguments, **named)
        except (IllegalScheduleError, BudgetError):
            continue
        steps = made.steps[len(schedule.steps) :]
        return ", then ".join(map(str, steps))
    return ""


Attempt = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


def _nest(schedule: Any, loop: str) -> list[str]:
    """The loops around or inside ``loop`` that share a statement with it, outermost first."""
    inside = set(schedule.scheduled.loop(loop).at)
    return [x.name for x in schedule.scheduled.loops() if inside & set(x.at)]


def _other_loop(
    method: str,
) -> Callable[[Any, Seq[Any], Mapping[str, Any]], Iterator[Attempt]]:
    """The same with temporaries or partial sums for each iteration, of another loop of the nest,
    or after skewing the loop by one around it."""

    def variants(schedule: Any, args: Seq[Any], kwargs: Mapping[str, Any]) -> Iterator[Attempt]:
        loop = str(args[0] if args else kwargs["loop"])
        nest = _nest(schedule, loop)
        last = (method, (loop, *args[1:]), dict(kwargs))
        yield [*_expanded(schedule, loop), last]
        for other in nest:
            if other != loop:
                yield [(method, (other, *args[1:]), dict(kwargs))]
        for statement in schedule.scheduled.scop.statements:
            if statement.update is not None and statement.name in schedule.scheduled.below(loop):
                yield [("rfactor", (statement.name, loop), {}), last]
        for outer in nest[: nest.index(loop)]:
            wave: Attempt = [("skew", (loop, outer), {}), ("skew", (outer, loop), {})]
            yield [*wave, last]

    return variants


def _expanded(schedule: Any, loop: str) -> Attempt:
    """An element of its own for each iteration of ``loop``, of each temporary that allows it."""
    scheduled, inside = schedule.scheduled, set(schedule.scheduled.loop(loop).at)
    written = [w.tensor for s in scheduled.scop.statements if s.name in inside for w in s.writes]
    return [
        ("expand", (tensor, [loop]), {})
        for tensor in dict.fromkeys(written)
        if can_expand(scheduled, tensor, [loop])
    ]


def _skewed_first(
    method: str,
) -> Callable[[Any, Seq[Any], Mapping[str, Any]], Iterator[Attempt]]:
    """The same after skewing inner loops by outer ones."""

    def variants(schedule: Any, args: Seq[Any], kwargs: Mapping[str, Any]) -> Iterator[Attempt]:
        named = list(args[0] if args else next(iter(kwargs.values())))
        inside = [x.name for x in schedule.scheduled.loops() if x.name in named]
        last: Attempt = [(method, tuple(args), dict(kwargs))]
        for factor in (1, 2):
            for k, outer in enumerate(inside[:-1]):
                skews: Attempt = [("skew", (x, outer, factor), {}) for x in inside[k + 1 :]]
                yield from ([skew, *last] for skew in skews)
                if len(skews) > 1:
                    yield [*skews, *last]

    return variants


def _with_shift(schedule: Any, args: Seq[Any], kwargs: Mapping[str, Any]) -> Iterator[Attempt]:
    for shift in (1, -1, 2, -2, 3, 4):
        yield [("fuse", tuple(args), {**kwargs, "shift": shift})]


def _one_cut(schedule: Any, args: Seq[Any], kwargs: Mapping[str, Any]) -> Iterator[Attempt]:
    loop = str(args[0] if args else kwargs["loop"])
    for statement in schedule.scheduled.below(loop)[:-1]:
        yield [("distribute", (loop, statement), {})]


def _other_distance(schedule: Any, args: Seq[Any], kwargs: Mapping[str, Any]) -> Iterator[Attempt]:
    statement, loop = str(args[0]), str(args[1])
    for by in (1, -1, 2, -2):
        yield [("shift", (statement, loop, by), {})]


_VARIANTS: dict[str, Callable[[Any, Seq[Any], Mapping[str, Any]], Iterator[Attempt]]] = {
    "parallel": _other_loop("parallel"),
    "vectorize": _other_loop("vectorize"),
    "unroll_and_jam": _other_loop("unroll_and_jam"),
    "tile": _skewed_first("tile"),
    "reorder": _skewed_first("reorder"),
    "fuse": _with_shift,
    "distribute": _one_cut,
    "shift": _other_distance,
}
