"""The automatic scheduler, of operator graphs' clusters and loop kernels alike.

Strongly connected components of the dependence graph are scheduled together, in topological order;
neighbours that stream through the same memory share a loop (``policy/fuse``), and statements around
a temporary larger than any argument run in strips (``policy/row_tiles``). The first of these
strategies that has an answer decides on the loops of a group:

    matrix                 products, and sums over windows          register tiles in cache tiles
    stencil                a time loop around uniform accesses      skewed tiles of time and rows
    sweeps                 the same, one time step after the other  statements share their rows
    skewed unroll-and-jam  every loop carries dependences           skewed rows: lanes, or unrolled
    single                 one statement, permutable loops          its best loop as a vector
    serial                 anything else                            a loop that carries dependences
    as written             what is left                             its textual loops

Nothing here is trusted: ``legality`` and ``validation`` check the result, and what they refuse is
scheduled again without what it was refused for (``Limits``).
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from weft.ir.errors import BudgetError, CompileError, IllegalScheduleError, WeftWarning
from weft.ir.machine import Machine
from weft.ir.plan import Decisions
from weft.ir.scalar_expr import Literal
from weft.ir.schedule_tree import Band, Loop, Tree, children, marked_tiles
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Scop
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.hyperplanes import Hyperplanes
from weft.polyhedral.analysis.linear import mentions, moves
from weft.polyhedral.policy.fuse import fuse
from weft.polyhedral.policy.large_arrays import alias_large, prefetch_large, stream_large
from weft.polyhedral.policy.matrix import matrix
from weft.polyhedral.policy.operand_transposition import operand_transposition
from weft.polyhedral.policy.planner import Packing, Planner, Strategy
from weft.polyhedral.policy.serial import serial
from weft.polyhedral.policy.share import share
from weft.polyhedral.policy.single import single
from weft.polyhedral.policy.skewed_rows import skewed_unroll_and_jam
from weft.polyhedral.policy.stencil import stencil, sweeps
from weft.polyhedral.policy.tile_ends import storage_order
from weft.polyhedral.policy.versions import nests, with_versions
from weft.polyhedral.prepare import (
    carried_values,
    forward_substitution,
    implicit_padding,
    node_splitting,
    prepare,
    private_results,
)
from weft.polyhedral.proof.dependences import dependences, folding
from weft.polyhedral.register_tile import why_not_register_tile
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.edit import accesses_of, serves
from weft.polyhedral.transform.expand_all import privatize, separate
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline
from weft.polyhedral.transform.nest import build
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.private_results import detach
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled, loops_above, tidy
from weft.polyhedral.transform.set_kinds import parallel, set_kinds, vectorize
from weft.polyhedral.transform.split import split
from weft.polyhedral.transform.tile import point_name, tile_name
from weft.polyhedral.transform.unroll import unroll

TOGETHER = 8  # panels narrower than a cache line that are written side by side
STRATEGIES = (
    ("matrix", matrix),
    ("stencil", stencil),
    ("sweeps", sweeps),
    ("skewed unroll-and-jam", skewed_unroll_and_jam),
    ("single", single),
    ("serial", serial),
)


def schedule_loops(
    scop: Scop,
    machine: Machine,
    *,
    threads: int = 1,
    time_tile: bool = True,
    limits: Limits | None = None,
    decisions: Decisions | None = None,
) -> Scheduled:
    """``scop`` with a schedule for ``threads`` cores of ``machine`` within ``limits``; without
    ``time_tile``, no tiles over time steps. ``decisions`` are asked, and told.

    Where a budget is exceeded, a group keeps its textual loops, with a warning; where it does not
    even suffice for the dependences, all of ``scop`` does.
    """
    try:
        asked = decisions or Decisions()
        return _loops(scop, machine, threads, time_tile, limits or Limits(), asked)
    except BudgetError as error:
        what = f"any loops but those of the program, because {error.what}"
        warnings.warn(f"{scop.name}: gave up on {what}", WeftWarning, stacklevel=2)
        return replace(initial(scop, machine.extensions), notes=(f"gave up on {what}",))


def _loops(
    scop: Scop,
    machine: Machine,
    threads: int,
    time_tile: bool,
    limits: Limits,
    decisions: Decisions,
) -> Scheduled:
    strategies = [s for s in STRATEGIES if time_tile or s[0] != "stencil"]
    kept = limits.kept(scop)
    start = with_versions(initial(scop, machine.extensions), decisions)
    begun = implicit_padding(prepare(start), machine, kept)
    tensors = begun.scop.tensors
    large = tuple(t.name for t in tensors if len(t.shape) > 1 and t.name not in kept)
    threads = 1 if limits.one_thread else threads
    before = decisions.mark()
    while True:
        decisions.back(before)
        scheduled, detached, given_up = _scheduled(
            begun, large, machine, strategies, threads, limits, decisions
        )
        smaller = tuple(name for name, made in detached.items() if _shrunk(scheduled, name, made))
        if len(smaller) == len(detached):
            break
        large = smaller
    for what in given_up:
        warnings.warn(f"{scop.name}: gave up on {what}", WeftWarning, stacklevel=2)
    return scheduled


def _scheduled(
    begun: Scheduled,
    large: Sequence[str],
    machine: Machine,
    strategies: Sequence[tuple[str, Strategy]],
    threads: int,
    limits: Limits,
    decisions: Decisions,
) -> tuple[Scheduled, dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The schedule of ``begun``; the temporaries that each of the arrays ``large`` was detached to;
    and what exceeded a budget."""
    detached: dict[str, tuple[str, ...]] = {}
    kept = limits.kept(begun.original)
    now = private_results(operand_transposition(begun, machine, kept), kept)
    for tensor in large:
        before = {t.name for t in now.scop.tensors}
        now = detach(now, tensor)
        names = tuple(t.name for t in now.scop.tensors if t.name not in before)
        if names:
            detached[tensor] = names
    temps = [t.name for t in now.scop.tensors if t.name in kept]
    now = forward_substitution(privatize(now, temps), kept)
    now = carried_values(now, machine, decisions, kept)
    now = node_splitting(now, machine, decisions, kept)
    planner = Planner(
        now, machine, strategies, fuse, share, threads, decisions, limits.plain,
        sized=limits.versions,
    )  # fmt: skip
    tree = tidy(planner.completed(nests(planner)))
    tiles = marked_tiles(tree)
    for s in planner.scop.statements:
        if s.name not in tiles:
            decisions.drop(f"{s.name}.register_tile", f"{s.name} runs in no register tile")
    given_up = (*limits.given_up, *planner.given_up)
    notes = (*planner.notes, *(f"gave up on {what}" for what in given_up))
    scheduled = replace(build(planner.now, tree), notes=notes)
    for packing in planner.packings:
        scheduled = _packed(scheduled, packing, kept, machine, threads)
    if threads > 1:
        scheduled = partial_results(scheduled, kept)
    scheduled = _unmarked(_contracted(scheduled, kept, machine))
    scheduled = prefetch_large(stream_large(scheduled, machine), machine)
    return scheduled, detached, tuple(planner.given_up)


