"""Index expressions and constraints from text, as they are printed: ``2*i - j // 4``, ``i < n``."""

from __future__ import annotations

import ast

from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Constraint

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
        case ast.BinOp(_, ast.FloorDiv() | ast.Mod(), ast.Constant(0)):
            raise ValueError(f"{ast.unparse(node)!r} divides by zero")
        case ast.BinOp(left, ast.FloorDiv(), right):
            return _expr(left) // _expr(right)
        case ast.BinOp(left, ast.Mod(), right):
            return _expr(left) % _expr(right)
    raise ValueError(f"{ast.unparse(node)!r} is no index expression")
