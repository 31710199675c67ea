"""Small Scops for the tests of this room, and an evaluator of index expressions without isl."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, literal, walk
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, Sequence, Tree
from weft.ir.scop import (
    Access,
    Body,
    Constraint,
    Origin,
    Scop,
    Statement,
    Tensor,
    Update,
)
from weft.ir.tensor_expr import Monoid

Index = Expr | int


def index(value: Index) -> Expr:
    return value if isinstance(value, Expr) else literal(value)


def box(**ranges: Index | tuple[Index, Index]) -> tuple[Constraint, ...]:
    """``box(i=8, j=(1, n))``: 0 <= i < 8 and 1 <= j < n."""
    found = []
    for name, limits in ranges.items():
        low, high = limits if isinstance(limits, tuple) else (0, limits)
        found += [Constraint(Var(name) - index(low)), Constraint(index(high) - 1 - Var(name))]
    return tuple(found)


def at(tensor: str, *indices: Index, guard: tuple[Constraint, ...] = ()) -> Access:
    return Access(tensor, tuple(index(i) for i in indices), guard)


SUM = Monoid(
    "sum",
    (Var("left", dtypes.float32),),
    (Var("right", dtypes.float32),),
    (Var("left", dtypes.float32) + Var("right", dtypes.float32),),
    (0.0,),
)


def statement(
    name: str,
    domain: tuple[Constraint, ...],
    write: Access | tuple[Access, ...],
    reads: tuple[Access, ...] = (),
    *,
    dims: tuple[str, ...] | None = None,
    position: int | tuple[int | str, ...] = 0,
    reduce: tuple[str, ...] = (),
    origin: Origin | None = None,
    monoid: Monoid = SUM,
) -> Statement:
    """A statement whose body adds its reads up; dims in order of appearance in ``domain``."""
    if dims is None:
        found = (v.name for c in domain for v in walk(c.expr) if isinstance(v, Var))
        dims = tuple(dict.fromkeys(found))
    if isinstance(position, int):
        position = (position, *(entry for dim in dims for entry in (dim, 0)))
    writes = write if isinstance(write, tuple) else (write,)
    return Statement(
        name,
        dims,
        domain,
        position,
        writes,
        reads,
        Body((), (literal(0.0, dtypes.float32),) * len(writes)),
        Update(monoid, reduce) if reduce else None,
        origin,
    )


def tensor(name: str, *shape: Index, **options: object) -> Tensor:
    return Tensor(name, tuple(index(s) for s in shape), dtypes.float32, **options)  # type: ignore[arg-type]


def scop(
    tensors: tuple[Tensor, ...],
    *statements: Statement,
    parameters: tuple[str, ...] = (),
    context: tuple[Constraint, ...] = (),
) -> Scop:
    return Scop("test", parameters, context, tensors, statements)


def loop(name: str, kind: str = "serial", **values: Index) -> Loop:
    return Loop(name, {s: index(v) for s, v in values.items()}, kind)  # type: ignore[arg-type]


def nest(name: str, *values: Index, prefix: str = "") -> Tree:
    """One statement under one band, its loops named after the statement."""
    prefix = prefix or name
    return Band(tuple(loop(f"{prefix}{k}", **{name: v}) for k, v in enumerate(values)), Leaf(name))


def evaluate(expr: Expr, env: Mapping[str, int]) -> int:
    """The value of an index expression, by the definition in ``scalar_expr``."""
    known = _KNOWN.get(id(expr))
    if known is None:
        known = _KNOWN[id(expr)] = (expr, eval(f"lambda env: {_python(expr)}"))
    return known[1](env)


# Expressions, which keep their ids, as functions: all points of a box are many.
_KNOWN: dict[int, tuple[Expr, Callable[[Mapping[str, int]], int]]] = {}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def _python(expr: Expr) -> str:
    match expr:
        case Literal(value):
            return f"({int(value)})"
        case Var(name):
            return f"env[{name!r}]"
        case Apply("neg", (arg,)):
            return f"(-{_python(arg)})"
        case Apply(op, (left, right)) if op in _SIGNS:
            return f"({_python(left)} {_SIGNS[op]} {_python(right)})"
    raise AssertionError(expr)


def holds(constraints: tuple[Constraint, ...], env: Mapping[str, int]) -> bool:
    for c in constraints:
        value = evaluate(c.expr, env)
        if not (value == 0 if c.equality else value >= 0):
            return False
    return True


def instances(
    of: Statement, parameters: Mapping[str, int], low: int = -2, high: int = 12
) -> Iterator[dict[str, int]]:
    """Every instance with dims in [low, high), by trying them all."""
    for point in product(range(low, high), repeat=len(of.dims)):
        env = {**parameters, **dict(zip(of.dims, point, strict=True))}
        if holds(of.domain, env):
            yield env


__all__ = [
    "SUM", "Access", "Band", "Constraint", "Leaf", "Mark", "Origin", "Scop", "Sequence",
    "Statement", "Var", "at", "box", "evaluate", "holds", "index", "instances", "loop", "nest",
    "scop", "statement", "tensor",
]  # fmt: skip
