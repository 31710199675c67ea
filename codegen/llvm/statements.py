"""Statements of loop IR in LLVM IR. Vector loops are in ``vector``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Protocol

from weft.codegen.llvm import region as llvm_region
from weft.codegen.llvm import vector as llvm_vector
from weft.codegen.llvm.builder import Index, Ramp, Value, integer, power_in
from weft.codegen.llvm.carried_sums import carried_across
from weft.codegen.llvm.expressions import combine, evaluate, evaluate_all, streams_now
from weft.codegen.llvm.frame import Binding, Frame, Lanes
from weft.codegen.llvm.instruction import emit_issue
from weft.codegen.llvm.memory import address, load, memory_type, prefetch
from weft.codegen.llvm.reductions import Reductions, fold_lanes
from weft.codegen.llvm.store import emit_interleaved, store, whole
from weft.codegen.llvm.tiles import emit_filled, emit_tiles
from weft.codegen.llvm.transpose import emit_transpose
from weft.ir.errors import CompileError
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Check,
    Comment,
    For,
    If,
    Let,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
    expressions,
    walk,
)
from weft.ir.program import ALIGNMENT
from weft.ir.scalar_expr import Expr, Literal, literal
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.tensor_expr import Monoid

FAIL = "weft_fail"
_WRITTEN_OUT = 4096  # statements that an unrolled loop may grow to; a longer one stays a loop
_UNROLLED = 4  # unroll factor of short serial loops
_SHORT = 32  # expression nodes in such a loop
_FAIL_TEXT = f"""define internal void @{FAIL}(ptr %status, i64 %code, i64 %a, i64 %b) noinline cold
{{
  %word = getelementptr i64, ptr %status, i64 1
  %pair = cmpxchg ptr %word, i64 0, i64 %code seq_cst seq_cst
  %first = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %first, label %record, label %done
record:
  %p = getelementptr i64, ptr %status, i64 2
  store i64 %a, ptr %p
  %q = getelementptr i64, ptr %status, i64 3
  store i64 %b, ptr %q
  br label %done
done:
  ret void
}}
"""


class Emitter:
    """Emits statements at the builder's position; keeps the state of one kernel."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.scratch: list[Expr] = []  # bytes of scratch in use at each local allocation
        self.shared: list[Expr] = []  # bytes of the team's memory after each allocation
        self.top: Expr = literal(0)
        self.in_team = False  # several threads run this code, see ``region``
        self.reductions: Reductions | None = None  # of the vector loop around
        self.carried: Reductions | None = None  # of the vector loop in this nest

    def emit(self, stmt: Stmt) -> None:
        frame = self.frame
        names = frame.names
        while isinstance(stmt, Let):
            frame.names = {**frame.names, stmt.name: evaluate(frame, stmt.value)}
            stmt = stmt.body
        match stmt:
            case Block(stmts):
                self._in_order(stmts)
            case For():
                self._for(stmt)
            case While():
                self._while(stmt)
            case If():
                self._if(stmt)
            case Store():
                *places, value = evaluate_all(frame, (*stmt.indices, stmt.value))
                buffer, streams = frame.bindings[stmt.buffer], streams_now(frame, stmt)
                at, new = address(frame, buffer, places), frame.b.materialise(value)
                store(frame, buffer, at, whole(frame, stmt, new), streams)
            case Update():
                self._update(stmt)
            case Check():
                self._check(stmt)
            case Allocate():
                allocate(self, stmt)
            case Single(body):
                with self._one_thread():
                    llvm_region.single(self, body)
            case Barrier():
                llvm_region.barrier(frame)
            case Prefetch(buffer_name, indices):
                buffer = frame.bindings[buffer_name]
                prefetch(frame, buffer, address(frame, buffer, evaluate_all(frame, indices)), stmt)
            case Comment(text):
                frame.b.line("; " + " ".join(text.split()))
        frame.names = names

    def _in_order(self, stmts: Sequence[Stmt]) -> None:
        while stmts:
            done = 2 if emit_filled(self, stmts) else emit_interleaved(self.frame, stmts)
            if done == 0:
                self.emit(stmts[0])
            stmts = stmts[max(done, 1) :]

    # ---- loops --------------------------------------------------------------------------------

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        outer, self.in_team = self.in_team, False
        yield
        self.in_team = outer

    def _for(self, loop: For) -> None:
        if self.in_team and loop.kind == "parallel":
            with self._one_thread():
                llvm_region.share(self, loop)
            return
        frame, b = self.frame, self.frame.b
        lower, upper = evaluate_all(frame, (loop.lower, loop.upper))
        if (
            not (isinstance(lower, Value) and isinstance(upper, Value))
            or lower.lanes
            or upper.lanes
        ):
            self._uneven(loop, b.materialise(lower), b.materialise(upper))
            return
        if loop.kind == "vector" and not frame.lanes.count and llvm_vector.fits(loop):
            llvm_vector.emit_loop(self, loop, lower, upper)
            return
        if loop.kind == "unrolled" and (
            emit_tiles(self, loop) or emit_issue(frame, loop) or emit_transpose(frame, loop)
        ):
            return
        written_out = loop.kind == "unrolled" and not (loop.instruction and loop.instruction.unit)
        if written_out and lower.const is not None and upper.const is not None:
            iterations = range(int(lower.const), int(upper.const), loop.step)
            if len(iterations) * sum(1 for _ in walk(loop.body)) <= _WRITTEN_OUT:
                for value in iterations:
                    self.iteration(loop, integer(value))
                return
        constant = lower.const is not None and upper.const is not None
        times = _UNROLLED if _short(loop) and not constant else 1
        with carried_across(self, loop):
            self.counted(lower, upper, loop.step, lambda index: self.iteration(loop, index), times)

    def iteration(self, loop: For, index: Index) -> None:
        """The body of ``loop`` for one value of its variable, or for a ramp of them."""
        frame = self.frame
        names, outer, before = frame.names, frame.around, frame.before
        if loop.kind in ("serial", "parallel"):
            frame.around, frame.before = llvm_vector.around(frame, loop), names
        frame.names = {**names, loop.var: index}
        self.emit(loop.body)
        frame.names, frame.around, frame.before = names, outer, before

    def counted(
        self, lower: Value, upper: Value, step: int, body: llvm_vector.Body, unrolled: int = 1
    ) -> None:
        """``body`` at lower, lower + step … below ``upper``, tested at the end of each
        iteration."""
        b = self.frame.b
        if lower.const is not None and upper.const is not None and lower.const >= upper.const:
            return
        cell, loop, done = b.cell(lower), b.new_label("loop"), b.new_label("done")
        b.branch(b.compare("icmp slt", lower, upper), loop, done)
        b.at(loop)
        index = b.load(cell, "i64")
        body(replace(index, unit=min(lower.even, power_in(step))))
        following = b.binary("add nsw", index, integer(step))
        b.store(following, cell)
        b.branch(b.compare("icmp slt", following, upper), loop, done, unrolled)
        b.at(done)

    def _uneven(self, loop: For, lower: Value, upper: Value) -> None:
        """Bounds differ between lanes: run over the union, masked by each lane's bounds."""
        frame, b = self.frame, self.frame.b
        active = frame.lanes.mask
        most, least = b.splat(integer((1 << 63) - 1), frame.lanes.count), integer(-(1 << 63))
        low, high = frame.spread(lower), frame.spread(upper)
        started = b.compare("icmp slt", low, high)
        active = started if active is None else b.binary("and", started, active)
        first = b.reduce_lanes("smin", b.select(active, low, most))
        last = b.reduce_lanes("smax", b.select(active, high, least))

        def iteration(index: Value) -> None:
            # With a step, each lane has its own arithmetic progression.
            inside = b.binary(
                "and", b.compare("icmp sge", index, low), b.compare("icmp slt", index, high)
            )
            if loop.step != 1:
                phase = b.binary("urem", b.binary("sub", index, low), integer(loop.step))
                inside = b.binary("and", inside, b.compare("icmp eq", phase, integer(0)))
            self.masked(inside, lambda: self.iteration(loop, index))

        self.counted(first, last, 1, iteration)

    def _while(self, loop: While) -> None:
        b = self.frame.b
        head, body, done = b.new_label("while"), b.new_label("body"), b.new_label("done")
        b.jump(head)
        b.at(head)
        b.branch(b.materialise(evaluate(self.frame, loop.condition)), body, done)
        b.at(body)
        self.emit(loop.body)
        b.jump(head)
        b.at(done)

    # ---- conditions ---------------------------------------------------------------------------

    def _if(self, stmt: If) -> None:
        frame, b = self.frame, self.frame.b
        condition = b.materialise(evaluate(frame, stmt.condition))
        if condition.const is not None:
            self.emit(stmt.then if condition.const else stmt.otherwise)
            return
        has_else = stmt.otherwise != Block(())
        if condition.lanes:
            self.masked(condition, lambda: self.emit(stmt.then))
            if has_else:
                ones = b.splat(integer(1, "i1"), condition.lanes)
                inverse = b.binary("xor", condition, ones)
                self.masked(inverse, lambda: self.emit(stmt.otherwise))
            return
        then, otherwise, after = b.new_label("then"), b.new_label("else"), b.new_label("after")
        hints = isinstance(stmt.then, Block) and all(
            isinstance(s, Prefetch) for s in stmt.then.stmts
        )
        b.branch(condition, then, otherwise if has_else else after, seldom=hints)
        b.at(then)
        self.emit(stmt.then)
        b.jump(after)
        if has_else:
            b.at(otherwise)
            self.emit(stmt.otherwise)
            b.jump(after)
        b.at(after)

    def masked(self, condition: Value, body: llvm_vector.Thunk) -> None:
        """``body`` in the lanes where ``condition``, skipped if there are none."""
        frame, b = self.frame, self.frame.b
        lanes = frame.narrowed(condition, may_be_empty=False)
        assert lanes.mask is not None
        inside, after = b.new_label("lanes"), b.new_label("after")
        b.branch(b.any_lane(lanes.mask), inside, after)
        b.at(inside)
        with frame.within(lanes):
            body()
        b.jump(after)
        b.at(after)

    # ---- effects ------------------------------------------------------------------------------

    def _update(self, stmt: Update) -> None:
        frame, b = self.frame, self.frame.b
        if self.reductions is not None and self.reductions.accumulate(frame, stmt):
            return
        values = [b.materialise(v) for v in evaluate_all(frame, stmt.values)]
        targets = self._targets(stmt)
        if frame.lanes.count and all(isinstance(at, Value) and not at.lanes for _, at in targets):
            values = fold_lanes(frame, stmt.monoid, values)
            with frame.within(Lanes()):
                self._combine_into(stmt.monoid, targets, values)
        elif frame.lanes.count and not all(_distinct(at) for _, at in targets):
            self._lane_by_lane(stmt.monoid, targets, values)
        else:
            self._combine_into(stmt.monoid, targets, values)

    def _lane_by_lane(
        self, monoid: Monoid, targets: list[tuple[Binding, Index]], values: list[Value]
    ) -> None:
        """Lanes may share an address: fold them one after the other."""
        frame, b, lanes = self.frame, self.frame.b, self.frame.lanes
        places = [frame.spread(at) for _, at in targets]
        spread = [frame.spread(v) for v in values]

        def one(lane: Value) -> None:
            fold, after = b.new_label("fold"), b.new_label("folded")
            active = integer(1, "i1") if lanes.mask is None else b.extract(lanes.mask, lane)
            b.branch(active, fold, after)
            b.at(fold)
            at = [
                (buffer, b.extract(p, lane)) for (buffer, _), p in zip(targets, places, strict=True)
            ]
            with frame.within(Lanes()):
                self._combine_into(monoid, list(at), [b.extract(v, lane) for v in spread])
            b.jump(after)
            b.at(after)

        self.counted(integer(0), integer(lanes.count), 1, one)

    def fold_into(self, stmt: Update, values: list[Value]) -> None:
        """``stmt`` with contributions that are already computed."""
        self._combine_into(stmt.monoid, self._targets(stmt), values)

    def _targets(self, stmt: Update) -> list[tuple[Binding, Index]]:
        frame, found = self.frame, []
        for name, indices in stmt.targets:
            buffer = frame.bindings[name]
            found.append((buffer, address(frame, buffer, evaluate_all(frame, indices))))
        return found

    def _combine_into(
        self, monoid: Monoid, targets: list[tuple[Binding, Index]], values: list[Value]
    ) -> None:
        frame = self.frame
        old = [load(frame, buffer, at) for buffer, at in targets]
        new = combine(frame, monoid, old, values)
        for (buffer, at), value in zip(targets, new, strict=True):
            store(frame, buffer, at, value)

    def _check(self, stmt: Check) -> None:
        frame, b = self.frame, self.frame.b
        condition = b.materialise(evaluate(frame, stmt.condition))
        if condition.const:
            return
        b.support.setdefault(FAIL, _FAIL_TEXT)
        ones = b.splat(integer(1, "i1"), condition.lanes)
        failed = b.binary("xor", condition, ones)
        mask = frame.lanes.mask
        if mask is not None:
            failed = b.binary("and", failed, mask)
        bad, after = b.new_label("bad"), b.new_label("checked")
        b.branch(b.any_lane(failed), bad, after)
        b.at(bad)
        a, c = (b.materialise(v) for v in evaluate_all(frame, stmt.detail))
        if failed.lanes:
            lane = b.intrinsic("cttz", b.pack(failed), extra="i1 true")
            a, c = (b.extract(v, lane) if v.lanes else v for v in (a, c))
        b.line(f"call void @{FAIL}({frame.status}, i64 {stmt.code}, {a}, {c})")
        b.jump(after)
        b.at(after)


