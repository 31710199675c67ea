"""Checks of indices that are data come before loops that would repeat them.

    for r:                              ok = 1
      for k:                            for k: ok = min(ok, 0 <= e[k] < n)
        check 0 <= e[k] < n      →      if ok:   for r: for k: x[e[k]] = …
        x[e[k]] = …                     else:    for r: for k: check 0 <= e[k] < n; x[e[k]] = …

Where no iteration of a loop changes what the checks inside it read, the answers are the same
in each. They are asked for once; where all hold, the loops run without checks and without the
branches around what they protect. Otherwise they run as before, and say what was out of range.

Also known as: bounds-check elimination by loop versioning (Würthinger, Wimmer and Mössenböck,
"Array bounds check elimination for the Java HotSpot client compiler", PPPJ 2007).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from weft.codegen.conditions import body_given, parts_of
from weft.codegen.rebuild import block, let, map_children
from weft.codegen.simplify import simplified
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Check,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    buffers_touched,
    buffers_written,
    expressions,
    walk,
)
from weft.ir.scalar_expr import Expr, Load, Var, literal, select
from weft.ir.scalar_expr import walk as walk_expr

STATEMENTS = 64  # in loops of which a copy is made
NOTHING = Block(())


def hoist_checks(kernel: Kernel) -> Kernel:
    """``kernel`` with checks before the outermost loops that do not change their answers."""
    if kernel.region or not any(isinstance(s, Check) for s in walk(kernel.body)):
        return kernel
    shared = {name for b in kernel.buffers if b.aliases for name in (b.name, *b.aliases)}
    return simplified(kernel, _outermost(kernel.body, frozenset(shared)))


def _outermost(stmt: Stmt, shared: frozenset[str]) -> Stmt:
    if isinstance(stmt, For) and stmt.kind in ("serial", "parallel"):
        made = _hoisted(stmt, shared)
        if made is not None:
            return made
    return map_children(stmt, lambda part: _outermost(part, shared))


def _hoisted(loop: For, shared: frozenset[str]) -> Stmt | None:
    """``loop`` in two versions behind its checks; None if none of them can come before it."""
    inside = list(walk(loop.body))
    if len(inside) > STATEMENTS or not any(isinstance(s, Check) for s in inside):
        return None
    written = frozenset(name for s in inside for name in buffers_written(s))
    flag = Buffer(_fresh("in_bounds", inside), dtypes.int32, (), (), "local")
    parted = _Parting(written | shared, flag).part(loop.body, frozenset((loop.var,)), frozenset())
    if not _checks(parted.checks):
        return None
    asked = Block((Store(flag.name, (), literal(1, dtypes.int32)), parted.checks))
    versions = If(
        Load(flag.name, (), dtypes.int32).equal(1), replace(loop, body=parted.free()), loop
    )
    return If(loop.lower < loop.upper, Allocate(flag, Block((asked, versions))))


def _fresh(name: str, inside: Sequence[Stmt]) -> str:
    """``name``, or a longer one, which no statement in ``inside`` touches."""
    taken = {buffer for s in inside for buffer in buffers_touched(s)}
    while name in taken:
        name += "_"
    return name


def _checks(stmt: Stmt) -> bool:
    return any(isinstance(s, Update) for s in walk(stmt))


@dataclass(frozen=True, slots=True)
class _Parted:
    """A statement in two: its ``checks``, and the ``rest`` of it, where ``known`` hold."""

    checks: Stmt
    rest: Stmt
    known: tuple[Expr, ...] = field(default=())

    def free(self) -> Stmt:
        """The rest, without what is known."""
        made = self.rest
        for condition in self.known:
            made = body_given(made, condition, holds=True)
        return made


@dataclass(frozen=True, slots=True)
class _Parting:
    written: Set[str]  # buffers whose elements change
    flag: Buffer  # 1 while all checks hold

    def part(self, stmt: Stmt, changing: frozenset[str], loops: frozenset[str]) -> _Parted:
        """``stmt`` parted. ``changing``: names whose values cannot be known before the loop;
        ``loops``: the variables of loops inside it around ``stmt``."""
        if not self._known_before(stmt, changing):
            if not isinstance(stmt, Let):
                return _Parted(NOTHING, stmt)
            inner = self.part(stmt.body, changing | {stmt.name}, loops)
            return replace(inner, rest=replace(stmt, body=inner.rest))
        match stmt:
            case Block(stmts):
                parts = [self.part(s, changing, loops) for s in stmts]
                known = tuple(c for part in parts for c in part.known)
                checks = block([part.checks for part in parts])
                return _Parted(checks, block([part.rest for part in parts]), known)
            case Allocate(buffer, body):
                inner = self.part(body, changing, loops)
                return _Parted(inner.checks, Allocate(buffer, inner.rest), inner.known)
            case Let(name, value, body):
                varying = loops | {name} if _mentions(value, loops) else loops
                inner = self.part(body, changing, varying)
                return _Parted(let([(name, value)], inner.checks), Let(name, value, inner.free()))
            case If(condition, then, otherwise):
                one, other = (self.part(s, changing, loops) for s in (then, otherwise))
                checks = If(condition, one.checks, other.checks)
                return _Parted(checks, If(condition, one.free(), other.free()))
            case For(kind="serial" | "parallel" | "vector", instruction=None):
                inner = self.part(stmt.body, changing, loops | {stmt.var})
                return _Parted(_along(stmt, inner.checks), replace(stmt, body=inner.free()))
            case Check(condition) if _mentions(condition, loops):
                holds = select(condition, literal(1, dtypes.int32), literal(0, dtypes.int32))
                folded = Update(((self.flag.name, ()),), monoid("min", dtypes.int32), (holds,))
                return _Parted(folded, NOTHING, parts_of(condition))
        return _Parted(NOTHING, stmt)

    def _known_before(self, stmt: Stmt, changing: frozenset[str]) -> bool:
        """Whether ``stmt`` evaluates the same before the loop as in it."""
        return not any(
            _mentions(e, changing)
            or any(isinstance(n, Load) and n.source in self.written for n in walk_expr(e))
            for e in expressions(stmt)
        )


def _along(loop: For, checks: Stmt) -> Stmt:
    """``checks`` in each turn of ``loop``, or once if they are the same in all."""
    every = [e for s in walk(checks) for e in expressions(s)]
    if not any(_mentions(e, {loop.var}) for e in every):
        return If(loop.lower < loop.upper, checks)
    return replace(loop, kind="vector" if loop.kind == "vector" else "serial", body=checks)


def _mentions(expr: Expr, names: Set[str]) -> bool:
    return any(isinstance(n, Var) and n.name in names for n in walk_expr(expr))
