"""Open sizes: PyTorch's SymInts as expressions over Weft's size symbols.

A size is turned into an expression where it enters, never into the number that it had in the
export. What PyTorch knows of the symbols (ranges, conditions) are assumptions of the graph. Sizes
that operators take for equal and PyTorch does not, the lengths of keys and values say, are unified
(``size_symbols.py``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from weft.frontend.size_symbols import SizeSymbols
from weft.ir import dtypes
from weft.ir.errors import UnsupportedError
from weft.ir.scalar_expr import (
    Expr,
    Literal,
    Var,
    apply,
    binary,
    cast,
    literal,
)
from weft.ir.scalar_polynomial import polynomial
from weft.ir.scalar_printer import scalar_text
from weft.ir.tensor_expr import Size

Sympy = Any  # sympy.Expr
SymInt = Any  # torch.SymInt, or an int
_LARGE = 1 << 48  # PyTorch's own "no bound" is a number in some places


@dataclass(eq=False, slots=True)
class OpenSizes(SizeSymbols):
    """The size symbols of one FX graph: ``names`` of PyTorch's symbols."""

    names: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, SymInt | None] = field(default_factory=dict)  # by name
    opaque: dict[Sympy, Sympy] = field(default_factory=dict)  # sizes that are symbols here

    def declare(self, sizes: Iterable[tuple[SymInt, str]]) -> None:
        """Name the symbols of ``sizes``, which calls tell: as the user does, or where a size is one
        symbol as it is called here.

        A size that does not say what its symbols are, (n + 1) // 4 say, becomes one itself.
        """
        given = [(size, name) for size, name in sizes if not isinstance(size, int)]
        for size, name in given:
            if size.node.expr.is_Symbol:
                self._name(size.node.expr, size, name)
        for size, name in given:
            expr = size.node.expr
            unknown = [symbol for symbol in expr.free_symbols if symbol.name not in self.names]
            if len(unknown) == 1 and expr.is_polynomial(*unknown) and expr.diff(*unknown).is_number:
                self._name(unknown[0], size, unknown[0].name)
            elif unknown and expr not in self.opaque:
                self.opaque[expr] = type(unknown[0])(name, integer=True)
                self._name(self.opaque[expr], size, name)

    def _name(self, symbol: Sympy, size: SymInt, name: str) -> None:
        if symbol.name in self.names:
            return
        env = size.node.shape_env
        sources = [source.name for source in env.var_to_sources.get(symbol, ())]
        given = (env.source_name_to_debug_name.get(source) for source in sources)
        wanted = next(filter(None, given), name)
        while wanted in self.ranges:
            wanted += "_"
        self.names[symbol.name] = wanted
        self.symbols[wanted] = size if size.node.expr.is_Symbol else None
        found = env.var_to_range.get(symbol)
        low, high = (None, None) if found is None else (_bound(found.lower), _bound(found.upper))
        if low is None or low <= 2:  # 2: nobody asked for it, and PyTorch allows 0 and 1
            self.traced[wanted] = low or 0
            low = 0
        self.open(wanted, low, high)

    def size(self, found: SymInt) -> Size:
        """``found`` as a size. Raises ``UnsupportedError`` (WEFT-E0273) where it depends on
        data."""
        number = _known(found)
        return number if number is not None else self.normal(self.expression(found.node.expr))

    def number(self, found: Any) -> Expr | float:
        """A SymInt, SymFloat or SymBool as an expression, or the number that it is."""
        if hasattr(found.node, "expr") and not found.node.is_int():
            made = self.simple(self.expression(found.node.expr))
            return made.value if isinstance(made, Literal) else made
        return self.size(found)

    def stride(self, found: SymInt) -> Size:
        """The same of a stride: what PyTorch counts as 1 where it is 0 counts as it is, as tensors
        of no elements have no strides to speak of."""
        number = _known(found)
        if number is not None:
            return number
        return self.normal(_expression(self._plain(found.node.expr), self._symbol, _STRIDES))

    def _plain(self, found: Sympy) -> Sympy:
        return found.xreplace(self.opaque) if self.opaque else found

    def expression(self, found: Sympy) -> Expr:
        """A size, a number or a condition of PyTorch's as an expression."""
        return _expression(self._plain(found), self._symbol, _OPERATIONS)

    def guard(self) -> None:
        """Let PyTorch guard, while it traces, that sizes which were unified are one. Raises
        ``UnsupportedError`` (WEFT-E0273) where they are not."""
        for name, size in self.equal.items():
            total = 0
            for monomial, factor in polynomial(size).items():
                symbols = [self.symbols[v.name] for v in monomial if isinstance(v, Var)]
                if len(symbols) < len(monomial) or None in symbols or self.symbols[name] is None:
                    raise _no_size(scalar_text(size))
                total += reduce(operator.mul, symbols, factor)
            if not bool(self.symbols[name] == total):
                raise _no_size(f"{name}, which has to be {scalar_text(size)},")

    def _symbol(self, name: str) -> Expr:
        if name not in self.names:
            raise UnsupportedError(
                "WEFT-E0273",
                f"the size {name} depends on data",
                why="sizes follow from those of the arguments",
                hint="compute it outside of the model, and pass a tensor of that size",
            )
        return Var(self.names[name])


