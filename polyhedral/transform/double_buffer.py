"""Double buffer: the tile of the next iteration is copied while this one is computed.

    for t:                                 for t from -1:
      for a: L[a] = A[8·t + a]               for a: L[(t + 1) % 2, a] = A[8·(t + 1) + a]
      for p: … L[p] …               →        for p: … L[t % 2, p] …

The copy runs one iteration early (the loop has one more in front, with nothing but the first copy),
into the half of the buffer that is not being read.
Also known as: software pipelining of copies, ping-pong buffers; Halide ``fold_storage`` +
``async``, TVM ``double_buffer``.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    loops_above,
    replace_loop,
    transformation,
)


@transformation
def double_buffer(scheduled: Scheduled, tensor: str) -> Scheduled:
    """The local buffer ``tensor``, filled by one copy in each iteration of a loop (``cache_read``),
    gets twice the storage, and the copy runs an iteration ahead.

    Whether what it copies is up to date that early, validation decides. Raises
    ``IllegalScheduleError`` (WEFT-E0468) where ``tensor`` is no such buffer.
    """
    scop = scheduled.scop
    copy = _only_copy(scop, scheduled.tensor(tensor))
    loop = _loop_of(scheduled, copy, tensor)
    old = scop.tensor(tensor)
    last = old.contracted - 1
    shape = (*old.shape[:last], literal(2), *old.shape[last + 1 :])

    def halved(_: Statement, access: Access) -> Access:
        indices: Seq[Expr] = access.indices
        return replace(access, indices=(*indices[:last], indices[last] % 2, *indices[last + 1 :]))

    early = replace(loop, at={**loop.at, copy.name: loop.at[copy.name] - 1})
    return replace(
        scheduled,
        scop=scop.with_tensor(replace(old, shape=shape, contracted=last), halved),
        tree=replace_loop(scheduled.tree, loop.name, early),
    )


def _refuse(tensor: str, why: str) -> IllegalScheduleError:
    return IllegalScheduleError("WEFT-E0468", f"{tensor} cannot be double-buffered", why=why)


def _only_copy(scop: Scop, old: Tensor) -> Statement:
    tensor = old.name
    if not old.contracted:
        raise _refuse(tensor, "it is no local buffer of a loop")
    uses = accesses_of(scop, tensor)
    writers = list({s.name: s for s, _, is_write in uses if is_write}.values())
    if len(writers) != 1 or writers[0].update is not None:
        raise _refuse(tensor, "not one copy alone fills it")
    if any(s is writers[0] for s, _, is_write in uses if not is_write):
        raise _refuse(tensor, "what fills it reads it too")
    if any(a.may for _, a, _ in uses):
        raise _refuse(tensor, "it is accessed at data-dependent indices")
    return writers[0]


def _loop_of(scheduled: Scheduled, copy: Statement, tensor: str) -> Loop:
    """The loop that the last dim without storage follows, in all accesses."""
    uses = accesses_of(scheduled.scop, tensor)
    last = scheduled.scop.tensor(tensor).contracted - 1

    def follows(loop: Loop) -> bool:
        return all(
            s.name in loop.at and _same(loop.at[s.name], a.indices[last]) for s, a, _ in uses
        )

    around = [x for x in loops_above(scheduled.tree, copy.name) if follows(x)]
    if not around:
        raise _refuse(tensor, "no loop around all of its uses makes a new tile in each iteration")
    if around[-1].kind != "serial":
        raise _refuse(tensor, f"loop {around[-1].name} is {around[-1].kind}")
    return around[-1]


def _same(one: Expr, other: Expr) -> bool:
    return affine(one) == affine(other)
