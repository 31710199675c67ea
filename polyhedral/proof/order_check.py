"""Does a tree keep every dependence of a Scop? Half of ``legality``, which others build on.

Whoever knows that a tree keeps all dependences need not look at the tree any more to learn what
each read sees: of the writes to an element that come before a read in the initial order, all do so
under the tree, in the same order, and none that comes after it in the initial order does. So the
flow of values is that of the initial order, where no tile loop is in the way. That holds of
statements that have a place in the initial order; others (``Statement.position`` ()) are asked here
only not to run at the same time as what uses the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

import islpy as isl

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded, derived
from weft.ir.named_isl import sample
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Var
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import CONCURRENT, Loop, Tree, statements_below
from weft.ir.schedule_verifier import for_parameters, instance, refusal
from weft.ir.scop import Scop
from weft.polyhedral.proof.carried import Together
from weft.polyhedral.proof.dependences import Dependence, dependences
from weft.polyhedral.proof.implied import relation
from weft.polyhedral.proof.loop_distances import LoopDistances

Path = Sequence[Loop | int]


def check_order(scop: Scop, tree: Tree, tensor: str = "") -> int:
    """Check that ``tree``, a verified schedule, keeps the dependences of ``scop``, or only those of
    ``tensor`` if one is named; how many it was asked about.

    Raises IllegalScheduleError (E0420: the order of a dependence is violated; E0421, E0422: a
    parallel or vector loop carries one), with one violated instance pair and the element that it
    touches, and BudgetError (WEFT-E0400) rather than running unbounded. The initial order itself
    keeps every dependence by definition, however many there are.
    """

    def judge() -> int:
        if _as_written(scop, tree):
            return 0
        above, distances = paths(tree), LoopDistances()
        found = dependences(scop, tensor, implied=False)
        with bounded(what="the legality check"):
            for dependence in found:
                _check(Together(dependence, distances), above)
        return len(found)

    return derived(judge, "order", (tensor,), scop, tree)


def _as_written(scop: Scop, tree: Tree) -> bool:
    """Whether ``tree`` is the initial order, one instance after the other."""
    above = paths(tree)
    places = {s.name: (s, number) for number, s in enumerate(scop.statements)}
    for s in scop.statements:
        loops = [entry for entry in above[s.name] if isinstance(entry, Loop)]
        if not s.position or any(loop.kind in _CONCURRENT for loop in loops):
            return False
        if [loop.at[s.name] for loop in loops] != [Var(str(dim)) for dim in s.position[1::2]]:
            return False
    for one, two in pairwise(statements_below(tree)):
        shared, first = relation(*places[one], *places[two])
        entries = takewhile(
            lambda pair: pair[0] == pair[1], zip(above[one], above[two], strict=False)
        )
        if not first or len(shared) != sum(isinstance(entry, Loop) for entry, _ in entries):
            return False
    return True


def keeps_dependences(scop: Scop, tree: Tree, tensor: str = "") -> bool:
    """Whether ``check_order`` accepts."""
    try:
        check_order(scop, tree, tensor)
    except IllegalScheduleError:
        return False
    return True


def keeps_order(scop: Scop, tree: Tree, tensor: str = "") -> bool:
    """Whether all statements have a place in the initial order, and ``check_order`` accepts."""
    return all(s.position for s in scop.statements) and keeps_dependences(scop, tree, tensor)


def runs_in_order(
    dependence: Dependence, above: Mapping[str, Path], distances: LoopDistances
) -> bool:
    """Whether the statements' ``paths`` run all pairs of ``dependence`` in order, and no pair at
    the same time. Call it inside ``bounded``."""
    try:
        _check(Together(dependence, distances), above)
    except IllegalScheduleError:
        return False
    return True


def _check(together: Together, above: Mapping[str, Path]) -> None:
    dependence = together.dependence
    source, sink = above[dependence.source.name], above[dependence.sink.name]
    free = dependence.reduction or dependence.unordered
    last = _last_concurrent(source) if free else len(source)
    for depth, (one, two) in enumerate(zip(source, sink, strict=False)):
        if free and depth > last:
            return
        if isinstance(one, Loop):
            _check_loop(together, one)
            if not together.enter(one):
                return
        elif isinstance(two, int) and one != two:
            if one > two and not free and not together.is_empty():
                _refuse(together.pairs, dependence, "the sequence runs the second before the first")
            return
    if not free and not together.is_empty():
        _refuse(together.pairs, dependence, "both run at the same time")


def _last_concurrent(path: Path) -> int:
    """The place of the innermost loop whose iterations may run at the same time, -1 for none."""
    places = [k for k, x in enumerate(path) if isinstance(x, Loop) and x.kind in _CONCURRENT]
    return max(places, default=-1)


_CONCURRENT = {**dict.fromkeys(CONCURRENT, "WEFT-E0421"), "vector": "WEFT-E0422"}


def _check_loop(together: Together, loop: Loop) -> None:
    dependence = together.dependence
    if not dependence.reduction and not dependence.unordered:
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
    raise refusal(
        code,
        f"the schedule violates the {dependence.kind} dependence of {sink.name} on {source.name}",
        (source, sink),
        f"{instance(source, first)} {did} {element} before {instance(sink, second)} "
        f"{does} it{for_parameters(parameters)}, but {reason}",
        "keep the two in order, in an outer loop or a sequence"
        if code == "WEFT-E0420"
        else "run the loop serially, or move the dependence to an outer loop",
    )


def _element(dependence: Dependence, values: dict[str, int]) -> str:
    access = dependence.source_access
    if access.may:
        return f"an element of {access.tensor}"
    indices = ", ".join(str(affine(index).value(values)) for index in access.indices)
    return f"{access.tensor}[{indices}]" if indices else access.tensor
