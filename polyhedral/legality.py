"""Is a schedule legal? The independent check that every schedule passes before code is made of it.

Everything is computed anew from the Scop and the tree; nothing that a scheduler claims is believed.

* every dependence's source runs strictly before its sink, except among the instances of one
  update whose monoid lets them be reordered (``Dependence.reduction``);
* a parallel loop carries no dependence at all, a vector loop none but such a reduction;
* storage that loop iterations reuse (``Tensor.contracted``) serves one tile at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from weft.errors import CompileError, IllegalScheduleError
from weft.polyhedral.analysis.carried import Together
from weft.polyhedral.analysis.dependences import Dependence, dependences
from weft.polyhedral.analysis.pair_distance import LoopDistances
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.contraction import check_contraction
from weft.polyhedral.named_isl import (
    access_map,
    bounded,
    paths,
    sample,
    sample_pair,
    tensor_box,
)
from weft.polyhedral.schedule_tree import Loop, Tree
from weft.polyhedral.schedule_verifier import (
    for_parameters,
    instance,
    source_of,
    verify_schedule,
)
from weft.polyhedral.scop import Access, Scop, Statement

Path = Sequence[Loop | int]


def check(scop: Scop, tree: Tree) -> None:
    """Check that ``tree`` runs every instance of ``scop`` once, and after all that it depends on.

    Raises IllegalScheduleError (WEFT-E0410 to E0413 from the verifier; E0420: the order of a
    dependence is violated; E0421, E0422: a parallel or vector loop carries one; E0423: reused
    storage is still needed), with one violated instance pair and the element that it touches, and
    BudgetError (WEFT-E0400) rather than running unbounded.
    """
    verify_schedule(scop, tree)
    above = paths(tree)
    found = dependences(scop)
    distances = LoopDistances()
    with bounded(what="the legality check"):
        for dependence in found:
            _check_order(Together(dependence, distances), above)
    check_contraction(scop, tree)


def _check_order(together: Together, above: dict[str, tuple[Loop | int, ...]]) -> None:
    dependence = together.dependence
    source, sink = above[dependence.source.name], above[dependence.sink.name]
    last = _last_concurrent(source) if dependence.reduction else len(source)
    for depth, (one, two) in enumerate(zip(source, sink, strict=False)):
        if dependence.reduction and depth > last:
            return
        if isinstance(one, Loop):
            _check_loop(together, one)
            if not together.enter(one):
                return
        elif isinstance(two, int) and one != two:
            if one > two and not dependence.reduction and not together.is_empty():
                _refuse(together.pairs, dependence, "the sequence runs the second before the first")
            return
    if not dependence.reduction and not together.is_empty():
        _refuse(together.pairs, dependence, "both run at the same time")


def _last_concurrent(path: Path) -> int:
    """The place of the innermost loop whose iterations may run at the same time, -1 for none."""
    places = [k for k, x in enumerate(path) if isinstance(x, Loop) and x.kind in _CONCURRENT]
    return max(places, default=-1)


_CONCURRENT = {"parallel": "WEFT-E0421", "vector": "WEFT-E0422"}


def _check_loop(together: Together, loop: Loop) -> None:
    dependence = together.dependence
    if not dependence.reduction:
        backward = together.backward(loop)
        if backward is not None:
            _refuse(backward, dependence, f"loop {loop.name} runs the second before the first")
    if loop.kind in _CONCURRENT and not (loop.kind == "vector" and dependence.reduction):
        carried = together.carried(loop)
        if carried is not None:
            reason = f"{loop.kind} loop {loop.name} may run both at the same time"
            _refuse(carried, dependence, reason, _CONCURRENT[loop.kind])


def _refuse(pairs: isl.Set, dependence: Dependence, reason: str, code: str = "WEFT-E0420") -> None:
    """Raise the error that shows one of the flattened ``pairs``, which is not empty."""
    found = sample(pairs)
    assert found is not None, "an empty set of violations"
    parameters, point = found
    source, sink = dependence.source, dependence.sink
    first, second = point[: len(source.dims)], point[len(source.dims) :]
    element = _element(dependence, {**parameters, **dict(zip(source.dims, first, strict=True))})
    did = "writes" if dependence.kind != "anti" else "reads"
    does = "reads" if dependence.kind == "flow" else "writes"
    raise IllegalScheduleError(
        code,
        f"the schedule violates the {dependence.kind} dependence of {sink.name} on {source.name}",
        where=", ".join(dict.fromkeys((source_of(source), source_of(sink)))),
        why=f"{instance(source, first)} {did} {element} before {instance(sink, second)} "
        f"{does} it{for_parameters(parameters)}, but {reason}",
        hint="keep the two in order, in an outer loop or a sequence"
        if code == "WEFT-E0420"
        else "run the loop serially, or move the dependence to an outer loop",
    )


def _element(dependence: Dependence, values: dict[str, int]) -> str:
    access = dependence.source_access
    if access.may:
        return f"an element of {access.tensor}"
    indices = ", ".join(str(affine(index).value(values)) for index in access.indices)
    return f"{access.tensor}[{indices}]"


def check_bounds(scop: Scop) -> None:
    """Check that every access that is performed lies inside its tensor, data-dependent ones aside.

    Raises CompileError (WEFT-E0430), with one instance and the element that it would touch.
    """
    with bounded(what="the bounds check"):
        for statement in scop.statements:
            for access in (*statement.reads, *statement.writes):
                if not access.may:
                    _check_access(scop, statement, access)


def _check_access(scop: Scop, statement: Statement, access: Access) -> None:
    touched, box = access_map(scop, statement, access), tensor_box(scop, access.tensor)
    if touched.range().is_subset(box):
        return
    pair = sample_pair(touched.subtract_range(box))
    assert pair is not None, "not a subset, yet nothing is outside"
    parameters, point, element = pair
    sizes = [str(affine(size).value(parameters)) for size in scop.tensor(access.tensor).shape]
    raise CompileError(
        "WEFT-E0430",
        f"statement {statement.name} accesses {access.tensor} outside its shape",
        where=source_of(statement),
        why=f"{instance(statement, point)} touches {access.tensor}{list(element)} of shape "
        f"[{', '.join(sizes)}]{for_parameters(parameters)}",
        hint="guard the access, or enlarge the tensor",
    )
