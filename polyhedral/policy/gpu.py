"""A schedule for a GPU: which loops are bound to its grid and to the threads of a block.

    independent loops    grid × block; the one along memory is innermost, on threads
    what is left         serial loops of one thread
    a loop that carries  a serial loop on the host around launches
    products             tiles of results that the warps of a block compute, by tensor cores or as
                         tiles of their threads (``gpu_product``), with what else shares their loops
    rows                 statements that share independent loops and reduce along memory: a block
                         for each row, its threads along the rest; sums of the block through its
                         shared memory, from partial results of each thread to 16 to one

The same recursion places all of it: the components of the dependence graph one after the other,
each under the independent loops that its statements share, or else under one that carries. What
its loops are bound to depends on the level that the loops around it have used up.

    host     grid and block are free      for i: for j: for k: C[i, j] += …
    block    threads of the block are     →
    thread   nothing is                   grid i_t, j_t: block i_p, j_p: for k: C[i, j] += …

Nothing here is trusted: ``legality`` judges the tree, and ``proof/gpu.py`` the kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal as Choice

from weft.ir.errors import BudgetError, IllegalScheduleError
from weft.ir.gpu import Gpu
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Expr, Literal, Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, Tree, marked_tiles
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop, Scope, Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.policy.gpu_parts import along_memory, in_parts, is_part, runs, values_of
from weft.polyhedral.policy.gpu_product import GpuProduct, gpu_product
from weft.polyhedral.policy.gpu_sweep_costs import sweep_costs
from weft.polyhedral.policy.gpu_sweeps import Sweeps, find_sweeps, prepared, sweeps_tree
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.prepare import forward_substitution, prepare
from weft.polyhedral.proof.dependences import reassociable
from weft.polyhedral.register_tile import why_not_register_tile
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.expand_all import privatize
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.nest import build
from weft.polyhedral.transform.private_results import private_result
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled, loops_above, replace_loop, tidy
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tile import point_name, tile_name

GROUPS = 16  # partial results of partial results of a block
Level = Choice["host", "block", "thread"]


def schedule_gpu(scop: Scop, gpu: Gpu) -> Scheduled:
    """``scop`` with loops bound to the levels of ``gpu``; as it is written, on one thread, where a
    budget is exceeded."""
    try:
        begun = forward_substitution(privatize(prepare(initial(scop, gpu.instructions))))
        found = find_sweeps(begun.scop, gpu)
        swept, note = (None, "") if found is None else _swept(begun, found, gpu)
        if swept is not None:
            return replace(swept, notes=(*swept.notes, note))
        begun, parts = in_parts(begun, gpu)
        made = _results_in_registers(begun, _planned(begun, gpu), gpu)
        return replace(made, notes=(*made.notes, *parts, *((note,) if note else ())))
    except BudgetError as error:
        return replace(initial(scop), notes=(f"one thread, because {error.what}",))


def _swept(begun: Scheduled, found: Sweeps, gpu: Gpu) -> tuple[Scheduled | None, str]:
    """``begun`` as two products with sweeps between them, in one launch; None where it does not go
    so, there is no code for it, or launches of their own are cheaper. And that, in words."""
    try:
        apart = prepared(begun, found)
        policy = _Policy(apart, gpu)
        group = policy.planner.everything()
        planes = [plane.at for plane in policy._independent(group)]
        tree, against = sweeps_tree(policy.planner, group, planes, found)
        if tree is None:
            return None, f"no sweeps, because {against}"
        costs = sweep_costs(begun.scop, found, gpu)
        if costs.apart < costs.together:
            return None, f"no sweeps, because they are dearer: {costs}"
        made = _in_registers(build(apart, tidy(tree)))
        for tensor in made.scop.tensors:
            if tensor.role == "temp" and not tensor.contracted:
                scope: Scope = "fragment" if tensor.name == found.factor else "local"
                made = contract(made, tensor.name, scope=scope)
    except IllegalScheduleError as error:
        return None, f"no sweeps, because {error.what}"
    if not _in_a_block(made):
        return None, "no sweeps, because a block does not hold what is between them"
    return made, f"sweeps: {found.first}, {found.second}: {costs}"


def _in_a_block(made: Scheduled) -> bool:
    """Whether a block has all temporaries of ``made`` for itself, and tiles have code."""
    temps = [t for t in made.scop.tensors if t.role == "temp"]
    small = all(isinstance(n, Literal) for t in temps for n in t.shape[t.contracted :])
    tiles = marked_tiles(made.tree).values()
    inside = all(t.contracted for t in temps) and small
    return inside and not any(why_not_register_tile(made.scop, tile) for tile in tiles)


def _planned(begun: Scheduled, gpu: Gpu) -> Scheduled:
    policy = _Policy(begun, gpu)
    tree = tidy(policy.nest(policy.planner.everything(), "host"))
    made = replace(build(begun, tree), notes=tuple(policy.notes))
    for statement, loop in policy.folds:
        made = _partial_results(made, statement, loop)
    return _in_registers(made)


def _results_in_registers(begun: Scheduled, made: Scheduled, gpu: Gpu) -> Scheduled:
    """``made`` of ``begun``; where sums of warps are results, those that can stay in registers
    until all is computed from them, and are then stored once."""
    for tensor in [t for t in _sums(made) if made.scop.tensor(t).role != "temp"]:
        apart = private_result(begun, tensor, once=True)
        if apart is begun:
            continue
        other = _planned(apart, gpu)
        (own,) = {t.name for t in apart.scop.tensors} - {t.name for t in begun.scop.tensors}
        if other.scop.tensor(own).scope == "fragment":
            begun, made = apart, other
    return made


def _sums(scheduled: Scheduled) -> list[str]:
    """What register tiles update, in the order of the statements."""
    tiles = marked_tiles(scheduled.tree)
    updated = [w.tensor for s in scheduled.scop.statements if s.name in tiles for w in s.writes]
    return list(dict.fromkeys(updated))


def thread_machine(gpu: Gpu) -> Machine:
    """One thread of ``gpu`` as passes over graphs see a processor: no vectors, small memories."""
    caches = (Cache(gpu.shared_memory), Cache(gpu.cache, cores=gpu.multiprocessors))
    registers = gpu.registers // gpu.threads
    return Machine(gpu.name, 1, registers, caches, extensions=gpu.instructions)


@dataclass(slots=True)
class _Policy:
    begun: Scheduled
    gpu: Gpu
    planner: Planner = field(init=False)
    notes: list[str] = field(default_factory=list)
    folds: list[tuple[str, str]] = field(default_factory=list)  # statements, and their block loops

    def __post_init__(self) -> None:
        self.planner = Planner(self.begun, thread_machine(self.gpu), (), _alone, _never)

    def nest(self, group: Group, level: Level) -> Tree:
        """The components of ``group`` in order, inside loops that have used up ``level``."""
        parts = [group.part(names) for names in group.components()]
        if level == "host":
            parts = self._fused(group, parts)
        return TreeSequence(tuple(self._part(part, level) for part in parts))

    def _part(self, group: Group, level: Level) -> Tree:
        planes = [] if level == "thread" else self._independent(group)
        if level == "host" and (product := self._product(group, planes)) is not None:
            return product
        if level == "host" and (planes or len(group.names) == 1):
            if self._is_rows(group, planes):
                return self._rows(group, planes)
            if planes:
                return self._grid(group, planes)
        if planes:
            return self._block(group, planes)
        if len(group.names) == 1:
            fold = self._fold(group) if level == "block" else None
            return self._serial(group) if fold is None else self._reduced(group, fold)
        carrier = self._carrier(group, level)
        if carrier is None:
            return self.planner.as_written(group)
        loop = self.planner.loop(self.planner.name(carrier.at), carrier.at)
        return Band((loop,), self.nest(group.inside(carrier.at), level))

    def _serial(self, group: Group) -> Tree:
        """One statement in its textual loops."""
        (name,) = group.names
        loops = (
            self.planner.loop(d, {name: Var(d)}, "serial") for d in self.planner.free(group, name)
        )
        return Band(tuple(loops), Leaf(name))

    # ---- which loops ----------------------------------------------------------------------------

    def _independent(self, group: Group) -> list[Hyperplane]:
        """Loops that all statements share and that carry nothing, not even a reduction."""
        found: list[Hyperplane] = []
        free = {n: list(self.planner.free(group, n)) for n in group.names}
        anchor = min(group.names, key=lambda n: len(free[n]))
        for value in [*map(Var, free[anchor]), *self._parts(anchor)]:
            own = {n: self._alike(value, n, dims) for n, dims in free.items()}
            own.pop(anchor)
            if not all(own.values()):
                break
            plane = group.search().complete({anchor: value}, own)
            if plane is None or not plane.coincident or self._folds(group, plane.at):
                continue
            found.append(plane)
            group = group.inside(plane.at)
            for name, at in plane.at.items():
                free[name] = [d for d in free[name] if not mentions(at, (d,))]
        return found

    def _alike(self, value: Expr, name: str, dims: Sequence[str]) -> list[Expr]:
        """What may go with ``value`` in a loop: the dim of its name, or else parts, then others."""
        named = [d for d in dims if Var(d) == value]
        others = [d for d in dims if d not in named]
        return [*map(Var, named), *self._parts(name), *map(Var, others)]

    def _folds(self, group: Group, at: At) -> bool:
        """Whether a statement reduces along the loop ``at``, into one element."""
        own = (n for n in group.names if at[n] not in self._parts(n))
        return self.planner.folds(group.part(list(own)), at)

    def _parts(self, name: str) -> list[Expr]:
        """What tells apart the partial results of a statement (``gpu_parts``)."""
        s = self.planner.scop.statement(name)
        if s.update is None:
            return []
        return [i for w in s.writes for i in w.indices if is_part(i, s.update.dims)]

    def _carrier(self, group: Group, level: Level) -> Hyperplane | None:
        """A loop that all statements share and along which no dependence runs backwards: the one
        inside which most loops are independent."""
        free = {n: self.planner.free(group, n) for n in group.names}
        anchor = max(group.names, key=lambda n: len(free[n]))
        best: tuple[int, Hyperplane] | None = None
        for dim in free[anchor]:
            own: dict[str, list[Var]] = {}
            for name in group.names:
                if name != anchor:
                    dims = free[name] or self.planner.scop.statement(name).dims
                    own[name] = [Var(d) for d in sorted(dims, key=dim.__ne__)]
            found = group.search().complete({anchor: Var(dim)}, own)
            if found is not None:
                worth = 0 if level == "thread" else self._spread(group.inside(found.at))
                best = max(best or (worth, found), (worth, found), key=lambda x: x[0])
        return None if best is None else best[1]

    def _spread(self, group: Group) -> int:
        """How many independent loops there are around the components of ``group``."""
        return sum(len(self._independent(group.part(c))) for c in group.components())

    def _fused(self, group: Group, parts: Sequence[Group]) -> list[Group]:
        """``parts`` in order, each together with one before it that it depends on, where neither
        loses parallelism by it and those between do not mind."""
        made: list[Group] = []
        for part in parts:
            place = len(made)
            for k in reversed(range(len(made))):
                both, between = self._together(group, made[k], part), made[k + 1 : place]
                if both is None:
                    continue
                if not any(_depends(group, part, m) for m in between):
                    place = k
                elif not any(_depends(group, m, made[k]) for m in between):
                    place -= 1
                else:
                    continue
                del made[k]
                part = both
            made.insert(place, part)
        return made

    def _together(self, group: Group, one: Group, other: Group) -> Group | None:
        """Both, if they share all their independent loops, over the same values; no product of
        warps becomes one of rows."""
        if not _depends(group, other, one):
            return None
        both = group.part([n for n in group.names if n in (*one.names, *other.names)])
        planes = self._independent(both)
        alone = [len(self._independent(part)) for part in (one, other)]
        as_parallel = alone == [len(planes)] * 2 or self._is_rows(both, planes)
        if not planes or not as_parallel:
            return None
        apart = any(self._by_warps(part, self._independent(part)) for part in (one, other))
        if apart and not self._by_warps(both, planes):
            return None
        return both if all(self._same_range(both, p) for p in planes) else None

    # ---- rows -----------------------------------------------------------------------------------

    def _is_rows(self, group: Group, planes: Sequence[Hyperplane]) -> bool:
        """Whether a block is to take a turn of ``planes``: a statement reduces along memory what
        other turns do not read, and those with further independent loops reduce nothing."""
        inner = group.inside(*(p.at for p in planes))
        folds = False
        for s in self.planner.statements(group):
            alone = inner.part([s.name])
            fold = self._fold(alone)
            if fold is not None and self._streams(s, planes, fold):
                folds = True
            elif (s.update is not None and self._independent(alone)) or fold is not None:
                return False
        return folds

    def _streams(self, s: Statement, planes: Sequence[Hyperplane], fold: str) -> bool:
        """Whether a read moves with all ``planes``, and along memory with ``fold`` alone; what does
        not move with ``fold`` is one element of a row."""
        values = [p.at[s.name] for p in planes]
        dims = [value.name for value in values if isinstance(value, Var)]
        whole = [a for a in s.accesses if moves(a, fold)]
        across = all(sum(runs(a, d) for a in whole) <= 0 for d in dims)
        reads = any(runs(a, fold) == 1 and all(moves(a, d) for d in dims) for a in s.reads)
        return len(dims) == len(planes) and reads and across

    def _fold(self, group: Group) -> str | None:
        """The dim of the only statement of ``group`` along which a block reduces: one along memory
        that carries nothing but the reduction."""
        (name,) = group.names
        s = self.planner.scop.statement(name)
        if s.update is None or len(s.writes) > 1 or not reassociable(s):
            return None
        for dim in reversed(self.planner.free(group, name)):
            along = dim in s.update.dims and along_memory(self.gpu, s, dim)
            if along and group.independent({name: Var(dim)}):
                return dim
        return None

    def _rows(self, group: Group, planes: Sequence[Hyperplane]) -> Tree:
        """A block for each turn of ``planes``."""
        loops = (self.planner.loop(self.planner.name(p.at), p.at, "grid") for p in planes)
        self.notes.append(f"a block for each row: {', '.join(group.names)}")
        inner = group.inside(*(p.at for p in planes))
        return Band(tuple(loops), self.nest(inner, "block"))

    def _reduced(self, group: Group, fold: str) -> Tree:
        """One statement whose ``fold`` the threads of a block share out, side by side."""
        (name,) = group.names
        rest = [d for d in self.planner.free(group, name) if d != fold]
        thread = self.planner.loop(point_name(fold), {name: Var(fold) % self.gpu.block}, "block")
        loops = [self.planner.loop(d, {name: Var(d)}) for d in rest]
        last = self.planner.loop(tile_name(fold), {name: Var(fold) // self.gpu.block})
        self.folds.append((name, thread.name))
        return Band((thread, *loops, last), Leaf(name))

    def _same_range(self, group: Group, plane: Hyperplane) -> bool:
        ranges = {values_of(s, plane.at[s.name]) for s in self.planner.statements(group)}
        return len(ranges) == 1 and None not in ranges

    # ---- products -------------------------------------------------------------------------------

    def _product(self, group: Group, planes: Sequence[Hyperplane]) -> Tree | None:
        """One product of ``group`` by warps, and what else shares all of ``planes``."""
        found = self._products(group, planes)
        if len(found) != 1:
            return None
        tree, against = self._judged(group, planes, found[0])
        if against:
            self.notes.append(f"no warps for {found[0].statement}, because {against}")
            return None
        self.notes.append(f"warps: {found[0].statement}, {found[0].payload}")
        return tree

    def _by_warps(self, group: Group, planes: Sequence[Hyperplane]) -> bool:
        """Whether ``_product`` has a tree."""
        found = self._products(group, planes)
        return len(found) == 1 and not self._judged(group, planes, found[0])[1]

    def _judged(
        self, group: Group, planes: Sequence[Hyperplane], product: GpuProduct
    ) -> tuple[Tree, str]:
        """The tree of ``product``, and what stands against it."""
        tree = self._tiled(group, planes, product)
        (tile,) = marked_tiles(tree).values()
        return tree, why_not_register_tile(self.planner.scop, tile)

    def _products(self, group: Group, planes: Sequence[Hyperplane]) -> list[GpuProduct]:
        """The statements of ``group`` that warps may multiply, whose loops ``planes`` are."""
        found: list[GpuProduct] = []
        for s in self.planner.statements(group):
            own = [p.at[s.name] for p in planes]
            dims = [value.name for value in own if isinstance(value, Var)]
            if s.update is None or len(dims) < len(planes) or len(s.writes) != 1:
                continue
            free = self.planner.free(group, s.name)
            made = gpu_product(self.planner.scop, s, self.gpu, free, dims)
            found += [made] if made is not None else []
        return found

    def _tiled(self, group: Group, planes: Sequence[Hyperplane], product: GpuProduct) -> Tree:
        """A block for each tile of ``product``; before and behind it, threads for its elements."""
        name = product.statement
        grid: list[Loop] = []
        points: dict[str, At] = {}  # by the product's dim
        for plane in planes:
            value, loop = plane.at[name], self.planner.name(plane.at)
            size = product.sizes.get(value.name) if isinstance(value, Var) else None
            if size is None:
                grid.append(self.planner.loop(loop, plane.at, "grid"))
                continue
            assert isinstance(value, Var), "it has a size by its dim"
            tile = {s: e // size for s, e in plane.at.items()}
            grid.append(self.planner.loop(tile_name(loop), tile, "grid"))
            points[value.name] = {s: e % size for s, e in plane.at.items()}
        inner = group.inside(*(p.at for p in planes))
        order = inner.components()
        place = next(k for k, names in enumerate(order) if name in names)
        loops = [self.planner.loop(d, {name: Var(d)}) for d in product.streams]
        rest = {d: {name: points[d][name]} for d in product.sizes}
        loops += [self.planner.loop(point_name(d), at) for d, at in rest.items()]
        core = Mark(product.payload, Band(tuple(loops), Leaf(name)))
        before = self._elements(inner, order[:place], points)
        behind = self._elements(inner, order[place + 1 :], points)
        return Band(tuple(grid), TreeSequence((*before, core, *behind)))

    def _elements(
        self, group: Group, components: Sequence[Sequence[str]], points: Mapping[str, At]
    ) -> list[Tree]:
        """The ``components`` that surround a tile, in loops over its ``points`` that they share: a
        thread has all that is done to an element."""
        names = [n for component in components for n in component]
        if not names:
            return []
        part = group.part(names)
        order = sorted(points, key=lambda d: self._runs_along(part, points[d]))
        threads = [
            self.planner.loop(point_name(d), {n: points[d][n] for n in part.names}, "block")
            for d in order
        ]
        return [Band(tuple(threads), self.nest(part, "thread"))]

    def _runs_along(self, group: Group, at: At) -> int:
        """How many accesses run along memory where ``at``, of a dim and a size, moves."""
        score = 0
        for s in self.planner.statements(group):
            for dim in s.dims:
                if mentions(at[s.name], (dim,)):
                    score += sum(runs(a, dim) for a in s.accesses)
        return score

    # ---- what they are bound to -----------------------------------------------------------------

    def _grid(self, group: Group, planes: Sequence[Hyperplane]) -> Tree:
        """Each turn of ``planes`` is a thread's: tiles of them are blocks."""
        sizes = self._tile(group, planes)
        grid: list[Loop] = []
        threads: list[tuple[int, Loop]] = []
        for plane, size in zip(planes, sizes, strict=True):
            name = self.planner.name(plane.at)
            if size == 1:
                grid.append(self.planner.loop(name, plane.at, "grid"))
                continue
            tile = {s: e // size for s, e in plane.at.items()}
            point = {s: e % size for s, e in plane.at.items()}
            grid.append(self.planner.loop(tile_name(name), tile, "grid"))
            loop = self.planner.loop(point_name(name), point, "block")
            threads.append((self._along(group, plane), loop))
        inner = group.inside(*(p.at for p in planes))
        self.notes.append(f"grid × block: {', '.join(group.names)}")
        along = (loop for _, loop in sorted(threads, key=lambda t: t[0]))
        return Band((*grid, *along), self.nest(inner, "thread"))

    def _tile(self, group: Group, planes: Sequence[Hyperplane]) -> list[int]:
        """Turns of each of ``planes`` in one block: along memory first, then the innermost."""
        order = sorted(
            range(len(planes)), key=lambda k: (self._along(group, planes[k]), k), reverse=True
        )
        sizes, left = [1] * len(planes), self.gpu.block
        for k in order:
            sizes[k] = min(left, self._length(group, planes[k]))
            left //= sizes[k]
        if prod(sizes) == 1:
            sizes[order[0]] = self.gpu.warp
        return sizes

    def _length(self, group: Group, plane: Hyperplane) -> int:
        """The power of two that holds all turns of ``plane``, as far as that is known."""
        longest = 1
        for s in self.planner.statements(group):
            value = plane.at[s.name]
            known = hull_extent(s, value.name) if isinstance(value, Var) else None
            longest = max(longest, self.gpu.block if known is None else known)
        return 1 << (min(longest, self.gpu.block) - 1).bit_length()

    def _along(self, group: Group, plane: Hyperplane) -> int:
        """How many accesses run along memory with ``plane``, less those that jump."""
        score = 0
        for s in self.planner.statements(group):
            value = plane.at[s.name]
            if isinstance(value, Var):
                score += sum(runs(a, value.name) for a in s.accesses)
        return score

    def _block(self, group: Group, planes: Sequence[Hyperplane]) -> Tree:
        """The best of ``planes`` on the threads of the block, which take all its turns."""
        plane = max(planes, key=lambda p: (self._along(group, p), planes.index(p)))
        loop = self.planner.loop(self.planner.name(plane.at), plane.at, "block")
        return Band((loop,), self.nest(group.inside(plane.at), "thread"))


def _partial_results(scheduled: Scheduled, statement: str, loop: str) -> Scheduled:
    """``scheduled`` with the reduction of ``statement`` along the block loop ``loop`` in partial
    results, which a few threads and then one fold; along one thread where that is not possible."""
    around = {x.name for x in loops_above(scheduled.tree, statement)}
    try:
        made = _in_block(rfactor(scheduled, statement, loop), around)
        finish = made.scop.statements[-1].name
        own = [x for x in loops_above(made.tree, finish) if x.name not in around]
        if not own:  # there is one partial result
            return made
        groups, each = own[-1].at[finish] % GROUPS, own[-1].at[finish] // GROUPS
        threads = Loop(point_name(own[-1].name), {finish: groups}, "block")
        steps = Loop(tile_name(own[-1].name), {finish: each})
        made = replace(made, tree=replace_loop(made.tree, own[-1].name, threads, steps))
        return _in_block(rfactor(made, finish, threads.name), around)
    except IllegalScheduleError:
        return set_kinds(scheduled, {loop: "serial"})


def _in_block(scheduled: Scheduled, around: Collection[str]) -> Scheduled:
    """``scheduled`` with the fill of the newest partial results shared out among the threads, by
    its last loop inside those ``around``."""
    start = scheduled.scop.statements[-2].name
    own = [x.name for x in loops_above(scheduled.tree, start) if x.name not in around]
    return set_kinds(scheduled, {own[-1]: "block"}) if own else scheduled


def _in_registers(scheduled: Scheduled) -> Scheduled:
    """``scheduled`` with the temporaries in registers that threads have for themselves: sums of
    warps as fragments, and what is one element in all loops of a thread."""
    sums = _sums(scheduled)
    for tensor in scheduled.scop.tensors:
        if tensor.role != "temp" or tensor.contracted:
            continue
        if tensor.name in sums:
            scheduled = _with_fragment(scheduled, tensor.name)
        elif _of_one_thread(scheduled, tensor.name):
            made = contract(scheduled, tensor.name)
            found = made.scop.tensor(tensor.name)
            if found.contracted and all(n == literal(1) for n in found.shape[found.contracted :]):
                scheduled = made
    return scheduled


def _with_fragment(scheduled: Scheduled, tensor: str) -> Scheduled:
    """``scheduled`` with ``tensor``, the sums of a tile, in fragments; as it is where it outlives
    the block, or its elements are no rows and lanes."""
    made = contract(scheduled, tensor, scope="fragment")
    if made.scop.tensor(tensor).scope != "fragment":
        return scheduled
    for statement, tile in marked_tiles(made.tree).items():
        written = {w.tensor for w in made.scop.statement(statement).writes}
        if tensor in written and why_not_register_tile(made.scop, tile):
            return scheduled
    return made


def _of_one_thread(scheduled: Scheduled, tensor: str) -> bool:
    """Whether the statements that touch ``tensor`` are in the same block loops, some at least."""
    users = {s.name for s, *_ in accesses_of(scheduled.scop, tensor)}
    loops = {
        tuple(x.name for x in loops_above(scheduled.tree, user) if x.kind == "block")
        for user in users
    }
    return len(loops) == 1 and loops != {()}


def _depends(group: Group, later: Group, earlier: Group) -> bool:
    """Whether a statement of ``later`` waits for one of ``earlier``."""
    return any(
        a.dependence.source.name in earlier.names and a.dependence.sink.name in later.names
        for a in group.active
    )


# ---- What ``Planner`` asks of a scheduler for processors.


def _alone(planner: Planner, group: Group) -> list[tuple[Group, Hyperplane | None]]:
    return [(group.part(names), None) for names in group.components()]


def _never(planner: Planner, group: Group, plane: Hyperplane) -> Tree:
    raise AssertionError("no loop is shared here")
