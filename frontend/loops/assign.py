"""Assignments: which variable or element, which dtype, and whether it folds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.frontend.loops.builder import Assignment, Place, ScopBuilder
from weft.frontend.loops.expressions import Expressions
from weft.frontend.loops.folding import folding, is_sure
from weft.frontend.loops.frame import Frame, Knowledge, Restart, Variable
from weft.frontend.loops.functions import FILLS, TYPES
from weft.frontend.loops.loop_range import affine_cases
from weft.frontend.loops.signature import SCALARS, meaning
from weft.frontend.loops.source import located
from weft.frontend.loops.values import (
    Free,
    Scalar,
    Value,
    View,
    convert,
    is_pure,
)
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.scalar_affine import to_expr
from weft.ir.scalar_expr import Cast, Expr, Literal, Load, Var, literal
from weft.ir.scop import Constraint


class Assigner:
    """Performs the assignments of one kernel."""

    def __init__(self, builder: ScopBuilder, knowledge: Knowledge) -> None:
        self.builder, self.knowledge = builder, knowledge

    def assign(
        self, target: ast.expr, value: Value, frame: Frame, place: Place, node: ast.stmt
    ) -> None:
        """``target = value``, one target."""
        match target:
            case ast.Name(name):
                self._name(name, value, frame, place, node)
            case ast.Subscript():
                self._element(target, value, frame, place, node)
            case _:
                frame.source.refuse(
                    "E0162", target, f"{frame.source.code(target)} cannot be assigned to"
                )

    def together(
        self,
        targets: Sequence[ast.expr],
        values: Sequence[Scalar],
        frame: Frame,
        place: Place,
        node: ast.stmt,
    ) -> None:
        """``a, b = x, y``: everything on the right is evaluated before anything is assigned."""
        held = [
            Scalar(self.builder.held(v.expr, place, frame.source, node), v.weak) for v in values
        ]
        for target, value in zip(targets, held, strict=True):
            self.assign(target, value, frame, place, node)

    # ---- variables ----------------------------------------------------------------------------

    def _name(self, name: str, value: Value, frame: Frame, place: Place, node: ast.stmt) -> None:
        if name in frame.fixed:
            frame.source.refuse(
                "E0171",
                node,
                f"{name} cannot be assigned: it is {frame.fixed[name]}",
                hint=f"use another name; {name}[…] = … changes the elements of an array",
            )
        if isinstance(value, Scalar):
            if frame.key(name) in self.knowledge.in_memory or not _is_plain(value):
                self._store(name, value, frame, place, node)
            else:
                frame.env[name] = value
        elif isinstance(value, View):
            frame.env[name] = self.builder.settled(value, place, frame.source, node)
        else:
            frame.source.refuse("E0162", node, f"a {type(value).__name__} cannot be assigned")

    def _store(self, name: str, value: Scalar, frame: Frame, place: Place, node: ast.stmt) -> None:
        """``name``, a variable in memory, := ``value``."""
        self._learn(name, value, frame, node)
        variable = self.variable(name, frame)
        frame.env[name] = variable
        target = variable.view.element
        expr = _converted(value, target.dtype, frame, node)
        if place.guard is not None and is_sure(expr) and frame.source.begins(name, node):
            place = replace(place, guard=None)  # where it is false, nobody reads the variable
        self.builder.emit(place, [_folding(target, expr)], frame.source, node)

    def declare(self, name: str, dtype: DType, frame: Frame) -> None:
        """``name: weft.f32 = …``: a variable in memory, of that dtype."""
        key = frame.key(name)
        self.knowledge.in_memory.add(key)
        if self.knowledge.kinds.get(key) != (dtype, False):
            self.knowledge.kinds[key] = (dtype, False)
            if name in frame.variables:
                raise Restart

    def variable(self, name: str, frame: Frame) -> Variable:
        """The tensor without dimensions that holds ``name``."""
        if name not in frame.variables:
            dtype, weak = self.knowledge.kinds.get(frame.key(name), (dtypes.int64, True))
            tensor = self.builder.tensor(name, (), dtype, "temp")
            frame.variables[name] = Variable(View(tensor, (), dtype), weak)
        return frame.variables[name]

    def _learn(self, name: str, value: Scalar, frame: Frame, node: ast.stmt) -> None:
        """Widen the kind of ``name`` to hold ``value``; ``Restart`` if it was used as another."""
        key = frame.key(name)
        known = self.knowledge.kinds.get(key)
        kind = (value.dtype, value.weak) if known is None else _joined(known, value)
        if kind != known:
            self.knowledge.kinds[key] = kind
            if name in frame.variables:
                raise Restart

    # ---- elements -----------------------------------------------------------------------------

    def _element(
        self, target: ast.Subscript, value: Value, frame: Frame, place: Place, node: ast.stmt
    ) -> None:
        expressions = Expressions(frame, self.knowledge)
        view = expressions.view(target, expressions.value(target.value), target.slice)
        if isinstance(value, View):
            frame.source.refuse(
                "E0170",
                node,
                "a kernel assigns elements, not whole arrays",
                hint=_loop_instead(frame, target, len(view.shape)),
            )
        if not isinstance(value, Scalar):
            frame.source.refuse("E0162", node, f"a {type(value).__name__} cannot be assigned")
        expr = _converted(value, view.dtype, frame, node)
        if view.shape:
            expr = self.builder.held(expr, place, frame.source, node)
            view = self.builder.settled(view, place, frame.source, node)
        self.fill(view, expr, frame, place, node)

    def fill(self, view: View, expr: Expr, frame: Frame, place: Place, node: ast.stmt) -> None:
        """Every element of ``view`` := ``expr``."""
        for number, size in enumerate(view.shape):
            dim = self.builder.fresh(f"i{number}")
            bounds = (Constraint(Var(dim)), Constraint(size - 1 - Var(dim)))
            place = place.inside(dim, bounds)
            rest = [Free(literal(0), length) for length in view.shape[1:]]
            view = view.at((Var(dim), *rest))
        self.builder.emit(place, [_folding(view.element, expr)], frame.source, node)


def _is_plain(value: Scalar) -> bool:
    """Whether ``value`` is a number or index arithmetic: cheaper computed again than stored."""
    expr = value.expr
    if isinstance(expr, Cast) and expr.dtype.is_float:
        expr = expr.arg
    if isinstance(expr, Literal):
        return True
    return is_pure(expr) and expr.dtype == dtypes.int64


def _joined(known: tuple[DType, bool], value: Scalar) -> tuple[DType, bool]:
    dtype, weak = known
    if not weak:
        return known  # what does not fit is refused when it is converted
    if value.weak:
        return (value.dtype if value.dtype.is_float else dtype), True
    if dtype.is_float and not value.dtype.is_float:
        return known
    return value.dtype, False


def _converted(value: Scalar, dtype: DType, frame: Frame, node: ast.stmt) -> Expr:
    with located(frame.source, node):
        return convert(value, dtype)


def _folding(target: Load, value: Expr) -> Assignment:
    """``target := value``; as a fold where ``value`` is ``target`` combined with something else."""
    return Assignment(target, *folding(target, value))


def _loop_instead(frame: Frame, target: ast.Subscript, rank: int) -> str:
    names = ", ".join("ijklmn"[:rank]) or "i"
    array = frame.source.code(target.value)
    loops = " ".join(
        f"for {n} in range({array}.shape[{k}]):" for k, n in enumerate("ijklmn"[:rank])
    )
    return f"write the loop: {loops} {array}[{names}] = …"


# ---- ``tmp = weft.zeros((N, M), weft.f64)``: arrays that live as long as the kernel runs.


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
