"""Python loops → Scops without the frontend: ``for v in range(lo, hi)``, ``if``, assignments.

Readers differ in what they make of an assignment (``LoopReader.add``).
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count

from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Access, Constraint, Statement


class LoopReader(ABC):
    def __init__(self, tensors: set[str]) -> None:
        self.tensors = tensors
        self.statements: list[Statement] = []

    @abstractmethod
    def add(
        self,
        target: ast.expr,
        value: ast.expr,
        fold: ast.Add | ast.Sub | None,
        dims: tuple[str, ...],
        domain: tuple[Constraint, ...],
        position: tuple[int | str, ...],
    ) -> None:
        """``target = value``; ``target += value`` or ``target -= value`` where there is a fold."""

    def block(
        self,
        body: list[ast.stmt],
        dims: tuple[str, ...] = (),
        domain: tuple[Constraint, ...] = (),
        above: tuple[int | str, ...] = (),
        places: Iterator[int] | None = None,
    ) -> None:
        places = places or count()
        for node in body:
            if isinstance(node, ast.If):
                assert isinstance(node.test, ast.Compare)
                inside = (*domain, condition(node.test))
                self.block(node.body, dims, inside, above, places)
                continue
            place = next(places)
            match node:
                case ast.For(ast.Name(v), ast.Call(_, limits), inner):
                    low, high = ([ast.Constant(0), *limits])[-2:]
                    limit = (Constraint(Var(v) - expr(low)), Constraint(expr(high) - 1 - Var(v)))
                    self.block(inner, (*dims, v), (*domain, *limit), (*above, place, v))
                case ast.Assign([target], value):
                    self.add(target, value, None, dims, domain, (*above, place))
                case ast.AugAssign(target, ast.Add() | ast.Sub() as fold, value):
                    self.add(target, value, fold, dims, domain, (*above, place))
                case ast.AugAssign(target, op, value):
                    both = ast.BinOp(target, op, value)
                    self.add(target, both, None, dims, domain, (*above, place))
                case _:
                    raise AssertionError(ast.dump(node))

    def access(self, node: ast.expr) -> Access:
        match node:
            case ast.Name(tensor):
                return Access(tensor, ())
            case ast.Subscript(ast.Name(tensor), ast.Tuple(indices)):
                return Access(tensor, tuple(map(expr, indices)))
            case ast.Subscript(ast.Name(tensor), index):
                return Access(tensor, (expr(index),))
        raise AssertionError(ast.dump(node))


def variables(value: Expr) -> list[Expr]:
    return [value] if isinstance(value, Var) else [v for c in value.children for v in variables(c)]


def condition(test: ast.Compare) -> Constraint:
    left, right = expr(test.left), expr(test.comparators[0])
    match test.ops[0]:
        case ast.Lt():
            return Constraint(right - 1 - left)
        case ast.LtE():
            return Constraint(right - left)
        case ast.Gt():
            return Constraint(left - 1 - right)
        case ast.GtE():
            return Constraint(left - right)
        case ast.Eq():
            return Constraint(left - right, equality=True)
    raise AssertionError(ast.dump(test))


def expr(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(int(value)):
            return literal(value)
        case ast.Name(name):
            return Var(name)
        case ast.UnaryOp(ast.USub(), operand):
            return -expr(operand)
        case ast.BinOp(left, op, right):
            a, b = expr(left), expr(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
    raise AssertionError(ast.dump(node))