def _unmarked(scheduled: Scheduled) -> Scheduled:
    """``scheduled`` without the marks of register tiles that cannot be emitted, and a note for
    each."""
    tiles = marked_tiles(scheduled.tree)
    reasons = {name: why_not_register_tile(scheduled.scop, t) for name, t in tiles.items()}
    refused = {name: why for name, why in reasons.items() if why}
    if not refused:
        return scheduled

    notes = (f"no register tile for {name}: {why}" for name, why in refused.items())
    plain = {tiles[name].loops[0].name: tiles[name].loops[0].kind for name in refused}
    return replace(set_kinds(scheduled, plain), notes=(*scheduled.notes, *notes))


def _shrunk(scheduled: Scheduled, tensor: str, made: Sequence[str]) -> bool:
    """Whether each of the temporaries has fewer dimensions of unknown size than ``tensor``."""

    def rank(name: str) -> int:
        found = [t for t in scheduled.scop.tensors if t.name == name]
        sizes = (size for t in found for size in t.shape[t.contracted :])
        return sum(not isinstance(size, Literal) for size in sizes)

    return all(rank(name) < rank(tensor) for name in made)


def _packed(
    scheduled: Scheduled, p: Packing, kept: Collection[str], machine: Machine, threads: int
) -> Scheduled:
    """``scheduled`` with one operand packed; as it is where the operand cannot be copied, or its
    tensor is ``kept``. Packing before everything runs on all ``threads``."""
    read = scheduled.scop.statement(p.statement).reads[p.operand]
    if read.tensor in kept:
        return scheduled
    order = list(range(len(read.indices)))
    if p.width > 1:
        order = [p.dim, *(d for d in order if d != p.dim)]
    loop = _around(scheduled, p) if p.loop else ""
    if loop is None:
        return scheduled
    rows = bool(p.inner) and p.inner[0][0] != len(read.indices) - 1  # of memory, interleaved
    try:
        packed = pack(
            scheduled,
            read.tensor,
            p.statement,
            loop,
            {p.dim: p.width, **dict(p.inner)} if p.width > 1 else dict(p.inner),
            order=order,
            operand=p.operand,
            pad=False,  # register tiles at the edges read no further than they have to
            scope="local" if loop else "global",
            vector=not (p.maker or rows),
        )
        copy = packed.scop.statements[-1].name
        if p.maker:
            packed = _in_order(inline(packed, p.maker), copy, p, kept)
        elif p.width > 1 and p.dim == len(order) - 1:
            packed = _row_by_row(packed, copy, p, machine)
        loops = [loop.name for loop in loops_above(packed.tree, copy)]
        constant = scheduled.scop.tensor(read.tensor).role == "constant"
        if threads > 1 and not loop and not constant and len(loops) > 1:
            packed = parallel(packed, loops[0])
        match loops:
            case [*_, lanes, last] if rows:
                return unroll(vectorize(packed, lanes), last)
            case [*_, last] if p.maker:
                return vectorize(packed, last)
        return packed
    except IllegalScheduleError:
        return scheduled


