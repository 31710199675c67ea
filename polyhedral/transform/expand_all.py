"""Expand all: every temporary gets elements of its own in each iteration that does not share them.

    for t: for i: { x = A[i]; B[i] = x }   →   for t: for i: { x[t, i] = A[i]; B[i] = x[t, i] }

Done before scheduling, so that the scheduler sees the flow of values alone and not the reuse of
memory; ``contract`` gives the memory back under the final schedule.
Also known as: full scalar and array expansion (Feautrier 1988, "Array expansion").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.scalar_expr import Expr, Var
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.values_through import sharing, values_through
from weft.polyhedral.transform.edit import accesses_of, parts_of, placed, with_parts
from weft.polyhedral.transform.expand import expanded
from weft.polyhedral.transform.scheduled import Scheduled, fresh, transformation


def expand_all(scop: Scop, kept: Collection[str] = ()) -> Scop:
    """``scop`` with each temporary separated (``separated``) and then expanded along every textual
    loop around all of its uses whose iterations share elements of it, but no values.

    Temporaries that are ``kept`` or may be read before they are written, loops without a closed
    form, and what statements without a textual place use (copies, partial results), stay.
    """
    placeless = {a.tensor for s in scop.statements if not s.position for a in s.accesses}
    kept = {*kept, *placeless}
    for tensor in scop.tensors:
        if tensor.role == "temp" and not tensor.contracted and tensor.name not in kept:
            scop, names = separated(scop, tensor.name)
            for name in names:
                scop = _expand(scop, name)
    return scop


def _expand(scop: Scop, tensor: str) -> Scop:
    try:
        return expanded(scop, tensor, _loops(scop, tensor))
    except IllegalScheduleError:
        return scop


def _loops(scop: Scop, tensor: str) -> list[Mapping[str, Expr]]:
    """The values of the loops along which ``tensor`` may be expanded to some effect."""
    users = list({s.name: s for s, _, _ in accesses_of(scop, tensor)}.values())
    around = _around(users)
    if not around:
        return []
    through, shared = values_through(scop, tensor), sharing(scop, tensor)
    with bounded(what="the analysis of private storage"):
        return [
            at
            for at in around
            if through.stays_within(at)
            and not all(pair.agree(at) for pair in shared)
            and bounds(scop, ((s, at[s.name]) for s in users), from_zero=True) is not None
        ]


def _around(users: list[Statement]) -> list[Mapping[str, Expr]]:
    """The textual loops that all ``users`` share, outermost first."""
    found: list[Mapping[str, Expr]] = []
    for entries in zip(*(s.position for s in users), strict=False):
        if all(isinstance(e, str) for e in entries):
            found.append({s.name: Var(str(e)) for s, e in zip(users, entries, strict=True)})
        elif len(set(entries)) > 1:
            break
    return found


# ---- Privatize: every temporary gets elements of its own for each iteration that shares no values.
#
#     for t: for i: { x = A[i]; B[i] = x }   →   for t: for i: { x[t, i] = A[i]; B[i] = x[t, i] }
#
# ``expand`` of everything at once: what loops then carry is the flow of values, not the reuse of
# memory. ``contract`` gives the memory back under the final order. Also known as: scalar and
# array expansion (Feautrier 1988), privatisation; implicit in Halide and TVM; Exo ``expand_dim``
# one by one.


@transformation
def privatize(scheduled: Scheduled, keep: Seq[str] = ()) -> Scheduled:
    """All temporaries but those in ``keep`` separated into independent ones, and expanded along
    their textual loops. Temporaries that may be read before they are written stay as they are.

    Raises ``IllegalScheduleError`` (WEFT-E0452) for a tensor in ``keep`` that is none.
    """
    for tensor in keep:
        scheduled.tensor(tensor)
    scop = expand_all(scheduled.scop, keep)
    return scheduled if scop == scheduled.scop else replace(scheduled, scop=scop)


# ---- Separate: uses of one temporary that exchange no values get temporaries of their own.
#
#     for i: { x = A[i]; B[i] = x }         for i: { x = A[i];   B[i] = x }
#     for j: { x = C[j]; D[j] = x }    →    for j: { x_2 = C[j]; D[j] = x_2 }
#
# Also known as: renaming, web splitting; what static single assignment does for scalars.


@transformation
def separate(scheduled: Scheduled, tensor: str) -> Scheduled:
    """The temporary ``tensor`` in as many as its values allow; the first one keeps the name.

    Raises ``IllegalScheduleError``: WEFT-E0452 where there is no such tensor, E0463 where a copy
    touches it.
    """
    placed(scheduled, tensor, "separate")
    scop, names = separated(scheduled.scop, tensor)
    return replace(scheduled, scop=scop) if len(names) > 1 else scheduled


def separated(scop: Scop, tensor: str) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with the temporary ``tensor`` in as many parts as its values allow; their names.

    Reads and the writes whose values they see stay together. The first part keeps the name, as do
    reads that no instance performs. A tensor that may be read before it is written stays whole.
    """
    through = values_through(scop, tensor)
    if through.uninitialised or scop.tensor(tensor).role != "temp":
        return scop, (tensor,)
    seen = (((pairs.first.name, number), pairs.second.name) for number, pairs in through.seen)
    parts = parts_of(scop, tensor, seen)
    taken = {t.name for t in scop.tensors}
    names = (tensor, *(fresh(tensor, taken) for _ in parts[1:]))
    return with_parts(scop, tensor, dict(zip(names, parts, strict=False))), names
