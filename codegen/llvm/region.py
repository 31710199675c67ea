"""Regions in LLVM IR: thread ``%begin`` of a team of ``%end`` runs its part of the kernel.

Static scheduling: of a parallel loop of E iterations, thread t of n runs [E * t / n, E * (t + 1) /
n), so that data stay with their thread from loop to loop. Uneven loops are block-cyclic: pieces of
E / (8 n) iterations, every n-th from the t-th on. For a triangle that balances as well as dynamic
scheduling, without its cost (0.3 µs more for a loop of 256 rows, on two threads).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from weft.codegen.llvm.builder import Index, Value, integer
from weft.codegen.llvm.expressions import evaluate_all
from weft.codegen.llvm.frame import Frame
from weft.codegen.llvm.store import settle
from weft.codegen.map_loops import is_uneven
from weft.ir.loop_ir import For, Stmt

THREAD, TEAM = Value("%begin", "i64"), Value("%end", "i64")
SHARED = Value("%shared", "ptr")
BARRIER = "weft_barrier"
PIECES = 8  # of an uneven loop, per thread


class Host(Protocol):
    """The part of the emitter of statements that regions use."""

    frame: Frame

    def emit(self, stmt: Stmt) -> None: ...

    def iteration(self, loop: For, index: Index) -> None: ...

    def counted(
        self, lower: Value, upper: Value, step: int, body: Callable[[Value], None]
    ) -> None: ...


def share(host: Host, loop: For) -> None:
    """This thread's iterations of a parallel ``loop``."""
    frame, b = host.frame, host.frame.b
    lower, upper = (b.materialise(v) for v in evaluate_all(frame, (loop.lower, loop.upper)))
    span = b.binary("sub", upper, lower)
    if loop.step != 1:
        span = b.binary("add", span, integer(loop.step - 1))
        span = b.binary("sdiv", span, integer(loop.step))
    trips = b.intrinsic("smax", span, integer(0))

    def iteration(number: Value) -> None:
        host.iteration(loop, b.add(lower, b.mul(number, integer(loop.step))))

    if is_uneven(loop):
        _block_cyclic(host, trips, iteration)
        return
    first = _part(frame, trips, THREAD)
    host.counted(first, _part(frame, trips, b.binary("add", THREAD, integer(1))), 1, iteration)


def _block_cyclic(host: Host, trips: Value, iteration: Callable[[Value], None]) -> None:
    """Pieces of an uneven loop, block-cyclic."""
    b = host.frame.b
    size = b.binary("udiv", trips, b.binary("mul", TEAM, integer(PIECES)))
    size = b.intrinsic("smax", size, integer(1))
    pieces = b.binary("udiv", b.binary("add", trips, b.binary("sub", size, integer(1))), size)
    rounds = b.binary("add", b.binary("sub", pieces, THREAD), b.binary("sub", TEAM, integer(1)))

    def piece(round_: Value) -> None:
        number = b.binary("add", b.binary("mul", round_, TEAM), THREAD)
        first = b.binary("mul", number, size)
        last = b.intrinsic("smin", b.binary("add", first, size), trips)
        host.counted(first, last, 1, iteration)

    host.counted(integer(0), b.binary("sdiv", rounds, TEAM), 1, piece)


def _part(frame: Frame, trips: Value, thread: Value) -> Value:
    return frame.b.binary("udiv", frame.b.binary("mul", trips, thread), TEAM)


def single(host: Host, body: Stmt) -> None:
    """``body`` on the first thread of the team."""
    b = host.frame.b
    chosen, after = b.new_label("single"), b.new_label("after")
    b.branch(b.compare("icmp eq", THREAD, integer(0)), chosen, after)
    b.at(chosen)
    host.emit(body)
    b.jump(after)
    b.at(after)


def barrier(frame: Frame) -> None:
    """Wait for the whole team; free if it is one thread."""
    b = frame.b
    b.declare(f"void @{BARRIER}(i64, i64)")
    meet, after = b.new_label("barrier"), b.new_label("after")
    b.branch(b.compare("icmp sgt", TEAM, integer(1)), meet, after)
    b.at(meet)
    settle(frame)
    b.line(f"call void @{BARRIER}({THREAD}, {TEAM})")
    b.jump(after)
    b.at(after)


def publish(frame: Frame, pointers: list[Value]) -> None:
    """Make ``pointers`` escape, so that LLVM assumes that the call in a barrier may change their
    targets.

    They are ``noalias`` arguments: LLVM assumes that calls that never saw them leave them alone.
    """
    for pointer in pointers:
        frame.b.line(f'call void asm sideeffect "", "r"({pointer})')
