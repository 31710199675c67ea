"""Launches: loops bound to the levels of a GPU become blocks of threads, and the rest their host.

    for t in 0 .. T:                                 for t in 0 .. T:                 host
      for i in 0 .. n grid:                            for i in 0 .. n grid:          one launch
        for j in 0 .. m block: r[j] = A[i, j]    →       for j in 0 .. m block: r[j] = A[i, j]
        for j in 0 .. m block: B[i, j] = r[m-1-j]        barrier
      s[0] = s[0] + 1                                    for j in 0 .. m block: B[i, j] = r[m-1-j]
                                                       for launch in 0 .. 1 grid:     another
                                                         single: s[0] = s[0] + 1

* What is around grid loops runs on the host, which reads no buffer: where its bounds or conditions
  do, all of it is one thread's.
* Neighbours without grid loops are one launch of one block.
* Block loops that nest become one (``collapse_block``): a thread has one number.
* Memory that is allocated around launches goes into the one that uses it, if that is one.
* In a block, ``form_parallel_region`` shares out the block loops, leaves other effects to the first
  thread, and places the barriers. Buffers allocated around block loops are 'shared'.

Also known as: kernel extraction; Grosser's and Verdoolaege's PPCG (TACO 2013) does it on the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft.codegen.cuda.collapse_block import bound_names, collapse_block, fresh_name
from weft.codegen.form_parallel_region import team_body
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import block
from weft.ir.errors import CompileError
from weft.ir.loop_ir import (
    IN_BLOCK,
    Allocate,
    Block,
    Check,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    buffers_touched,
    children,
    expressions,
    is_grid,
    walk,
)
from weft.ir.scalar_expr import has_loads, literal


def form_launches(kernel: Kernel) -> Kernel:
    """``kernel`` as launches. Raises ``CompileError`` (WEFT-E0506) where memory that launches would
    share is allocated around them, or the host would need to read memory."""
    former = _Former(kernel)
    return replace(kernel, body=former.host(kernel.body))


@dataclass(slots=True)
class _Former:
    kernel: Kernel
    wide: set[int] = field(init=False)  # identities of statements with a grid loop inside
    names: set[str] = field(init=False)  # that are bound anywhere
    made: list[Stmt] = field(default_factory=list)  # whose identities are in use

    def __post_init__(self) -> None:
        self.wide = set()
        self.names = bound_names(self.kernel)
        self._known(self.kernel.body)

    def _known(self, body: Stmt) -> Stmt:
        """``body``, of which it is known where grid loops are."""
        self.made.append(body)
        for stmt in reversed(list(walk(body))):
            if is_grid(stmt) or any(id(part) in self.wide for part in children(stmt)):
                self.wide.add(id(stmt))
        return body

    def host(self, stmt: Stmt) -> Stmt:
        if id(stmt) not in self.wide:
            return self._one_block([stmt])
        if is_grid(stmt):
            return self._grid(stmt)
        if isinstance(stmt, Allocate):
            return self.host(self._known(_sunk(stmt, self.kernel)))
        if any(has_loads(e) for e in expressions(stmt)):
            raise _refused(self.kernel, "bounds or conditions around launches depend on data")
        if isinstance(stmt, Block):
            return block(self._neighbours(stmt.stmts))
        if isinstance(stmt, If | For | Let):
            return map_children(stmt, self.host)
        raise _refused(self.kernel, f"launches inside a {type(stmt).__name__}")

    def _neighbours(self, stmts: Sequence[Stmt]) -> list[Stmt]:
        """``stmts`` as launches, neighbours without grid loops together."""
        made: list[Stmt] = []
        run: list[Stmt] = []
        for stmt in stmts:
            if id(stmt) in self.wide:
                made += [self._one_block(run), self.host(stmt)]
                run = []
            else:
                run.append(stmt)
        return [*made, self._one_block(run)]

    def _grid(self, stmt: Stmt) -> Stmt:
        """A nest of grid loops, conditions between them moved inside: a block asks for itself."""
        match stmt:
            case For(kind="grid"):
                return map_children(stmt, self._grid)
            case If(condition, For(kind="grid") as loop, Block(())):
                return self._grid(replace(loop, body=If(condition, loop.body)))
        if id(stmt) in self.wide:
            raise _refused(self.kernel, "a loop of the grid holds several others")
        return self._team(stmt)

    def _team(self, stmt: Stmt) -> Stmt:
        """``stmt`` as all threads of a block run it."""
        return team_body(self.kernel, collapse_block(stmt, self.names), *IN_BLOCK)

    def _one_block(self, stmts: Sequence[Stmt]) -> Stmt:
        """One launch of one block for ``stmts``."""
        inner = block(list(stmts))
        if not any(isinstance(s, Store | Update | Check) for s in walk(inner)):
            return block([s for s in stmts if isinstance(s, Comment)])
        name = fresh_name("launch", self.names)
        return For(name, literal(0), literal(1), "grid", self._team(inner))


def _sunk(stmt: Allocate, kernel: Kernel) -> Stmt:
    """``stmt``, which is around launches, around one alone: that of neighbours without grid loops,
    which are the only ones to use the memory."""
    body = _sunk(stmt.body, kernel) if isinstance(stmt.body, Allocate) else stmt.body
    name = stmt.buffer.name
    parts = body.stmts if isinstance(body, Block) else (body,)
    users = [
        k for k, p in enumerate(parts) if any(name in buffers_touched(inner) for inner in walk(p))
    ]
    if not users:
        return body
    first, behind = users[0], users[-1] + 1
    run = block(list(parts[first:behind]))
    if any(map(is_grid, walk(run))):
        raise _refused(kernel, f"{name} would be shared by launches")
    return block([*parts[:first], Allocate(stmt.buffer, run), *parts[behind:]])


def _refused(kernel: Kernel, why: str) -> CompileError:
    return CompileError(
        "WEFT-E0506",
        f"{kernel.name} cannot be launched on a GPU as it is scheduled",
        why=why,
        hint="bind other loops to the grid",
    )