def _row_by_row(scheduled: Scheduled, copy: str, p: Packing, machine: Machine) -> Scheduled:
    """``scheduled`` with the loop over panels inside those over the rows of memory that ``copy``
    reads, which hardware prefetchers follow within a row, not from one to the next. Of panels
    narrower than a cache line, a few at a time: each is written line by line, and lines as far
    apart as panels may map to one set of a cache."""
    (made,) = scheduled.scop.statement(copy).writes
    panels = scheduled.scop.tensor(made.tensor)
    own = len(panels.shape) - panels.contracted
    first, *rest = [loop.name for loop in loops_above(scheduled.tree, copy)][
        -own : -1 - len(p.inner)
    ]
    if not rest:
        return scheduled
    if p.width * panels.dtype.itemsize >= machine.caches[0].line:
        return reorder(scheduled, [*rest, first])
    some = split(scheduled, first, TOGETHER)
    return reorder(some, [tile_name(first), *rest, point_name(first)])


def _in_order(scheduled: Scheduled, copy: str, p: Packing, kept: Collection[str]) -> Scheduled:
    """``scheduled`` with constants packed in the order in which ``copy`` reads them for panels."""
    statement = scheduled.scop.statement(copy)
    inner = [loop.at[copy] for loop in loops_above(scheduled.tree, copy)][-1:]
    lanes = [d for d in statement.dims if any(mentions(last, (d,)) for last in inner)]
    for number, read in enumerate(statement.reads):
        along = [d for d, index in enumerate(read.indices) if mentions(index, lanes)]
        constant = scheduled.scop.tensor(read.tensor).role == "constant"
        if constant and read.tensor not in kept and len(along) == 1 and p.width > 1:
            order = [*along, *(d for d in range(len(read.indices)) if d not in along)]
            scheduled = pack(
                scheduled,
                read.tensor,
                copy,
                "",
                {along[0]: p.width},
                order=order,
                operand=number,
                pad=False,
                scope="global",
            )
            made = scheduled.scop.statements[-1].name
            scheduled = vectorize(scheduled, loops_above(scheduled.tree, made)[-1].name)
    return scheduled


