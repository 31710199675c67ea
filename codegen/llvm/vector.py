"""Vector loops: ``for v`` over whole vectors, then the remainder under a mask.

    for (v = 0; v + W <= n; v += W)  body(v … v+W-1)          a ramp stands for the variable
    if (v < n)                       body under the mask of the first n - v lanes

``W``: elements of the widest type in the loop per vector. A short constant trip count is unrolled.
An ``Update`` with an invariant target accumulates per lane in registers, in several sets so that
additions do not wait for each other; sets and lanes are combined in a tree after the loop, or after
loops around it (``carried_sums``). Loops with long dependence chains interleave two vectors
(``interleave_count``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from weft.codegen.llvm.builder import Index, Ramp, Value, integer, power_above
from weft.codegen.llvm.frame import Around, Frame, Lanes
from weft.codegen.llvm.memory import first_lanes
from weft.codegen.llvm.overlapping_loads import OverlappingLoads
from weft.codegen.llvm.reductions import Reductions
from weft.codegen.never_alias import never_alias
from weft.ir.dtypes import DType
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Comment,
    For,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    While,
    buffers_touched,
    children,
    expressions,
)
from weft.ir.loop_ir import walk as walk_loops
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Var, walk
from weft.ir.scalar_expr import walk as walk_expr

Body = Callable[[Value], None]
Thunk = Callable[[], None]

_WRITTEN_OUT = 64  # statements that a loop of constant trip count may grow to
_WORD = 4  # elements of the longest word, of int8: their steps are no rows of memory
_SOME = 4  # vectors of it that are written out where less code is asked for, as rows of tiles have
_ACCUMULATORS = 4  # sets of partial results: about the latency of an addition over its throughput
_LONG = 8  # vectors of a loop from which on invariants are hoisted for it
_FEW = 8  # vectors of a loop for which the loop around keeps invariants in registers
_SMALL_BODY = 8  # statements in a body that is worth repeating for each set


class Host(Protocol):
    """The part of the emitter of statements that vector loops use."""

    frame: Frame
    reductions: Reductions | None
    carried: Reductions | None

    def iteration(self, loop: For, index: Index) -> None: ...

    def counted(self, lower: Value, upper: Value, step: int, body: Body) -> None: ...

    def fold_into(self, stmt: Update, values: list[Value]) -> None: ...


def fits(loop: For) -> bool:
    """Whether lanes may run in lockstep; otherwise the loop is scalar."""
    for stmt in _inside(loop.body):
        if isinstance(stmt, While):
            return False
        if isinstance(stmt, Update) and not {"associative", "commutative"} <= stmt.monoid.laws:
            mentioned = _variables(stmt)
            if loop.var not in mentioned:
                return False
    return True


def emit_loop(host: Host, loop: For, lower: Value, upper: Value) -> None:
    """``loop`` as a vector loop; its bounds are scalars."""
    frame, b = host.frame, host.frame.b
    if lower.const is not None and upper.const is not None:
        trips = -(-(int(upper.const) - int(lower.const)) // loop.step)
        if trips <= 1:
            if trips == 1:
                host.iteration(loop, lower)
            return
        count = integer(trips)
    else:
        trips = -1
        span = b.binary("sub", upper, lower)
        if loop.step != 1:
            span = b.binary("add", span, integer(loop.step - 1))
            span = b.binary("sdiv", span, integer(loop.step))
        count = b.intrinsic("smax", span, integer(0))
    reductions = host.carried or partial_results(frame, loop, trips)
    width = reductions.lanes
    written_out = 0 <= trips <= width * _vectors_written_out(frame, loop, width)
    host.reductions = reductions if reductions.cells else None
    frame.changing = _changing(frame, loop) if not 0 <= trips < _LONG * width else None
    frame.few = loop.var if written_out and trips <= _FEW * width else None
    if written_out:
        _write_out(host, loop, lower, trips, width)
    else:
        interleave = interleave_count(frame, loop, reductions.updates)
        _loop(host, loop, lower, count, width, interleave if reductions.sets > 1 else 1)
    host.reductions, frame.changing, frame.few = None, None, None
    if reductions.cells:
        some = integer(1, "i1") if trips > 0 else b.compare("icmp sgt", count, integer(0))
        ran = reductions.note(frame, some)
        if host.carried is None:
            finish(host, reductions, ran)


def partial_results(frame: Frame, loop: For, trips: int) -> Reductions:
    """Of the updates in the vector ``loop`` whose targets are invariant in it. ``trips``: how often
    it runs, -1 if that is not known."""
    updates = hoistable(frame, loop)
    width = _lanes_for(frame, loop)
    if trips > 0:
        width = min(width, power_above(trips))
    sets = _ACCUMULATORS if _size(loop) <= _SMALL_BODY and not 0 <= trips <= width else 1
    interleave = interleave_count(frame, loop, updates) if sets > 1 else 1
    return Reductions(frame, updates, width, interleave if interleave > 1 else sets)


def finish(host: Host, reductions: Reductions, some: Value) -> None:
    """Combine partial results, if ``some`` iteration ran."""
    b = host.frame.b
    if some.const:
        reductions.finish(host)
        return
    inside, after = b.new_label("reduce"), b.new_label("reduced")
    b.branch(some, inside, after)
    b.at(inside)
    reductions.finish(host)
    b.jump(after)
    b.at(after)


def _chunk(host: Host, loop: For, lower: Value, iteration: Value, lanes: Lanes) -> None:
    """Iterations from ``iteration`` on, one per lane."""
    b = host.frame.b
    index = b.add(lower, b.mul(iteration, integer(loop.step)))
    assert isinstance(index, Value)
    if lanes.count == 1:
        host.iteration(loop, index)
        return
    with host.frame.within(lanes):
        host.iteration(loop, Ramp(index, integer(loop.step), lanes.count))


def _write_out(host: Host, loop: For, lower: Value, trips: int, width: int) -> None:
    for position, start in enumerate(range(0, trips, width)):
        left = min(width, trips - start)
        count = width if host.reductions else min(width, power_above(left))
        lanes = _first(host.frame, integer(left), count)
        if host.reductions:
            host.reductions.use_set(position)
        _chunk(host, loop, lower, integer(start), lanes)


def _loop(host: Host, loop: For, lower: Value, count: Value, width: int, interleave: int) -> None:
    """``interleave``: vectors of each group that run together."""
    frame, b = host.frame, host.frame.b
    whole = _round_down(frame, count, width)
    overlapping = OverlappingLoads(frame, loop, width)
    overlapping.start(lower, b.compare("icmp sgt", whole, integer(0)))
    interleave = 1 if overlapping.there else interleave
    sets = max(host.reductions.sets if host.reductions else 1, interleave)
    grouped = _round_down(frame, count, width * sets) if sets > 1 else integer(0)

    def iteration(at: Value, vectors: int = 1) -> None:
        index = b.add(lower, at)
        assert isinstance(index, Value)
        frame.loaded = overlapping.iteration(index) if vectors == 1 else {}
        _chunk(host, loop, lower, at, Lanes(width * vectors))
        frame.loaded = {}

    def group(at: Value) -> None:
        for position in range(0, sets, interleave):
            if host.reductions:
                host.reductions.use_set(position)
            later = b.add(at, integer(position * width))
            assert isinstance(later, Value)
            iteration(later, interleave)
        if host.reductions:
            host.reductions.use_set(0)

    if sets > 1:
        host.counted(integer(0), grouped, width * sets, group)
    host.counted(grouped, whole, width, iteration)
    left = b.add(count, b.mul(whole, integer(-1)))
    assert isinstance(left, Value)
    if left.const == 0:
        return
    rest, after = b.new_label("rest"), b.new_label("after")
    b.branch(b.compare("icmp sgt", left, integer(0)), rest, after)
    b.at(rest)
    _chunk(host, loop, lower, whole, _first(frame, left, width))
    b.jump(after)
    b.at(after)


def _first(frame: Frame, active: Value, count: int) -> Lanes:
    """``count`` lanes of which the first ``active`` are."""
    if active.const == count:
        return Lanes(count)
    return Lanes(count, first_lanes(frame, active, count), first=active)


def _round_down(frame: Frame, count: Value, unit: int) -> Value:
    if count.const is not None:
        return integer(int(count.const) // unit * unit)
    return replace(frame.b.binary("and", count, integer(-unit)), unit=unit)


# ---- analyses of a loop -------------------------------------------------------------------------


def _vectors_written_out(frame: Frame, loop: For, width: int) -> int:
    """The most vectors of ``loop`` that are written out, where each lane of an access across rows
    of memory is one more statement; fewer for less code, unless they are in registers, which have
    no addresses."""
    accesses = _accesses(list(_inside(loop.body)))
    across = sum(1 for access in accesses if _across_rows(frame, loop.var, *access))
    most = max(1, _WRITTEN_OUT // (_size(loop) + across * width))
    if not frame.quick:
        return most
    touched = {name for stmt in _inside(loop.body) for name in buffers_touched(stmt)}
    known = (frame.bindings.get(name) for name in touched)
    return most if any(b is not None and b.scope == "register" for b in known) else min(most, _SOME)


def _inside(stmt: Stmt) -> Iterator[Stmt]:
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def _size(loop: For) -> int:
    return sum(1 for _ in _inside(loop.body))


def _variables(stmt: Update) -> set[str]:
    """Variables in the target indices of ``stmt``."""
    indices = (index for _, places in stmt.targets for index in places)
    return {n.name for index in indices for n in walk(index) if isinstance(n, Var)}


def hoistable(frame: Frame, loop: For) -> list[Update]:
    """Updates of an invariant target that nothing else in the loop accesses."""
    bound, allocated = {loop.var}, set[str]()
    updates: list[Update] = []
    touched: dict[str, set[str]] = {}  # buffer -> how: names of monoids, '' for a store
    loads: list[Load] = []
    for stmt in _inside(loop.body):
        match stmt:
            case For(var=name) | Let(name=name):
                bound.add(name)
            case Allocate(buffer):
                allocated.add(buffer.name)
            case Store(buffer=name):
                touched.setdefault(name, set()).add("")
            case Update():
                updates.append(stmt)
        for expr in expressions(stmt):
            loads += [node for node in walk(expr) if isinstance(node, Load)]
    fixed = [
        u
        for u in updates
        if not _variables(u) & bound
        and not any(name in allocated for name, _ in u.targets)
        and not any(isinstance(n, Load) for _, p in u.targets for i in p for n in walk(i))
    ]
    for update in updates:
        how = update.monoid.name if any(update is u for u in fixed) else ""
        for name, _ in update.targets:
            touched.setdefault(name, set()).add(how)

    def alone(name: str, indices: Sequence[Expr], monoid: str) -> bool:
        shared = frame.bindings[name].overlaps if name in frame.bindings else ()
        if touched[name] != {monoid} or any(other in touched for other in shared):
            return False
        return not any(load.source in shared for load in loads) and all(
            never_alias(indices, load.indices, loop, bound) for load in loads if load.source == name
        )

    unique = {id(u): u for u in fixed if all(alone(n, p, u.monoid.name) for n, p in u.targets)}
    return list(unique.values())


def around(frame: Frame, loop: For) -> Around | None:
    """What a serial ``loop`` leaves invariant; None if its trip count is too low for hoisting."""
    match loop.lower, loop.upper:
        case Literal(low), Literal(high) if high - low < _LONG * loop.step:
            return None
    return Around(frame.names, _changed(frame, loop))


def _changing(frame: Frame, loop: For) -> frozenset[str] | None:
    """The buffers that ``loop`` may change; None if it contains loops."""
    if any(isinstance(stmt, For | While) for stmt in _inside(loop.body)):
        return None
    return _changed(frame, loop)


def _changed(frame: Frame, loop: For) -> frozenset[str]:
    """The buffers that ``loop`` may change or allocates."""
    found = set[str]()
    for stmt in _inside(loop.body):
        match stmt:
            case Allocate(buffer=buffer):
                found.add(buffer.name)
            case Store(buffer=name):
                found.add(name)
            case Update(targets=targets):
                found |= {name for name, _ in targets}
    known = (frame.bindings[name] for name in found if name in frame.bindings)
    return frozenset(found.union(*(binding.overlaps for binding in known)))


def _lanes_for(frame: Frame, loop: For) -> int:
    """Lanes such that the widest type of data fits a vector; int64 and bool count if there is no
    other. What is the same in all lanes is computed once, and only its result counts."""
    widths: dict[str, int] = {}
    names = (s.name for s in _inside(loop.body) if isinstance(s, Let))
    differ = {loop.var, *names, *_changed(frame, loop)}
    for stmt in _inside(loop.body):
        for expr in expressions(stmt):
            widths |= {d.name: d.compute.itemsize for d in _in_lanes(expr, differ)}
    data = [w for name, w in widths.items() if name not in ("int64", "bool")]
    touches_data = data or [8 if "int64" in widths else 1]
    return max(1, frame.target.vector_bytes // max(touches_data))


def _in_lanes(expr: Expr, differ: set[str]) -> Iterator[DType]:
    """The types of what is computed or read lane by lane, and of what all lanes are given;
    ``differ``: variables and buffers of which each lane has its own."""
    seen, lanes = [expr], set[int]()
    for node in walk(expr):  # operands first
        own = isinstance(node, Var) and node.name in differ
        own |= isinstance(node, Load) and node.source in differ
        if own or any(id(child) in lanes for child in node.children):
            lanes.add(id(node))
            seen += [node, *node.children]
    return (node.dtype for node in seen if not isinstance(node, Var))


# ---- Interleaving: loops with long dependence chains run two vectors together.
#
#     for v: y[v … v+W] = exp(x[v … v+W])   →   for v: y[v … v+2W] = exp(x[v … v+2W])
#
# An exponential is a dependence chain of some forty cycles. Out-of-order execution overlaps it with
# the next vectors only as far as the reorder buffer and the scheduler reach. As vectors of twice as
# many lanes, which LLVM splits again, two chains alternate: twice the parallelism in reach.


INTERLEAVE = 2  # more vectors need more registers than there are
_CHAINS = {("exp", "float32"), ("exp2", "float32"), ("log", "float32"), ("tanh", "float32"),
           ("erf", "float32"), ("exp", "float64")}  # fmt: skip


def interleave_count(frame: Frame, loop: For, folded: Sequence[Update]) -> int:
    """How many vectors of ``loop`` run together: several if there is a long chain and all accesses
    are contiguous. ``folded``: the updates that accumulate in registers."""
    inside = list(walk_loops(loop.body))
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    if not any(isinstance(n, Apply) and (n.op, n.dtype.name) in _CHAINS for n in nodes):
        return 1
    known = {id(update) for update in folded}
    if not all(isinstance(s, Block | Comment | Prefetch | Store) or id(s) in known for s in inside):
        return 1
    beside = all(_is_contiguous(frame, loop.var, *access) for access in _accesses(inside))
    return INTERLEAVE if beside and loop.step == 1 else 1


def _accesses(inside: Sequence[Stmt]) -> Iterator[tuple[str, Sequence[Expr]]]:
    for stmt in inside:
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.indices
        for node in (n for e in expressions(stmt) for n in walk_expr(e)):
            if isinstance(node, Load):
                yield str(node.source), node.indices


def _across_rows(frame: Frame, var: str, name: str, indices: Sequence[Expr]) -> bool:
    """Whether neighbouring iterations access memory in different rows, longer than the words in
    which packed operands of an instruction lie side by side."""
    buffer = frame.bindings.get(name)
    if buffer is None or buffer.scope == "register":
        return False
    rows = [
        stride
        for index, stride in zip(indices[:-1], buffer.strides, strict=False)
        if (form := to_affine(index)) is not None and form.coefficient(var)
    ]
    return any(stride.const is None or int(stride.const) > _WORD for stride in rows)


def _is_contiguous(frame: Frame, var: str, name: str, indices: Sequence[Expr]) -> bool:
    """Whether neighbouring iterations access the same or contiguous elements."""
    buffer = frame.bindings[name]
    forms = [to_affine(index) for index in indices]
    known = [form for form in forms if form is not None]
    moves = [form.coefficient(var) for form in known]
    hidden = any(var in f.variables() and not m for f, m in zip(known, moves, strict=True))
    if hidden or len(known) < len(forms) or buffer.private:
        return False
    along = moves[-1:] == [1] and not any(moves[:-1]) and buffer.strides[-1].const == 1
    return along or not any(moves)
