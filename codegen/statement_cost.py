"""Cost of a statement of loop IR in one iteration of the loops around, without nested statements.

In sixteenths of an operation: arithmetic on data, loads and stores; vector loops count whole
vectors. Loop-invariant computations are amortised over the innermost loop, and common ones of
unrolled copies are shared; registers and index arithmetic are free, and so is an addition to a
product (a fused multiply-add).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.ir.dtypes import int64
from weft.ir.loop_ir import Allocate, For, Kernel, Let, Stmt, Store, Update, expressions
from weft.ir.loop_ir import walk as walk_stmt
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Var, walk

OPERATION = 16
LANES = 8  # elements of a vector
SHORT = 64  # iterations of a loop that is unrolled
ENTERED = 8 * OPERATION  # for entering a loop
_COSTLY = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "atan2", "div", "sqrt",
    "floordiv", "mod", "truncdiv", "rem",
})  # fmt: skip
_COSTLY_WORK = 10
_APART = 8  # loads or stores of a vector of non-contiguous elements

_Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Around:
    """The context of a statement: the ``innermost`` loop that is not unrolled; ``copies``: unroll
    factors of the loops inside of it; ``lanes``: the vector loop; ``follows``: name → loops that it
    depends on; ``registers``: buffers in registers."""

    innermost: str = ""
    lanes: str = ""
    copies: Mapping[str, int] = field(default_factory=dict)
    follows: Mapping[str, _Names] = field(default_factory=dict)
    registers: _Names = frozenset()

    def inside(self, loop: For) -> Around:
        """The context of the body of ``loop``."""
        lanes = loop.var if loop.kind == "vector" else ""
        inside = replace(
            self, follows={**self.follows, loop.var: frozenset({loop.var})}, lanes=lanes
        )
        trips = _copies(loop)
        if trips:
            return replace(inside, copies={**self.copies, loop.var: trips})
        return replace(inside, innermost=loop.var, copies={})

    def given(self, let: Let) -> Around:
        """The context of the body of ``let``."""
        names = frozenset[str]().union(*(_own(self, node) for node in walk(let.value)))
        return replace(self, follows={**self.follows, let.name: names})

    def share(self, follows: _Names) -> int:
        """The cost per iteration of an operation that depends on the loops ``follows``."""
        if self.innermost and self.innermost not in follows and not self.copies.keys() & follows:
            return 0
        share = OPERATION
        for name, trips in self.copies.items():
            if name not in follows:
                share //= trips
        return share


def outside(kernel: Kernel) -> Around:
    """The context of the body of ``kernel``."""
    allocated = (s.buffer for s in walk_stmt(kernel.body) if isinstance(s, Allocate))
    return Around(registers=frozenset(b.name for b in allocated if b.scope == "register"))


def statement_cost(stmt: Stmt, around: Around) -> int:
    """Sixteenths of an operation that ``stmt`` itself takes in one iteration."""
    total = sum(_evaluated(expr, around) for expr in expressions(stmt))
    match stmt:
        case For():
            return total + (0 if _copies(stmt) else ENTERED)
        case Store(buffer, indices):
            return total + _stored(buffer, indices, around)
        case Update(targets, monoid, values):
            for buffer, indices in targets:  # an invariant element is in a register
                total += 2 * _stored(buffer, indices, around)
            follows = frozenset[str]().union(
                *(_own(around, n) for v in values for n in walk(v)),
                around.copies,
                [around.innermost],
            )
            return total + around.share(follows) * sum(
                isinstance(n, Apply) for e in monoid.combined for n in walk(e)
            )
    return total


def _stored(buffer: str, indices: tuple[Expr, ...], around: Around) -> int:
    follows = frozenset[str]().union(*(_own(around, n) for i in indices for n in walk(i)))
    return _moved(buffer, indices, follows, around)


def _moved(buffer: str, indices: tuple[Expr, ...], follows: _Names, around: Around) -> int:
    """One load or store."""
    if buffer in around.registers:
        return 0
    apart = around.lanes and any(
        around.lanes in _own(around, n) for i in indices[:-1] for n in walk(i)
    )
    return around.share(follows) * (_APART if apart else 1)


def _evaluated(expr: Expr, around: Around) -> int:
    """The cost of ``expr``, each distinct node once."""
    total = 0
    follows: dict[int, _Names] = {}
    data: set[int] = set()
    for node in walk(expr):
        below = [follows[id(child)] for child in node.children]
        follows[id(node)] = _own(around, node).union(*below)
        match node:
            case Load(source, indices):
                data.add(id(node))
                total += _moved(str(source), indices, follows[id(node)], around)
            case Var(_, dtype):
                if dtype != int64:
                    data.add(id(node))
            case _ if any(id(child) in data for child in node.children):
                data.add(id(node))
                if isinstance(node, Apply):
                    work = _COSTLY_WORK if node.op in _COSTLY else 1
                    total += work * around.share(follows[id(node)])
    return total


def _own(around: Around, node: Expr) -> _Names:
    return around.follows.get(node.name, frozenset()) if isinstance(node, Var) else frozenset()


def _copies(loop: For) -> int:
    """The unroll factor of ``loop``; 0 if it is not unrolled."""
    match loop.kind, loop.lower, loop.upper:
        case "unrolled" | "vector", Literal(low), Literal(high) if high - low <= SHORT:
            step = LANES if loop.kind == "vector" else loop.step
            return max(1, -(-int(high - low) // step))
    return 0