def _known(found: SymInt) -> int | None:
    """The number that ``found`` is, in every call."""
    return found if isinstance(found, int) else found.node.maybe_as_int()


def _bound(found: Sympy) -> int | None:
    if not getattr(found, "is_Integer", False) or abs(int(found)) > _LARGE:
        return None
    return int(found)


# ---- sympy --------------------------------------------------------------------------------------

Operations = Mapping[str, Callable[..., Expr]]


def _folded(function: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    return lambda *operands: reduce(function, operands)


def _power(base: Expr, exponent: Expr) -> Expr:
    if not isinstance(exponent, Literal) or not 0 <= exponent.value <= 8:
        raise _no_size(f"{base} ** {exponent}")
    return reduce(operator.mul, [base] * int(exponent.value), literal(1))


def _quotient(a: Expr, b: Expr) -> Expr:
    return cast(a, dtypes.float64) / cast(b, dtypes.float64)


_OPERATIONS: Operations = {
    "Add": _folded(operator.add),
    "Mul": _folded(operator.mul),
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": _folded(lambda a, b: binary("max", a, b)),
    "Min": _folded(lambda a, b: binary("min", a, b)),
    "IntTrueDiv": _quotient,
    "FloatTrueDiv": _quotient,
    "ToFloat": lambda a: cast(a, dtypes.float64),
    "TruncToInt": lambda a: cast(apply("trunc", a), dtypes.int64),
    "OpaqueUnaryFn_sqrt": lambda a: apply("sqrt", cast(a, dtypes.float64)),
    "Equality": lambda a, b: a.equal(b),
    "Unequality": lambda a, b: a.not_equal(b),
    "LessThan": operator.le,
    "GreaterThan": operator.ge,
    "StrictLessThan": operator.lt,
    "StrictGreaterThan": operator.gt,
    "And": _folded(operator.and_),
    "Or": _folded(operator.or_),
    "Not": operator.invert,
}
_ONE = literal(1)
_STRIDES: Operations = {
    **_OPERATIONS,
    "Max": lambda *operands: _OPERATIONS["Max"](*([o for o in operands if o != _ONE] or [_ONE])),
}


def _expression(found: Sympy, symbol: Callable[[str], Expr], operations: Operations) -> Expr:
    """``found``, whose parts are those of sympy and of PyTorch, by what ``operations`` make of
    them."""
    done: dict[Any, Expr] = {}
    stack = [found]
    while stack:
        node = stack[-1]
        missing = [a for a in node.args if a not in done]
        if missing:
            stack += missing
            continue
        done[stack.pop()] = _node(node, [done[a] for a in node.args], symbol, operations)
    return done[found]


def _node(
    node: Sympy, operands: list[Expr], symbol: Callable[[str], Expr], operations: Operations
) -> Expr:
    if node.is_Symbol:
        return symbol(node.name)
    if node.is_Integer:
        return literal(int(node))
    if node.is_Float:
        return literal(float(node), dtypes.float64)
    if node.is_Boolean and not node.args:
        return literal(bool(node), dtypes.bool_)
    name = type(node).__name__
    if name not in operations:
        raise _no_size(str(node))
    if any(o.dtype.is_float for o in operands):
        operands = [cast(o, dtypes.float64) for o in operands]
    return operations[name](*operands)


def _no_size(text: str) -> UnsupportedError:
    return UnsupportedError(
        "WEFT-E0273",
        f"the size {text} is not one that Weft can compute",
        why="sizes are sums, products, quotients, minima and maxima of those of the arguments",
        hint="export with fixed sizes",
    )
