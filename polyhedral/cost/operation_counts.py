"""Which arithmetic one instance of a statement does, by kind.

Counted is what computes on values that are loaded; arithmetic on loop counters alone is none. A
product that a sum takes up is one ``fma``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Apply, Expr, Load, Select, Var, walk
from weft.ir.scop import Statement

KINDS = ("fma", "add", "mul", "div", "sqrt", "compare", "function", "other")

_KIND = {
    "add": "add", "sub": "add", "neg": "", "abs": "", "mul": "mul", "div": "div", "rem": "div",
    "floordiv": "div", "mod": "div", "truncdiv": "div", "sqrt": "sqrt", "min": "compare",
    "max": "compare", "lt": "compare", "le": "compare", "gt": "compare", "ge": "compare",
    "eq": "compare", "ne": "compare", "and": "other", "or": "other", "xor": "other", "not": "other",
    "shl": "other", "shr": "other", "floor": "other", "ceil": "other", "round": "other",
    "trunc": "other",
}  # fmt: skip


def computing(counts: Mapping[str, int], machine: Machine) -> float:
    """Cycles of one vector of these operations."""
    own = machine.arithmetic
    slow = {"div": own.division, "sqrt": own.root, "function": own.function}
    return sum(n * slow.get(kind, 1 / machine.fma_per_cycle) for kind, n in counts.items())


def operation_counts(statement: Statement) -> dict[str, int]:
    """kind of ``KINDS`` → how many of it one instance does; none that is 0."""
    body = statement.body
    roots = body.expressions
    names = {name for name, _ in body.lets}
    found: Counter[str] = Counter()
    for root in roots:
        _add(found, root, names)
    if statement.update is not None:
        monoid = statement.update.monoid
        for root in monoid.combined:
            _add(found, root, {v.name for v in (*monoid.left, *monoid.right)})
        contributed = sum(_product(root) is not None for root in body.results)
        for _ in range(min(contributed, found["mul"], found["add"])):
            _fuse(found)
    return {kind: found[kind] for kind in KINDS if found[kind] > 0}


def flops(counts: dict[str, int]) -> int:
    """Floating-point operations, two for a fused one and one for anything else."""
    return sum(n * (2 if kind == "fma" else 1) for kind, n in counts.items())


def operations_after(statement: Statement, operand: int) -> int:
    """Operations on the longest way from read ``operand`` to a result; 0 where none leads there."""
    after: dict[str, int] = {}
    longest = 0
    for name, root in (*statement.body.lets, *(("", r) for r in statement.body.results)):
        ways: dict[int, int] = {}
        for node in walk(root):
            way = max((ways[id(child)] for child in node.children), default=0)
            if isinstance(node, Load) and node.source == operand:
                way = 1
            elif isinstance(node, Var):
                way = after.get(node.name, 0)
            elif way and isinstance(node, Apply):
                way += _KIND.get(node.op, "function") != ""
            ways[id(node)] = way
        if name:
            after[name] = ways[id(root)]
        else:
            longest = max(longest, ways[id(root)] - 1)
    return longest


def _add(found: Counter[str], root: Expr, data: set[str]) -> None:
    computed: dict[int, bool] = {}
    fused: set[int] = set()
    for node in walk(root):
        below = any(computed[id(child)] for child in node.children)
        computed[id(node)] = below or isinstance(node, Load) or _is_data(node, data)
        if not below:
            continue
        match node:
            case Apply(op, args):
                kind = _KIND.get(op, "function")
                found[kind] += bool(kind)
                if kind == "add":
                    _fuse_one(found, args, fused)
            case Select():
                found["other"] += 1


def _is_data(node: Expr, data: set[str]) -> bool:
    return isinstance(node, Var) and node.name in data


def _fuse_one(found: Counter[str], args: Sequence[Expr], fused: set[int]) -> None:
    for arg in args:
        product = _product(arg)
        if product is not None and id(product) not in fused:
            fused.add(id(product))
            _fuse(found)
            return


def _fuse(found: Counter[str]) -> None:
    found.subtract(("mul", "add"))
    found["fma"] += 1


def _product(node: Expr) -> Expr | None:
    """The product that ``node`` is, but for its sign."""
    match node:
        case Apply("mul"):
            return node
        case Apply("neg", (inner,)):
            return _product(inner)
    return None
