"""``tmp = weft.zeros((N, M), weft.f64)``: arrays that live as long as the kernel runs."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from weft import dtypes
from weft.dtypes import DType
from weft.frontend.loops.arrays import FILLS
from weft.frontend.loops.builder import ScopBuilder
from weft.frontend.loops.expressions import Expressions
from weft.frontend.loops.functions import TYPES
from weft.frontend.loops.loop_range import affine_cases
from weft.frontend.loops.signature import SCALARS, meaning
from weft.frontend.loops.values import Scalar
from weft.frontend.scalar_affine import to_expr
from weft.frontend.scalar_expr import Expr


@dataclass(frozen=True, slots=True)
class NewArray:
    """``fill``: what every element is at first; None: nothing yet."""

    shape: tuple[Expr, ...]
    dtype: DType
    fill: int | None


def new_array(node: ast.expr, expressions: Expressions, builder: ScopBuilder) -> NewArray | None:
    """The array that ``node`` makes, None where it makes none.

    Raises ``KernelError`` (WEFT-E0163; E0164: a size that is not one number for the whole run).
    """
    source = expressions.source
    function = meaning(source, node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not _is_known(function):
        return None
    given = dict(zip(("shape", "dtype"), node.args, strict=False))
    given |= {keyword.arg or "": keyword.value for keyword in node.keywords}
    shape = given.pop("shape", None)
    dtype = dtype_of(expressions, given.pop("dtype", None))
    if shape is None or dtype is None or given or len(node.args) > 2:
        source.refuse(
            "E0163",
            node,
            f"{source.code(node)}: an array needs a shape and a dtype",
            hint="weft.zeros((N, M), weft.f64)",
        )
    return NewArray(_shape(shape, expressions, builder), dtype, FILLS[function])


def _is_known(function: Any) -> bool:
    try:
        return function in FILLS
    except TypeError:  # what cannot be hashed is none of them
        return False


def dtype_of(expressions: Expressions, node: ast.expr | None) -> DType | None:
    """The dtype that ``node`` names, float64 where there is none."""
    if node is None:
        return dtypes.float64
    found = meaning(expressions.source, node)
    if isinstance(found, DType):
        return found
    return SCALARS.get(found) or TYPES.get(found) if isinstance(found, type) else None


def _shape(node: ast.expr, expressions: Expressions, builder: ScopBuilder) -> tuple[Expr, ...]:
    many = isinstance(node, ast.Tuple | ast.List)
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    found = None if many else expressions.value(node)
    if isinstance(found, tuple) and all(isinstance(size, Scalar) for size in found):
        return tuple(_size(size.expr, node, expressions, builder) for size in found)
    return tuple(_size(expressions.index(part), part, expressions, builder) for part in parts)


def _size(expr: Expr, node: ast.expr, expressions: Expressions, builder: ScopBuilder) -> Expr:
    forms = affine_cases(expr, node, expressions, builder, "the size of an array")
    if len(forms) > 1 or not forms[0][1].variables() <= set(builder.parameters):
        code = expressions.source.code(node)
        expressions.source.refuse(
            "E0164",
            node,
            f"the size {code} is not one number for the whole run",
            hint="declare the array before the loops, with the largest size",
        )
    return to_expr(forms[0][1])
