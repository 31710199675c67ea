"""Local tiles: where the elements that one iteration of some loops touches are kept meanwhile.

What ``cache_read``, ``cache_write``, ``contract`` and ``double_buffer`` share: storage for the
window of a tensor, in a layout of its own, and statements that copy between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    constrained,
    constraints_of,
    context_set,
    lengthened,
    multi_aff,
    shortened,
    tuple_space,
)
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Term, to_expr
from weft.ir.scalar_expr import Expr, Literal, Var, literal, substitute
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Access, Constraint, Scop, Scope, Statement, Tensor
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.window import Window, inside, start

Use = tuple[Statement, Access]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a window is stored: its dims in ``order`` (those of size 1 left out), each dim of
    ``panels`` as panels of that width, the lanes innermost, in the order of ``panels``:
    ``[j // w, k, j % w]``, ``[j // w, k // 4, j % w, k % 4]``."""

    order: tuple[int, ...]
    panels: tuple[tuple[int, int], ...] = ()  # (dim, width)

    def shape(self, sizes: Seq[Expr]) -> tuple[Expr, ...]:
        width = dict(self.panels)
        outer = ((sizes[d] + (width[d] - 1)) // width[d] if d in width else sizes[d]
                 for d in self.order)  # fmt: skip
        return (*outer, *(literal(w) for _, w in self.panels))

    def indices(self, place: Seq[Expr]) -> tuple[Expr, ...]:
        """Where the element at ``place`` of the window is stored."""
        width = dict(self.panels)
        outer = (place[d] // width[d] if d in width else place[d] for d in self.order)
        return (*outer, *(place[d] % w for d, w in self.panels))

    def place(self, indices: Seq[Expr], rank: int) -> tuple[Expr, ...]:
        """The inverse of ``indices``; 0 for the dims that are not stored."""
        found: list[Expr] = [literal(0)] * rank
        for d, index in zip(self.order, indices, strict=False):
            found[d] = index
        for (d, width), lane in zip(self.panels, indices[len(self.order) :], strict=True):
            found[d] = found[d] * width + lane
        return tuple(found)


def layout_of(
    boxes: Seq[Window], order: Seq[int] | None, panels: Mapping[int, int] | None
) -> Layout:
    """The layout of ``boxes`` in ``order`` (default: as they come), without dims of size 1."""
    width = dict(panels or {})
    wanted = range(len(boxes)) if order is None else order
    kept = tuple(d for d in wanted if d in width or not single(boxes[d]))
    return Layout(kept, tuple(width.items()))


def single(box: Window) -> bool:
    return isinstance(box.size, Literal) and box.size.value == 1


@dataclass(frozen=True, slots=True)
class LocalTile:
    """Storage for one iteration of ``loops`` of what ``boxes`` hold of a tensor."""

    tensor: Tensor
    source: Tensor
    loops: tuple[Loop, ...]
    boxes: tuple[Window, ...]
    layout: Layout

    def redirected(self, access: Access, statement: str) -> Access:
        """``access``, of the source inside the window, as an access of the tile."""
        return self.relative(access, tuple(loop.at[statement] for loop in self.loops))

    def relative(self, access: Access, values: tuple[Expr, ...]) -> Access:
        """The same, for given ``values`` of the loops."""
        place = [inside(b, i, values) for b, i in zip(self.boxes, access.indices, strict=True)]
        indices = (*values, *self.layout.indices(place))
        return replace(access, tensor=self.tensor.name, indices=indices)


def local_tile(
    scop: Scop,
    name: str,
    source: Tensor,
    uses: Seq[Use],
    loops: Seq[Loop],
    boxes: Seq[Window],
    layout: Layout,
    scope: Scope = "local",
) -> LocalTile | None:
    """A tile called ``name``, the loops' values its contracted dims; None where these have no
    closed form, or may be negative."""
    outer = []
    for loop in loops:
        values = [(s, loop.at[s.name]) for s, _ in uses]
        found = bounds(scop, values, from_zero=True, stored=False)
        if found is None or found.lower != literal(0):
            return None
        outer.append(found.size)
    shape = (*outer, *layout.shape([b.size for b in boxes]))
    tensor = Tensor(name, shape, source.dtype, "temp", scope, len(outer))
    return LocalTile(tensor, source, tuple(loops), tuple(boxes), layout)


@dataclass(frozen=True, slots=True)
class Copying:
    """The instances of a statement that copies between a tile and its source, an element each."""

    dims: tuple[str, ...]
    domain: tuple[Constraint, ...]
    local: Access
    remote: Access
    real: tuple[Constraint, ...]  # where a padded copy has something to copy


def copying(
    scop: Scop, tile: LocalTile, uses: Seq[Use], names: Seq[str], *, pad: bool = False
) -> Copying:
    """The copy of what ``uses`` touch (its convex hull, in closed form) for each iteration of the
    tile's loops; ``pad``: of the whole tile. ``names`` are the dims: loops, then stored indices.
    """
    outer, stored = tuple(names[: len(tile.loops)]), tuple(names[len(tile.loops) :])
    values, indices = [Var(d) for d in outer], [Var(d) for d in stored]
    rank = len(tile.boxes)
    place = tile.layout.place(indices, rank)
    element = tuple(
        to_expr(affine(start(b, values)) + affine(p))
        for b, p in zip(tile.boxes, place, strict=True)
    )
    at = dict(zip(_LOCALS, place, strict=False))
    lanes = indices[len(tile.layout.order) :]
    domain = _within(lanes, [literal(w) for _, w in tile.layout.panels])
    real: list[Constraint] = []
    with bounded(what="the footprint of a tile"):
        hull, names = _hull(scop, tile, uses), (*outer, *_LOCALS[:rank])
        if pad:
            around = shortened(hull, len(outer))
            limits = _within([Var(n) for n in _LOCALS[:rank]], _rounded(tile))
            whole = constrained(hull.get_space(), names, limits)
            whole = whole.intersect(lengthened(around, rank))
            sizes = tile.tensor.shape[len(outer) :]
            domain = [*_constraints(scop, around, outer), *_within(indices, sizes)]
            real = _at(_constraints(scop, hull.gist(whole), names), at)
        else:
            domain += _at(_constraints(scop, hull, names), at)
    domain = _bounded(scop, domain, (*outer, *stored), tile.tensor.shape)
    local = Access(tile.tensor.name, (*values, *indices))
    remote = Access(tile.source.name, element)
    return Copying((*outer, *stored), tuple(domain), local, remote, tuple(real))


def needed(
    scop: Scop, tile: LocalTile, uses: Seq[Use], outer: Seq[str], element: Seq[Expr]
) -> tuple[Constraint, ...]:
    """Where ``uses`` touch ``element`` of the source, in the iteration of the tile's loops whose
    values are the dims ``outer``; of their convex hull."""
    values = [Var(d) for d in outer]
    at = {
        name: inside(box, index, values)
        for name, box, index in zip(_LOCALS, tile.boxes, element, strict=False)
    }
    names = (*outer, *_LOCALS[: len(tile.boxes)])
    with bounded(what="the footprint of a tile"):
        found = _constraints(scop, _hull(scop, tile, uses), names)
    return tuple(_bounded(scop, _at(found, at), outer, tile.tensor.shape))


def _bounded(
    scop: Scop, domain: list[Constraint], dims: Seq[str], sizes: Seq[Expr]
) -> list[Constraint]:
    """``domain`` with 0 <= dim < size where no chain of single constraints bounds the dim."""
    forms = [affine(c.expr) for c in domain]
    forms += [affine(c.expr).scaled(-1) for c in domain if c.equality]
    known = {(p, sign) for p in scop.parameters for sign in (1, -1)}  # -1: from below
    while True:
        new = {
            (term, -1 if factor > 0 else 1)
            for form in forms
            for term, factor in form.terms
            if isinstance(term, str)
            and all(_limits(t, c) <= known for t, c in form.terms if t != term)
        } - known
        if not new:
            break
        known |= new
    found = list(domain)
    for dim, size in zip(dims, sizes, strict=False):
        limits = _within([Var(dim)], [size])
        found += [c for c, sign in zip(limits, (-1, 1), strict=True) if (dim, sign) not in known]
    return found


def _limits(term: Term, factor: int) -> set[tuple[str, int]]:
    """The bounds of variables that bound ``factor * term`` from above."""
    if isinstance(term, str):
        return {(term, 1 if factor > 0 else -1)}
    return {(v, sign) for v in term.numerator.variables() for sign in (1, -1)}


def _rounded(tile: LocalTile) -> list[Expr]:
    """The sizes of the window, those in panels up to whole panels."""
    width = dict(tile.layout.panels)
    return [
        (b.size + (width[d] - 1)) // width[d] * width[d] if d in width else b.size
        for d, b in enumerate(tile.boxes)
    ]


def _at(constraints: Seq[Constraint], values: dict[str, Expr]) -> list[Constraint]:
    """``constraints`` for given ``values`` of some dims, those left out that hold anyway."""
    found = []
    for c in constraints:
        form = affine(substitute(c.expr, values))
        holds = form.constant == 0 if c.equality else form.constant >= 0
        if not (form.is_constant and holds):
            found.append(replace(c, expr=to_expr(form)))
    return found


_LOCALS = tuple(f"local {d}" for d in range(64))  # no user name has a space


def _hull(scop: Scop, tile: LocalTile, uses: Seq[Use]) -> isl.BasicSet:
    """Iterations of the loops, and the places in the window that one of ``uses`` touches there."""
    count, rank = len(tile.loops), len(tile.boxes)
    space = tuple_space(scop, "", count + rank)
    touched = isl.Set.empty(space)
    for statement, access in uses:
        outer = [loop.at[statement.name] for loop in tile.loops]
        local = [inside(b, i, outer) for b, i in zip(tile.boxes, access.indices, strict=True)]
        whole = isl.Map.from_multi_aff(multi_aff(scop, statement, [*outer, *local], space))
        domain = access_map(scop, statement, access).domain()
        touched = touched.union(whole.intersect_domain(domain).range())
    names = [f"outer {k}" for k in range(count)]
    local_names = [Var(_LOCALS[d]) for d in range(rank)]
    limits = _within(local_names, [b.size for b in tile.boxes])
    elements = [start(b, [Var(n) for n in names]) + p
                for b, p in zip(tile.boxes, local_names, strict=True)]  # fmt: skip
    limits += _within(elements, tile.source.shape)
    box = constrained(space, (*names, *_LOCALS[:rank]), limits)
    touched = touched.coalesce()
    around = _convex(shortened(touched, count))
    around = lengthened(around, rank)
    return _convex(touched).intersect(box).intersect(around)


def _convex(points: isl.Set) -> isl.BasicSet:
    """``points``, or where they are no conjunction of constraints, a hull of them."""
    exact = points.compute_divs().coalesce().get_basic_sets()
    return exact[0] if len(exact) == 1 else points.remove_divs().coalesce().simple_hull()


def _constraints(scop: Scop, hull: isl.BasicSet, names: Seq[str]) -> tuple[Constraint, ...]:
    context = context_set(scop)
    slim = _convex(hull.to_set().gist_params(context))
    return constraints_of(slim.remove_redundancies(), names)


def _within(values: Seq[Expr], sizes: Seq[Expr]) -> list[Constraint]:
    """0 <= value < size for each pair."""
    return [
        Constraint(e)
        for value, size in zip(values, sizes, strict=True)
        for e in (value, size - 1 - value)
    ]
