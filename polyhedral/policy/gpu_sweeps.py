"""Two products in one launch, with sweeps over the rows between them: attention, by its accesses.

    S[i, j] = Σ_d A[i, d] B[j, d]         a product, whose rows others sweep over: a maximum,
    m[i]    = max_j S[i, j]               a sum
    P[i, j] = f(S[i, j], m[i])            what the second product multiplies, rounded
    l[i]    = Σ_j P[i, j]
    O[i, d] = Σ_j P[i, j] V[j, d]
    →
    grid i // 64:  for j // 64:  a tile of S; m of it, thread by thread
                   m from the threads' parts
                   for j // 64:  a tile of S again; P of it; l, thread by thread; the part of O
                   l from the threads' parts; what is computed from O

S is made once for each sweep over it (``recompute``), so that a tile of it is all that there is at
a time; it stays in the registers of the warp that multiplied it, and P, where it is made, is the
factor of the second product as it lies there: a thread has the same elements of both. Folds along
j are of what a thread has of a row first (``partials``); the threads of a row meet in shared memory
after the sweep.

Nothing is asked of names, nothing here is trusted.
Also known as: FlashAttention (Dao 2022), with two passes instead of a running maximum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from weft.ir.gpu import Gpu
from weft.ir.instruction import ACCUMULATOR, ROW, Instruction
from weft.ir.scalar_expr import Expr, Var
from weft.ir.scalar_point import PointEvaluator
from weft.ir.schedule_tree import Band, Kind, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent
from weft.polyhedral.policy.gpu_product import GpuProduct, gpu_product
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.partials import partials
from weft.polyhedral.transform.private_results import private_result
from weft.polyhedral.transform.recompute import recompute
from weft.polyhedral.transform.scheduled import Scheduled

WARPS, STEP = 4, 64  # of a block, one below the other; turns of the swept loop in a tile


@dataclass(frozen=True, slots=True)
class Sweeps:
    """``products``: the first makes ``scores``, of which ``depth`` steps are staged at once, and
    the second multiplies ``factor``."""

    products: tuple[GpuProduct, GpuProduct]
    scores: str
    factor: str
    depth: int

    @property
    def first(self) -> str:
        return self.products[0].statement

    @property
    def second(self) -> str:
        return self.products[1].statement

    @property
    def own(self) -> tuple[Instruction, Instruction]:
        """The instructions that multiply."""
        one, other = (product.payload.instruction for product in self.products)
        assert one is not None and other is not None, "warps multiply"
        return one, other


def find_sweeps(scop: Scop, gpu: Gpu) -> Sweeps | None:
    """Two products of warps in ``scop`` of which one multiplies what is computed from the other's
    results, element by element; None where there are none."""
    for statement in scop.statements:
        second = _product(scop, statement, gpu)
        for factor in statement.reads if second is not None else ():
            maker = _maker(scop, factor.tensor)
            for read in maker.reads if maker is not None else ():
                if scop.tensor(read.tensor).role != "temp":
                    continue
                for one in (s for s, _, is_write in accesses_of(scop, read.tensor) if is_write):
                    first = _product(scop, one, gpu)
                    if first is None or second is None:
                        continue
                    made = Sweeps((first, second), read.tensor, factor.tensor, _depth(scop, first))
                    if made.own[0].warp == made.own[1].warp:
                        return made
    return None


def _maker(scop: Scop, tensor: str) -> Statement | None:
    """The statement that computes the temporary ``tensor``, element by element."""
    makers = [s for s, _, is_write in accesses_of(scop, tensor) if is_write]
    alone = len(makers) == 1 and makers[0].update is None and len(makers[0].writes) == 1
    return makers[0] if alone and scop.tensor(tensor).role == "temp" else None


def _depth(scop: Scop, first: GpuProduct) -> int:
    """Steps of the first product that are staged at once: a line of shared memory."""
    own = first.payload.instruction
    assert own is not None and own.warp is not None, "a warp computes it"
    read, *_ = scop.statement(first.statement).reads
    return 4 * own.warp.line // scop.tensor(read.tensor).dtype.itemsize


def _product(scop: Scop, s: Statement, gpu: Gpu) -> GpuProduct | None:
    """How warps compute ``s``, without copies of operands."""
    if s.update is None or len(s.writes) != 1 or len(s.reads) != 2:
        return None
    results = [d for d in s.dims if d not in s.update.dims]
    found = gpu_product(scop, s, gpu, s.dims, results)
    if found is None or found.payload.instruction is None or len(found.streams) != 1:
        return None
    own = found.payload.instruction
    return found if all(own.operands[name].copies == 1 for name in own.tensors) else None


def thread_digits(own: Instruction) -> tuple[int, int]:
    """How many lanes of a row in a line a thread has of the sums, and how many threads have lanes
    of one row: the thread of a lane is that of ``lane // lanes % threads``."""
    (lane,), point = own.across, PointEvaluator()
    place = own.operands[ACCUMULATOR].place[0]
    of = [int(point.value(place, {ROW: 0, lane: k})) for k in range(own.extents[lane])]
    lanes, threads = of.count(of[0]), len(dict.fromkeys(of))
    return lanes, threads


