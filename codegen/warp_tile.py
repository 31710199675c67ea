"""A register tile by the warps of a block: fragments in registers, operands in shared memory.

    for w in warps: sums[w] = C                       each lane what it has of the fragments
    for t < stages - 1:                               the first stages are on their way
      copy the operands of step t to slot t; commit
    for t in steps:                                   ``depth`` of the streams each
      await all copies but those of stages - 2 groups; barrier
      copy those of step t + stages - 1 to its slot, if there is such a step; commit
      for w in warps:                                 from slot t mod stages
        for each ``depth`` of the instruction: a[w], b[w] = …; sums[w] += a[w] * b[w]
    for w in warps: C = sums[w]

Where C is a tensor in scope 'fragment', it is the sums: neither loaded nor stored, and what is
around the tile computes on it in place (``fragment_loops``). Where A is one, it is the first factor
as the warps have it, and is neither staged nor loaded.

The barrier in each step is the only one that is placed here: ``form_parallel_region`` places others
by the names of buffers, and the proof of races spares those that slots make idle. With one stage
copies are awaited at once, with none there is no shared memory: each lane reads what its fragments
hold.

What no instance reads is 0 in fragments and in shared memory: tails of rows, lanes and streams, and
what lies outside a guard. Operands lie in shared memory as in the device's, neighbours first along
their ``Panel.along``; with 16 bits an element, matrices are transposed on the way to fragments
where the instruction wants them so. Lines of a slot are exclusive-ored with the number of their row
(``swizzle_of``), so that no two lines that a warp reads at once are in one bank. What several
threads have copies of is read element by element, and has a gap of a line between its rows instead.

Also known as: CUTLASS's multistage threadblock MMA; swizzled layouts of CuTe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from weft.codegen.rebuild import block, let, under
from weft.codegen.statement_instance import Instances
from weft.codegen.tile_bounds import TRUE, ZERO, all_of, extreme, span
from weft.ir.dtypes import DType
from weft.ir.instruction import ACCUMULATOR, Operand
from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Buffer,
    CommitCopies,
    For,
    If,
    Issue,
    Kind,
    LoadMatrices,
    Scope,
    Stmt,
    Store,
    Swizzle,
)
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select, substitute
from weft.ir.scalar_simplify import simplify
from weft.ir.schedule_tree import MarkedTile
from weft.ir.scop import Tensor
from weft.polyhedral.analysis.tile_domain import TileDomain
from weft.polyhedral.analysis.warp_tile import Panel, WarpTile, warp_tile

Point = Mapping[str, Expr]  # loops of the tile → their values
BANKS = MATRIX[0] * MATRIX[1] * WORD  # bytes that shared memory gives at once


def emit_warp_tile(
    instances: Instances, tile: MarkedTile, domain: TileDomain, values: Sequence[Expr]
) -> Stmt:
    """The tile at the ``values`` of the outer loops."""
    body = emission_of(instances, tile, domain).tile()
    return let(list(zip(domain.outer, values, strict=True)), body)


def emission_of(instances: Instances, tile: MarkedTile, domain: TileDomain) -> WarpEmission:
    """The code of ``tile``, which there is."""
    found = warp_tile(instances.scop, tile, domain)
    assert not isinstance(found, str), "there is code for it"
    return WarpEmission(instances, tile, domain, found)


def swizzle_of(row: int, dtype: DType, line: int) -> Swizzle | None:
    """The permutation of memory with rows of ``row`` elements, in lines of ``line`` bytes, by which
    the same line of as many neighbouring rows as a matrix has lies in different banks; None for
    rows of a single line, and for those whose size is no power of 2."""
    count = row * dtype.itemsize // line
    if count < 2 or row & (row - 1):
        return None
    base, most = _log2(line // dtype.itemsize), _log2(MATRIX[0])
    apart = max(_log2(row), _log2(BANKS // dtype.itemsize))  # rows that share all banks
    return Swizzle(min(most, _log2(count)), base, apart - base)


def _log2(n: int) -> int:
    return n.bit_length() - 1


@dataclass(slots=True)
class WarpEmission:
    """The code of the tile ``marked``, of the operands ``found``."""

    instances: Instances
    marked: MarkedTile
    domain: TileDomain
    found: WarpTile
    counts: list[Expr] = field(default_factory=list)  # turns of streams; at last, steps
    lows: list[Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, hull in zip(self.domain.streams, self.domain.streams_hull, strict=True):
            low, high = span(hull, name)
            self.lows.append(simplify(low))
            self.counts.append(simplify(apply("max", high - low, ZERO)))
        depth = self.marked.payload.depth
        self.counts[-1] = simplify((self.counts[-1] + (depth - 1)) // depth)

    # ---- buffers ------------------------------------------------------------------------------

    @property
    def warps(self) -> tuple[int, int]:
        rows, lanes = self.marked.payload.warps
        return rows, lanes

    def _tiles(self, name: str) -> tuple[int, ...]:
        """How many fragments of an operand a warp has, along its rows and lanes."""
        own = self.found.instruction
        down = self.found.left.turns // (self.warps[0] * own.rows)
        across = self.found.right.turns // (self.warps[1] * own.lanes)
        return {ACCUMULATOR: (down, across), own.tensors[0]: (down,), own.tensors[1]: (across,)}[
            name
        ]

    def _numbers(self, name: str) -> int:
        """Elements of a fragment that one thread has."""
        own, warp = self.found.instruction, self.found.instruction.warp
        assert warp is not None, "a warp computes it"
        operand = own.operands[name]
        return prod(own.extents[d] for d in operand.elements) * operand.copies // warp.threads

    @property
    def _target(self) -> Tensor:
        ((name, _),) = _targets(self.instances, self.marked, self.domain)
        return self.instances.tensor(name)

    @property
    def _held(self) -> bool:
        """Whether the target is the sums themselves."""
        return self._target.scope == "fragment"

    def _fragment(self, name: str) -> str:
        if name == ACCUMULATOR and self._held:
            return self._target.name
        if name == self.found.left.name and self._in_place(self.found.left):
            return self.found.left.access.tensor
        return f"{self.domain.lane}.{name}"

    def _in_place(self, panel: Panel) -> bool:
        """Whether the warps have ``panel`` in their fragments."""
        return self.instances.tensor(panel.access.tensor).scope == "fragment"

    @property
    def _staged(self) -> list[Panel]:
        """The operands that are read from memory."""
        return [p for p in (self.found.left, self.found.right) if not self._in_place(p)]

    def sums(self) -> Buffer:
        """The sums of all warps, as a fragment."""
        return self._fragments(ACCUMULATOR, self.found.instruction.dtype)

    def factor(self) -> Buffer:
        """The first factor of all warps, for all steps, as a fragment."""
        panel, depth = self.found.left, self.found.instruction.depth
        return self._fragments(panel.name, self._dtype(panel), self.marked.payload.depth // depth)

    def _fragments(self, name: str, dtype: DType, *more: int) -> Buffer:
        warp = self.found.instruction.warp
        assert warp is not None, "a warp computes it"
        sizes = (prod(self.warps), *self._tiles(name), *more, warp.threads, self._numbers(name))
        return _buffer(self._fragment(name), dtype, sizes, "fragment")

    def _slots(self, panel: Panel) -> str:
        return f"{self.domain.lane}.{panel.name}.slots"

    def _dtype(self, panel: Panel) -> DType:
        return self.instances.tensor(panel.access.tensor).dtype

    def _by_steps(self, panel: Panel) -> bool:
        """Whether neighbours in shared memory are steps of the stream."""
        return panel.along != panel.own[-1]

    def _allocated(self, body: Stmt) -> Stmt:
        own, payload = self.found.instruction, self.marked.payload
        warp = own.warp
        assert warp is not None, "a warp computes it"
        for panel in self._staged if payload.stages else ():
            shape = (payload.depth, panel.turns)
            shape = shape[::-1] if self._by_steps(panel) else shape
            dtype, sizes = self._dtype(panel), (payload.stages, *shape)
            if own.operands[panel.name].copies == 1:
                swizzle = swizzle_of(shape[-1], dtype, warp.line)
                buffer = _buffer(self._slots(panel), dtype, sizes, "shared", swizzle)
            else:  # its elements are read one by one: neighbours stay neighbours
                gap = warp.line // dtype.itemsize if self._by_steps(panel) else 0
                buffer = _buffer(self._slots(panel), dtype, sizes, "shared", gap=gap)
            body = Allocate(buffer, body)
        if not self._held:
            body = Allocate(self.sums(), body)
        for panel in self._staged:
            body = Allocate(self._fragments(panel.name, self._dtype(panel)), body)
        return body

    # ---- the tile -----------------------------------------------------------------------------

    def tile(self) -> Stmt:
        stages = self.marked.payload.stages
        step = self.instances.fresh("step")
        steps: Expr = literal(1)
        for count in self.counts:
            steps = steps * count
        steps = simplify(steps)
        if not stages:
            main = [self._loop(step, steps, self._compute(Var(step), None))]
        elif stages == 1:
            body = (
                self._stage(Var(step), ZERO), CommitCopies(), AwaitCopies(0),
                self._compute(Var(step), ZERO),
            )  # fmt: skip
            main = [self._loop(step, steps, block(body))]
        else:
            main = self._pipeline(step, steps, stages)
        if not self._held:
            main = [self._sums(self._load), *main, self._sums(self._store)]
        return self._allocated(block(main))

    def _loop(self, name: str, end: Expr, body: Stmt, kind: Kind = "serial") -> Stmt:
        return For(name, ZERO, end, kind, body)

    def _pipeline(self, step: str, steps: Expr, stages: int) -> list[Stmt]:
        first = self.instances.fresh("stage")
        filled = If(Var(first) < steps, self._stage(Var(first), Var(first)))
        begin = self._loop(first, literal(stages - 1), block([filled, CommitCopies()]))
        now = Var(step)
        ahead = now + (stages - 1)
        body = block(
            [
                AwaitCopies(stages - 2),
                Barrier(),
                If(ahead < steps, self._stage(ahead, ahead % stages)),
                CommitCopies(),
                self._compute(now, now % stages),
            ]
        )
        return [begin, self._loop(step, steps, body)]

    # ---- points -------------------------------------------------------------------------------

    def _at_step(self, step: Expr, make: Callable[[Point], Stmt]) -> Stmt:
        """What ``make`` makes of the first point of the streams in ``step``, by name."""
        lets: list[tuple[str, Expr]] = []
        point: dict[str, Expr] = {}
        rest = step
        named = list(zip(self.domain.streams, self.counts, self.lows, strict=True))
        for k, (name, count, low) in reversed(list(enumerate(named))):
            digit = rest % count if k else rest
            rest = rest // count if k else rest
            size = self.marked.payload.depth if k == len(named) - 1 else 1
            lets.append((self.instances.fresh(name), low + digit * size))
            point[name] = Var(lets[-1][0])
        return let(lets, make(point))

    def _own(self, panel_own: Sequence[str], place: Expr) -> Point:
        """The loops of rows or lanes at the ``place``-th of their points, the last one fastest."""
        found: dict[str, Expr] = {}
        below = 1
        for name in reversed(panel_own):
            size = self.found.sizes[name]
            digit = place if below == 1 else place // below
            found[name] = digit if name == panel_own[0] else digit % size
            below *= size
        return found

    def _element(self, panel: Panel, point: Point) -> tuple[Load, Expr]:
        """The element at ``point``, and whether there is one."""
        tensor = self.instances.tensor(panel.access.tensor)
        indices = tuple(_at(form, point) for form in panel.indices)
        holds = all_of(_at(form, point) >= 0 for form in panel.conditions)
        return Load(tensor.name, indices, tensor.dtype), holds

    # ---- from memory to shared memory ---------------------------------------------------------

    def _stage(self, step: Expr, slot: Expr) -> Stmt:
        def copies(streams: Point) -> Stmt:
            return block([self._copied(panel, streams, slot) for panel in self._staged])

        return self._at_step(step, copies)

    def _copied(self, panel: Panel, streams: Point, slot: Expr) -> Stmt:
        """A panel to its slot, line by line."""
        warp, depth = self.found.instruction.warp, self.marked.payload.depth
        assert warp is not None, "a warp computes it"
        size = warp.line // self._dtype(panel).itemsize
        line = self.instances.fresh("line")
        if self._by_steps(panel):
            place, q = Var(line) // (depth // size), Var(line) % (depth // size) * size
            shared = (slot, place, q)
        else:
            place = Var(line) % (panel.turns // size) * size
            q = Var(line) // (panel.turns // size)
            shared = (slot, q, place)
        last = self.domain.streams[-1]

        def at(e: Expr | int) -> Point:
            steps = q + e if self._by_steps(panel) else q
            own = place if self._by_steps(panel) else place + e
            point = {**streams, **self._own(panel.own, own)}
            return {**point, last: streams[last] + steps}

        name = self._slots(panel)
        if panel.along:
            load, _ = self._element(panel, at(0))
            valid = self._valid(panel, at(0), size)
            source = str(load.source), load.indices
            body: Stmt = AsyncCopy((name, shared), source, size, valid)
        else:
            e = self.instances.fresh("element")
            load, holds = self._element(panel, at(Var(e)))
            value = select(holds, load, literal(0, load.dtype))
            stored = Store(name, (*shared[:-1], shared[-1] + Var(e)), value)
            body = self._loop(e, literal(size), stored, "unrolled")
        return For(line, ZERO, literal(depth * panel.turns // size), "block", body)

    def _valid(self, panel: Panel, point: Point, size: int) -> Expr:
        """How many of the ``size`` elements from ``point`` on there are."""
        whole: list[Expr] = []
        some: list[Expr] = [literal(size)]
        for form in panel.conditions:
            step = form.coefficient(panel.along)
            if step:
                some.append(_at(form, point) // -step + 1)
            else:
                whole.append(_at(form, point) >= 0)
        count = extreme("min", some)
        count = count if len(some) == 1 else apply("max", count, ZERO)
        holds = all_of(whole)
        return count if holds == TRUE else select(holds, count, ZERO)

    # ---- fragments ----------------------------------------------------------------------------

    def _each_warp(self, make: Callable[[Expr], Stmt]) -> Stmt:
        name = self.instances.fresh("warp")
        return For(name, ZERO, literal(prod(self.warps)), "warp", make(Var(name)))

    def _each_lane(self, make: Callable[[Expr], Stmt]) -> Stmt:
        warp = self.found.instruction.warp
        assert warp is not None, "a warp computes it"
        name = self.instances.fresh("thread")
        return For(name, ZERO, literal(warp.threads), "lane", make(Var(name)))

    def _called(self, make: Callable[..., Stmt], **values: Expr) -> Stmt:
        """What ``make`` makes of ``values``, with names for them."""
        lets = [(self.instances.fresh(name), value) for name, value in values.items()]
        return let(lets, make(*(Var(name) for name, _ in lets)))

    def _each(self, hint: str, count: int, make: Callable[[Expr], Stmt]) -> Stmt:
        name = self.instances.fresh(hint)
        return self._loop(name, literal(count), make(Var(name)), "unrolled")

    def _start(self, dim: str, warp: Expr, tile: Expr) -> Expr:
        """The first row (or lane) of a warp's ``tile``-th fragment."""
        own = self.found.instruction
        if dim in own.across:
            each = self.found.right.turns // self.warps[1]
            return warp % self.warps[1] * each + tile * own.extents[dim]
        each = self.found.left.turns // self.warps[0]
        return warp // self.warps[1] * each + tile * own.extents[dim]

    def _sums(self, make: Callable[[Load, Load, Expr], Stmt]) -> Stmt:
        """``make`` of each sum, the element that it is of, and whether there is one."""
        ((target, place),) = _targets(self.instances, self.marked, self.domain)
        dtype = self.instances.tensor(target).dtype

        def one(held: Load, point: Point) -> Stmt:
            element = Load(target, tuple(_at(form, point) for form in place), dtype)
            return make(held, element, all_of(_at(c, point) >= 0 for c in self.found.target))

        return self.each_sum(one)

    def each_sum(self, make: Callable[[Load, Point], Stmt]) -> Stmt:
        """``make`` of each sum where its thread has it, at the loops of rows and lanes there."""
        own = self.found.instruction
        row, lane = (d for d in own.extents if d not in own.summed)

        def one(w: Expr, i: Expr, j: Expr, thread: Expr, number: Expr) -> Stmt:
            at = _elements(own.operands[ACCUMULATOR], thread, number)
            held = Load(self._fragment(ACCUMULATOR), (w, i, j, thread, number), own.dtype)

            def element(down: Expr, across: Expr) -> Stmt:
                rows, lanes = (
                    self._own(self.domain.rows, down),
                    self._own((self.domain.lane,), across),
                )
                return make(held, {**rows, **lanes})

            return self._called(
                element,
                row=self._start(row, w, i) + at[row],
                column=self._start(lane, w, j) + at[lane],
            )

        down, across = self._tiles(ACCUMULATOR)
        return self._each_warp(
            lambda w: self._each_lane(
                lambda thread: self._each(
                    "row", down,
                    lambda i: self._each(
                        "column", across,
                        lambda j: self._each(
                            "number", self._numbers(ACCUMULATOR),
                            lambda number: one(w, i, j, thread, number),
                        ),
                    ),
                )
            )
        )  # fmt: skip

    def _load(self, held: Load, element: Load, inside: Expr) -> Stmt:
        value = select(inside, element, literal(0, element.dtype))
        return Store(str(held.source), held.indices, value)

    def _store(self, held: Load, element: Load, inside: Expr) -> Stmt:
        return under(inside, Store(str(element.source), element.indices, held))

    def _compute(self, step: Expr, slot: Expr | None) -> Stmt:
        """All products of one step, from ``slot`` of shared memory, or from the device's."""
        own, depth = self.found.instruction, self.marked.payload.depth

        def products(w: Expr, part: Expr, streams: Point) -> Stmt:
            q = part * own.depth
            loads = [self._read(panel, w, q, slot, streams) for panel in self._staged]
            down, across = self._tiles(ACCUMULATOR)
            a, b = (self._fragment(name) for name in own.tensors)
            held = (part,) if self._in_place(self.found.left) else ()
            issue = self._each(
                "row", down,
                lambda i: self._each(
                    "column", across,
                    lambda j: Issue(
                        own,
                        ((self._fragment(ACCUMULATOR), (w, i, j)), (a, (w, i, *held)), (b, (w, j))),
                    ),
                ),
            )  # fmt: skip
            return block([*loads, issue])

        def in_warp(w: Expr, streams: Point) -> Stmt:
            return self._each("part", depth // own.depth, lambda part: products(w, part, streams))

        if slot is not None:
            return self._each_warp(lambda w: in_warp(w, {}))
        return self._at_step(step, lambda s: self._each_warp(lambda w: in_warp(w, s)))

    def _read(self, panel: Panel, w: Expr, q: Expr, slot: Expr | None, streams: Point) -> Stmt:
        """The fragments of an operand."""
        itemsize = self._dtype(panel).itemsize
        own, (tiles,) = self.found.instruction, self._tiles(panel.name)
        whole = self._by_steps(panel) or 2 * itemsize == WORD
        if slot is not None and whole and own.operands[panel.name].copies == 1:
            return self._matrices(panel, w, q, slot)
        (dim,) = (d for d in own.operands[panel.name].elements if d not in own.summed)
        last = self.domain.streams[-1]

        def one(i: Expr, thread: Expr, number: Expr) -> Stmt:
            at = _elements(own.operands[panel.name], thread, number)

            def filled(place: Expr, steps: Expr) -> Stmt:
                if slot is None:
                    point = {**streams, last: streams[last] + steps, **self._own(panel.own, place)}
                    load, holds = self._element(panel, point)
                    value = select(holds, load, literal(0, load.dtype))
                else:
                    order = (place, steps) if self._by_steps(panel) else (steps, place)
                    value = Load(self._slots(panel), (slot, *order), self._dtype(panel))
                return Store(self._fragment(panel.name), (w, i, thread, number), value)

            return self._called(
                filled, row=self._start(dim, w, i) + at[dim], step=q + at[own.summed[0]]
            )

        return self._each_lane(
            lambda thread: self._each(
                "tile", tiles,
                lambda i: self._each(
                    "number", self._numbers(panel.name), lambda number: one(i, thread, number)
                ),
            )
        )  # fmt: skip

    def _matrices(self, panel: Panel, w: Expr, q: Expr, slot: Expr) -> Stmt:
        """The fragments from lines of shared memory: those of one tile, or of several at once."""
        own, (tiles,) = self.found.instruction, self._tiles(panel.name)
        warp, operand = own.warp, own.operands[panel.name]
        assert warp is not None, "a warp computes it"
        (dim,), (steps,) = (d for d in operand.elements if d not in own.summed), own.summed
        word = WORD // self._dtype(panel).itemsize
        each = self._numbers(panel.name) // word  # matrices of a tile
        most = warp.threads // MATRIX[0]
        together = max(1, most // each) if tiles % max(1, most // each) == 0 else 1
        turned = not self._by_steps(panel)

        def one(group: Expr, thread: Expr) -> Stmt:
            row, matrix = thread % MATRIX[0], thread // MATRIX[0] % (each * together)
            number = matrix % each * word
            if turned:
                along = _elements(operand, row // word, number + row % word)[steps]
                place = _elements(operand, ZERO, number)[dim]
            else:
                found = _elements(operand, row * MATRIX[1], number)
                place, along = found[dim], found[steps]
            tile = group * together
            place = self._start(dim, w, tile + matrix // each) + place

            def loaded(place: Expr, along: Expr) -> Stmt:
                order = (along, place) if turned else (place, along)
                return LoadMatrices(
                    self._fragment(panel.name), (w, tile), self._slots(panel), (slot, *order),
                    thread, each * together, turned,
                )  # fmt: skip

            return self._called(loaded, row=place, step=q + along)

        return self._each_lane(
            lambda thread: self._each("tile", tiles // together, lambda group: one(group, thread))
        )


def _buffer(
    name: str,
    dtype: DType,
    sizes: Sequence[int],
    scope: Scope,
    swizzle: Swizzle | None = None,
    gap: int = 0,
) -> Buffer:
    """``gap``: elements between its rows that are nobody's."""
    whole = (*sizes[:-1], sizes[-1] + gap)
    strides = [literal(prod(whole[k + 1 :])) for k in range(len(sizes))]
    return Buffer(name, dtype, tuple(map(literal, sizes)), tuple(strides), scope, swizzle=swizzle)


def _elements(operand: Operand, thread: Expr, number: Expr) -> dict[str, Expr]:
    """The dims that an operand has at a place in its fragment."""
    known: dict[str, Expr] = {"thread": thread, "number": number}
    return {dim: substitute(value, known) for dim, value in operand.elements.items()}


def _at(form: Affine, point: Point) -> Expr:
    return substitute(to_expr(form), dict(point))


def _targets(
    instances: Instances, tile: MarkedTile, domain: TileDomain
) -> list[tuple[str, tuple[Affine, ...]]]:
    """The tensors that are updated, each with its indices over the loops."""
    found = []
    for write in instances.scop.statement(tile.statement).writes:
        stored = write.indices[instances.tensor(write.tensor).contracted :]
        forms = tuple(domain.inverse.over_loops(affine(index)) for index in stored)
        found.append((write.tensor, forms))
    return found
