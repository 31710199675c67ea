"""Expand: each iteration of some loops gets its own elements of a temporary.

    for i:                             for i:
      x = A[i]                           x[i] = A[i]
      for j: B[i, j] = x * x      →      for j: B[i, j] = x[i] * x[i]

The iterations no longer wait for one another's use of the memory (the anti and output dependences
are gone), so the loops may be distributed, reordered, tiled or run in parallel; ``contract`` gives
the memory back afterwards.
Also known as: scalar and array expansion, privatisation; Exo ``expand_dim`` + ``lift_alloc``;
Halide and TVM never need it (their values are functions of the indices from the start).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.scalar_expr import Expr, Literal, Var
from weft.ir.schedule_times import schedule_map
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.values_through import values_through
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import Scheduled, transformation


@transformation
def expand(scheduled: Scheduled, tensor: str, loops: Seq[str]) -> Scheduled:
    """``tensor`` gets a leading dimension for each of ``loops``, indexed by the loop's value.

    The tensor must be a temporary with storage of its own, every access must lie below all of
    ``loops``, and no value may go through it from one iteration of them to another. The new
    dimensions are as long as the loops' values reach (closed forms in the parameters).
    Raises ``IllegalScheduleError`` (WEFT-E0461) otherwise.
    """
    reason = why_not_expand(scheduled, tensor, loops)
    if reason:
        raise IllegalScheduleError(
            "WEFT-E0461", f"{tensor} cannot be expanded along {', '.join(loops)}", why=reason
        )
    chosen = [scheduled.loop(name).at for name in loops]
    return replace(scheduled, scop=expanded(scheduled.scop, tensor, chosen))


def why_not_expand(scheduled: Scheduled, tensor: str, loops: Seq[str]) -> str:
    """The reason why ``expand`` would refuse, or ''. Raises as ``Scheduled.loop`` does."""
    scop = scheduled.scop
    old = scheduled.tensor(tensor)
    if old.role != "temp":
        return f"{tensor} is no temporary"
    if old.contracted:
        return f"{tensor} is local already"
    users = dict.fromkeys(s.name for s, _, _ in accesses_of(scop, tensor))
    for name in loops:
        outside = [u for u in users if u not in scheduled.loop(name).at]
        if outside:
            return f"{outside[0]} uses {tensor} outside loop {name}"
    through = values_through(scop, tensor, schedule_map(scop, scheduled.tree))
    if through.uninitialised:
        return f"{tensor} may be read before it is written"
    with bounded(what="the analysis of private storage"):
        for name in loops:
            if not through.stays_within(scheduled.loop(name).at):
                return f"values go through it from one iteration of {name} to another"
    return ""


def can_expand(scheduled: Scheduled, tensor: str, loops: Seq[str]) -> bool:
    """Whether ``expand`` would accept, closed forms of the loops' values aside."""
    return not why_not_expand(scheduled, tensor, loops)


def expanded(scop: Scop, tensor: str, values: Seq[Mapping[str, Expr]]) -> Scop:
    """``scop`` with a leading dimension of ``tensor`` for each of ``values`` (statement → value).

    Raises ``IllegalScheduleError`` (WEFT-E0461) where a value has no closed bounds.
    """
    users = list(dict.fromkeys(s.name for s, _, _ in accesses_of(scop, tensor)))
    indices: dict[str, list[Expr]] = {name: [] for name in users}
    sizes = []
    for at in values:
        uses = ((scop.statement(name), at[name]) for name in users)
        limits = bounds(scop, uses, from_zero=True)
        if limits is None:
            raise IllegalScheduleError(
                "WEFT-E0461",
                f"{tensor} cannot be expanded along a loop whose range has no closed form",
            )
        sizes.append(limits.size)
        for name in users:
            zero = limits.lower == Literal(0, limits.lower.dtype)
            indices[name].append(at[name] if zero else at[name] - limits.lower)

    def change(s: Statement, access: Access) -> Access:
        leading = indices[s.name]
        computed = (*leading, *access.body_indices) if access.may else ()
        return replace(access, indices=(*leading, *access.indices), body_indices=computed)

    old = scop.tensor(tensor)
    scop = scop.with_tensor(replace(old, shape=(*sizes, *old.shape)), change)
    statements = (_along(s, tensor, indices.get(s.name, ())) for s in scop.statements)
    return replace(scop, statements=tuple(statements))


def _along(s: Statement, tensor: str, leading: Seq[Expr]) -> Statement:
    """``s``, folding along those of its dims that the ``leading`` indices of ``tensor`` are not."""
    if s.update is None or all(w.tensor != tensor for w in s.writes):
        return s
    kept = tuple(d for d in s.update.dims if Var(d) not in leading)
    return replace(s, update=replace(s.update, dims=kept))
