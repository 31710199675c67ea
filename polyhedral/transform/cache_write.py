"""Cache write: a tensor is built in a temporary of its own and copied out.

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
from weft.polyhedral.transform.edit import accesses_of, insert_nest, nest_position
from weft.polyhedral.transform.scheduled import fresh


def cache_write(scop: Scop, tensor: str, readers: frozenset[str] = frozenset()) -> Scop:
    """Writes of ``tensor``, and reads of it by the statements ``readers``, go to a new temporary.

    The copy back is a nest of its own behind the last writer's. The writers must cover the tensor
    and stand in nests of their own. Raises ``IllegalScheduleError`` where nothing writes it.
    """
    old = scop.tensor(tensor)
    writers = [s for s, _, is_write in accesses_of(scop, tensor) if is_write]
    if not writers:
        raise IllegalScheduleError("WEFT-E0455", f"no statement writes {tensor}")
    names = {t.name for t in scop.tensors}
    new = Tensor(fresh(f"{tensor}_acc", names), old.shape, old.dtype)
    redirected = {s.name for s in writers} | readers
    statements = tuple(
        _redirect(s, tensor, new.name) if s.name in redirected else s for s in scop.statements
    )
    scop = replace(scop, tensors=(*scop.tensors, new), statements=statements)
    copy = _copy(fresh(f"store_{tensor}", {s.name for s in statements}), new, tensor)
    return insert_nest(scop, copy, after=max(int(s.position[0]) for s in writers))


def _redirect(statement: Statement, old: str, new: str) -> Statement:
    def change(access: Access) -> Access:
        return replace(access, tensor=new) if access.tensor == old else access

    return replace(
        statement,
        writes=tuple(map(change, statement.writes)),
        reads=tuple(map(change, statement.reads)),
    )


def _copy(name: str, source: Tensor, target: str) -> Statement:
    dims = tuple(f"o{d}" for d in range(len(source.shape)))
    indices = tuple(Var(d) for d in dims)
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
