"""Inline: a producer is computed where it is read, and its tensor disappears.

    for i: T[i] = f(X[i])
    for j: Y[j] = g(T[j + 1])        →   for j: Y[j] = g(f(X[j + 1]))

Also known as: Halide ``compute_inline``, TVM ``compute_inline``, Exo ``inline_assign``.
"""

from __future__ import annotations

from dataclasses import replace

from weft.polyhedral.transform.inline_producer import inline_producer
from weft.polyhedral.transform.remove import remove
from weft.polyhedral.transform.scheduled import Scheduled, path_to, transformation


@transformation
def inline(scheduled: Scheduled, statement: str) -> Scheduled:
    """``scheduled`` without ``statement``, its body in every reader of what it writes.

    It must write one temporary, alone, once per element, at plain distinct dims, what it reads must
    not change until its readers run, and no reader may access the tensor at data-dependent indices.
    Raises ``IllegalScheduleError``: WEFT-E0454 otherwise, E0451 where there is no such statement.
    """
    path_to(scheduled.tree, statement)
    scop = inline_producer(scheduled.scop, statement)
    return replace(scheduled, scop=scop, tree=remove(scheduled.tree, {statement}))
