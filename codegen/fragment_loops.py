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

Serial loops inside may run over what a thread has of a row: ``j_p = 8 lot + 2 part + own`` with a
block loop over parts, the digits of a lane. Sums of a row go by ascending lanes. A tensor that is
the first factor of a further tile may be touched at the element's own place: it lies in the same
thread, under the number that its instruction gives it, and is 0 where there is no such element.

Also known as: the epilogue of CUTLASS, fused on accumulators; registers of one product as operands
of the next (FlashAttention).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weft.codegen.held_fragments import HeldFactor, HeldSums
from weft.codegen.rebuild import block, let, map_all_expressions, map_children
from weft.codegen.warp_tile import Point
from weft.ir import dtypes
from weft.ir.errors import CompileError
from weft.ir.loop_ir import Block, For, If, Stmt, Store, Update, expressions, walk
from weft.ir.scalar_affine import Affine, Range, bounds, to_affine, to_expr, variable
from weft.ir.scalar_expr import Expr, Load, Var, literal, rewrite, select
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify


def fragment_loops(
    body: Stmt, tensor: str, sums: HeldSums, factors: Mapping[str, HeldFactor]
) -> Stmt:
    """``body`` with the block loops over elements of ``tensor`` as loops over ``sums``; ``factors``
    are the tensors that are those of tiles.

    Raises ``CompileError`` (WEFT-E0506) where ``tensor`` is touched elsewhere, or a turn of the
    block loops does not follow from the element."""
    if isinstance(body, For) and body.kind == "block" and _touches(body, tensor):
        return _Nest(tensor, sums, factors).shared_out(body)
    if _uses(body, tensor):
        raise no_fragment(tensor, "it is touched outside block loops over its elements")
    return map_children(body, lambda part: fragment_loops(part, tensor, sums, factors))


def no_fragment(tensor: str, why: str) -> CompileError:
    """The refusal of ``tensor`` in scope 'fragment'."""
    return CompileError(
        "WEFT-E0506",
        f"{tensor} cannot stay in the registers of a block's threads",
        why=why,
        hint="keep it in the memory of the device: leave out its scope 'fragment'",
    )


_Turns = tuple[Expr, int, int]  # a loop's value, at least, and less than; -1: not known


