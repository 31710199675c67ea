"""Quasi-affine expressions of several candidates at once: one shape, numbers in columns.

    i // 32,  i // 64    →   floor(i / [32 64])

``outline`` separates the shape of a program from its integers; candidates with the same shape are
read together, and each integer is then an array with an entry per candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.ir import dtypes
from weft.ir.errors import CompileError
from weft.ir.scalar_affine import Affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Var
from weft.ir.scalar_printer import scalar_text
from weft.ir.schedule_tree import Band, Leaf, Mark, RegisterTile, Tree, children
from weft.ir.scop import Scop

Array = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def unpriced(why: str, hint: str = "") -> CompileError:
    """The refusal of what has no price."""
    return CompileError("WEFT-E0480", "the program has no price", why=why, hint=hint)


@dataclass(slots=True)
class Outline:
    """The ``shape`` of something, hashable, and its ``numbers`` in the order of reading."""

    shape: list[object] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def add(self, expr: Expr) -> None:
        stack = [expr]
        while stack:
            node = stack.pop()
            if type(node) is Literal:
                self.shape.append(0)
                self.numbers.append(int(node.value))
            elif type(node) is Var:
                self.shape.append(node.name)
            elif type(node) is Apply:
                self.shape.append(node.op)
                stack += node.args
            else:
                self.shape.append(node)


def outline_of_tree(tree: Tree) -> Outline:
    """Loops and register tiles, but for the names of loops."""
    found = Outline()
    stack = [tree]
    while stack:
        node = stack.pop()
        match node:
            case Band(loops):
                found.shape.append(len(loops))
                for loop in loops:
                    found.shape.append(loop.kind)
                    for name, at in loop.at.items():
                        found.shape.append(name)
                        found.add(at)
            case Mark(RegisterTile() as tile):
                found.shape.append((len(tile.rows), id(tile.instruction)))
                found.numbers += (*tile.rows, tile.lanes)
            case Leaf(name):
                found.shape.append(name)
            case _:
                found.shape.append((type(node).__name__, len(children(node))))
        stack += reversed(children(node))
    return found


def outline_of_scop(scop: Scop) -> Outline:
    """Tensors, domains and accesses; bodies are the same where they are the same objects."""
    found = Outline()
    for tensor in scop.tensors:
        found.shape.append((tensor.name, tensor.dtype.name, tensor.role, tensor.scope))
        found.shape.append((tensor.contracted, len(tensor.shape)))
        for size in tensor.shape:
            found.add(size)
    for s in scop.statements:
        found.shape.append((s.name, s.dims, id(s.body), len(s.domain), len(s.writes), len(s.reads)))
        for constraint in s.domain:
            found.shape.append(constraint.equality)
            found.add(constraint.expr)
        for access in (*s.writes, *s.reads):
            found.shape.append(
                (access.tensor, access.may, len(access.indices), access.body_indices)
            )
            for index in access.indices:
                found.add(index)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """sum(linear) + sum(c * floor(form / d) for (c, form, d) in floors) + constant."""

    linear: Mapping[str, Array]
    floors: tuple[tuple[Array, Form, Array], ...]
    constant: Array

    def __add__(self, other: Form) -> Form:
        linear = dict(self.linear)
        for name, c in other.linear.items():
            linear[name] = linear[name] + c if name in linear else c
        return Form(linear, self.floors + other.floors, self.constant + other.constant)

    def scaled(self, factor: Array) -> Form:
        linear = {name: c * factor for name, c in self.linear.items()}
        floors = tuple((c * factor, form, d) for c, form, d in self.floors)
        return Form(linear, floors, self.constant * factor)

    def divided(self, divisor: Array) -> Form:
        if self.is_constant:
            return Form({}, (), np.floor(self.constant / divisor))
        return Form({}, ((np.ones(1), self, divisor),), np.zeros(1))

    @property
    def is_constant(self) -> bool:
        return not self.linear and not self.floors

    def slopes(self) -> dict[str, Array]:
        """How much the value changes with each variable on average, floors included."""
        found = dict(self.linear)
        for c, form, d in self.floors:
            for name, slope in form.slopes().items():
                found[name] = found.get(name, np.zeros(1)) + slope * c / d
        return found


ZERO, ONE = np.zeros(1), np.ones(1)


def total(arrays: Iterable[Array]) -> Array:
    """Their sum; 0 of none."""
    return sum(arrays, ZERO)


def constant_form(form: Affine, sizes: Mapping[str, int]) -> Form:
    """``form``, the same for all candidates."""
    found = Form({}, (), np.full(1, float(form.constant)))
    for term, c in form.terms:
        if isinstance(term, str):
            value = Form({}, (), np.full(1, float(sizes[term]))) if term in sizes else _plain(term)
        else:
            value = constant_form(term.numerator, sizes).divided(np.full(1, float(term.divisor)))
        found = found + value.scaled(np.full(1, float(c)))
    return found


def _plain(name: str) -> Form:
    return Form({name: np.ones(1)}, (), ZERO)


class Reader:
    """Reads expressions in the order of their outlines: ``numbers`` has a row per candidate."""

    def __init__(self, numbers: Array, sizes: Mapping[str, int]) -> None:
        self._numbers, self._at, self._sizes = numbers, 0, sizes

    def number(self) -> Array:
        self._at += 1
        found: Array = self._numbers[:, self._at - 1]
        return found

    def form(self, expr: Expr) -> Form:
        """Raises CompileError (WEFT-E0480) for what is not quasi-affine."""
        match expr:
            case Literal():
                return Form({}, (), self.number())
            case Var(name):
                if name in self._sizes:
                    return Form({}, (), np.full(1, float(self._sizes[name])))
                return _plain(name)
            case Apply(op, args):
                forms = [self.form(arg) for arg in reversed(args)][::-1]
                found = _applied(op, forms)
                if found is not None:
                    return found
        if expr.dtype != dtypes.int64:
            raise unpriced(f"{scalar_text(expr)} is data")
        raise unpriced(f"{scalar_text(expr)} is not quasi-affine")


def _applied(op: str, forms: list[Form]) -> Form | None:
    match op, forms:
        case "neg", [a]:
            return a.scaled(-np.ones(1))
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a + b.scaled(-np.ones(1))
        case "mul", [a, b] if a.is_constant:
            return b.scaled(a.constant)
        case "mul", [a, b] if b.is_constant:
            return a.scaled(b.constant)
        case "floordiv", [a, b] if b.is_constant and np.all(b.constant > 0):
            return a.divided(b.constant)
        case "mod", [a, b] if b.is_constant and np.all(b.constant > 0):
            return a + a.divided(b.constant).scaled(-b.constant)
        case (("min" | "max"), [a, b]) if a.is_constant and b.is_constant:
            choose = np.minimum if op == "min" else np.maximum
            return Form({}, (), choose(a.constant, b.constant))
    return None
