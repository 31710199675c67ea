"""IR 5, loop IR: one kernel as loops over buffers, ready for an emitter.

    Kernel ::= name, parameters, buffers: Buffer… (arguments), body: Stmt, messages, region
    Buffer ::= name, dtype, shape: Expr…, strides: Expr… (elements), scope, alignment, writable
    Stmt   ::= Block(stmts)
             | For(var, lower, upper, kind, body, step, instruction)    lower <= var < upper
             | While(condition, body)
             | If(condition, then, otherwise)
             | Let(name, value, body)                       an immutable scalar, in scope in body
             | Store(buffer, indices, value, streams)
             | Update(targets: (buffer, indices)…, monoid, values)
             | Check(condition, code, detail)               on failure: record and go on
             | Allocate(buffer, body)                       any scope but global, uninitialised
             | Single(body)                                 the first thread of the team runs it
             | Barrier                                      all threads of the team meet
             | Prefetch(buffer, indices, write, far)        a hint, without effect
             | Issue(instruction, operands: (buffer, indices)…)   a warp's, on fragments
             | LoadMatrices(target, tile, source, indices, lane, matrices, transposed)
             | AsyncCopy(target, source: (buffer, indices), count, valid)   lands some time later
             | CommitCopies | AwaitCopies(left)             groups of them; all threads of a block
             | Comment(text)
    Expr   ::= scalar_expr.Expr with Load(buffer name, indices); Var is a loop variable, a Let or a
               parameter

Semantics:

* Addresses are ``sum(index * stride)`` elements from the buffer's start; buffers of one kernel do
  not overlap unless one is listed in the other's ``aliases``. Sizes are int64.
* No loop or let binds a name that is bound around it, or a parameter's: a name means one thing
  wherever it can be mentioned, so that what passes move captures nothing.
* ``For``: 'serial' runs in order. 'parallel': iterations are independent and may run on any
  threads at the same time, each with its own copy of what the body allocates. 'vector': iterations
  are independent but for ``Update``s, which may meet at one element; those whose monoid has the
  laws may be reassociated. 'unrolled': constant trip count, written out.
* ``For.instruction`` may compute all turns of an 'unrolled' loop of one ``Update`` at once, in an
  order of its own; an emitter that does not know it, or finds operands in other places than it
  wants them, emits the loop.
* 'grid' and 'block' loops are parallel, on a GPU. A nest of 'grid' loops is one launch: each turn
  is run by a block of threads, and what is around the nest runs on the host, which touches no
  buffer. In a kernel with 'grid' loops, effects stand in them. All threads of a block run the body
  of a 'grid' nest as those of a team run a region (below), with 'block' loops in place of parallel
  ones: their turns are shared out, and ``Barrier``, ``Single`` and 'shared' are the block's.
* A 'warp' loop is shared out among the warps of a block as a 'block' loop is among its threads. In
  it, turn ``l`` of a 'lane' loop, of as many turns as a warp has threads, is the warp's thread
  ``l``'s; effects stand in lane loops, or are an ``Issue``. Each turn of a warp loop around
  fragments is a warp of its own.
* A 'fragment' buffer, [warp, …, lane, number], lies in the registers of the threads: its first
  index is the variable of the warp loop around, and its last but one that of the lane loop.
* ``Issue``: all lanes of a warp compute ``instruction`` at once: each operand is a fragment from
  ``indices`` on, [lane, number], whose elements are where ``Operand.place`` says.
* ``LoadMatrices`` stands in a lane loop, all of whose lanes meet there. Lane ``l`` reads a line of
  ``source``, from ``indices`` on: row ``r = l % 8`` of matrix ``m = l // 8``, if there are so many.
  A line has 4 words, of ``w`` elements each: element ``e`` becomes number ``w * m + e % w`` of lane
  ``4 * r + e // w`` of ``target[tile]``; with ``transposed``, of elements of 2 bytes, number
  ``w * m + r % w`` of lane ``4 * e + r // w``. Numbers beyond those of one tile are
  the next tile's.
* ``AsyncCopy`` copies ``count`` neighbours along the last dims from ``source`` to ``target``, the
  first ``valid`` of them; the others become 0. It may do so at any time until its thread has
  waited for it, so nobody touches either meanwhile. ``CommitCopies`` ends the group of the copies
  that a thread has begun since the last; ``AwaitCopies(left)`` waits until all but the last
  ``left`` groups are there, for the thread itself: others see them behind a ``Barrier``.
* A buffer with a ``swizzle`` has its elements in another order in memory (``Swizzle``).
* ``Update`` sets ``targets := combine(targets, values)``, component by component of the monoid at
  once.
* ``Check``: where the condition is false, the first failing instance sets the status of the call to
  ``code`` (1 or more: ``messages[code - 1]``) with the two int64 values of ``detail``; which of
  several failures is first is open where order is. Execution goes on with the guarded access
  left out (its value is 0), so nothing is read or written out of bounds.
* ``Select`` is lazy as in ``scalar_expr``: a masked-off load touches no memory.
* A 'register' buffer has constant shape, is only indexed by constants and by variables of
  unrolled and vector loops, and never has its address taken.
* A buffer with ``streams``, a condition on parameters: where it holds, its stores of whole lines
  may stream. A claim of the schedule, which ``codegen/stream_stores.py`` obeys.
* A buffer with ``ahead``: vector loops that load it in order prefetch so many bytes ahead. A claim
  of the schedule, which ``codegen/software_prefetch.py`` obeys.
* A 'local' buffer lives on the thread's own scratch memory.
* ``Store`` with ``streams``, a condition on parameters: where it holds, nobody reads the element
  soon, and it may go past the caches. A hint, without effect.
* ``Prefetch``: the cache line of the element will soon be loaded (and stored, if ``write``), or
  after a while (``far``): it comes no nearer than L2. The element may lie outside the
  buffer.
* Which parallel loops are spread: where a kernel is one parallel loop, that one. Where it
  is a ``region``, every thread of a team runs the whole body: the turns of each outermost parallel
  loop are shared out, and of everything else (loops, lets, conditions) each thread does all, so
  effects stand in parallel loops or in a ``Single``. A thread sees what another wrote once both
  have passed a ``Barrier`` since. A 'shared' buffer, allocated outside both, is one for the team.
  In any other kernel no loop is spread. A team of one runs a region as if it were none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from weft.ir.dtypes import DType
from weft.ir.instruction import Instruction
from weft.ir.scalar_expr import Expr, Load
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.tensor_expr import Monoid

Kind = Literal["serial", "parallel", "vector", "unrolled", "grid", "block", "warp", "lane"]
CONCURRENT: tuple[Kind, ...] = ("parallel", "grid", "block", "warp", "lane")  # in any order
IN_BLOCK: tuple[Kind, ...] = ("block", "warp")  # shared out among the threads of a block
Scope = Literal["global", "shared", "local", "register", "fragment"]


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A permutation of the places in a buffer: of each place, ``bits`` binary digits from ``base``
    on are exclusive-ored with as many from ``base + shift`` on. As ``bits <= shift``, these stay as
    they are, and doing it twice undoes it: so it is a bijection."""

    bits: int
    base: int
    shift: int

    def place(self, place: int) -> int:
        """Where the element of ``place`` lies."""
        taken = (place >> (self.base + self.shift)) & ((1 << self.bits) - 1)
        return place ^ (taken << self.base)