def prepared(begun: Scheduled, found: Sweeps) -> Scheduled:
    """``begun`` with the scores computed again for the second product, folds over them in the parts
    that threads have, and results stored once."""
    (target,) = begun.scop.statement(found.second).writes
    if begun.scop.tensor(target.tensor).role != "temp":
        begun = private_result(begun, target.tensor, once=True)
    makers = [s.name for s, _, is_write in accesses_of(begun.scop, found.factor) if is_write]
    again = recompute(begun, found.scores, makers)
    lanes, threads = thread_digits(found.own[0])
    for s in again.scop.statements:
        dim = _swept(again.scop, s, _tiles(again.scop, found))
        if s.update is None or dim is None or s.name in (found.second, *_firsts(found)):
            continue
        if dim in s.update.dims:
            again = partials(again, s.name, f"{dim} // {lanes} % {threads}", threads)
    return again


def _firsts(found: Sweeps) -> tuple[str, str]:
    return found.first, f"{found.first}_again"


def _tiles(scop: Scop, found: Sweeps) -> tuple[str, ...]:
    """The tensors of which a sweep has a tile at a time."""
    return found.scores, f"{found.scores}_again", found.factor


def _swept(scop: Scop, s: Statement, tiles: Sequence[str]) -> str | None:
    """The dim of ``s`` that moves with the last index of ``tiles``; None where it touches none."""
    dims = {a.indices[-1] for a in s.accesses if a.tensor in tiles}
    return next((i.name for i in dims if isinstance(i, Var)), None) if len(dims) == 1 else None


