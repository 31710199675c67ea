"""Copy read: one read of a statement comes from a copy, made before everything else.

    for i: for j: for k:                      for k: for i: T[k, i] = A[i, 2*k]
      C[i, j] += A[i, 2*k] * B[k, j]    →     for i: for j: for k:
                                                C[i, j] += T[k, i] * B[k, j]

The copy has one element for each point of the dims that the read moves along, in their given order.
``cache_read`` and ``pack`` copy inside of loops. Also known as: packing of a whole operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.frontend.scalar_expr import Load, Var
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.scop import Access, Body, Constraint, Scop, Statement
from weft.polyhedral.transform.edit import insert_nest, nest_position
from weft.polyhedral.transform.scheduled import fresh


def copy_read(
    scop: Scop, statement: str, number: int, dims: Sequence[str], hint: str
) -> tuple[Scop, str]:
    """``scop`` with read ``number`` of ``statement`` from a copy, and the statement that copies.

    ``dims``: all those that the read moves along, each between bounds that no other dim changes.
    Nothing writes what is read, under no condition; ``hint`` ends the new tensor's name.
    """
    s = scop.statement(statement)
    read, bounds = s.reads[number], box(s)
    old = scop.tensor(read.tensor)
    own = fresh(f"{read.tensor}_{hint}", {t.name for t in scop.tensors})
    place = Access(own, tuple(Var(d) - bounds[d][0] for d in dims))
    copy = Statement(
        fresh(f"{read.tensor}_copy", {x.name for x in scop.statements}),
        tuple(dims),
        tuple(
            Constraint(e)
            for low, high, d in ((*bounds[d], d) for d in dims)
            for e in (Var(d) - low, high - 1 - Var(d))
        ),
        nest_position(tuple(dims)),
        writes=(place,),
        reads=(Access(read.tensor, read.indices),),
        body=Body((), (Load(0, (), old.dtype),)),
    )
    reads = (*s.reads[:number], place, *s.reads[number + 1 :])
    statements = tuple(replace(x, reads=reads) if x.name == s.name else x for x in scop.statements)
    shape = tuple(bounds[d][1] - bounds[d][0] for d in dims)
    temp = replace(old, name=own, role="temp", shape=shape)
    changed = replace(scop, tensors=(*scop.tensors, temp), statements=statements)
    return insert_nest(changed, copy, None), copy.name
