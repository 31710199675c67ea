"""Scripts of schedules, read without running them: ``s = s.tile({"i": 32})`` line by line."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from weft.errors import IllegalScheduleError

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def calls(script: str, methods: Collection[str]) -> Iterator[Call]:
    """(method, arguments, named arguments) of each step of ``script``.

    The first assignment names the schedule, whatever it says; imports and print are left out.
    Raises ``IllegalScheduleError`` (WEFT-E0018) for a line that is no step.
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
            case ast.Assign([ast.Name(target)]) if name is None:
                name = target
            case ast.Assign(
                [ast.Name(target)],
                ast.Call(ast.Attribute(ast.Name(of), method), args, keywords),
            ) if target == of == name:
                if method not in methods:
                    _refuse(line.lineno, f"there is no transformation {method!r}", script)
                yield _call(line, method, args, keywords, script)
            case _:
                _refuse(line.lineno, f"expected {name or 's'} = {name or 's'}.step(…)", script)


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
