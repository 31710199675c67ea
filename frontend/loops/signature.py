"""The signature of a loop kernel: arrays with their sizes, scalars, integers that steer loops.

    def f(A: weft.f64["N", "N + 1"], x: weft.f32[3, "M"], alpha: weft.f64, steps: int)

A size is a number, or text: names, numbers, ``+ - * // %``. ``int`` and ``weft.i64`` without sizes
are parameters: they may stand in bounds and subscripts. Other types without sizes are scalars.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from weft.frontend.loops.functions import TYPES
from weft.frontend.loops.source import Source
from weft.ir import dtypes
from weft.ir.dtypes import ArrayType, DType
from weft.ir.scalar_expr import Expr, Var, apply, literal

Kind = Literal["array", "scalar", "parameter"]
SCALARS: dict[Any, DType] = {float: dtypes.float64, bool: dtypes.bool_, int: dtypes.int64}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    kind: Kind
    dtype: DType
    shape: tuple[Expr, ...] = ()
    node: ast.arg | None = None


def signature(source: Source) -> tuple[Argument, ...]:
    """The arguments of a kernel, in order. Raises ``KernelError`` (WEFT-E0161)."""
    args = source.tree.args
    for wrong in (args.vararg, args.kwarg, *args.kwonlyargs, *args.defaults):
        if wrong is not None:
            source.refuse(
                "E0161",
                wrong,
                f"{source.name} has arguments with a default, by keyword only, or starred",
                hint="a kernel takes plain arguments, each with its type",
            )
    return tuple(_argument(source, arg) for arg in (*args.posonlyargs, *args.args))


def _argument(source: Source, arg: ast.arg) -> Argument:
    # Python has evaluated the annotation, in a scope that may be gone, unless all are kept as text.
    evaluated = source.function.__annotations__.get(arg.arg)
    if arg.annotation is None and evaluated is None:
        _refuse(source, arg, f"argument {arg.arg} has no type")
    # Whoever makes a function may say what types its text leaves out.
    node = arg.annotation or ast.copy_location(ast.Name(arg.arg, ast.Load()), arg)
    if evaluated is None or isinstance(evaluated, str):
        kind = _annotation(source, node)
    else:
        kind = _evaluated(source, node, evaluated)
    if kind is None:
        _refuse(source, node, f"{source.code(node)} is no type of an argument")
    dtype, shape = kind
    if shape is not None:
        return Argument(arg.arg, "array", dtype, shape, arg)
    return Argument(arg.arg, "parameter" if dtype == dtypes.int64 else "scalar", dtype, (), arg)


def _refuse(source: Source, node: ast.AST, what: str) -> NoReturn:
    source.refuse(
        "E0161",
        node,
        what,
        hint='weft.f64["N", "M"] for an array, weft.f64 for a number, int for a size or a step',
    )


def _annotation(source: Source, node: ast.expr) -> tuple[DType, tuple[Expr, ...] | None] | None:
    """(dtype, sizes; None: a scalar)."""
    match node:
        case ast.Constant(str(text)):
            return _annotation(source, _parsed(source, node, text))
        case ast.Subscript(base, index):
            found = meaning(source, base)
            if not isinstance(found, DType):
                return None
            sizes = index.elts if isinstance(index, ast.Tuple) else [index]
            return found, tuple(_size(source, size) for size in sizes)
    return _evaluated(source, node, meaning(source, node))


def _evaluated(
    source: Source, node: ast.expr, found: Any
) -> tuple[DType, tuple[Expr, ...] | None] | None:
    """The same of an annotation that is the object ``found``."""
    if isinstance(found, ArrayType):
        sizes = [ast.copy_location(ast.Constant(size), node) for size in found.shape]
        return found.dtype, tuple(_size(source, size) for size in sizes)
    if isinstance(found, DType):
        return found, None
    if not isinstance(found, type):
        return None
    dtype = SCALARS.get(found) or TYPES.get(found)
    return None if dtype is None else (dtype, None)


def meaning(source: Source, node: ast.expr) -> Any:
    """The Python object that a name or ``module.name`` stands for; None where there is none."""
    match node:
        case ast.Name(name):
            return source.meaning(name)
        case ast.Attribute(inner, name):
            return getattr(meaning(source, inner), name, None)
    return None


def _parsed(source: Source, node: ast.expr, text: str) -> ast.expr:
    try:
        inner = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        source.refuse("E0161", node, f"{text!r} is neither a type nor a size")
    for part in ast.walk(inner):
        ast.copy_location(part, node)
    return inner


def _size(source: Source, node: ast.expr, *, quoted: bool = False) -> Expr:
    """A name is a size of its own in quotes, else a number of the module if it is that."""
    match node:
        case ast.Constant(bool()):
            pass
        case ast.Constant(int(value)) if 0 <= value < 1 << 63 or quoted:
            return literal(value)
        case ast.Constant(str(text)):
            return _size(source, _parsed(source, node, text), quoted=True)
        case ast.Name(name):
            known = None if quoted else source.meaning(name)
            if isinstance(known, int | np.integer) and not isinstance(known, bool):
                return literal(int(known))
            return Var(name)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            sides = (_size(source, side, quoted=quoted) for side in (left, right))
            return apply(_OPERATORS[type(op)], *sides)
    source.refuse(
        "E0161",
        node,
        f"{source.code(node)} is no size",
        hint='a number, or text of names and numbers with + - * // %: "2 * N + 1"',
    )