@dataclass(slots=True)
class _Plan:
    planner: Planner
    group: Group
    found: Sweeps
    rows: At  # the loop of rows, by statement
    others: Sequence[At]  # further loops around all
    swept: Mapping[str, str]  # statement → its dim along the sweep
    lanes: Mapping[str, str]  # statement → its dim along the lanes of the second product

    @property
    def size(self) -> int:
        return WARPS * self.found.own[0].rows

    def tree(self) -> Tree | None:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(2 + len(self.group.names)))
        place = {n: self._part(n, k) for k, n in enumerate(self.group.names)}
        for a in self.group.active:
            one, other = place[a.dependence.source.name], place[a.dependence.sink.name]
            if one != other:
                graph.add_edge(one, other)
        if not nx.is_directed_acyclic_graph(graph):
            return None
        parts: list[tuple[int, list[str]]] = []
        for number in nx.lexicographical_topological_sort(graph):
            names = [n for n in self.group.names if place[n] == number]
            if parts and number > 1 and parts[-1][0] > 1:
                parts[-1][1].extend(names)
            elif names:
                parts.append((number, names))
        grid = [self.planner.loop(self.planner.name(at), at, "grid") for at in self.others]
        name = self.planner.name(self.rows)
        tile = {s: e // self.size for s, e in self.rows.items()}
        grid.append(self.planner.loop(f"{name}_t", tile, "grid"))
        body = (self._sweep(names) if n < 2 else self._between(names) for n, names in parts)
        return Band(tuple(grid), TreeSequence(tuple(body)))

    def _part(self, name: str, number: int) -> int:
        """0 and 1: the sweeps; further ones: statements outside."""
        if name not in self.swept:
            return 2 + number
        scop = self.planner.scop
        touched = {a.tensor for a in scop.statement(name).accesses}
        return 0 if self.found.scores in touched else 1

    def _points(self, names: Sequence[str], at: At, size: int) -> At:
        return {n: at[n] % size for n in names}

    def _loop(
        self, hint: str, names: Sequence[str], at: Mapping[str, Expr], kind: Kind = "serial"
    ) -> Loop:
        return self.planner.loop(hint, {n: at[n] for n in names}, kind)

    # ---- a sweep ------------------------------------------------------------------------------

    def _sweep(self, names: Sequence[str]) -> Tree:
        along: At = {n: Var(self.swept[n]) for n in names}
        hint = self.planner.name(along)
        outer = self._loop(f"{hint}_t", names, {n: e // STEP for n, e in along.items()})
        inner = self.group.part(names).inside(*self.others, self.rows, along)
        body: list[Tree] = []
        waiting: list[str] = []
        for component in inner.components():
            for name in component:
                if name in (self.found.second, *_firsts(self.found)):
                    body += self._elements(waiting, along)
                    waiting = []
                    body.append(self._multiplied(name, along[name]))
                else:
                    waiting.append(name)
        body += self._elements(waiting, along)
        return Band((outer,), TreeSequence(tuple(body)))

    def _multiplied(self, name: str, along: Expr) -> Tree:
        """A product's tile: of scores, or of the second product's steps in this tile."""
        statement = self.planner.scop.statement(name)
        assert statement.update is not None, "a product is an update"
        warps = (WARPS, 1)
        rows = self._loop("row", [name], self._points([name], self.rows, self.size))
        if name == self.found.second:
            lane: Expr = Var(self.lanes[name])
            own = self.found.own[1]
            many = own_lanes(self.planner.scop, self.found, self.lanes[name])
            payload = RegisterTile((self.size,), many, own, warps=warps, depth=STEP, stages=1)
            streams, last = along % STEP, lane
        else:
            own = self.found.own[0]
            (stream,) = statement.update.dims
            depth = self.found.depth
            payload = RegisterTile((self.size,), STEP, own, warps=warps, depth=depth, stages=1)
            streams, last = Var(stream), along % STEP
        loops = (
            self._loop("step", [name], {name: streams}),
            rows,
            self._loop("lane", [name], {name: last}),
        )
        return Mark(payload, Band(loops, Leaf(name)))

    def _elements(self, names: Sequence[str], along: At) -> list[Tree]:
        """What is done to the elements of a tile, by the threads that have them."""
        if not names:
            return []
        lanes, threads = thread_digits(self.found.own[0])
        each = lanes * threads
        point = {n: along[n] % STEP for n in names}
        loops = (
            self._loop("row", names, self._points(names, self.rows, self.size), "block"),
            self._loop("part", names, {n: e // lanes % threads for n, e in point.items()}, "block"),
            self._loop("lot", names, {n: e // each for n, e in point.items()}),
            self._loop("own", names, {n: e % lanes for n, e in point.items()}),
        )
        return [Band(loops, TreeSequence(tuple(Leaf(n) for n in names)))]

    # ---- outside of the sweeps ----------------------------------------------------------------

    def _between(self, names: Sequence[str]) -> Tree:
        """Rows, or results of the second product, element by element."""
        inner = self.group.part(names).inside(*self.others, self.rows)
        return TreeSequence(tuple(self._rows(parts) for parts in inner.components()))

    def _rows(self, names: Sequence[str]) -> Tree:
        loops = [self._loop("row", names, self._points(names, self.rows, self.size), "block")]
        if all(n in self.lanes for n in names):
            at = {n: Var(self.lanes[n]) for n in names}
            return Band((*loops, self._loop("lane", names, at, "block")), _leaves(names))
        (name,) = names
        bound = [at[name] for at in (*self.others, self.rows)]
        rest = [d for d in self.planner.scop.statement(name).dims if Var(d) not in bound]
        inside = [self._loop(d, [name], {name: Var(d)}) for d in rest]
        return Band((*loops, *inside), Leaf(name))


def _leaves(names: Sequence[str]) -> Tree:
    return TreeSequence(tuple(Leaf(n) for n in names))


def sweeps_tree(
    planner: Planner, group: Group, planes: Sequence[At], found: Sweeps
) -> tuple[Tree | None, str]:
    """The loops of ``group``, all of the program, in two sweeps inside the loops ``planes`` that
    its statements share; or what stands against it."""
    scop = planner.scop
    tiles = _tiles(scop, found)
    swept = {s.name: d for s in scop.statements if (d := _swept(scop, s, tiles)) is not None}
    second = scop.statement(found.second)
    (target,) = second.writes
    (factor,) = (a for a in second.reads if a.tensor == found.factor)
    moving = [p for p in planes if p[found.second] == factor.indices[-2]]
    results = accesses_of(scop, target.tensor)
    lanes = {s.name: a.indices[-1].name for s, a, _ in results if isinstance(a.indices[-1], Var)}
    against = next(_against(scop, found, swept, lanes), "")
    if not against and (len(moving) != 1 or len(planes) != len(second.dims) - 2):
        against = "statements do not share all loops around the sweeps"
    if not against and any(len(part) > 1 for part in group.inside(*planes).components()):
        against = "statements wait for each other"
    if against:
        return None, against
    others = [p for p in planes if p is not moving[0]]
    tree = _Plan(planner, group, found, moving[0], others, swept, lanes).tree()
    return tree, "" if tree is not None else "sweeps wait for each other"


def _against(
    scop: Scop, found: Sweeps, swept: Mapping[str, str], lanes: Mapping[str, str]
) -> Iterator[str]:
    """What stands against sweeps over the dims ``swept`` with results along ``lanes``, by
    statement."""
    second = scop.statement(found.second)
    (target,) = second.writes
    tiles = _tiles(scop, found)
    touching = [s.name for s in scop.statements if any(a.tensor in tiles for a in s.accesses)]
    if [*swept] != touching:
        yield "what touches scores does not move with one dim along them"
    if second.update is None or second.update.dims != (swept[found.second],):
        yield "the second product sums along more than the scores"
    if {*lanes} != {s.name for s, *_ in accesses_of(scop, target.tensor)}:
        yield "what touches results does not move with a dim along them"
    if {*lanes} & {*swept} != {found.second}:
        yield "scores and results meet outside the second product"
    if any(scop.statement(n).update for n in lanes if n != found.second):
        yield "results are folded"
    if not own_lanes(scop, found, lanes[found.second]):
        yield "a thread's registers do not hold a row of results"


def own_lanes(scop: Scop, found: Sweeps, lane: str) -> int:
    """Lanes of the second product's tile: all of its ``lane``; 0 where a thread's registers do not
    hold as many."""
    own, many = found.own[1], hull_extent(scop.statement(found.second), lane) or 0
    many = -(-many // own.lanes) * own.lanes
    assert own.warp is not None, "a warp computes it"
    held = (many + 2 * STEP) * own.rows // own.warp.threads  # of scores as many as they were
    return many if 2 * held <= own.registers + 1 else 0
