"""Private results: what every iteration of some loops computes anew outlives only the last of them.

    for i:                                  for i:
      for j: x[j] = f(A, i, j)                for j: x_own[j] = f(A, i, j)
      for j: B[i, j] = g(x, i, j)     →       for j: B[i, j] = g(x_own, i, j)
                                              if i is the last: for j: x[j] = x_own[j]

An array that the caller gave for scratch then is a temporary like any other: its iterations need
not wait for each other's use of it. With ``once`` there need be no such loop: the result is a
temporary until all of it is there, which may stay in registers where it is computed and used.

    for i: C[i] = 0                           for i: C_own[i] = 0
    for i: for k: C[i] += A[i, k]       →     for i: for k: C_own[i] += A[i, k]
    for i: D[i] = f(C[i])                     for i: D[i] = f(C_own[i])
                                              for i: C[i] = C_own[i]
Also known as: last-value assignment, OpenMP ``lastprivate``; Tu and Padua (1993), "Automatic array
privatization".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.isl_context import bounded
from weft.ir.scalar_expr import Expr, Load, Var
from weft.ir.scop import Access, Body, Constraint, Scop, Statement
from weft.polyhedral.analysis.linear import between, box, is_box
from weft.polyhedral.analysis.values_through import meetings, values_through
from weft.polyhedral.transform.edit import Use, accesses_of, parts_of, placed, with_parts
from weft.polyhedral.transform.initial import in_textual_order
from weft.polyhedral.transform.scheduled import Scheduled, fresh, transformation

_Box = tuple[tuple[Expr, Expr], ...]


@transformation
def private_result(scheduled: Scheduled, tensor: str, *, once: bool = False) -> Scheduled:
    """The argument ``tensor`` as a temporary until the last iteration, where it serves as scratch.

    That is where each iteration of some loops writes the same box of elements before it reads any;
    ``once``: where a statement outside all loops does, too. Else nothing changes. For the order of
    the source. Raises ``IllegalScheduleError``: WEFT-E0452 where there is no such tensor, E0463 in
    another order.
    """
    placed(scheduled, tensor, "private_result")
    found = scheduled.tensor(tensor)
    if found.role not in ("inout", "output") or not found.shape:
        return scheduled
    scop = _private(scheduled.scop, tensor)
    if once and scop is scheduled.scop:
        scop = _private_once(scop, tensor)
    if scop is scheduled.scop:
        return scheduled
    return in_textual_order(scheduled, scop, "private_result")


def _private(scop: Scop, tensor: str) -> Scop:
    uses = accesses_of(scop, tensor)
    users = list({s.name: s for s, _, _ in uses}.values())
    loops = _shared_loops(users)
    whole = _whole(scop, tensor, loops) if loops else None
    if whole is None:
        return scop
    through = values_through(scop, tensor)
    with bounded(what="the analysis of private storage"):
        if not all(through.stays_within({s.name: Var(d) for s in users}) for d in loops):
            return scop
    return _with_copy(scop, tensor, *whole, loops)


def _private_once(scop: Scop, tensor: str) -> Scop:
    """``scop`` with ``tensor`` apart until its end, if nobody reads what the caller has in it."""
    whole = _whole(scop, tensor, ())
    if whole is None or meetings(scop, tensor).initial:
        return scop
    return _with_copy(scop, tensor, *whole, ())


def _whole(scop: Scop, tensor: str, loops: tuple[str, ...]) -> tuple[Statement, Access] | None:
    """A statement and its write of the whole box that every iteration of ``loops`` writes; None
    where there is none, or others write another."""
    uses = accesses_of(scop, tensor)
    writes = [(s, a) for s, a, is_write in uses if is_write]
    if not all(is_box(s) for s, _, _ in uses) or any(a.may or a.guard for _, a, _ in uses):
        return None
    regions = {_region(s, a, loops) for s, a in writes}
    found = [(s, a) for s, a in writes if len(s.dims) == len(loops) + len(a.indices)]
    return found[0] if len(regions) == 1 and None not in regions and found else None


def _shared_loops(users: Sequence[Statement]) -> tuple[str, ...]:
    """The textual loops around all ``users`` that begin the dims of each, outermost first."""
    found: list[str] = []
    for entries in zip(*(s.position for s in users), strict=False):
        if len(set(entries)) > 1:
            break
        if isinstance(entries[0], str):
            found.append(entries[0])
    return tuple(found)


def _region(statement: Statement, write: Access, loops: Sequence[str]) -> _Box | None:
    """The bounds of what ``write`` writes in one iteration of ``loops``: dims of its own."""
    bounds = box(statement)
    dims = [index.name for index in write.indices if isinstance(index, Var)]
    if len(dims) < len(write.indices) or len(set(dims)) < len(dims) or set(dims) & set(loops):
        return None
    if not set(dims) <= set(statement.dims):
        return None
    return tuple(bounds[d] for d in dims)


def _with_copy(
    scop: Scop,
    tensor: str,
    writer: Statement,
    write: Access,
    loops: tuple[str, ...],
) -> Scop:
    old = scop.tensor(tensor)
    own = fresh(f"{tensor}_own", {t.name for t in scop.tensors})
    elements = tuple(index.name for index in write.indices if isinstance(index, Var))
    dims = (*loops, *elements)
    bounds = box(writer)
    last = tuple(Constraint(Var(d) - (bounds[d][1] - 1), equality=True) for d in loops)
    prefix = writer.position[: writer.position.index(loops[-1]) + 1] if loops else ()
    after = 1 + max(
        int(s.position[len(prefix)]) for s in scop.statements if s.position[: len(prefix)] == prefix
    )
    copy = Statement(
        fresh(f"{tensor}_last", {s.name for s in scop.statements}),
        dims,
        (*between(bounds, dims), *last),
        (*prefix, after, *(part for d in elements for part in (d, 0))),
        writes=(Access(tensor, tuple(map(Var, elements))),),
        reads=(Access(own, tuple(map(Var, elements))),),
        body=Body((), (Load(0, (), old.dtype),)),
    )
    statements = tuple(
        s.map_accesses(lambda access: replace(access, tensor=own), tensor) for s in scop.statements
    )
    place = 1 + max(k for k, s in enumerate(statements) if s.position[: len(prefix)] == prefix)
    return replace(
        scop,
        tensors=(*scop.tensors, replace(old, name=own, role="temp")),
        statements=(*statements[:place], copy, *statements[place:]),
    )


# ---- Detach: what an argument holds for a while, and no caller sees, moves to temporaries.
#
#     for i: { p[i] = A[i]; B[i] = p[i] }         for i: { p_2[i] = A[i]; B[i] = p_2[i] }
#     for i: { p[i] = C[i]; D[i] = p[i] }    →    for i: { p[i] = C[i];   D[i] = p[i] }
#
# The values that a caller may see are those in the array at the end, and those that are read
# before they are written. All others need no memory of the caller's: in a temporary (``expand``,
# ``contract``) they take as much as one iteration of the loops around them needs. Also known as:
# ``separate`` for arrays that outlive the program; dead stores are a special case.


_OUTSIDE: Use = ("", -1)


@transformation
def detach(scheduled: Scheduled, tensor: str) -> Scheduled:
    """The uses of the argument ``tensor`` that exchange values only with each other in temporaries
    instead; nothing changes where it is not written, or there are none.

    Raises ``IllegalScheduleError``: WEFT-E0452 where there is no such tensor, E0463 where a copy
    touches it.
    """
    placed(scheduled, tensor, "detach")
    scop, names = detached(scheduled.scop, tensor)
    return replace(scheduled, scop=scop) if names else scheduled


def detached(scop: Scop, tensor: str) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with the uses of ``tensor`` that exchange values only with each other in temporaries
    instead; the names of these. Nothing changes where ``tensor`` is no argument that is written.
    """
    written = [s for s in scop.statements if any(w.tensor == tensor for w in s.writes)]
    if scop.tensor(tensor).role != "inout" or len(written) < 2:
        return scop, ()
    found = meetings(scop, tensor)
    seen = (((reader, k) if reader else _OUTSIDE, writer) for reader, k, writer in found.seen)
    parts = parts_of(scop, tensor, seen, ((_OUTSIDE, use) for use in found.initial))
    inside = [part for part in parts if _OUTSIDE not in part]
    taken = {t.name for t in scop.tensors}
    names = tuple(fresh(tensor, taken) for _ in inside)
    return with_parts(scop, tensor, dict(zip(names, inside, strict=True))), names
