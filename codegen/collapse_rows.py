"""Collapse short rows: a vector loop over short contiguous rows and its outer loop become one.

    for i in 0 … m parallel:                for I in 0 … ⌈m / R⌉ parallel:
      for j in 0 … 3 vector:          →       for ij in 0 … 3 min(R, m - R I) vector:
        A[i, j] = f(B[i, j], c)                 A[R I + ij // 3, ij % 3] = f(B[…], c)

Rows that are no multiple of a vector waste lanes; collapsed, only the end of each ``R`` rows does.
All accesses must have one constant stride along ``ij``, so that ``flat_indices`` removes the
floors. Loops that are not parallel are collapsed if their iterations access distinct elements.
After ``forward_fills``, which sees no boxes in collapsed rows.

Also known as: loop collapsing, coalescing of a nest (Polychronopoulos 1987).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import known_range, map_loops
from weft.codegen.rebuild import map_all_expressions
from weft.codegen.transposed_blocks import VECTOR_BYTES
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    buffers_touched,
    expressions,
    walk,
)
from weft.ir.scalar_affine import Affine, FloorDiv, to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, apply, literal, rewrite, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify

LEAST_ELEMENTS = 256  # least elements of an iteration of the parallel loop
_WASTE = 1.25  # vectors per full vector from which on collapsing pays

_Place = tuple[str, tuple[Expr, ...]]


def collapse_rows(kernel: Kernel) -> Kernel:
    """``kernel`` with short vector loops collapsed with the loops around them, simplified."""
    return map_loops(kernel, _joined, "parallel", "serial")


def _joined(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> For | None:
    lanes = loop.body
    if not isinstance(lanes, For) or (lanes.kind, lanes.step, loop.step) != ("vector", 1, 1):
        return None
    trips = len(known_range(lanes) or ())
    if trips < 2 or not _wasteful(trips, lanes, buffers):
        return None
    if not _is_legal(loop, lanes, trips, buffers):
        return None
    return _collapsed(loop, lanes, trips, _rows(trips, _width(lanes, buffers)), names)


def _width(lanes: For, buffers: Mapping[str, Buffer]) -> int:
    """Elements of the widest type in a vector."""
    touched = {name for s in walk(lanes.body) for name in buffers_touched(s)}
    return VECTOR_BYTES // max(
        (buffers[name].dtype.itemsize for name in touched if name in buffers), default=VECTOR_BYTES
    )


def _wasteful(trips: int, lanes: For, buffers: Mapping[str, Buffer]) -> bool:
    width = _width(lanes, buffers)
    return -(-trips // width) * width >= _WASTE * trips


def _rows(trips: int, width: int) -> int:
    """The least number of rows that fills whole vectors."""
    least = width // gcd(width, trips)
    return least * max(1, LEAST_ELEMENTS // (least * trips))


def _collapsed(loop: For, lanes: For, trips: int, rows: int, names: frozenset[str]) -> For:
    """Both loops as one vector loop, in a loop over blocks of ``rows`` if the outer one is
    parallel."""
    both = Var(fresh_name(f"{loop.var}.{lanes.var}", loop, names))
    block = Var(fresh_name(f"{loop.var}.rows", loop, names))
    count, first = simplify(loop.upper - loop.lower), loop.lower
    few = isinstance(count, Literal) and count.value <= rows
    blocked = loop.kind == "parallel" and not few
    here = apply("min", literal(rows), count - block * rows) if blocked else count
    first = first + block * rows if blocked else first
    place: dict[str, Expr] = {
        loop.var: first + both // trips,
        lanes.var: lanes.lower + both % trips,
    }
    body = map_all_expressions(lanes.body, lambda e: substitute(e, place))
    joined = For(both.name, literal(0), here * trips, "vector", body)
    if not blocked:
        return joined
    return For(block.name, literal(0), (count + (rows - 1)) // rows, "parallel", joined)


# ---- legality -----------------------------------------------------------------------------------


def _is_legal(loop: For, lanes: For, trips: int, buffers: Mapping[str, Buffer]) -> bool:
    """Whether all accesses have one constant stride along the collapsed loop, and iterations of
    ``loop`` are independent."""
    inside = list(walk(lanes.body))
    if not all(isinstance(s, Block | Let | If | For | Store | Allocate | Comment) for s in inside):
        return False
    moving = {loop.var, lanes.var}

    def plain(expr: Expr) -> bool:
        """Whether ``expr``, apart from elements with a constant stride, is invariant."""

        def hidden(node: Expr) -> Expr | None:
            if isinstance(node, Load) and _has_constant_stride(
                _at(node), loop.var, lanes.var, trips, buffers
            ):
                return Var("", node.dtype)
            return None

        return not moving & _names(rewrite(expr, hidden))

    stores = [s for s in inside if isinstance(s, Store)]
    for stmt in inside:
        if isinstance(stmt, Store):
            place = stmt.buffer, stmt.indices
            if not _has_constant_stride(place, loop.var, lanes.var, trips, buffers) or not plain(
                stmt.value
            ):
                return False
        elif not all(map(plain, expressions(stmt))):
            return False
    return loop.kind == "parallel" or _independent(stores, inside, lanes.var, buffers)


def _at(load: Load) -> _Place:
    return str(load.source), load.indices


def _names(expr: Expr) -> set[str]:
    return {n.name for n in walk_expr(expr) if isinstance(n, Var)}


def _has_constant_stride(
    place: _Place, outer: str, inner: str, trips: int, buffers: Mapping[str, Buffer]
) -> bool:
    """Whether the address moves by one step of ``outer`` as far as by ``trips`` steps of
    ``inner``."""
    name, indices = place
    if not {outer, inner} & {n for i in indices for n in _names(i)}:
        return True
    if name not in buffers:
        return False
    far = near = Affine()
    for index, stride in zip(indices, buffers[name].strides, strict=True):
        form, step = to_affine(index), to_affine(stride)
        if form is None or step is None or any(_below_floor(form, v) for v in (outer, inner)):
            return False
        far += step.scaled(form.coefficient(outer))
        near += step.scaled(form.coefficient(inner))
    return near.is_constant and far == near.scaled(trips)


def _below_floor(form: Affine, name: str) -> bool:
    floors = (t for t, _ in form.terms if isinstance(t, FloorDiv))
    return any(name in t.numerator.variables() for t in floors)


def _independent(
    stores: Sequence[Store], inside: Sequence[Stmt], lane: str, buffers: Mapping[str, Buffer]
) -> bool:
    """Whether each buffer is written by a single store, to a different element in each iteration,
    and read at that element only; all accessed buffers are in ``buffers``, which do not alias."""
    places = {s.buffer: s.indices for s in stores}
    if len(places) < len(stores) or any(isinstance(s, For) for s in inside):
        return False
    if not all(any(lane in _names(i) for i in at) for at in places.values()):
        return False
    loads = [load for s in inside for load in _loads(s)]
    return all(name in buffers and places.get(name, at) == at for name, at in loads)


def _loads(stmt: Stmt) -> Iterator[_Place]:
    for expr in expressions(stmt):
        for node in walk_expr(expr):
            if isinstance(node, Load):
                yield _at(node)