@dataclass(frozen=True, slots=True)
class Buffer:
    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    scope: Scope = "global"
    alignment: int = 64  # bytes, of the first element
    writable: bool = True
    aliases: tuple[str, ...] = ()
    streams: Expr | None = None
    ahead: int = 0  # bytes
    swizzle: Swizzle | None = None


@dataclass(frozen=True, slots=True)
class Block:
    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    var: str
    lower: Expr
    upper: Expr
    kind: Kind
    body: Stmt
    step: int = 1
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class While:
    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Stmt
    otherwise: Stmt = field(default_factory=lambda: Block(()))


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    value: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    streams: Expr | None = None


@dataclass(frozen=True, slots=True)
class Update:
    targets: tuple[tuple[str, tuple[Expr, ...]], ...]
    monoid: Monoid
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Check:
    condition: Expr
    code: int
    detail: tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Allocate:
    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True)
class Prefetch:
    buffer: str
    indices: tuple[Expr, ...]
    write: bool = False
    far: bool = False


@dataclass(frozen=True, slots=True)
class Issue:
    instruction: Instruction
    operands: tuple[tuple[str, tuple[Expr, ...]], ...]  # the accumulator, then those it reads


WORD = 4  # bytes of a register
MATRIX = 8, 4  # rows and words in a row of the matrices of ``LoadMatrices``


