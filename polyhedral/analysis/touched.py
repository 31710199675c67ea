"""How many elements of each tensor a Scop touches at all, in the symbolic sizes."""

from __future__ import annotations

import islpy as isl

from weft.errors import BudgetError, CompileError
from weft.polyhedral.analysis.counting import Counter, Unbounded, region
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.named_isl import access_map, constraints_of, tensor_box
from weft.polyhedral.scop import Scop, Tensor

_PARTS = 6  # into which what is touched may fall; more are counted as the whole tensor


def touched_elements(scop: Scop, counter: Counter) -> dict[str, Polynomial]:
    """Tensor → elements that are read or written, of those that outlive one tile.

    What does not come in a few pieces with linear bounds counts as the whole tensor; ``counter``
    then is no longer exact.
    """
    found = {}
    for tensor in scop.tensors:
        if not tensor.contracted and tensor.scope == "global":
            parts = _parts(scop, tensor)
            total = None if parts is None else _counted(parts, len(tensor.shape), counter)
            if total is None:
                counter.exact = False
                total = number(1)
                for size in tensor.shape:
                    total = total * of_affine(affine(size))[0]
            if total.terms:
                found[tensor.name] = total
    return found


def _parts(scop: Scop, tensor: Tensor) -> list[isl.BasicSet] | None:
    """What is touched, in pieces that have nothing in common; None where it is not so simple."""
    touched = isl.Set.empty(tensor_box(scop, tensor.name).get_space())
    try:
        with bounded(200_000, what="the count of elements"):
            for statement in scop.statements:
                for access in (*statement.reads, *statement.writes):
                    if access.tensor == tensor.name:
                        if access.may:
                            return None
                        touched = touched.union(access_map(scop, statement, access).range())
            touched = touched.coalesce()
            if touched.n_basic_set() > 1:
                touched = touched.make_disjoint().coalesce()
            pieces = touched.get_basic_sets()
            return pieces if len(pieces) <= _PARTS else None
    except BudgetError:
        return None


def _counted(parts: list[isl.BasicSet], rank: int, counter: Counter) -> Polynomial | None:
    axes = [f"axis {k}" for k in range(rank)]
    total = Polynomial()
    for part in parts:
        try:
            total = total + counter.total(axes, region(constraints_of(part, axes)))
        except (Unbounded, CompileError, ValueError):
            return None
    return total
