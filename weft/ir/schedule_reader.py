"""Schedule trees from their text, as ``schedule_printer`` writes it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NoReturn

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.schedule_tree import (
    Band,
    Kind,
    Leaf,
    Loop,
    Mark,
    RegisterTile,
    Sequence,
    Tree,
    statements_below,
)
from weft.ir.scop import Constraint

DEEPEST = 64  # loops and sequences inside each other
_FOR = re.compile(r"for (\w+) = (.*?)(?:    (parallel|vector|unrolled|grid|block))?")


def read_schedule(text: str) -> Tree:
    """The tree that ``print_schedule`` prints as ``text``; each loop a band of its own.

    Blank lines count for nothing, and the first line says where the margin is. Raises
    ``IllegalScheduleError`` (WEFT-E0478) with the line that cannot be read.
    """
    lines = [
        _Line(number, len(line) - len(line.lstrip(" ")), line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        _refuse(_Line(1, 0, ""), "there is no loop and no statement")
    reader = _Reader(lines)
    tree = reader.node(lines[0].indent, 0)
    if reader.place < len(lines):
        _refuse(lines[reader.place], "it is not inside anything")
    return tree


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


@dataclass(slots=True)
class _Reader:
    lines: list[_Line]
    place: int = 0

    def node(self, indent: int, depth: int) -> Tree:
        line = self.lines[self.place]
        if line.indent != indent or depth > DEEPEST:
            _refuse(line, "it is not indented by two more than what it is in")
        self.place += 1
        if line.text == "sequence":
            parts = []
            while self.place < len(self.lines) and self.lines[self.place].indent > indent:
                parts.append(self.node(indent + 2, depth + 1))
            return Sequence(tuple(parts))
        if line.text.startswith(("for ", "mark ")):
            if self.place == len(self.lines):
                _refuse(line, "nothing is inside")
            child = self.node(indent + 2, depth + 1)
            if line.text.startswith("mark "):
                return Mark(_payload(line), child)
            return Band((_loop(line, statements_below(child)),), child)
        return Leaf(line.text)


def _loop(line: _Line, inside: tuple[str, ...]) -> Loop:
    match = _FOR.fullmatch(line.text)
    if match is None:
        _refuse(line, "expected: for name = value")
    name, value, kind = match.groups()
    try:
        at = _values(value) if value.startswith("{") else dict.fromkeys(inside, parse_index(value))
    except ValueError as error:
        _refuse(line, str(error))
    found: Kind = kind or "serial"  # type: ignore[assignment]
    return Loop(name, at, found)


def _values(text: str) -> dict[str, Expr]:
    """``{conv: y, pool: 2*y}``: statements are no expressions, whatever they are called."""
    pairs = [part.split(": ", 1) for part in text[1:-1].split(", ")]
    if not text.endswith("}") or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{text!r} does not give each statement its value")
    return {statement: parse_index(value) for statement, value in pairs}


def _payload(line: _Line) -> RegisterTile:
    text = line.text.removeprefix("mark ")
    try:
        match ast.parse(text, mode="eval").body:
            case ast.Call(ast.Name("RegisterTile"), [], keywords):
                given = {k.arg: ast.literal_eval(k.value) for k in keywords}
                if "instruction" in given:
                    _refuse(line, "tiles that an instruction computes are automatic()'s to choose")
                ahead, shared = given.pop("ahead", 0), given.pop("shared", False)
                match (given, ahead, shared):
                    case ({"rows": rows, "lanes": int(lanes), **rest}, int(), bool()):
                        if not rest and all(isinstance(row, int) for row in rows):
                            return RegisterTile(tuple(rows), lanes, ahead=ahead, shared=shared)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    _refuse(line, "no such mark is known: RegisterTile(rows=(8,), lanes=24)")


def _refuse(line: _Line, why: str) -> NoReturn:
    raise IllegalScheduleError(
        "WEFT-E0478",
        "this is no schedule tree",
        where=f"line {line.number}: {line.text}",
        why=why,
        hint="s.tree_text() prints one",
    )


# ---- Index expressions and constraints from text, as they are printed: ``2*i - j // 4``, ``i <
# n``.


LONGEST = 2000  # characters of one expression


def parse_index(text: str) -> Expr:
    """The quasi-affine expression ``text``: names, integers, ``+ - * // %``.

    Raises ``ValueError`` where it is none.
    """
    return _converted(_parsed(text))


def parse_constraint(text: str) -> Constraint:
    """``text``, two expressions compared by ``< <= > >= ==``. Raises ``ValueError``."""
    match _parsed(text):
        case ast.Compare(left, [op], [right]):
            a, b = _converted(left), _converted(right)
        case _:
            raise ValueError(f"{text!r} is no comparison")
    match op:
        case ast.Lt():
            return Constraint(b - a - 1)
        case ast.LtE():
            return Constraint(b - a)
        case ast.Gt():
            return Constraint(a - b - 1)
        case ast.GtE():
            return Constraint(a - b)
        case ast.Eq():
            return Constraint(a - b, equality=True)
    raise ValueError(f"{text!r} is no comparison")


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ValueError("it is too long")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is no expression") from None


def _converted(node: ast.expr) -> Expr:
    try:
        return _expr(node)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _expr(node: ast.expr) -> Expr:
    match node:
        case ast.Name(name):
            return Var(name)
        case ast.Constant(int() as value) if not isinstance(value, bool):
            return literal(value)
        case ast.UnaryOp(ast.USub(), operand):
            return literal(0) - _expr(operand)
        case ast.BinOp(left, ast.Add(), right):
            return _expr(left) + _expr(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _expr(left) - _expr(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _expr(left) * _expr(right)
        case ast.BinOp(left, ast.FloorDiv(), right):
            return _expr(left) // _expr(right)
        case ast.BinOp(left, ast.Mod(), right):
            return _expr(left) % _expr(right)
    raise ValueError(f"{ast.unparse(node)!r} is no index expression")
