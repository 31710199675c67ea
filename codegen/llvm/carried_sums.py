"""Partial results of a vector loop stay in lanes until the loops around it are through.

    for k:                               lanes = 0
      for v vector:               →      for k:
        s += x[k, v]                       for v vector:
                                             lanes += x[k, v … v+W-1]
                                         s += sum of lanes

Combining lanes is a chain of several shuffles and additions, longer than many a row. Only serial
loops around a single vector loop are taken, the outermost for which all targets are invariant:
sums of the vector loop are in no order of theirs, so neither are those of its rows.

Also known as: reduction in the outer loop, delayed horizontal reduction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.codegen.llvm.builder import integer
from weft.codegen.llvm.vector import Host, finish, fits, hoistable, partial_results
from weft.ir.loop_ir import Block, For, If, Let, Prefetch, Stmt
from weft.ir.scalar_expr import Literal


@contextmanager
def carried_across(host: Host, loop: For) -> Iterator[None]:
    """While ``loop`` is emitted inside: its vector loop accumulates in ``host.carried``."""
    frame = host.frame
    inner = _vector_loop(loop) if loop.kind == "serial" and not frame.lanes.count else None
    if inner is None or host.carried is not None or not _invariant(host, loop, inner):
        yield
        return
    host.carried = reductions = partial_results(frame, inner, _trips(inner))
    reductions.share(frame)
    yield
    host.carried = None
    finish(host, reductions, reductions.note(frame, integer(0, "i1")))


def _vector_loop(loop: For) -> For | None:
    """The vector loop that is all there is in the serial ``loop``."""
    stmt: Stmt = loop
    while True:
        match stmt:
            case For(kind="serial") | Let():
                stmt = stmt.body
            case Block((only,)) | Block((If(then=Block((Prefetch(), *_))), only)):
                stmt = only
            case For(kind="vector"):
                return stmt if fits(stmt) else None
            case _:
                return None


def _invariant(host: Host, loop: For, inner: For) -> bool:
    """Whether the targets that are invariant in ``inner`` all are in ``loop``; False for none."""
    across = {id(update) for update in hoistable(host.frame, loop)}
    updates = hoistable(host.frame, inner)
    return bool(updates) and all(id(update) in across for update in updates)


def _trips(loop: For) -> int:
    """How often ``loop`` runs, -1 if that is not known."""
    match loop.lower, loop.upper:
        case Literal(low), Literal(high):
            return max(0, -(-(int(high) - int(low)) // loop.step))
    return -1