def _short(loop: For) -> bool:
    """Whether iterations are so short that loop overhead matters."""
    inside = list(walk(loop.body))
    if not all(isinstance(s, Block | Let | Store | Update | Comment) for s in inside):
        return False
    return sum(1 for s in inside for e in expressions(s) for _ in walk_expr(e)) <= _SHORT


def _distinct(at: Index) -> bool:
    """Whether all lanes have different addresses."""
    return isinstance(at, Ramp) and bool(at.stride.const)


# ---- Allocation of buffers: in registers, in a thread's scratch memory, or in the team's.


class Host(Protocol):
    """The part of the emitter that allocation uses."""

    frame: Frame
    scratch: list[Expr]  # bytes of scratch in use at each local allocation
    shared: list[Expr]  # bytes of the team's memory behind each allocation
    top: Expr  # of the scratch memory in use

    def emit(self, stmt: Stmt) -> None: ...


def allocate(host: Host, stmt: Allocate) -> None:
    """The body of ``stmt``, with memory for its buffer."""
    frame, buffer = host.frame, stmt.buffer
    bindings, top = frame.bindings, host.top
    match buffer.scope:
        case "shared":
            binding = _shared(host, buffer)
        case "local" if buffer.shape or not frame.lanes.count:
            binding = _local(host, buffer)
        case _:
            binding = _register(host, buffer)
    frame.bindings = {**bindings, buffer.name: binding}
    host.emit(stmt.body)
    frame.bindings, host.top = bindings, top


