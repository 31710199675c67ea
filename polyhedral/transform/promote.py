"""Promote: a temporary that lives within one iteration of some loops becomes local to it.

    for i_t:                                   for i_t:
      for i_p: T[32·i_t + i_p] = …      →        for i_p: T[i_t, i_p] = …      (i_t without storage)
      for i_p: … = T[32·i_t + i_p]               for i_p: … = T[i_t, i_p]

The tile indices stay in the tensor's logical indices (``contracted``), so that dataflow can be
validated exactly; only storage forgets them.
Also known as: Halide ``store_at``, TVM ``cache_write`` with a local scope, Exo ``set_memory`` +
``sink_alloc``; array privatisation and contraction.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Apply, Expr, Literal, literal
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Access, Scope, Statement, Tensor
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import Scheduled, transformation


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a tensor's dims lie within the loops: which loop runs over each, and in tiles of what."""

    loop_dims: tuple[int, ...]  # tensor dim that outer loop k runs over
    tiles: tuple[int, ...]  # tile size of outer loop k; 0: one iteration is one index
    last: int | None = None  # the dim that goes innermost in storage


@transformation
def promote(
    scheduled: Scheduled,
    tensor: str,
    outer: Seq[str],
    *,
    scope: Scope = "local",
    innermost: str | None = None,
) -> Scheduled:
    """``tensor`` gets storage, in ``scope``, for one iteration of the loops ``outer`` only.

    The dimension that the tile loop ``innermost`` runs over becomes the contiguous one.

    Every access must lie below all of ``outer``, and each of these loops must run over one
    dimension of the tensor in step with the access (distance 0). Raises ``IllegalScheduleError``
    otherwise, or where the tensor outlives the Scop or is local already.
    """
    old = scheduled.tensor(tensor)
    if old.role != "temp" or old.contracted:
        what = "is no temporary" if old.role != "temp" else "is local already"
        raise IllegalScheduleError("WEFT-E0452", f"{tensor} {what} and cannot be made local")
    loops = [scheduled.loop(name) for name in outer]
    layout: _Layout | None = None
    for statement, access, _ in accesses_of(scheduled.scop, tensor):
        layout = _same(layout, _layout(statement, access, loops), tensor)
    if layout is None:
        return scheduled
    final = layout
    if innermost is not None and innermost in outer:
        final = replace(layout, last=layout.loop_dims[list(outer).index(innermost)])

    def change(statement: Statement, access: Access) -> Access:
        tiles = tuple(loop.at[statement.name] for loop in loops)
        inner = tuple(
            index % size if size else index for index, size in _kept(access.indices, final)
        )
        return replace(access, indices=tiles + inner)

    local = _local(old, final, scope)
    return replace(scheduled, scop=scheduled.scop.with_tensor(local, change))


def _layout(statement: Statement, access: Access, loops: Seq[Loop]) -> _Layout:
    dims: list[int] = []
    tiles: list[int] = []
    for loop in loops:
        at = loop.at.get(statement.name)
        match = None if at is None else _runs_over(at, access.indices, dims)
        if match is None or access.may:
            raise IllegalScheduleError(
                "WEFT-E0453",
                f"{access.tensor} is not private to an iteration of loop {loop.name}",
                where=statement.origin.source if statement.origin else statement.name,
            )
        dims.append(match[0])
        tiles.append(match[1])
    return _Layout(tuple(dims), tuple(tiles))


def _runs_over(at: Expr, indices: tuple[Expr, ...], used: list[int]) -> tuple[int, int] | None:
    """(dim, tile size) of the index that loop value ``at`` runs over."""
    for d, index in enumerate(indices):
        if d in used:
            continue
        if at == index:
            return d, 0
        match at:
            case Apply("floordiv", (value, Literal(size, _))) if value == index:
                return d, int(size)
    return None


def _same(old: _Layout | None, new: _Layout, tensor: str) -> _Layout:
    if old is not None and old != new:
        raise IllegalScheduleError(
            "WEFT-E0453", f"the accesses of {tensor} do not agree on how the loops tile it"
        )
    return new


def _kept(values: tuple[Expr, ...], layout: _Layout) -> list[tuple[Expr, int]]:
    """The dims that keep storage, in its order, with their tile size (0: untiled)."""
    tile_of = dict(zip(layout.loop_dims, layout.tiles, strict=True))
    kept = [d for d in range(len(values)) if tile_of.get(d) != 0]
    kept.sort(key=lambda d: d == layout.last)
    return [(values[d], tile_of.get(d, 0)) for d in kept]


def _local(tensor: Tensor, layout: _Layout, scope: Scope) -> Tensor:
    outer: list[Expr] = []
    for dim, size in zip(layout.loop_dims, layout.tiles, strict=True):
        extent = tensor.shape[dim]
        outer.append((extent + (size - 1)) // size if size else extent)
    inner = tuple(literal(size) if size else e for e, size in _kept(tensor.shape, layout))
    return replace(tensor, shape=(*outer, *inner), scope=scope, contracted=len(outer))
