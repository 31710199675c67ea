"""Scripts of schedules, read without running them: ``s = s.tile({"i": 32})`` line by line."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from weft.errors import IllegalScheduleError

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def calls(script: str, methods: Collection[str]) -> Iterator[Call]:
    """(method, arguments, named arguments) of each step of ``script``.

    The first assignment names the schedule, of whatever program; several steps may stand in one
    line, one behind the other; imports and print are left out. Raises ``IllegalScheduleError``
    (WEFT-E0018) for a line that is no step, and where nothing names a schedule.
    """
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
                        yield _call(line, method, step.args, step.keywords, script)
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


def _refuse(number: int | None, why: str, script: str) -> NoReturn:
    lines = script.splitlines() if isinstance(script, str) else []
    text = lines[number - 1].strip() if number and number <= len(lines) else ""
    raise IllegalScheduleError(
        "WEFT-E0018",
        "this is no script of a schedule",
        where=f"line {number}: {text}" if number else "",
        why=why,
        hint="the text of a schedule, str(schedule), is one",
    )