def _around(scheduled: Scheduled, p: Packing) -> str | None:
    """The loop in whose iterations panels are packed: the innermost around all that reuse them, or
    further outside while the operand stays the same and the thread, too. '' for packing before
    everything, where its size is known and nothing writes the operand; None if there is no such
    loop."""
    scop = scheduled.scop
    statement = scop.statement(p.statement)
    read = statement.reads[p.operand]
    moving = {d for d in statement.dims if moves(read, d)}
    writers = {s.name for s in scop.statements if read.tensor in {w.tensor for w in s.writes}}
    above = loops_above(scheduled.tree, p.statement)
    place = [loop.name for loop in above].index(p.loop) - 1
    while place >= 0:
        loop = above[place]
        if loop.kind == "parallel" or mentions(loop.at[p.statement], moving):
            break
        if writers & (above[place - 1].at.keys() if place else {s.name for s in scop.statements}):
            break
        place -= 1
    if place >= 0:
        return above[place].name
    small = all(isinstance(size, Literal) for size in scop.tensor(read.tensor).shape)
    return "" if small and not writers else None


def _contracted(scheduled: Scheduled, kept: Collection[str], machine: Machine) -> Scheduled:
    """``scheduled`` with temporaries contracted as far as the order allows, but those of packed
    panels and those that are ``kept``. Each version of a nest gets temporaries of its own; what
    is large even then is kept in the result that it becomes."""
    for tensor in scheduled.scop.tensors:
        if tensor.role == "temp" and tensor.scope == "global" and tensor.name not in kept:
            scheduled, names = _apart(scheduled, tensor.name)
            for name in names:
                try:
                    local = contract(scheduled, name, order=storage_order(scheduled, name))
                except (IllegalScheduleError, BudgetError):
                    continue
                scheduled = alias_large(scheduled, local, name, machine) or local
    return scheduled


def _apart(scheduled: Scheduled, tensor: str) -> tuple[Scheduled, tuple[str, ...]]:
    """``scheduled`` with a temporary for each version of a nest that uses ``tensor``, and their
    names. Only one where no statement has versions, one that uses it has no textual position, or
    the scheduler made the tensor itself, other than for what is read beforehand."""
    users = {s.name: s for s, _, _ in accesses_of(scheduled.scop, tensor)}
    own = tensor not in {t.name for t in scheduled.original.tensors}
    places = {s.position for s in users.values()}
    if (own and not any(map(serves, users.values()))) or len(places) == len(users) or () in places:
        return scheduled, (tensor,)
    before = {t.name for t in scheduled.scop.tensors} - {tensor}
    try:
        scheduled = separate(scheduled, tensor)
    except BudgetError:
        return scheduled, (tensor,)
    return scheduled, tuple(t.name for t in scheduled.scop.tensors if t.name not in before)


# ---- Partial results: a serial reduction is split among threads, each with its own partial result.
#
#     for i: for j: y[j] += A[i, j] · x[i]
#     →
#     parallel i_t: P[i_t, :] = 0
#     parallel i_t: for i_p: for j: P[i_t, j] += A[i, j] · x[i]
#     for i_t: y[:] += P[i_t, :]
#
# Done where an outermost loop carries reduction dependences only. The pieces are long, so that
# their partial results are small beside what they read.


PIECE = 128  # iterations that reduce into one set of partial results


def partial_results(scheduled: Scheduled, kept: Collection[str] = ()) -> Scheduled:
    """``scheduled`` with the outermost serial loops that carry reductions only split into parallel
    pieces, without those that reduce into a tensor that is ``kept``."""
    for loop in _outermost(scheduled.tree):
        if loop.kind == "serial":
            try:
                scheduled = _in_pieces(scheduled, loop, kept)
            except (IllegalScheduleError, BudgetError):
                continue  # it stays as it is
    return scheduled