@dataclass(frozen=True, slots=True)
class LoadMatrices:
    target: str
    tile: tuple[Expr, ...]  # its indices without lane and number
    source: str
    indices: tuple[Expr, ...]
    lane: Expr  # the variable of the lane loop around
    matrices: int
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    target: tuple[str, tuple[Expr, ...]]
    source: tuple[str, tuple[Expr, ...]]
    count: int
    valid: Expr


@dataclass(frozen=True, slots=True)
class CommitCopies:
    pass


@dataclass(frozen=True, slots=True)
class AwaitCopies:
    left: int


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


@dataclass(frozen=True, slots=True)
class Single:
    body: Stmt


@dataclass(frozen=True, slots=True)
class Barrier:
    pass


Stmt = (
    Block
    | For
    | While
    | If
    | Let
    | Store
    | Update
    | Check
    | Allocate
    | Comment
    | Single
    | Barrier
    | Prefetch
    | Issue
    | LoadMatrices
    | AsyncCopy
    | CommitCopies
    | AwaitCopies
)


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    parameters: tuple[str, ...]  # size symbols, int64 arguments
    buffers: tuple[Buffer, ...]  # pointer arguments, in order
    body: Stmt
    messages: tuple[
        str, ...
    ] = ()  # what a Check code means: statement and tensor, in the user's terms
    region: bool = False  # every thread of a team runs the body


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside ``stmt``."""
    match stmt:
        case Block(stmts):
            return stmts
        case For() | While() | Let() | Allocate() | Single():
            return (stmt.body,)
        case If():
            return (stmt.then, stmt.otherwise)
    return ()


def with_children(stmt: Stmt, new: tuple[Stmt, ...]) -> Stmt:
    """``stmt`` around other statements, as many as ``children`` gives."""
    match stmt:
        case Block():
            return Block(new)
        case For() | While() | Let() | Allocate() | Single():
            return replace(stmt, body=new[0])
        case If():
            return If(stmt.condition, *new)
    return stmt


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """``stmt`` and every statement inside it, outer ones first."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def is_grid(stmt: Stmt) -> bool:
    """Whether ``stmt`` is a loop whose turns are blocks of threads."""
    return isinstance(stmt, For) and stmt.kind == "grid"


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that ``stmt`` itself evaluates, not those inside its children."""
    match stmt:
        case For():
            return (stmt.lower, stmt.upper)
        case While() | If():
            return (stmt.condition,)
        case Let():
            return (stmt.value,)
        case Store():
            return (*stmt.indices, stmt.value)
        case Update():
            return (*(i for _, indices in stmt.targets for i in indices), *stmt.values)
        case Check():
            return (stmt.condition, *stmt.detail)
        case Prefetch():
            return stmt.indices
        case Issue():
            return tuple(i for _, indices in stmt.operands for i in indices)
        case LoadMatrices():
            return (*stmt.tile, *stmt.indices, stmt.lane)
        case AsyncCopy((_, to), (_, start), _, valid):
            return (*to, *start, valid)
    return ()


def buffers_touched(stmt: Stmt) -> frozenset[str]:
    """Names of the buffers that ``stmt`` itself loads from or writes, not its children."""
    found = {str(n.source) for e in expressions(stmt) for n in walk_expr(e) if isinstance(n, Load)}
    match stmt:
        case Prefetch(buffer=name) | LoadMatrices(source=name) | AsyncCopy(source=(name, _)):
            found.add(name)
        case Issue():
            found.update(name for name, _ in stmt.operands)
    return buffers_written(stmt).union(found)


def buffers_written(stmt: Stmt) -> frozenset[str]:
    """Names of the buffers that ``stmt`` itself writes, not its children."""
    match stmt:
        case Store(buffer=name):
            return frozenset((name,))
        case Update(targets=targets):
            return frozenset(name for name, _ in targets)
        case LoadMatrices(target=name) | AsyncCopy(target=(name, _)):
            return frozenset((name,))
        case Issue(operands=((name, _), *_)):
            return frozenset((name,))
    return frozenset()
