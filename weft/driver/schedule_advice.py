"""What to do instead of a step that is refused: variants of it, tried out on the spot."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Sequence as Seq
from inspect import Signature, formatannotation, signature
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np

from weft.ir.errors import BudgetError, IllegalScheduleError
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
                made = getattr(type(made), name).proved(made, *arguments, **named)
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


# ---- Scripts of schedules, read without running them: ``s = s.tile({"i": 32})`` line by line.


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def calls(script: str, methods: Collection[str]) -> Iterator[Call]:
    """(method, arguments, named arguments) of each step of ``script``.

    The first assignment names the schedule, of whatever program; several steps may stand in one
    line, one behind the other; imports and print are left out. Raises ``IllegalScheduleError``
    (WEFT-E0018) for a line that is no step, and where nothing names a schedule.
    """
    return (call for _, call in placed_calls(script, methods))


def placed_calls(script: str, methods: Collection[str]) -> Iterator[tuple[str, Call]]:
    """``calls``, each with its place, ``line 2: s = s.unroll("k")``. Raises as they do."""
    try:
        lines = ast.parse(script).body
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        number = getattr(error, "lineno", None)
        _refuse(number, "it is no Python", script)
    name: str | None = None
    for line in lines:
        match line:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Call(ast.Name("print"))):
                continue
            case ast.Assign([ast.Name(target)], value) if name in (None, target):
                start, steps = _chain(value)
                begins = _is_start(start) if name is None else _is_name(start, name) and steps
                if begins:
                    name = target
                    for step, method in steps:
                        if method not in methods:
                            _refuse(line.lineno, f"there is no transformation {method!r}", script)
                        place = _place(step.func.end_lineno, script)
                        yield place, _call(line, method, step.args, step.keywords, script)
                    continue
        expected = "s = weft.schedule(…)" if name is None else f"{name} = {name}.step(…)"
        _refuse(line.lineno, f"expected {expected}", script)
    if name is None:
        _refuse(None, "it has no line s = weft.schedule(…)", script)


def _chain(value: ast.expr) -> tuple[ast.expr, list[tuple[ast.Call, str]]]:
    """What the calls of methods in ``value`` begin with, and these calls, the first one first."""
    steps: list[tuple[ast.Call, str]] = []
    while not _is_start(value):
        match value:
            case ast.Call(ast.Attribute(inner, method)):
                steps.append((value, method))
                value = inner
            case _:
                break
    return value, steps[::-1]


def _is_start(value: ast.expr) -> bool:
    """``weft.schedule(…)``, ``kernel.schedule()``, ``weft.schedules(…)["…"]`` or a variable."""
    match value:
        case ast.Call(ast.Attribute(_, "schedule") | ast.Name("schedule")) | ast.Name():
            return True
        case ast.Subscript(ast.Call(ast.Attribute(_, "schedules") | ast.Name("schedules"))):
            return True
    return isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)


def _is_name(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name


def _call(
    line: ast.stmt,
    method: str,
    args: list[ast.expr],
    keywords: list[ast.keyword],
    script: str,
) -> Call:
    try:
        values = tuple(ast.literal_eval(arg) for arg in args)
        named = {str(k.arg): ast.literal_eval(k.value) for k in keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        _refuse(line.lineno, "its arguments are no literals", script)
    return method, values, named


def _place(number: int | None, script: str) -> str:
    lines = script.split("\n") if isinstance(script, str) else []
    text = lines[number - 1].strip() if number and number <= len(lines) else ""
    return f"line {number}: {text}" if number else ""


def _refuse(number: int | None, why: str, script: str) -> NoReturn:
    raise IllegalScheduleError(
        "WEFT-E0018",
        "this is no script of a schedule",
        where=_place(number, script),
        why=why,
        hint="the text of a schedule, str(schedule), is one",
    )


# ---- Arguments of transformations, held against what their signatures say: users mistype.


class WrongArguments(TypeError):
    """What a step is called with does not fit its signature."""


LARGEST = 2**31  # of sizes, factors and shifts: two of them multiplied fit 64 bits


def checker(transformation: Callable[..., Any]) -> Callable[..., None]:
    """A function of the arguments of ``transformation`` (a schedule, then the user's own).

    It raises ``WrongArguments``, a ``TypeError`` with the signature, where they do not fit it, and
    ``IllegalScheduleError`` (WEFT-E0460) where one is of another type than declared.
    """
    declared, hints = signature(transformation), get_type_hints(transformation)
    texts: Mapping[str, object] = transformation.__annotations__
    own = [p.replace(annotation=p.empty) for p in list(declared.parameters.values())[1:]]
    shown = f"it takes {transformation.__name__}{Signature(own)}"

    def check(*args: Any, **kwargs: Any) -> None:
        try:
            bound = declared.bind(*args, **kwargs)
        except TypeError as error:
            raise WrongArguments(f"{transformation.__name__}: {error}; {shown}") from None
        for name, value in list(bound.arguments.items())[1:]:
            variable = declared.parameters[name].kind is declared.parameters[name].VAR_POSITIONAL
            what = f"{transformation.__name__}: {name} is {value!r}"
            kind = hints.get(name, object)  # users may leave types out
            if not all(_fits(v, kind) for v in (value if variable else (value,))):
                hint = f"{name}: {_described(texts[name], kind)}"
                raise IllegalScheduleError("WEFT-E0460", what, hint=hint)
            if any(abs(number) > LARGEST for number in _integers(value)):
                raise IllegalScheduleError("WEFT-E0460", what, hint="numbers up to 2**31")

    return check


def plain(value: Any) -> Any:
    """``value`` with Python's integers for NumPy's."""
    match value:
        case np.integer():
            return int(value)
        case tuple():
            return tuple(map(plain, value))
        case list():
            return list(map(plain, value))
        case dict():
            return {name: plain(each) for name, each in value.items()}
    return value


def _described(annotation: Any, hint: Any) -> str:
    """The declared type, and the values of its literals."""
    text = annotation if isinstance(annotation, str) else formatannotation(annotation)
    text = text.replace("Seq[", "Sequence[")
    words = ", ".join(f'"{word}"' for word in _literals(hint))
    return f"{text}; {words}" if words else text


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _integers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _integers(each)


def _literals(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for inner in get_args(hint) for word in _literals(inner))


def _fits(value: object, hint: Any) -> bool:
    """Whether ``value`` is of the type ``hint``, elements included. No text is a sequence."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(v, inner[0]) for v in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items()
        )
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is NoneType:
        return value is None
    return hint is Any or isinstance(value, origin or hint)
