"""Pack an operand: it is copied into the order in which a tiled nest will read it.

    for n: for k: … B[n, k] …   →   for no: for k: for ni in 0…V-1: P[no, k, ni] = B[V·no + ni, k]
                                    for n: for k: … P[n // V, k, n % V] …

The copy is a statement of its own; where the source is constant, it runs at compile time.
Also known as: packing in GotoBLAS and BLIS, TVM ``cache_read`` + layout, Exo ``stage_window``.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_affine import simplify
from weft.frontend.scalar_expr import Expr, Literal, Load, Var, literal, substitute
from weft.polyhedral.analysis.linear import box, linear
from weft.polyhedral.scop import Access, Body, Constraint, Scop, Statement, Tensor
from weft.polyhedral.transform.edit import insert_nest, nest_position
from weft.polyhedral.transform.scheduled import fresh


def why_not_pack(scop: Scop, statement: str, operand: int, dim: str) -> str:
    """The reason why ``pack`` would refuse, or ''."""
    s = scop.statement(statement)
    access = s.reads[operand]
    if access.may or access.guard:
        return f"{access.tensor} is read under a condition or at data-dependent indices"
    names = _dims_of(access, s.dims)
    if names is None:
        return f"{access.tensor} is not read at plain dims"
    if len(set(names)) != len(names) or dim not in names:
        return f"{access.tensor} is not read along {dim}"
    bounds = box(s)
    if any(n not in bounds or bounds[n][0] != literal(0) for n in names):
        return "the dims are not a box from zero"
    at = int(s.position[0])
    if any(
        w.tensor == access.tensor and int(t.position[0]) >= at
        for t in scop.statements
        for w in t.writes
    ):
        return f"{access.tensor} is written in or after the nest"
    return ""


def pack_operand(
    scop: Scop, statement: str, operand: int, dim: str, width: int, order: Seq[str]
) -> tuple[Scop, str]:
    """Read number ``operand`` of ``statement`` through a packed copy; the Scop and the copy's name.

    The copy has dims (dim // width, then the access's other dims by ``order``, dim % width), so
    that a tile of ``width`` along ``dim`` streams. Raises ``IllegalScheduleError`` where the access
    is not at plain dims over a box, or the tensor changes meanwhile.
    """
    reason = why_not_pack(scop, statement, operand, dim)
    if reason:
        raise IllegalScheduleError(
            "WEFT-E0456", f"{statement} cannot read a packed copy", why=reason
        )
    reader = scop.statement(statement)
    access = reader.reads[operand]
    used = set(_dims_of(access, reader.dims) or ())
    others = [d for d in order if d in used and d != dim]
    others += sorted(used - {*others, dim}, key=reader.dims.index)
    source = scop.tensor(access.tensor)
    bounds = {d: high for d, (_, high) in box(reader).items()}
    taken = {t.name for t in scop.tensors} | {s.name for s in scop.statements}
    name = fresh(f"{source.name}_packed", taken)
    shape = ((bounds[dim] + (width - 1)) // width, *(bounds[d] for d in others), literal(width))
    packed = Tensor(name, shape, source.dtype)
    named = {*others, *scop.parameters}
    copy = _copy(
        fresh(f"pack_{source.name}", taken),
        (fresh("tile", named), *others, fresh("lane", named)),
        (packed, width),
        (access, dim, bounds),
    )
    indices = (Var(dim) // width, *(Var(d) for d in others), Var(dim) % width)
    reads = tuple(Access(name, indices) if k == operand else a for k, a in enumerate(reader.reads))
    statements = tuple(
        replace(s, reads=reads) if s.name == statement else s for s in scop.statements
    )
    scop = replace(scop, tensors=(*scop.tensors, packed), statements=statements)
    return insert_nest(scop, copy, after=_last_writer(scop, source.name)), name


def _last_writer(scop: Scop, tensor: str) -> Statement | None:
    """The last statement that writes ``tensor``, None for an input."""
    writers = [s for s in scop.statements if tensor in {w.tensor for w in s.writes}]
    return max(writers, key=lambda s: int(s.position[0]), default=None)


def _dims_of(access: Access, dims: Seq[str]) -> list[str] | None:
    """The dims that index ``access``, each plain or a constant away; None if they do not."""
    found: list[str] = []
    for index in access.indices:
        split = linear(index, dims)
        if split is None or not isinstance(split.rest, Literal):
            return None
        if any(c != 1 for c in split.coefficients.values()) or len(split.coefficients) > 1:
            return None
        found += split.coefficients
    return found


def _copy(
    name: str,
    dims: tuple[str, ...],
    target: tuple[Tensor, int],
    source: tuple[Access, str, Mapping[str, Expr]],
) -> Statement:
    """The copy over ``dims`` (tile, …, lane) of what ``source`` accesses along its dim."""
    (packed, width), (access, dim, bounds) = target, source
    tile, *others, lane = map(Var, dims)
    position = tile * width + lane
    domain = [tile, lane, literal(width - 1) - lane, bounds[dim] - 1 - position]
    for d in others:
        domain += [d, bounds[d.name] - 1 - d]
    indices = tuple(substitute(simplify(i), {dim: position}) for i in access.indices)
    return Statement(
        name,
        dims,
        tuple(Constraint(e) for e in domain),
        nest_position(dims),
        writes=(Access(packed.name, tuple(Var(d) for d in dims)),),
        reads=(Access(access.tensor, indices),),
        body=Body((), (Load(0, (), packed.dtype),)),
    )
