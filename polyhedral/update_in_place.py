"""Updates in place: a result that replaces an input is written where it differs from it.

    for i < 512: out[i] = p <= i < p + n ? new[i - p] : in[i]   →   for p <= i < p + n:
                                                                       out[i] = new[i - p]

    for i < 512: out[i] = in[i]                                 →   (nothing)
    for k < n: out[at[k]] = new[k]                                  for k < n: out[at[k]] = new[k]

``out`` and ``in`` are one array then, which begins as ``in`` and ends as ``out``. That is right
where one statement reads ``in``, each element for the same one of ``out``, and stands before all
others that touch ``out``; it is checked here, whoever asks for it. Instances that store what is
there already are left out, where an affine condition says which.

Also known as: copy elision, buffer reuse, destructive updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from weft.ir.errors import InternalError
from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Load, Select
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.transform.edit import loads, with_reads


def update_in_place(scop: Scop, pairs: Iterable[tuple[str, str]]) -> Scop:
    """``scop`` with each of ``pairs``, the names of an output and of the input that it replaces, as
    one array, called as the output is. The input stays among the tensors, and nothing reads it.
    Raises ``InternalError`` (E0475) where elements of the input are read too late for that."""
    for result, given in pairs:
        update = _update(scop, result, given)
        changed = _where_it_differs(update.map_accesses(_of(result), given), result)
        tensors = (replace(t, role="inout") if t.name == result else t for t in scop.tensors)
        statements = (changed if s is update else s for s in scop.statements)
        scop = replace(
            scop, tensors=tuple(tensors), statements=tuple(s for s in statements if s is not None)
        )
    return scop


def _update(scop: Scop, result: str, given: str) -> Statement:
    """The statement that makes ``result`` of ``given``, which does nothing else with either."""
    reading = [s for s in scop.statements if any(a.tensor == given for a in s.reads)]
    touching = [s for s in scop.statements if any(a.tensor == result for a in s.accesses)]
    shapes = {scop.tensor(name).shape for name in (result, given)}
    if len(reading) == 1 and touching and len(shapes) == 1:
        (update,) = reading
        first = min(touching, key=lambda s: int(s.position[0]))
        (write, *others) = update.writes
        apart = sum(s.position[:1] == update.position[:1] for s in touching) == 1
        same = all(a.indices == write.indices for a in update.reads if a.tensor == given)
        plain = update.update is None and not others and not write.may and not write.guard
        if update is first and apart and same and plain and write.tensor == result:
            return update
    raise InternalError(
        "WEFT-E0475", f"{result} is not computed of {given} element by element, before all else"
    )


def _of(tensor: str) -> Callable[[Access], Access]:
    return lambda access: replace(access, tensor=tensor)


def _where_it_differs(s: Statement, result: str) -> Statement | None:
    """``s`` without the instances that store what ``result`` holds already."""
    own = {k for k, a in enumerate(s.reads) if a.tensor == result}
    value = s.body.results[0]
    if s.body.lets:
        return s
    if _is_own(value, own):
        return None
    if isinstance(value, Select) and _is_own(value.if_false, own):
        condition = conjunction(value.condition)
        if condition.exact:
            domain = (*s.domain, *as_constraints(condition))
            body = replace(s.body, results=(value.if_true,))
            cut = replace(s, domain=tuple(dict.fromkeys(domain)), body=body)
            return with_reads(cut, sorted(loads(cut)))
    return s


def _is_own(value: object, own: set[int]) -> bool:
    return isinstance(value, Load) and value.source in own
