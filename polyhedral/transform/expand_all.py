"""Expand all: every temporary gets elements of its own in each iteration that does not share them.

    for t: for i: { x = A[i]; B[i] = x }   →   for t: for i: { x[t, i] = A[i]; B[i] = x[t, i] }

Done before scheduling, so that the scheduler sees the flow of values alone and not the reuse of
memory; ``contract`` gives the memory back under the final schedule.
Also known as: full scalar and array expansion (Feautrier 1988, "Array expansion").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.values_through import sharing, values_through
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.scop import Scop, Statement
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.expand import expanded
from weft.polyhedral.transform.separate import separate


def expand_all(scop: Scop, kept: Collection[str] = ()) -> Scop:
    """``scop`` with each temporary separated (``separate``) and then expanded along every textual
    loop around all of its uses whose iterations share elements of it, but no values.

    Temporaries that are ``kept`` or may be read before they are written, loops without a closed
    form, and what statements without a textual place use (copies, partial results), stay.
    """
    placeless = {a.tensor for s in scop.statements if not s.position for a in (*s.reads, *s.writes)}
    kept = {*kept, *placeless}
    for tensor in scop.tensors:
        if tensor.role == "temp" and not tensor.contracted and tensor.name not in kept:
            scop, names = separate(scop, tensor.name)
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
