"""Parallel regions: a kernel with parallel loops inside serial code runs as one team of threads.

    for t in 0 .. T:                        region
      for i in 1 .. n parallel:      →        for t in 0 .. T:
        B[i] = f(A, i)                          barrier
      for i in 1 .. n parallel:                 for i in 1 .. n parallel: B[i] = f(A, i)
        A[i] = g(B, i)                          barrier
      s[0] = s[0] + 1                           for i in 1 .. n parallel: A[i] = g(B, i)
                                                single: s[0] = s[0] + 1

A kernel that is one uneven parallel loop (a triangle) becomes a region, too: regions distribute
iterations in small pieces.

* Statements with effects that contain no parallel loop become a ``Single``.
* Buffers allocated around a parallel loop become 'shared'.
* A ``Barrier`` separates conflicting accesses of different threads. We walk through the body with
  the accesses since the last barrier and place one before the first statement that conflicts with
  them. Accesses at the end of a loop's body flow back to its start, until a fixed point. Two
  ``Single``s never conflict: one thread runs both.

All threads evaluate the same bounds and conditions on the same data, since a load in one of them
conflicts with a write like any other; so all reach the same barriers.

Also known as: SPMD region; OpenMP ``parallel`` around ``for`` and ``single``, with ``nowait``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.codegen.map_loops import worksharing_loop
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import block
from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    Check,
    Comment,
    CommitCopies,
    For,
    If,
    Kernel,
    Kind,
    Let,
    Single,
    Stmt,
    Store,
    Update,
    While,
    buffers_touched,
    buffers_written,
    children,
    expressions,
    walk,
)
from weft.ir.scalar_expr import Load
from weft.ir.scalar_expr import walk as walk_expr


def form_parallel_region(kernel: Kernel) -> Kernel:
    """``kernel`` as a region; unchanged if it is one even parallel loop, has no parallel loop, or
    is a region."""
    if kernel.region or worksharing_loop(kernel)[1] is not None:
        return kernel
    if id(kernel.body) not in _wide(kernel.body, "parallel"):
        return kernel
    return replace(kernel, body=team_body(kernel, kernel.body, "parallel"), region=True)


def team_body(kernel: Kernel, body: Stmt, *kinds: Kind) -> Stmt:
    """``body``, a part of ``kernel`` that all threads of a team run: the loops of ``kinds`` are
    shared out, other effects are one thread's, and barriers stand between accesses that conflict.
    """
    shared = _shared_out(body, _wide(body, *kinds), kinds)
    placed, _ = _Placer(_same_memory(kernel), kinds).place(shared, frozenset())
    return placed


# ---- worksharing --------------------------------------------------------------------------------


def _wide(body: Stmt, *kinds: Kind) -> set[int]:
    """Identities of the statements that contain a loop of ``kinds`` outside of any vector loop, or
    what all threads do."""
    found: set[int] = set()
    for stmt in reversed(list(walk(body))):
        match stmt:
            case For() if stmt.kind in kinds:
                found.add(id(stmt))
            case CommitCopies() | AwaitCopies() | Barrier():
                found.add(id(stmt))
            case For(kind="vector"):
                continue
            case _ if any(id(part) in found for part in children(stmt)):
                found.add(id(stmt))
    return found


def _shared_out(stmt: Stmt, wide: set[int], kinds: tuple[Kind, ...]) -> Stmt:
    if id(stmt) not in wide:
        if _has_effects(stmt):
            return Single(stmt)
        return stmt if isinstance(stmt, Comment) else Block(())
    match stmt:
        case For() if stmt.kind in kinds:
            return stmt
        case Block(stmts):
            return block(_singles_joined([_shared_out(part, wide, kinds) for part in stmts]))
        case Allocate(buffer, body) if buffer.scope != "fragment":
            return Allocate(replace(buffer, scope="shared"), _shared_out(body, wide, kinds))
    return map_children(stmt, lambda part: _shared_out(part, wide, kinds))


def _has_effects(stmt: Stmt) -> bool:
    return any(isinstance(part, Store | Update | Check | AsyncCopy) for part in walk(stmt))


def _singles_joined(stmts: Sequence[Stmt]) -> list[Stmt]:
    joined: list[Stmt] = []
    for stmt in stmts:
        match joined[-1:], stmt:
            case [Single(before)], Single(after):
                joined[-1] = Single(block([before, after]))
            case _:
                joined.append(stmt)
    return joined


# ---- barriers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Access:
    """``alone``: by the one thread that runs ``Single``s."""

    memory: str
    writes: bool
    alone: bool

    def conflicts(self, other: _Access) -> bool:
        return (
            self.memory == other.memory
            and (self.writes or other.writes)
            and not (self.alone and other.alone)
        )


_Accesses = frozenset[_Access]


def _same_memory(kernel: Kernel) -> dict[str, str]:
    """Buffer → a representative of the buffers that it may overlap."""
    names = {b.name: b.name for b in kernel.buffers}
    for buffer in kernel.buffers:
        for other in buffer.aliases:
            old, new = names[other], names[buffer.name]
            names = {n: new if m == old else m for n, m in names.items()}
    return names


class _Placer:
    def __init__(self, memory: dict[str, str], kinds: tuple[Kind, ...]) -> None:
        self.memory = memory
        self.kinds = kinds  # of the loops that are shared out
        self.own: set[str] = set()  # fragments: what each thread has for itself

    def place(self, stmt: Stmt, since: _Accesses) -> tuple[Stmt, _Accesses]:
        """``stmt`` with barriers; ``since`` and the result are the accesses since the last one."""
        match stmt:
            case For() | Single() if isinstance(stmt, Single) or stmt.kind in self.kinds:
                return self._behind(stmt, self._piece(stmt), since)
            case Block(stmts):
                parts: list[Stmt] = []
                for part in stmts:
                    part, since = self.place(part, since)
                    parts.append(part)
                return block(parts), since
            case Let():
                return self._lets(stmt, since)
            case If(condition, then, otherwise):
                head, since = self._behind(Block(()), self._bounds(stmt), since)
                then, after = self.place(then, since)
                otherwise, other = self.place(otherwise, since)
                return block([head, If(condition, then, otherwise)]), after | other
            case For():
                head, since = self._behind(Block(()), self._bounds(stmt), since)
                body, after = self._around(stmt.body, since, frozenset())
                return block([head, replace(stmt, body=body)]), since | after
            case While():
                asked = self._bounds(stmt)
                head, since = self._behind(Block(()), asked, since)
                body, after = self._around(stmt.body, since, asked)
                return block([head, replace(stmt, body=body)]), since | after
            case Barrier():
                return stmt, frozenset()
            case Allocate(buffer, body):
                self.own |= {buffer.name} if buffer.scope == "fragment" else set()
                body, since = self.place(body, since)
                return Allocate(buffer, body), since
        return stmt, since

    def _behind(self, stmt: Stmt, accesses: _Accesses, since: _Accesses) -> tuple[Stmt, _Accesses]:
        """``stmt``, after a barrier if ``accesses`` conflict with those ``since`` the last one."""
        if any(one.conflicts(other) for one in since for other in accesses):
            return block([Barrier(), stmt]), accesses
        return stmt, since | accesses

    def _around(self, body: Stmt, since: _Accesses, again: _Accesses) -> tuple[Stmt, _Accesses]:
        """The body of a loop that evaluates ``again`` after each iteration."""
        while True:
            placed, after = self.place(body, since)
            tail, after = self._behind(Block(()), again, after)
            if after <= since:
                return block([placed, tail]), after
            since |= after

    def _lets(self, stmt: Stmt, since: _Accesses) -> tuple[Stmt, _Accesses]:
        """A chain of lets, iteratively: chains may be longer than Python's stack."""
        chain: list[tuple[Stmt, Let]] = []
        while isinstance(stmt, Let):
            head, since = self._behind(Block(()), self._bounds(stmt), since)
            chain.append((head, stmt))
            stmt = stmt.body
        body, since = self.place(stmt, since)
        for head, let in reversed(chain):
            body = block([head, replace(let, body=body)])
        return body, since

    def _bounds(self, stmt: Stmt) -> _Accesses:
        """What every thread reads to evaluate the expressions of ``stmt`` itself."""
        loads = (n for e in expressions(stmt) for n in walk_expr(e) if isinstance(n, Load))
        return self._accesses((str(n.source) for n in loads), (), alone=False)

    def _piece(self, stmt: Stmt) -> _Accesses:
        inside = list(walk(stmt))
        own = {part.buffer.name for part in inside if isinstance(part, Allocate)} | self.own
        touched = {name for part in inside for name in buffers_touched(part)} - own
        written = {name for part in inside for name in buffers_written(part)} - own
        return self._accesses(touched, written, alone=isinstance(stmt, Single))

    def _accesses(
        self, touched: Iterable[str], written: Iterable[str], *, alone: bool
    ) -> _Accesses:
        reads = (_Access(self.memory.get(n, n), False, alone) for n in touched)
        writes = (_Access(self.memory.get(n, n), True, alone) for n in written)
        return frozenset((*reads, *writes))
