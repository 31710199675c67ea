"""Expressions of loop IR in isl's words; None for what isl does not know.

What is not quasi-affine has no text: a product of variables, an element of a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.ir.scalar_expr import Apply, Expr, Literal, Select, Var, literal
from weft.ir.scalar_expr import walk as walk_expr

Names = Callable[[str], str | None]  # isl's words for a variable
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "!="}


def sides(bound: Expr, op: str) -> list[Expr]:
    """The operands of nested ``op``s at the root of ``bound``."""
    match bound:
        case Apply(name, (left, right)) if name == op:
            return [*sides(left, op), *sides(right, op)]
    return [bound]


def below_text(var: str, count: Expr, names: Names) -> str | None:
    """The condition that isl's ``var``, which is not negative, is below ``count``: a minimum, or
    none where a condition does not hold; None where that is not quasi-affine."""
    found: list[str | None] = []
    if isinstance(count, Select) and count.if_false == literal(0):
        found.append(condition_texts(count.condition, names)[0])
        count = count.if_true
    if isinstance(count, Apply) and count.op == "max" and count.args[1] == literal(0):
        count = count.args[0]  # fewer than none are none
    for side in sides(count, "min"):
        most = affine_text(side, names)
        found.append(None if most is None else f"{var} < {most}")
    known = [text for text in found if text is not None]
    return " and ".join(known) if len(known) == len(found) else None


def affine_text(expr: Expr, names: Names) -> str | None:
    """``expr``, a quasi-affine one; ``names``: what variables are called."""
    texts: dict[int, str | None] = {}
    for node in walk_expr(expr):
        texts[id(node)] = _term(node, [texts[id(child)] for child in node.children], names)
    return texts[id(expr)]


def _term(node: Expr, parts: Sequence[str | None], names: Names) -> str | None:
    match node:
        case Var(name):
            return names(name)
        case Literal(value, dtype) if dtype.is_integer:
            return str(int(value))
    if not isinstance(node, Apply) or any(part is None for part in parts):
        return None
    match node.op, node.args:
        case "add", _:
            return f"({parts[0]} + {parts[1]})"
        case "sub", _:
            return f"({parts[0]} - {parts[1]})"
        case "neg", _:
            return f"(-{parts[0]})"
        case "mul", (Literal(), _) | (_, Literal()):
            return f"({parts[0]} * {parts[1]})"
        case "floordiv", (_, Literal(divisor)) if divisor > 0:
            return f"floor({parts[0]} / {int(divisor)})"
        case "mod", (_, Literal(divisor)) if divisor > 0:
            return f"({parts[0]} mod {int(divisor)})"
        case ("min" | "max") as op, _:
            return f"{op}({parts[0]}, {parts[1]})"
    return None


def condition_text(expr: Expr, names: Names) -> str | None:
    """``expr``, a condition on quasi-affine expressions."""
    texts: dict[int, str | None] = {}
    for node in walk_expr(expr):
        children_ = [texts[id(child)] for child in node.children if id(child) in texts]
        texts[id(node)] = _test(node, children_, names)
    return texts[id(expr)]


def condition_texts(expr: Expr, names: Names) -> tuple[str | None, str | None]:
    """``expr``, and that it does not hold."""
    return condition_text(expr, names), condition_text(~expr, names)


def _test(node: Expr, parts: Sequence[str | None], names: Names) -> str | None:
    match node:
        case Literal(bool() as value):
            return "true" if value else "false"
        case Apply("lt" | "le" as op, (left, Apply("min", (one, two)))):
            both = Apply(op, (left, one)), Apply(op, (left, two))  # no disjunction
            tests = [_test(part, (), names) for part in both]
            return None if None in tests else f"({tests[0]} and {tests[1]})"
        case Apply(op, (left, right)) if op in _COMPARED:
            sides = affine_text(left, names), affine_text(right, names)
            return None if None in sides else f"({sides[0]} {_COMPARED[op]} {sides[1]})"
        case Apply("and" | "or" as op, _) if None not in parts:
            return f"({parts[0]} {op} {parts[1]})"
        case Apply("not", _) if None not in parts:
            return f"(not {parts[0]})"
    return None
