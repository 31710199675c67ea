"""Block loops over the sums of a tile of warps: each turn is the thread's that has the sum.

    for i_p < min(32, n) block:             for w in warps: for thread in lanes:
      for j_p < min(32, m) block:     →       for each number of a sum in the thread's registers:
        D[i_p, j_p] = f(C[i_p, j_p])            let i_p, j_p: the row and lane of that sum
                                                if i_p < n & j_p < m:
                                                  D[i_p, j_p] = f(C[w, …, thread, number])

C is a tensor in scope 'fragment'. A block shares out the turns of a block loop as it likes, so any
thread may run them; here each runs where its element of C is, which never goes to memory. What
starts the sums and what is computed from them (bias, activation, conversion) is such a nest. Where
there is no such row or lane a sum starts as 0, so that none is of what nobody wrote.

Also known as: the epilogue of CUTLASS, fused on accumulators.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.codegen.rebuild import let, map_all_expressions, map_children
from weft.codegen.warp_tile import HeldSums, Point
from weft.ir.errors import CompileError
from weft.ir.loop_ir import Block, For, If, Stmt, Store, Update, expressions, walk
from weft.ir.scalar_affine import Affine, Range, bounds, to_affine, to_expr, variable
from weft.ir.scalar_expr import Expr, Load, Var, literal, rewrite, select
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify


def fragment_loops(body: Stmt, tensor: str, sums: HeldSums) -> Stmt:
    """``body`` with the block loops over elements of ``tensor`` as loops over ``sums``.

    Raises ``CompileError`` (WEFT-E0506) where ``tensor`` is touched elsewhere, or a turn of the
    block loops does not follow from the element."""
    if isinstance(body, For) and body.kind == "block" and _touches(body, tensor):
        return _Nest(tensor, sums).shared_out(body)
    if _uses(body, tensor):
        raise no_fragment(tensor, "it is touched outside block loops over its elements")
    return map_children(body, lambda part: fragment_loops(part, tensor, sums))


def no_fragment(tensor: str, why: str) -> CompileError:
    """The refusal of ``tensor`` in scope 'fragment'."""
    return CompileError(
        "WEFT-E0506",
        f"{tensor} cannot stay in the registers of a block's threads",
        why=why,
        hint="keep it in the memory of the device: leave out its scope 'fragment'",
    )


@dataclass(slots=True)
class _Nest:
    """Block loops one in another, and what is in them."""

    tensor: str
    sums: HeldSums
    loops: list[For] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)

    def shared_out(self, stmt: Stmt) -> Stmt:
        body = self._inside(stmt)
        ranges: dict[str, Range] = {}
        for loop in self.loops:
            high = bounds(loop.upper - 1, ranges)[1]
            ranges[loop.var] = bounds(loop.lower, ranges)[0], high
        touched = [index for part in walk(body) for index in _uses(part, self.tensor)]
        place, *others = {tuple(simplify(i, ranges) for i in index) for index in touched}
        if others:
            raise no_fragment(self.tensor, "a turn of the block loops touches several elements")

        def at(own: Load, point: Point) -> Stmt:
            return self._turn(body, place, own, point)

        return self.sums.each(at)

    def _inside(self, stmt: Stmt) -> Stmt:
        """What is inside the block loops that begin with ``stmt``."""
        while True:
            match stmt:
                case For(kind="block"):
                    self.loops.append(stmt)
                    stmt = stmt.body
                case If(condition, then, Block(())) if _holds_block(then):
                    self.conditions.append(condition)
                    stmt = then
                case _:
                    return stmt

    def _turn(self, body: Stmt, place: tuple[Expr, ...], own: Load, point: Point) -> Stmt:
        """The turn of ``body``, which touches the element at ``place``, where that is ``own``."""
        values, tests = self._solved(place, point)
        for loop in self.loops:
            if loop.step != 1 or loop.var not in values:
                raise no_fragment(self.tensor, f"its elements do not tell the turns of {loop.var}")
            tests += [Var(loop.var) >= loop.lower, Var(loop.var) < loop.upper]
        tests += self.conditions
        tests += [point[name].equal(value) for name, value in self.sums.single.items()]
        condition = tests[0]
        for test in tests[1:]:
            condition = condition & test
        lets = [(loop.var, to_expr(values[loop.var])) for loop in self.loops]
        return let(lets, self._guarded(condition, body, own))

    def _solved(
        self, place: tuple[Expr, ...], point: Point
    ) -> tuple[dict[str, Affine], list[Expr]]:
        """The block loops' values at the element ``place`` that is at ``point`` of the tile, and
        what has to hold besides."""
        values: dict[str, Affine] = {}
        tests: list[Expr] = []
        names = {loop.var for loop in self.loops}
        for index, name in zip(place, self.sums.loops, strict=True):
            form = to_affine(index)
            mine = [] if form is None else sorted(form.variables() & names)
            known = to_affine(point[name])
            if form is None or known is None:
                raise no_fragment(self.tensor, "an index of it is not affine")
            if not mine:
                tests.append(point[name].equal(index))
                continue
            (var, *others) = mine
            rest = form - variable(var)
            if others or var in rest.variables() or var in values:
                raise no_fragment(self.tensor, "its elements are no turns of single block loops")
            values[var] = known - rest
        return values, tests

    def _guarded(self, condition: Expr, body: Stmt, own: Load) -> Stmt:
        """``body`` on the thread's ``own`` element where ``condition`` holds."""
        match body:
            case Store(self.tensor, _, value) if not _uses(body, self.tensor, writes=False):
                zero = literal(0, own.dtype)
                start = value if value == zero else select(condition, value, zero)
                return Store(self.tensor, own.indices, start)
        return If(condition, _moved(body, self.tensor, own))


def _holds_block(stmt: Stmt) -> bool:
    return any(isinstance(part, For) and part.kind == "block" for part in walk(stmt))


def _touches(stmt: Stmt, tensor: str) -> bool:
    return any(True for part in walk(stmt) for _ in _uses(part, tensor))


def _uses(stmt: Stmt, tensor: str, *, writes: bool = True) -> list[tuple[Expr, ...]]:
    """The indices at which ``stmt`` itself loads ``tensor``, or stores to it."""
    found = [
        node.indices
        for expr in expressions(stmt)
        for node in walk_expr(expr)
        if isinstance(node, Load) and node.source == tensor
    ]
    if writes and isinstance(stmt, Store) and stmt.buffer == tensor:
        found.append(stmt.indices)
    if writes and isinstance(stmt, Update):
        found += [indices for name, indices in stmt.targets if name == tensor]
    return found


def _moved(body: Stmt, tensor: str, own: Load) -> Stmt:
    """``body`` with ``own`` in place of the element of ``tensor``."""

    def change(node: Expr) -> Expr | None:
        return own if isinstance(node, Load) and node.source == tensor else None

    def stored(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, stored)
        match stmt:
            case Store(buffer, _, value) if buffer == tensor:
                return Store(tensor, own.indices, value)
            case Update(targets, monoid, values):
                moved = tuple((n, own.indices if n == tensor else at) for n, at in targets)
                return Update(moved, monoid, values)
        return stmt

    return stored(map_all_expressions(body, lambda e: rewrite(e, change)))
