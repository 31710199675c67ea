"""Scalar expressions as text, in infix notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var
from weft.ir.scalar_paths import operands, walk_scalar

# operator -> (symbol, how tightly it binds); as in Python
_INFIX = {
    "eq": ("==", 1), "ne": ("!=", 1), "lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1),
    "ge": (">=", 1), "or": ("|", 2), "xor": ("^", 3), "and": ("&", 4), "shl": ("<<", 5),
    "shr": (">>", 5), "add": ("+", 6), "sub": ("-", 6), "mul": ("*", 7), "div": ("/", 7),
    "floordiv": ("//", 7), "mod": ("%", 7), "pow": ("**", 9),
}  # fmt: skip
_PREFIX = {"neg": ("-", 8), "not": ("~", 8)}  # ``or`` binds with -1, ``and`` with 0
_ATOM = 10
_TYPED = re.compile(r"\b\w*(?:float|int)\d\w*\((-?[\d.e+-]+|-?inf|nan)\)")
_LONG = 40  # characters from which a shared part gets a name

Text = tuple[str, int]  # and how tightly its outermost operator binds


def scalar_text(
    expr: Expr,
    source: Callable[[Hashable], str] = str,
    extend: Callable[[Expr], str] | None = None,
) -> str:
    """``expr`` on one line; ``x * y + 1.0``, ``a[i, j]``, ``select(i < n, a, b)``, ``p and q``.

    ``source`` names what a load reads, ``extend`` prints nodes that are no scalar expressions.
    Long parts that occur more than once come first: ``let t0 = …; … in …``.
    """
    uses: dict[int, int] = {}
    order = list(walk_scalar(expr))
    for node in order:
        for child in operands(node):
            uses[id(child)] = uses.get(id(child), 0) + 1
    taken = {node.name for node in order if isinstance(node, Var)}
    names = (name for n in range(len(order) * 2) if (name := f"t{n}") not in taken)
    lets: list[str] = []
    texts: dict[int, Text] = {}
    for node in order:
        text = _text(node, [texts[id(child)] for child in operands(node)], source, extend)
        if uses.get(id(node), 0) > 1 and len(text[0]) > _LONG:
            name = next(names)
            lets.append(f"{name} = {text[0]}")
            text = (name, _ATOM)
        texts[id(node)] = text
    result = texts[id(expr)][0]
    return f"let {'; '.join(lets)} in {result}" if lets else result


def python_text(expr: Expr) -> str:
    """``expr`` as Python text, without the dtypes of numbers and the brackets of scalars."""
    return _TYPED.sub(r"\1", scalar_text(expr)).replace("[]", "")


def _text(
    node: Expr,
    parts: list[Text],
    source: Callable[[Hashable], str],
    extend: Callable[[Expr], str] | None,
) -> Text:
    plain = [text for text, _ in parts]
    match node:
        case Literal():
            return _literal(node)
        case Var(name):
            return name, _ATOM
        case Load(tensor):
            return f"{source(tensor)}[{', '.join(plain)}]", _ATOM
        case Apply(op) if op in _INFIX:
            symbol, level = _INFIX[op]
            left = _inside(parts[0], level + (1 if op == "pow" or level == 1 else 0))
            return f"{left} {symbol} {_inside(parts[1], level + 1)}", level
        case Apply(op) if op in _PREFIX:
            symbol, level = _PREFIX[op]
            return f"{symbol}{_inside(parts[0], level)}", level
        case Apply(op):
            return f"{op}({', '.join(plain)})", _ATOM
        case Cast(_, dtype, saturate):
            rest = "" if saturate or dtype.bits > 8 or not dtype.is_float else ", saturate=False"
            return f"{dtype}({plain[0]}{rest})", _ATOM
        case Bitcast(_, dtype):
            return f"bitcast({plain[0]}, {dtype})", _ATOM
        case Select(_, _, Literal(False, dtypes.bool_)):
            return f"{_inside(parts[0], 0)} and {_inside(parts[1], 1)}", 0
        case Select(_, Literal(True, dtypes.bool_), _):
            return f"{_inside(parts[0], -1)} or {_inside(parts[2], 0)}", -1
        case Select():
            return f"select({', '.join(plain)})", _ATOM
    return (extend(node) if extend else f"<{type(node).__name__}>"), _ATOM


def _literal(node: Literal) -> Text:
    if node.dtype == dtypes.bool_:
        return str(bool(node.value)), _ATOM
    text = repr(float(node.value) if node.dtype.is_float else int(node.value))
    if node.dtype not in (dtypes.int64, dtypes.float32):
        return f"{node.dtype}({text})", _ATOM
    return text, 8 if text.startswith("-") else _ATOM


def _inside(part: Text, level: int) -> str:
    text, own = part
    return f"({text})" if own < level else text
