"""Names and size symbols of a Scop that is being built from a tensor program."""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.ir import dtypes
from weft.ir.scalar_affine import Affine, Range, bounds, to_affine, to_expr
from weft.ir.scalar_condition import proves
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Var, apply, literal, walk
from weft.ir.scalar_polynomial import Monomial, polynomial
from weft.ir.scalar_printer import scalar_text
from weft.ir.scalar_simplify import simplify
from weft.ir.scop import Constraint

_RESERVED = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while",
})  # fmt: skip
_LONGEST = 60  # characters of a name; models may name things with megabytes


class Names:
    """Hands out C identifiers that resemble what they are asked for, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted[:_LONGEST]) or "_"
        if base[0].isdigit() or base in _RESERVED:
            base = f"_{base}"
        name, number = base, self._next.get(base, 2)
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._next[base] = number
        self._taken.add(name)
        return name


def derived_name(value: Expr) -> str:
    """What the parameter is called that is ``value``. No size symbol begins with a brace
    (``tensor_verifier``)."""
    return f"{{{scalar_text(value)}}}"


class Symbols:
    """The parameters of a Scop: size symbols, and what is derived from them."""

    def __init__(self) -> None:
        self.ranges: dict[str, Range] = {}  # of every parameter
        self.derived: dict[str, Expr] = {}
        self.facts: list[Affine] = []  # forms over parameters that are at least 0
        self._products: dict[Monomial, Var] = {}

    def declare(self, sizes: Iterable[Expr]) -> None:
        """Make parameters of the symbols in ``sizes``, before any is derived."""
        for size in sizes:
            for node in walk(size):
                if isinstance(node, Var) and node.name not in self.ranges:
                    self.ranges[node.name] = (0, None)

    def normal(self, expr: Expr) -> Expr:
        """``expr`` with parts that are not quasi-affine in the parameters as derived parameters."""
        if to_affine(expr) is not None:
            return expr
        done: dict[int, Expr] = {}
        fixed: dict[int, bool] = {}  # whether over parameters alone
        for node in walk(expr):
            children = node.children
            fixed[id(node)] = self._is_leaf(node) and all(fixed[id(child)] for child in children)
            if fixed[id(node)] or not children:
                done[id(node)] = node
            else:
                operands = [self.size(c) if fixed[id(c)] else done[id(c)] for c in children]
                done[id(node)] = node.rebuild(tuple(operands))
        return self.size(expr) if fixed[id(expr)] else done[id(expr)]

    def _is_leaf(self, node: Expr) -> bool:
        """Whether ``node`` on operands that are sizes is a size itself."""
        known = not isinstance(node, Var) or node.name in self.ranges
        return known and node.dtype == dtypes.int64 and not isinstance(node, Load)

    def size(self, expr: Expr) -> Expr:
        """A size as a quasi-affine expression."""
        form = to_affine(expr)
        if form is not None:
            return simplify(expr)
        total: Expr = literal(0)
        for monomial, coefficient in polynomial(expr).items():
            total = total + self._product(monomial) * coefficient
        return total

    def _product(self, monomial: Monomial) -> Expr:
        match monomial:
            case ():
                return literal(1)
            case (factor,) if to_affine(factor) is not None:
                return factor
            case (Apply("floordiv" | "mod" as op, (numerator, Literal() as divisor)),):
                return apply(op, self.size(numerator), divisor)
        if monomial not in self._products:
            self._products[monomial] = self._derive(monomial)
        return self._products[monomial]

    def _derive(self, monomial: Monomial) -> Var:
        """A parameter named by what it is: programs that share symbols share it, too."""
        value: Expr = literal(1)
        for factor in monomial:
            value = value * factor
        name = derived_name(value)
        self.ranges[name] = bounds(value, self.ranges)
        self.derived[name] = value
        match monomial:
            case (Apply("min" | "max" as op, arguments),):
                this = Affine(((name, 1),))
                for form in (to_affine(self.size(argument)) for argument in arguments):
                    if form is not None:
                        self.facts.append(this - form if op == "max" else form - this)
        return Var(name)

    def context(self, shapes: Iterable[Expr]) -> tuple[Constraint, ...]:
        """What is known of the parameters: sizes, those in ``shapes`` too, are not negative."""
        lows = ((name, low) for name, (low, _) in self.ranges.items())
        found = [Constraint(Var(name) - low) for name, low in lows if low is not None]
        found += [Constraint(to_expr(fact)) for fact in self.facts]
        for size in dict.fromkeys(shapes):
            form = to_affine(size)
            if form is not None and not proves(self.facts, self.ranges, form):
                found.append(Constraint(to_expr(form)))
        return tuple(dict.fromkeys(found))
