"""Under which conditions is a subexpression evaluated?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var

SCALAR = (Literal, Var, Load, Apply, Cast, Bitcast, Select)

Guard = tuple[Expr, bool]  # a condition, and the value that it has


def operands(node: Expr) -> tuple[Expr, ...]:
    """The operands of a scalar node; none for a node that binds variables, such as ``Reduce``."""
    return node.children if isinstance(node, SCALAR) else ()


def walk_scalar(*exprs: Expr) -> Iterator[Expr]:
    """As ``scalar_expr.walk``, but not into nodes that bind variables of their own."""
    seen: set[int] = set()
    stack = [(expr, False) for expr in reversed(exprs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(operands(node)))


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The conditions that hold on the way to an expression: those of ``parent``, then ``guard``.

    One object for each different way, so that paths are compared by identity. ``exact``: the
    expression is evaluated wherever they hold; otherwise it may not be, for several ways to it
    have more conditions than they have in common.
    """

    parent: Path | None = None
    guard: Guard | None = None  # none: only marks where several ways part
    key: tuple[int, bool] = (0, True)  # of the guard: equal ones have equal keys
    depth: int = 0
    exact: bool = True
    equals: list[Expr] = field(default_factory=list)  # all nodes equal to the guard's condition

    def __iter__(self) -> Iterator[Guard]:
        """The guards, outermost first."""
        return (step.guard for step in self.steps() if step.guard is not None)

    def steps(self, above: Path | None = None) -> list[Path]:
        """This path and those it begins with that are longer than ``above``, the longest last."""
        found: list[Path] = []
        path = self
        while path.parent is not None and path is not above:
            found.append(path)
            path = path.parent
        return found[::-1]


class _Paths:
    """All paths of one expression."""

    def __init__(self) -> None:
        self.root = Path()
        self._numbering = Numbering()
        self._longer: dict[tuple[int, tuple[int, bool], bool], Path] = {}
        self._equals: dict[tuple[int, bool], list[Expr]] = {}

    def along(self, path: Path, guard: Guard) -> Path:
        key = (self._numbering.number(guard[0]), guard[1])
        self._equals.setdefault(key, []).append(guard[0])
        return self._step(path, guard, key, path.exact)

    def _step(self, path: Path, guard: Guard | None, key: tuple[int, bool], exact: bool) -> Path:
        place = (id(path), key, exact)
        if place not in self._longer:
            equals = self._equals.get(key, [])
            self._longer[place] = Path(path, guard, key, path.depth + 1, exact, equals)
        return self._longer[place]

    def common(self, one: Path, other: Path) -> Path:
        """The conditions that both have."""
        here, there = one, other
        while here is not there:
            if here.depth >= there.depth and here.parent is not None:
                here = here.parent
            elif there.parent is not None:
                there = there.parent
        if here is one or here is other:
            return here
        keys = {step.key for step in other.steps(here)}
        result = self._step(here, None, (-1, True), False)
        for step in one.steps(here):
            if step.key in keys and step.guard is not None:
                result = self._step(result, step.guard, step.key, False)
        return result


def path_guards(*exprs: Expr) -> dict[int, Path]:
    """For every node of ``exprs``, by ``id``: the select conditions on every way to it."""
    paths = _Paths()
    found: dict[int, Path] = {id(expr): paths.root for expr in exprs}
    for node in reversed(list(walk_scalar(*exprs))):
        here = found[id(node)]
        for child, guard in _uses(node):
            there = here if guard is None else paths.along(here, guard)
            known = found.get(id(child))
            found[id(child)] = there if known is None else paths.common(known, there)
    return found


def _uses(node: Expr) -> list[tuple[Expr, Guard | None]]:
    if isinstance(node, Select):
        yes, no = (node.condition, True), (node.condition, False)
        return [(node.condition, None), (node.if_true, yes), (node.if_false, no)]
    return [(child, None) for child in operands(node)]


# ---- Structural identity of expressions in linear time, however deep and shared they are.


class Numbering:
    """Gives equal expressions equal numbers."""

    def __init__(self, label: Callable[[Expr], Hashable] | None = None) -> None:
        """``label`` says what tells nodes apart that are no scalar expressions, operands aside.

        Without it, such nodes are equal to themselves only.
        """
        self._label = label
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[int, Expr]] = {}  # the node is kept: its id stays its own

    def number(self, expr: Expr) -> int:
        stack = [expr]
        while stack:
            node = stack[-1]
            missing = [child for child in node.children if id(child) not in self._known]
            if missing and id(node) not in self._known:
                stack += missing
                continue
            stack.pop()
            if id(node) not in self._known:
                children = tuple(self._known[id(child)][0] for child in node.children)
                key = (type(node).__name__, self._distinction(node), children)
                self._known[id(node)] = (self._numbers.setdefault(key, len(self._numbers)), node)
        return self._known[id(expr)][0]

    def _distinction(self, node: Expr) -> Hashable:
        match node:
            case Literal(value, dtype):
                return (repr(value), dtype)
            case Var(name, dtype):
                return (name, dtype)
            case Load(source, _, dtype):
                return (source, dtype)
            case Apply(op):
                return op
            case Cast(_, dtype, saturate):
                return (dtype, saturate)
            case Bitcast(_, dtype):
                return dtype
            case Select():
                return None
        return self._label(node) if self._label else id(node)
