"""Stage the result: a tensor is built in a temporary of its own and copied out.

    for i: Y[i] = 0                        for i: Y_acc[i] = 0
    for i: for k: Y[i] += f(i, k)    →     for i: for k: Y_acc[i] += f(i, k)
                                           for i: Y[i] = Y_acc[i]

Fused and tiled, the temporary can be promoted to registers.
Also known as: Halide ``in()``/``update`` staging, TVM ``cache_write``, Exo ``stage_mem``.
"""

from __future__ import annotations

from dataclasses import replace

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Load, Var
from weft.polyhedral.scop import Access, Body, Constraint, Scop, Statement, Tensor
from weft.polyhedral.transform.edit import accesses_of, insert_nest, nest_position, outer_dims
from weft.polyhedral.transform.scheduled import fresh


def stage_result(
    scop: Scop, tensor: str, readers: frozenset[str] = frozenset(), level: int = 0
) -> Scop:
    """Writes of ``tensor``, and reads of it by the statements ``readers``, go to a new temporary.

    The copy back is a nest of its own behind the last writer's, within the first ``level`` loops
    that the writers share. The writers must cover the tensor. Raises ``IllegalScheduleError``
    where nothing writes it, where a writer has fewer loops, or where a shared loop does not run
    along one of its dimensions.
    """
    old = scop.tensor(tensor)
    writers = [s for s, _, is_write in accesses_of(scop, tensor) if is_write]
    if not writers:
        raise IllegalScheduleError("WEFT-E0455", f"no statement writes {tensor}")
    if any(len(s.position) <= 2 * level for s in writers):
        what = f"not every statement that writes {tensor} is inside {level} loops"
        raise IllegalScheduleError("WEFT-E0455", what)
    names = {t.name for t in scop.tensors}
    new = Tensor(fresh(f"{tensor}_acc", names), old.shape, old.dtype)
    redirected = {s.name for s in writers} | readers
    statements = tuple(
        _redirect(s, tensor, new.name) if s.name in redirected else s for s in scop.statements
    )
    scop = replace(scop, tensors=(*scop.tensors, new), statements=statements)
    last = max(writers, key=lambda s: int(s.position[2 * level]))
    order = _dims_order(last, tensor, level)
    taken = set(scop.parameters)
    dims = tuple(fresh(f"o{d}", taken) for d in range(len(old.shape)))
    name = fresh(f"store_{tensor}", {s.name for s in statements})
    copy = _copy(name, new, tensor, dims, order)
    return insert_nest(scop, copy, after=last, level=level)


def _dims_order(writer: Statement, tensor: str, level: int) -> tuple[int, ...]:
    """The dims of ``tensor``, first those that the writer's outer loops run along."""
    write = next(w for w in writer.writes if w.tensor == tensor)
    names = [i.name if isinstance(i, Var) else "" for i in write.indices]
    outer = outer_dims(writer, level)
    if not set(outer) <= set(names):
        raise IllegalScheduleError(
            "WEFT-E0455", f"{tensor} has no dimension for each of the loops {', '.join(outer)}"
        )
    first = [names.index(d) for d in outer]
    return (*first, *(d for d in range(len(names)) if d not in first))


def _redirect(statement: Statement, old: str, new: str) -> Statement:
    def change(access: Access) -> Access:
        return replace(access, tensor=new) if access.tensor == old else access

    return replace(
        statement,
        writes=tuple(map(change, statement.writes)),
        reads=tuple(map(change, statement.reads)),
    )


def _copy(
    name: str, source: Tensor, target: str, named: tuple[str, ...], order: tuple[int, ...]
) -> Statement:
    indices = tuple(map(Var, named))
    dims = tuple(named[d] for d in order)
    domain = tuple(
        Constraint(expr)
        for index, size in zip(indices, source.shape, strict=True)
        for expr in (index, size - 1 - index)
    )
    return Statement(
        name,
        dims,
        domain,
        nest_position(dims),
        writes=(Access(target, indices),),
        reads=(Access(source.name, indices),),
        body=Body((), (Load(0, (), source.dtype),)),
    )
