"""Python expressions in a loop kernel → scalar expressions over the elements of its tensors."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from weft.frontend.loops.frame import Frame, Knowledge, plain
from weft.frontend.loops.functions import FUNCTIONS, OPERATORS, TYPES, call_operator
from weft.frontend.loops.source import located
from weft.frontend.loops.values import (
    Free,
    Scalar,
    Value,
    View,
    cast_folded,
    choose,
    combine,
    loads,
    number,
)
from weft.ir import dtypes, scalar_expr
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, Literal, cast, literal, select

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_FALSE, _TRUE = literal(False, dtypes.bool_), literal(True, dtypes.bool_)
_UNKNOWN: dict[type[ast.expr], tuple[str, str]] = {  # what Python calls it, and what to write
    ast.Dict: ("a dictionary", "an array argument"),
    ast.Set: ("a set", "an array argument"),
    ast.List: ("a list", "an array: weft.zeros((N, 3)); or a tuple: a, b = 1.0, 2.0"),
    ast.ListComp: ("a comprehension", "an array of its own, weft.empty(N), and a loop"),
    ast.GeneratorExp: ("a comprehension", "a loop that adds up: s += …"),
    ast.Lambda: ("a lambda", "a function of one return expression outside the kernel"),
    ast.JoinedStr: ("text", "numbers: texts have no use in a kernel"),
    ast.NamedExpr: ("an assignment within an expression", "an assignment before it"),
    ast.Yield: ("a generator's", "an array argument that the kernel writes"),
    ast.Await: ("a coroutine's", "a plain call"),
    ast.Starred: ("a starred expression", "its parts, one by one"),
}


class Expressions:
    """Evaluates the expressions of one function where its names stand for ``frame``'s values.

    Everything raises ``KernelError`` (WEFT-E0163: what expressions cannot be; E0165: names; E0166:
    dtypes; E0167: subscripts) at the place of the smallest part that is wrong.
    """

    def __init__(self, frame: Frame, knowledge: Knowledge) -> None:
        self.frame, self.knowledge = frame, knowledge
        self.source = frame.source

    def value(self, node: ast.expr) -> Value:
        with located(self.source, node):
            return self._value(node)

    def scalar(self, node: ast.expr) -> Scalar:
        """The number that ``node`` is."""
        value = self.value(node)
        if isinstance(value, Scalar):
            return value
        if isinstance(value, View):
            self.source.refuse(
                "E0163",
                node,
                f"{self.source.code(node)} is an array of {len(value.shape)} dimensions where a"
                " number is needed",
                hint="write the loops over its elements",
            )
        self.source.refuse("E0163", node, f"a {type(value).__name__} is no number")

    def index(self, node: ast.expr) -> Expr:
        """The integer that ``node`` is, as int64."""
        value = self.scalar(node)
        if not value.dtype.is_integer:
            self.source.refuse(
                "E0167",
                node,
                f"{self.source.code(node)} is {value.dtype} where an integer is needed",
                hint="int(…) rounds towards zero",
            )
        return cast(value.expr, dtypes.int64)

    def truth(self, node: ast.expr) -> Expr:
        """``node`` as a condition."""
        if isinstance(node, ast.BoolOp):
            return self._logical(isinstance(node.op, ast.And), node.values)
        value = self.scalar(node)
        return value.expr if value.dtype == dtypes.bool_ else cast(value.expr, dtypes.bool_)

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value) if isinstance(value, int | float):
                return number(value)
            case ast.Name(name):
                return self.frame.read(name, node, self.knowledge)
            case ast.Attribute(inner, name):
                return self._attribute(node, self.value(inner), name)
            case ast.Subscript(inner, index):
                return self._subscript(node, self.value(inner), index)
            case ast.Tuple(elements):
                return tuple(self.value(e) for e in elements)
            case ast.BinOp():
                return self._chain(node)
            case ast.UnaryOp(ast.Not(), operand):
                return Scalar(~self.truth(operand))
            case ast.UnaryOp(op, operand):
                return self._unary(op, self.scalar(operand))
            case ast.BoolOp(op, parts):
                return self._either(isinstance(op, ast.And), parts)
            case ast.Compare():
                return Scalar(self._comparison(node))
            case ast.IfExp(test, body, orelse):
                condition = self.truth(test)
                return choose(condition, self.scalar(body), self.scalar(orelse))
            case ast.Call():
                return self._call(node)
        self._unknown(node)

    def _unknown(self, node: ast.expr) -> NoReturn:
        known = "numbers, names, subscripts, arithmetic, comparisons, a if c else b, and calls"
        what, instead = _UNKNOWN.get(type(node), ("", known))
        if isinstance(node, ast.Constant):
            what = f"of type {type(node.value).__name__}"
        if isinstance(node, ast.Compare):
            what, instead = "`in` and `is`", "comparisons with each: i == 1 or i == 2"
        self.source.refuse(
            "E0163",
            node,
            f"{self.source.code(node)} cannot stand in a loop kernel",
            why=f"it is {what}" if what else "",
            hint=instead,
        )

    # ---- operators ----------------------------------------------------------------------------

    def _chain(self, node: ast.BinOp) -> Scalar:
        """``a + b - c …``, from the left: chains may be longer than Python's stack."""
        chain: list[ast.BinOp] = []
        inner: ast.expr = node
        while isinstance(inner, ast.BinOp):
            chain.append(inner)
            inner = inner.left
        result = self.scalar(inner)
        for step in reversed(chain):
            if type(step.op) not in _BINARY:
                self._unknown(step)
            right = self.scalar(step.right)
            with located(self.source, step):
                result = self._binary(_BINARY[type(step.op)], result, right)
        return result

    def _binary(self, op: str, left: Scalar, right: Scalar) -> Scalar:
        if op == "pow" and right.weak and isinstance(right.expr, Literal):
            if left.dtype.is_float and right.expr == literal(2):
                return combine("mul", left, left)
            if left.weak and right.dtype.is_integer and right.expr.value < 0:  # as Python: a float
                left = Scalar(cast_folded(left.expr, dtypes.float64), weak=True)
        return combine(op, left, right)

    def _unary(self, op: ast.unaryop, operand: Scalar) -> Scalar:
        if isinstance(op, ast.UAdd):
            return operand
        return combine("neg" if isinstance(op, ast.USub) else "not", operand)

    def _either(self, is_and: bool, parts: list[ast.expr]) -> Scalar:
        """``a and b`` of numbers is one of them, as in Python."""
        values = [self.scalar(part) for part in parts]
        if all(value.dtype == dtypes.bool_ for value in values):
            return Scalar(self._logical(is_and, parts))
        result = values[-1]
        for value in reversed(values[:-1]):
            condition = cast(value.expr, dtypes.bool_)
            result = choose(condition, *((result, value) if is_and else (value, result)))
        return result

    def _logical(self, is_and: bool, parts: list[ast.expr]) -> Expr:
        """``and`` and ``or`` do not evaluate what they do not need."""
        result = self.truth(parts[-1])
        for part in reversed(parts[:-1]):
            left = self.truth(part)
            if not loads(result):
                result = left & result if is_and else left | result
            elif is_and:
                result = select(left, result, _FALSE)
            else:
                result = select(left, _TRUE, result)
        return result

    def _comparison(self, node: ast.Compare) -> Expr:
        if any(type(op) not in COMPARISONS for op in node.ops):
            self._unknown(node)
        result: Expr = _TRUE
        sides = [self.scalar(side) for side in (node.left, *node.comparators)]
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            result = result & combine(COMPARISONS[type(op)], left, right).expr
        return result

    # ---- arrays -------------------------------------------------------------------------------

    def _attribute(self, node: ast.expr, inner: Value, name: str) -> Value:
        if isinstance(inner, View):
            if name == "shape":
                return tuple(Scalar(size, weak=True) for size in inner.shape)
            if name == "ndim":
                return number(len(inner.shape))
            self.source.refuse("E0163", node, f"arrays in kernels have shape, and no {name}")
        if isinstance(inner, Scalar | tuple) or not hasattr(inner, name):
            self.source.refuse("E0163", node, f"there is no {self.source.code(node)}")
        return plain(getattr(inner, name))

    def _subscript(self, node: ast.expr, inner: Value, index: ast.expr) -> Value:
        if isinstance(inner, tuple):
            place = self.value(index)
            if isinstance(place, Scalar) and isinstance(place.expr, Literal):
                number = int(place.expr.value)
                if -len(inner) <= number < len(inner):
                    return inner[number]
            self.source.refuse("E0167", index, f"{self.source.code(index)} is none of its entries")
        if isinstance(inner, DType):
            self.source.refuse("E0163", node, "array types belong in signatures")
        view = self.view(node, inner, index)
        return view if view.shape else Scalar(view.element)

    def view(self, node: ast.expr, inner: Value, index: ast.expr) -> View:
        """The part of ``inner`` at ``index``."""
        if not isinstance(inner, View):
            self.source.refuse("E0167", node, f"{self.source.code(node)}: it is no array")
        given = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        rank = len(inner.shape)
        if len(given) > rank:
            self.source.refuse(
                "E0167", node, f"{len(given)} subscripts for an array of {rank} dimensions"
            )
        parts = [self._part(g, size) for g, size in zip(given, inner.shape, strict=False)]
        rest = [Free(literal(0), size) for size in inner.shape[len(given) :]]
        return inner.at((*parts, *rest))

    def _part(self, node: ast.expr, size: Expr) -> Expr | Free:
        if not isinstance(node, ast.Slice):
            return self._position(node, size)
        if node.step is not None and self.scalar(node.step).expr != literal(1):
            self.source.refuse(
                "E0167", node, "slices have step 1 here", hint="write the loop with that step"
            )
        start = literal(0) if node.lower is None else self._position(node.lower, size)
        end = size if node.upper is None else self._position(node.upper, size)
        return Free(start, end - start)

    def _position(self, node: ast.expr, size: Expr) -> Expr:
        """A subscript; a negative number counts from the end."""
        index = self.index(node)
        if isinstance(index, Literal) and index.value < 0:
            return size + index
        return index

    # ---- calls --------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        function: Any = self.value(node.func)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.source.refuse(
                "E0163", node, "functions take plain arguments here", hint="give them in order"
            )
        if function is len and len(node.args) == 1:
            return self._length(node)
        known = (*OPERATORS, scalar_expr.select)
        if isinstance(function, FunctionType) and function not in known:
            return self._helper(node, function)
        if function is float and [type(arg) for arg in node.args] == [ast.Constant]:
            return self._literal_float(node, node.args[0])
        args = [self.scalar(arg) for arg in node.args]
        dtype = function if isinstance(function, DType) else _type(function)
        if dtype is not None and len(args) == 1:
            return Scalar(cast_folded(args[0].expr, dtype))
        if function in (np.where, scalar_expr.select) and len(args) == 3:
            return choose(args[0].expr, args[1], args[2])
        result = call_operator(function, args)
        if result is None:
            name = self.source.code(node.func)
            self.source.refuse(
                "E0163",
                node,
                f"{name} cannot be called in an expression",
                hint=f"of numbers there are {', '.join(FUNCTIONS)}, as in math and NumPy; int, "
                "float, bool and dtypes; functions of one return expression; kernels are called "
                "as statements",
            )
        return result

    def _literal_float(self, node: ast.Call, arg: ast.expr) -> Scalar:
        """``float("inf")`` and the like."""
        try:
            return number(float(ast.literal_eval(arg)))
        except (TypeError, ValueError) as error:
            self.source.refuse("E0163", node, str(error), hint='float("inf"), float("nan")')

    def _helper(self, node: ast.Call, function: FunctionType) -> Value:
        """A call of a plain function: its one return expression, where its arguments are these."""
        source = self.knowledge.helper(function)
        callers = (*self.frame.callers, self.source)
        names = [arg.arg for arg in (*source.tree.args.posonlyargs, *source.tree.args.args)]
        body = [s for s in source.tree.body if not isinstance(s, ast.Expr)]
        if source in callers:
            self.source.refuse("E0169", node, f"{source.name} calls itself")
        if len(names) != len(node.args):
            self.source.refuse("E0169", node, f"{source.name} takes {len(names)} arguments")
        match body:
            case [ast.Return(ast.expr() as result)]:
                env = {n: self.value(arg) for n, arg in zip(names, node.args, strict=True)}
                inner = Frame(source, env, dict.fromkeys(names, "an argument"), callers)
                return Expressions(inner, self.knowledge).value(result)
        self.source.refuse(
            "E0163",
            node,
            f"{source.name} cannot be called in an expression",
            why="it is more than one return statement",
            hint="kernels, @weft.kernel, are called as statements",
        )

    def _length(self, node: ast.Call) -> Scalar:
        inner = self.value(node.args[0])
        if isinstance(inner, tuple):
            return number(len(inner))
        if not isinstance(inner, View) or not inner.shape:
            self.source.refuse("E0163", node, f"{self.source.code(node.args[0])} has no length")
        return Scalar(inner.shape[0], weak=True)


def _type(function: Any) -> DType | None:
    return TYPES.get(function) if isinstance(function, type) else None
