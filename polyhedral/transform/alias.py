"""Alias: a temporary is kept where the result that is made of it will lie.

    for k: for i: e[k, i] = exp(x[k, i])          for k: for i: y[i, k] = exp(x[k, i])
    for k: for i: s[i] += e[k, i]            →    for k: for i: s[i] += y[i, k]
    for k: for i: y[i, k] = e[k, i] / s[i]        for k: for i: y[i, k] = y[i, k] / s[i]

A temporary larger than a cache is written to the next one and read from there, and the result
comes into the caches besides; aliased, there is one array. Whether each element of the temporary
is read for the last time before its place becomes the result, the proof finds out.
Also known as: in-place computation, buffer aliasing; Exo ``reuse_buffer``; TVM and XLA share
buffers by liveness, after scheduling.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Var, substitute, variable_names
from weft.ir.scop import Access, Scop
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import Scheduled, transformation


@transformation
def alias(scheduled: Scheduled, tensor: str, result: str) -> Scheduled:
    """Each element of the temporary ``tensor`` in the element of ``result`` that a statement makes
    of it, the last one that reads the one at dims of its own and writes the other.

    Raises ``IllegalScheduleError``: WEFT-E0452 where there is no such tensor, E0464 where
    ``tensor`` is no temporary of its own storage, data decide where it is accessed, the types
    differ, or no statement makes one of the other.
    """
    old, new = scheduled.tensor(tensor), scheduled.tensor(result)
    element, why = _element(scheduled.scop, tensor, result), ""
    if old.role != "temp" or old.contracted:
        why = f"{tensor} is {'local already' if old.contracted else 'no temporary'}"
    elif any(a.may for _, a, _ in accesses_of(scheduled.scop, tensor)):
        why = f"{tensor} is accessed at data-dependent indices"
    elif new.contracted or old.dtype != new.dtype:
        why = f"{result} is {'local' if new.contracted else f'of {new.dtype}, not {old.dtype}'}"
    elif element is None:
        why = f"no statement makes an element of {result} of each of {tensor}, at its own dims"
    if why or element is None:
        what = f"{tensor} cannot be kept in {result}"
        raise IllegalScheduleError("WEFT-E0464", what, why=why, hint="contract it, or leave it")
    dims, place = element

    def moved(access: Access) -> Access:
        at = dict(zip(dims, access.indices, strict=True))
        there = tuple(substitute(index, at) for index in place.indices)
        return replace(access, tensor=result, indices=there)

    scop = scheduled.scop
    statements = tuple(s.map_accesses(moved, tensor) for s in scop.statements)
    tensors = tuple(t for t in scop.tensors if t.name != tensor)
    return replace(scheduled, scop=replace(scop, tensors=tensors, statements=statements))


def _element(scop: Scop, tensor: str, result: str) -> tuple[list[str], Access] | None:
    """The dims at which the last statement that makes ``result`` of ``tensor`` reads the one, and
    its write of the other; None where there is none, or it needs more than that one element."""
    for s in reversed(scop.statements):
        reads = {a.indices: None for a in s.reads if a.tensor == tensor}
        writes = [a for a in s.writes if a.tensor == result and not a.may]
        if reads and writes:
            (read, *others), (write, *_) = reads, writes
            dims = [i.name for i in read if isinstance(i, Var) and i.name in s.dims]
            moving = {v for i in write.indices for v in variable_names(i)} & {*s.dims}
            own = not others and s.update is None and len({*dims}) == len(read)
            return (dims, write) if own and moving <= {*dims} else None
    return None
