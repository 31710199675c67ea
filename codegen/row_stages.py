"""The rows that a loop works on one after the other, and the stages that each of them goes through.

    for i parallel:
      s[] = 0                         a stage: straight code, and the vector loop behind it,
      for k vector: s[] += x[i, k]    which folds something that the next stage needs
      for k vector: y[i, k] = f(s[])

What ``pipeline_rows`` works on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weft.codegen.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    Let,
    Stmt,
    Store,
    Update,
    buffers_touched,
    expressions,
    walk,
)
from weft.frontend.scalar_expr import Expr, Literal, Load, Var
from weft.frontend.scalar_expr import walk as walk_expr
from weft.frontend.scalar_simplify import simplify

STAGES = 4  # with more of them, a turn needs more registers than there are


@dataclass(frozen=True, slots=True)
class Stage:
    """Straight code and lets (whose bodies do not count), and the vector loop behind it."""

    head: tuple[Let | Store | Update, ...]
    loop: For

    def mentions(self, names: set[str]) -> bool:
        """Whether a variable among ``names`` is used."""
        heads = (e for stmt in self.head for e in expressions(stmt))
        inner = (e for stmt in walk(self.loop) for e in expressions(stmt))
        nodes = (node for exprs in (heads, inner) for e in exprs for node in walk_expr(e))
        return any(isinstance(node, Var) and node.name in names for node in nodes)


@dataclass(frozen=True, slots=True)
class Row:
    """The body of a loop: ``lets`` around it and what it allocates, for all of its ``stages``."""

    lets: tuple[Let, ...]
    buffers: Mapping[str, Buffer]
    stages: tuple[Stage, ...]

    @property
    def turns(self) -> Expr:
        """Of each of the loops."""
        loop = self.stages[0].loop
        return simplify(loop.upper - loop.lower, {})

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """What a turn of all loops touches; ``sizes``: of an element of each buffer."""
        inside = (stmt for stage in self.stages for stmt in walk(stage.loop.body))
        found = frozenset[str]().union(*map(buffers_touched, inside))
        known = {**sizes, **{name: b.dtype.itemsize for name, b in self.buffers.items() if b.shape}}
        return sum(known.get(name, 0) for name in found)


def row_of(loop: For) -> Row | None:
    """The row that a turn of ``loop`` works on; None where its body is not several stages, with
    loops of one length."""
    lets: list[Let] = []
    buffers: dict[str, Buffer] = {}
    body = loop.body
    while isinstance(body, Allocate) or (isinstance(body, Let) and not _loads(body.value)):
        if isinstance(body, Let):
            lets.append(body)
        else:
            buffers[body.buffer.name] = body.buffer
        body = body.body
    stages = _stages(body)
    if stages is None or not 2 <= len(stages) <= STAGES:
        return None
    if len({(s.loop.lower, s.loop.upper) for s in stages}) > 1:
        return None
    row = Row(tuple(lets), buffers, stages)
    return row if all(_local(buffer, row.turns) for buffer in buffers.values()) else None


def _stages(body: Stmt) -> tuple[Stage, ...] | None:
    """``body`` cut behind its vector loops, all but the last of which fold something; None where it
    is more than that, or where a let serves several stages."""
    found: list[Stage] = []
    head: list[Let | Store | Update] = []
    for stmt in _flat(body):
        match stmt:
            case Let() | Store() | Update():
                head.append(stmt)
            case For(_, _, _, "vector", body, 1) if not any(isinstance(s, For) for s in walk(body)):
                found.append(Stage(tuple(head), stmt))
                head = []
            case _:
                return None
    folds = all(any(isinstance(s, Update) for s in walk(stage.loop)) for stage in found[:-1])
    for k, stage in enumerate(found):
        bound = {s.name for s in stage.head if isinstance(s, Let)}
        if any(other.mentions(bound) for other in found[k + 1 :]):
            return None
    return tuple(found) if folds and not head else None


def _flat(body: Stmt) -> Iterator[Stmt]:
    """``body`` as a row of statements; a let stands for itself and comes before its scope."""
    stack = [body]
    while stack:
        match stack.pop():
            case Block(stmts):
                stack.extend(reversed(stmts))
            case Let() as let:
                yield let
                stack.append(let.body)
            case Comment():
                continue
            case other:
                yield other


def _local(buffer: Buffer, turns: Expr) -> bool:
    """Whether ``buffer`` is on the thread's own memory, its extents numbers, or ``turns``."""
    known = all(isinstance(size, Literal) or size == turns for size in buffer.shape)
    return buffer.scope == "local" and known


def _loads(expr: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk_expr(expr))