@dataclass(slots=True)
class _Nest:
    """Block loops one in another, and what is in them."""

    tensor: str
    sums: HeldSums
    factors: Mapping[str, HeldFactor]
    loops: list[For] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    ranges: dict[str, Range] = field(default_factory=dict)

    def shared_out(self, stmt: Stmt) -> Stmt:
        body = self._inside(stmt)
        for loop in self.loops:
            high = bounds(loop.upper - 1, self.ranges)[1]
            self.ranges[loop.var] = bounds(loop.lower, self.ranges)[0], high
        names = [self.tensor, *(name for name in self.factors if _touches(body, name))]
        touched = [i for name in names for part in walk(body) for i in _uses(part, name)]
        place, *others = {tuple(simplify(i, self.ranges) for i in index) for index in touched}
        if others:
            raise no_fragment(self.tensor, "a turn of the block loops touches several elements")

        body = map_all_expressions(body, lambda e: simplify(e, self.ranges))

        def at(own: Load, point: Point) -> Stmt:
            return self._turn(body, place, own, point)

        return self.sums.each(at)

    def _inside(self, stmt: Stmt) -> Stmt:
        """What is inside the loops that begin with ``stmt`` and say which element a turn has."""
        told = {name for part in walk(stmt) for i in _uses(part, self.tensor) for name in _names(i)}
        while True:
            match stmt:
                case For(kind="block" | "serial", var=var) if stmt.kind == "block" or var in told:
                    self.loops.append(stmt)
                    stmt = stmt.body
                case If(condition, then, Block(())) if _holds_loop(then, told):
                    self.conditions.append(condition)
                    stmt = then
                case _:
                    return stmt

    def _turn(self, body: Stmt, place: tuple[Expr, ...], own: Load, point: Point) -> Stmt:
        """The turn of ``body``, which touches the element at ``place``, where that is ``own``."""
        lets: list[tuple[str, Expr]] = []
        values, tests = self._solved(place, own, point)
        for loop in self.loops:
            if loop.step != 1 or loop.var not in values:
                raise no_fragment(self.tensor, f"its elements do not tell the turns of {loop.var}")
            value, least, most = values[loop.var]
            tests += [Var(loop.var) >= loop.lower] if literal(least) != loop.lower else []
            tests += [Var(loop.var) < loop.upper] if literal(most) != loop.upper else []
            lets.append((loop.var, value))
        tests += self.conditions
        tests += [point[name].equal(value) for name, value in self.sums.single.items()]
        condition: Expr = literal(True, dtypes.bool_)
        for k, test in enumerate(tests):
            condition = condition & test if k else test
        return let(lets, self._guarded(condition, body, own))

    def _solved(
        self, place: tuple[Expr, ...], own: Load, point: Point
    ) -> tuple[dict[str, _Turns], list[Expr]]:
        """The loops' values at the element ``place``, which is ``own`` and at ``point`` of the
        tile, and what has to hold besides."""
        values: dict[str, _Turns] = {}
        tests: list[Expr] = []
        for index, name in zip(place, self.sums.loops, strict=True):
            form, known = to_affine(index), to_affine(point[name])
            if form is None or known is None:
                raise no_fragment(self.tensor, "an index of it is not affine")
            mine = [x for x in self.loops if form.coefficient(x.var)]
            rest = form
            for loop in mine:
                rest = rest - variable(loop.var).scaled(form.coefficient(loop.var))
            if not mine:
                tests.append(point[name].equal(index))
            elif not rest.variables().isdisjoint({x.var for x in self.loops} | values.keys()):
                raise no_fragment(self.tensor, "its elements are no turns of loops of their own")
            else:
                self._check_order(mine, form, name)
                lane = own if name == self.sums.lane and rest == Affine() else None
                values |= self._digits(mine, form, known - rest, lane)
        return values, tests

    def _check_order(self, loops: Sequence[For], form: Affine, name: str) -> None:
        """Check that serial ones of ``loops`` go by ascending lanes of a row, as a thread does."""
        serial = [form.coefficient(x.var) for x in loops if x.kind == "serial"]
        descends = serial == sorted(serial, reverse=True)
        if serial and not (descends and name == self.sums.lane and self.sums.ascending):
            raise no_fragment(self.tensor, "a thread has its elements in another order")

    def _digits(
        self, loops: Sequence[For], form: Affine, known: Affine, lane: Load | None
    ) -> dict[str, _Turns]:
        """The values of ``loops`` where their part of ``form`` is ``known``, which is the lane of
        the element ``lane``: its digits."""
        values: dict[str, _Turns] = {}
        above = 0
        for loop in sorted(loops, key=lambda x: form.coefficient(x.var), reverse=True):
            each, (low, high) = form.coefficient(loop.var), self.ranges[loop.var]
            fits = not above or (low is not None and low >= 0 and high is not None)
            if each < 1 or (above and (above % each or not fits or each * (high or 0) >= above)):
                raise no_fragment(self.tensor, f"its elements do not tell the turns of {loop.var}")
            digit = None if lane is None else self.sums.digit(lane, each, above)
            if digit is None:
                digit = to_expr(known) // each if each > 1 else to_expr(known)
                digit = digit % (above // each) if above else digit
            values[loop.var] = (digit, 0, above // each) if above else (digit, -1, -1)
            above = each
        if above != 1:
            raise no_fragment(self.tensor, "loops leave out elements of it")
        return values

    def _guarded(self, condition: Expr, body: Stmt, own: Load) -> Stmt:
        """``body`` on the thread's ``own`` element where ``condition`` holds."""
        match body:
            case Store(self.tensor, _, value) if not _uses(body, self.tensor, writes=False):
                zero = literal(0, own.dtype)
                start = value if value == zero else select(condition, value, zero)
                return Store(self.tensor, own.indices, start)
        places = {self.tensor: own}
        zeros: list[Stmt] = []
        for name, factor in self.factors.items():
            if _touches(body, name):
                at = factor.element(own.indices, self.sums.instruction)
                if at is None:
                    raise no_fragment(name, f"other threads have it than of {self.tensor}")
                dtype = factor.buffer.dtype
                places[name] = Load(name, at, dtype)
                zeros.append(Store(name, at, literal(0, dtype)))
        return block([*zeros, If(condition, _moved(body, places))])


def _names(indices: Sequence[Expr]) -> set[str]:
    return {node.name for i in indices for node in walk_expr(i) if isinstance(node, Var)}


def _holds_loop(stmt: Stmt, told: Collection[str]) -> bool:
    """Whether block loops are in ``stmt``, or loops of which ``told`` has the variables."""
    loops = (part for part in walk(stmt) if isinstance(part, For))
    return any(x.kind == "block" or x.var in told for x in loops)


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


def _moved(body: Stmt, places: Mapping[str, Load]) -> Stmt:
    """``body`` with elements of tensors at their ``places`` in the thread's registers."""

    def change(node: Expr) -> Expr | None:
        return places.get(str(node.source)) if isinstance(node, Load) else None

    def stored(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, stored)
        match stmt:
            case Store(buffer, _, value) if buffer in places:
                return Store(buffer, places[buffer].indices, value)
            case Update(targets, monoid, values):
                moved = tuple((n, places[n].indices if n in places else at) for n, at in targets)
                return Update(moved, monoid, values)
        return stmt

    return stored(map_all_expressions(body, lambda e: rewrite(e, change)))
