"""How many bytes one block of a launch asks each level of memory for, before anything runs.

Counted are the accesses of the loop IR, each as often as the loops around it turn: in a block that
has all its elements, with conditions that hold. So it is a bound, and exact where the conditions do
hold: for whole tiles, but for copies that would run ahead of the last step. What caches give again
counts again. Turns of a serial loop may depend on sizes: the count is an expression of them.
Matrices are read by the rows that lanes name, copies as whole lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    AsyncCopy,
    For,
    Kernel,
    Let,
    LoadMatrices,
    Stmt,
    Store,
    Update,
    children,
    expressions,
    is_grid,
)
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import Expr, Load, literal, variable_names, walk
from weft.ir.scalar_simplify import simplify

DEVICE, SHARED = "device", "shared"


@dataclass(frozen=True, slots=True)
class BlockTraffic:
    """One launch. ``blocks`` of it; ``read`` and ``written``: bytes that a block asks a level for,
    'device' or 'shared'. Expressions of the sizes; None where a number of turns is not known."""

    blocks: Expr | None
    read: Mapping[str, Expr | None]
    written: Mapping[str, Expr | None]


def block_traffic(kernel: Kernel) -> tuple[BlockTraffic, ...]:
    """The launches of ``kernel``, which ``form_launches`` has made, in textual order."""
    sizes = {b.name: b.dtype.itemsize for b in kernel.buffers}
    levels = dict.fromkeys(sizes, DEVICE)
    return tuple(_Launch(kernel, sizes, levels).traffic(nest) for nest in grid_nests(kernel.body))


def grid_nests(body: Stmt) -> Iterator[Stmt]:
    """The launches below ``body``, in textual order."""
    stack = [body]
    while stack:
        stmt = stack.pop()
        if is_grid(stmt):
            yield stmt
        else:
            stack.extend(reversed(children(stmt)))


@dataclass(slots=True)
class _Launch:
    kernel: Kernel
    sizes: dict[str, int]  # of elements, in bytes
    levels: dict[str, str]  # of buffers that are no thread's own
    ranges: dict[str, Range] = field(default_factory=dict)

    def traffic(self, nest: Stmt) -> BlockTraffic:
        blocks: Expr | None = literal(1)
        while isinstance(nest, For) and nest.kind == "grid":
            blocks = _times(blocks, self._turns(nest))
            nest = nest.body
        read: dict[str, Expr | None] = {}
        written: dict[str, Expr | None] = {}
        for (level, writes), total in self._totals(nest).items():
            (written if writes else read)[level] = total
        return BlockTraffic(blocks, read, written)

    def _totals(self, body: Stmt) -> dict[tuple[str, bool], Expr | None]:
        found: dict[tuple[str, bool], Expr | None] = {}
        stack: list[tuple[Stmt, Expr | None]] = [(body, literal(1))]
        while stack:
            stmt, times = stack.pop()
            if isinstance(stmt, Allocate) and stmt.buffer.scope == "shared":
                self.levels[stmt.buffer.name] = SHARED
                self.sizes[stmt.buffer.name] = stmt.buffer.dtype.itemsize
            if isinstance(stmt, LoadMatrices):  # the rows that the lanes name, one time for all
                size = stmt.matrices * MATRIX[0] * MATRIX[1] * WORD
                key = self.levels[stmt.source], False
                found[key] = _plus(found.get(key, literal(0)), times, size)
                continue
            for name, elements, writes in _accesses(stmt):
                if name in self.levels:
                    key, size = (self.levels[name], writes), elements * self.sizes[name]
                    found[key] = _plus(found.get(key, literal(0)), times, size)
            inner = times
            if isinstance(stmt, For) and not _names_rows(stmt):
                inner = _times(times, self._turns(stmt))
            elif isinstance(stmt, Let):
                self.ranges[stmt.name] = bounds(stmt.value, self.ranges)
            stack.extend((child, inner) for child in reversed(children(stmt)))
        return found

    def _turns(self, loop: For) -> Expr | None:
        """How often ``loop`` turns at most, over the sizes."""
        count = simplify((loop.upper - loop.lower + (loop.step - 1)) // loop.step)
        low, high = bounds(loop.lower, self.ranges)[0], bounds(loop.upper, self.ranges)[1]
        self.ranges[loop.var] = (low, None if high is None else high - 1)
        most = bounds(count, self.ranges)[1]
        if most is not None:
            return literal(max(0, most))
        return count if variable_names(count) <= {*self.kernel.parameters} else None


def _names_rows(loop: For) -> bool:
    """Whether the turns of a lane loop only name the rows of matrices."""
    body: Stmt = loop
    while isinstance(body, For | Let):
        body = body.body
    return loop.kind == "lane" and isinstance(body, LoadMatrices)


def _accesses(stmt: Stmt) -> Iterator[tuple[str, int, bool]]:
    """(buffer, elements, whether written) of what ``stmt`` itself touches."""
    match stmt:
        case AsyncCopy((target, _), (source, _), count):
            yield target, count, True
            yield source, count, False
        case Store(buffer=name):
            yield name, 1, True
        case Update(targets=targets):
            for name, _ in targets:
                yield name, 1, True
                yield name, 1, False
    for expr in expressions(stmt):
        for node in walk(expr):
            if isinstance(node, Load):
                yield str(node.source), 1, False


def _times(total: Expr | None, factor: Expr | None) -> Expr | None:
    return None if total is None or factor is None else simplify(total * factor)


def _plus(total: Expr | None, times: Expr | None, size: int) -> Expr | None:
    return None if total is None or times is None else simplify(total + times * size)
