"""Size expressions → LLVM IR: straight-line code on int64 parameters."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.errors import InternalError
from weft.ir.scalar_expr import Apply, Expr, Literal, Select, Var, walk


class SizeFunction:
    """Lines of one function; each size expression is computed once, and so are equal ones."""

    def __init__(self, parameters: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.parameters: dict[str, str] = {}
        self.known: dict[int, tuple[Expr, str]] = {}  # by identity: structure may be deep
        self._results: dict[str, str] = {}  # of instructions without effects
        self.load(parameters)

    def load(self, parameters: Sequence[str]) -> None:
        """``parameters`` from the table at ``%parameters``."""
        for number, name in enumerate(parameters):
            at = self.value(f"getelementptr i64, ptr %parameters, i64 {number}")
            self.parameters[name] = self.value(f"load i64, ptr {at}, align 8")

    def value(self, instruction: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {instruction}")
        return name

    def once(self, instruction: str) -> str:
        """The value of an ``instruction`` without effects, that of an equal one if there was one.
        The block that it is in must come before all that follow."""
        if instruction not in self._results:
            self._results[instruction] = self.value(instruction)
        return self._results[instruction]

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def size(self, expr: Expr) -> str:
        """The i64 (or i1) operand that holds ``expr``."""
        for node in walk(expr):
            if id(node) not in self.known:
                self.known[id(node)] = (node, self._node(node))
        return self.known[id(expr)][1]

    def _node(self, node: Expr) -> str:
        operands = [self.known[id(child)][1] for child in node.children]
        match node:
            case Var(name) if name in self.parameters:
                return self.parameters[name]
            case Literal(bool(value)):
                return "true" if value else "false"
            case Literal(value):
                return str(int(value))
            case Select():
                c, a, b = operands
                width = _width(node)
                return self.once(f"select i1 {c}, {width} {a}, {width} {b}")
            case Apply(op) if op in _PLAIN:
                return self.once(f"{_PLAIN[op]} i64 {operands[0]}, {operands[1]}")
            case Apply(op, (left, _)) if op in _LOGIC:
                return self.once(f"{op} {_width(left)} {operands[0]}, {operands[1]}")
            case Apply(op, (left, _)) if op in _COMPARE:
                return self.once(f"icmp {_COMPARE[op]} {_width(left)} {operands[0]}, {operands[1]}")
            case Apply("neg"):
                return self.once(f"sub i64 0, {operands[0]}")
            case Apply("not"):
                return self.once(f"xor i1 {operands[0]}, true")
            case Apply("min" | "max" as op):
                verdict = self.once(
                    f"icmp {'slt' if op == 'min' else 'sgt'} i64 {operands[0]}, {operands[1]}"
                )
                return self.once(f"select i1 {verdict}, i64 {operands[0]}, i64 {operands[1]}")
            case Apply("floordiv" | "mod" as op):
                return self._floor(op, *operands)
        raise InternalError(
            "WEFT-E0560", f"{type(node).__name__} {getattr(node, 'op', '')} in a size"
        )

    def _floor(self, op: str, a: str, b: str) -> str:
        """Floor division and modulo, 0 by zero; never traps."""
        if b.isdigit() and b != "0":
            return self._floor_by_constant(op, a, b)
        zero = self.once(f"icmp eq i64 {b}, 0")
        minus = self.once(f"icmp eq i64 {b}, -1")
        either = self.once(f"or i1 {zero}, {minus}")
        safe = self.once(f"select i1 {either}, i64 1, i64 {b}")
        quotient = self.once(f"sdiv i64 {a}, {safe}")
        remainder = self.once(f"srem i64 {a}, {safe}")
        signs = self.once(f"xor i64 {remainder}, {safe}")
        opposite = self.once(f"icmp slt i64 {signs}, 0")
        inexact = self.once(f"icmp ne i64 {remainder}, 0")
        below = self.once(f"and i1 {opposite}, {inexact}")
        if op == "mod":
            lifted = self.once(f"add i64 {remainder}, {safe}")
            return self.once(f"select i1 {below}, i64 {lifted}, i64 {remainder}")
        lowered = self.once(f"sub i64 {quotient}, 1")
        floored = self.once(f"select i1 {below}, i64 {lowered}, i64 {quotient}")
        negated = self.once(f"sub i64 0, {a}")
        exact = self.once(f"select i1 {minus}, i64 {negated}, i64 {floored}")
        return self.once(f"select i1 {zero}, i64 0, i64 {exact}")

    def _floor_by_constant(self, op: str, a: str, b: str) -> str:
        """Floor division and modulo by a positive constant."""
        remainder = self.once(f"srem i64 {a}, {b}")
        below = self.once(f"icmp slt i64 {remainder}, 0")
        if op == "mod":
            lifted = self.once(f"add i64 {remainder}, {b}")
            return self.once(f"select i1 {below}, i64 {lifted}, i64 {remainder}")
        quotient = self.once(f"sdiv i64 {a}, {b}")
        lower = self.once(f"sext i1 {below} to i64")
        return self.once(f"add i64 {quotient}, {lower}")


def _width(expr: Expr) -> str:
    return "i1" if expr.dtype.kind == "bool" else "i64"


class CheckedSizeFunction(SizeFunction):
    """A ``SizeFunction`` with ``overflow``, an i1: whether any operation overflowed int64."""

    def __init__(self, parameters: Sequence[str]) -> None:
        self.overflow = "false"
        super().__init__(parameters)

    def _node(self, node: Expr) -> str:
        if not (isinstance(node, Apply) and node.op in _PLAIN):
            return super()._node(node)
        left, right = (self.known[id(child)][1] for child in node.children)
        return self.checked(node.op, left, right)

    def checked(self, op: str, left: str, right: str) -> str:
        """The sum ("add"), difference ("sub") or product ("mul") of two i64."""
        pair = self.value(
            f"call {{i64, i1}} @llvm.s{op}.with.overflow.i64(i64 {left}, i64 {right})"
        )
        over = self.value(f"extractvalue {{i64, i1}} {pair}, 1")
        self.overflow = self.value(f"or i1 {self.overflow}, {over}")
        return self.value(f"extractvalue {{i64, i1}} {pair}, 0")


_PLAIN = {"add": "add", "sub": "sub", "mul": "mul"}
_LOGIC = frozenset({"and", "or", "xor"})
CHECKED_DECLARATIONS = [
    f"declare {{i64, i1}} @llvm.s{op}.with.overflow.i64(i64, i64)" for op in _PLAIN
]
_COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