def _register(host: Host, buffer: Buffer) -> Binding:
    """A stack slot; rows are padded to whole vectors, so that each vector is one LLVM register."""
    frame = host.frame
    sizes = [_constant(size, buffer) for size in buffer.shape]
    private = frame.lanes.count
    row = 0
    if sizes and not private and sizes[-1] > 1:
        width = frame.target.vector_bytes // buffer.dtype.itemsize
        row = sizes[-1]
        sizes[-1] = -(-row // width) * width
    strides, total = [], 1
    for size in reversed(sizes):
        strides.append(integer(total))
        total *= size
    elements = max(total, 1) * max(private, 1)
    pointer = frame.b.alloca(memory_type(buffer.dtype), elements)
    padded = sizes[-1] if row else 0
    order = tuple(reversed(strides))
    return Binding(pointer, buffer.dtype, order, "register", private, elements, row, padded)


def _local(host: Host, buffer: Buffer) -> Binding:
    """A piece of the thread's scratch memory, stacked on those of the scopes around; a stack slot
    if half of the registers hold it, which LLVM leaves out where nothing needs it in memory. (Of a
    larger one it would keep parts in registers that the loops around need.)"""
    frame, private = host.frame, host.frame.lanes.count
    if buffer.shape and not private and all(isinstance(n, Literal) for n in buffer.shape):
        elements = prod(_constant(size, buffer) for size in buffer.shape)
        registers = frame.machine.vector_registers * frame.target.vector_bytes // 2
        if 0 < elements * buffer.dtype.itemsize <= registers:
            pointer = frame.b.alloca(memory_type(buffer.dtype), elements)
            strides = tuple(frame.b.materialise(v) for v in evaluate_all(frame, buffer.strides))
            return Binding(pointer, buffer.dtype, strides, buffer.scope)
    binding = _carved(host, buffer, host.frame.scratch, host.top, private)
    host.top = host.top + _cache_lines(buffer, private)
    host.scratch.append(host.top)
    return binding


def _shared(host: Host, buffer: Buffer) -> Binding:
    """A piece of the team's memory, not stacked: other threads may be in other scopes."""
    below = host.shared[-1] if host.shared else literal(0)
    host.shared.append(below + _cache_lines(buffer, 0))
    return _carved(host, buffer, llvm_region.SHARED, below, 0)


def _carved(host: Host, buffer: Buffer, memory: Value, at: Expr, private: int) -> Binding:
    frame, b = host.frame, host.frame.b
    offset = evaluate(frame, at)
    assert isinstance(offset, Value)
    strides = tuple(b.materialise(v) for v in evaluate_all(frame, buffer.strides))
    pointer = b.element(memory, "i8", offset)
    return Binding(pointer, buffer.dtype, strides, buffer.scope, private)


def _cache_lines(buffer: Buffer, private: int) -> Expr:
    """Bytes of ``buffer`` in whole cache lines, with a copy for each of ``private`` lanes."""
    bytes_: Expr = literal(buffer.dtype.itemsize * max(private, 1))
    for size in buffer.shape:
        bytes_ = bytes_ * size
    return (bytes_ + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def _constant(size: Expr, buffer: Buffer) -> int:
    if isinstance(size, Literal):
        return int(size.value)
    raise CompileError(
        "WEFT-E0501",
        f"register buffer {buffer.name} has a size that is not constant",
        why="registers are laid out when code is generated",
        hint="give it local scope, or specialise the size",
    )