def _outermost(tree: Tree) -> list[Loop]:
    """The first loop of each top-level nest that has further loops inside."""
    nests = tree.children if isinstance(tree, TreeSequence) else (tree,)
    return [
        nest.loops[0]
        for nest in nests
        if isinstance(nest, Band)
        and (len(nest.loops) > 1 or any(_loops_in(c) for c in children(nest)))
    ]


def _loops_in(tree: Tree) -> bool:
    return isinstance(tree, Band) or any(_loops_in(child) for child in children(tree))


def _in_pieces(scheduled: Scheduled, loop: Loop, kept: Collection[str]) -> Scheduled:
    scop = scheduled.scop
    folds = [
        s.name
        for s in map(scop.statement, loop.at)
        if s.update and mentions(loop.at[s.name], s.update.dims)
    ]
    folded = {w.tensor for name in folds for w in scop.statement(name).writes}
    inside = [scop.statement(name) for name in loop.at]
    read = {r.tensor for s in inside for r in s.reads}
    overwritten = {w.tensor for s in inside if s.update is None for w in s.writes}
    alone = set(folds) <= folding(scop) and not folded & {*read, *overwritten, *kept}
    if not folds or not alone or not _independent(scheduled, loop):
        return scheduled
    scheduled = split(scheduled, loop.name, PIECE)
    pieces = f"{loop.name}_t"
    for name in folds:
        scheduled = rfactor(scheduled, name, pieces)
    return set_kinds(scheduled, {pieces: "parallel"})


def _independent(scheduled: Scheduled, loop: Loop) -> bool:
    """Whether ``loop`` carries reduction dependences only."""
    inside = set(loop.at)
    hard = [
        Distances(d)
        for d in dependences(scheduled.scop, implied=False)
        if not d.reduction and {d.source.name, d.sink.name} <= inside
    ]
    plane = Hyperplanes(hard).valid(loop.at)
    return plane is not None and plane.coincident


# ---- Limits: what the scheduler does without, once the checkers have refused its schedule.
#
#     everything
#     → the statements of the violated dependence keep their textual loops and their storage
#     → no tensor changes its storage
#     → one thread
#
# A program that is refused even then keeps its textual order. The user is told of each step. There
# are no versions where less code is asked for, whatever is refused.


STEPS = 3  # refusals, of which each sets the statements that it names aside


@dataclass(frozen=True, slots=True)
class Limits:
    """What a schedule may not do; ``given_up``: why, in the order in which it was given up."""

    plain: frozenset[str] = frozenset()  # statements that keep their textual loops
    storage: bool = True  # whether tensors may change
    one_thread: bool = False
    versions: bool = True  # whether sizes that are not known may have loops of their own
    given_up: tuple[str, ...] = ()

    def kept(self, scop: Scop) -> frozenset[str]:
        """The tensors of ``scop`` that stay as they are."""
        if not self.storage:
            return frozenset(t.name for t in scop.tensors)
        plain = (s for s in scop.statements if s.name in self.plain)
        return frozenset(access.tensor for s in plain for access in s.accesses)

    def after(self, error: CompileError, scop: Scop, threads: int) -> Limits | None:
        """What to do without next, where a schedule of ``scop`` for ``threads`` was refused; None
        if nothing is left."""
        about = error.statements if isinstance(error, IllegalScheduleError) else ()
        named = [s.name for s in scop.statements if s.name in about and s.name not in self.plain]
        if named and len(self.given_up) < STEPS:
            what = f"better loops and storage than written for {', '.join(named)}"
            less = replace(self, plain=self.plain | {*named})
        elif self.storage:
            what, less = "changes of storage", replace(self, storage=False)
        elif threads > 1 and not self.one_thread:
            what, less = "threads", replace(self, one_thread=True)
        else:
            return None
        reason = f"{what}, because {error.code}: {error.what}"
        return replace(less, given_up=(*self.given_up, reason))
