"""Is storage that loop iterations reuse needed by one iteration at a time?

A tensor's ``contracted`` leading dimensions have no storage: all tiles share the memory of one.
That is right under a schedule tree if some outermost loops around all accesses of the tensor

1. tell the tiles apart: each of the contracted coordinates is a function of these loops, and
2. confine the values: what is read in one iteration of these loops was written in that iteration.

Then the memory is private to the iteration, and the loops may even be parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from weft.ir.isl_context import bounded, derived
from weft.ir.named_isl import (
    constrained,
    context_set,
    domain_set,
    multi_aff,
    parameter_space,
    sample_pair,
    tuple_names,
    tuple_space,
    union_maps,
)
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine
from weft.ir.scalar_expr import Expr, Literal, literal
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.schedule_verifier import for_parameters, instance, refusal
from weft.ir.scop import Access, Constraint, Scop, Statement, Tensor
from weft.polyhedral.proof.flow import Read, reads_of
from weft.polyhedral.proof.flow_under import flow_under

Path = Sequence[Loop | int]
Use = tuple[Statement, Access]


def check_contraction(scop: Scop, tree: Tree) -> None:
    """Check every contracted tensor of ``scop`` under ``tree``, a verified schedule.

    Raises IllegalScheduleError (WEFT-E0423) if two tiles would be in one memory at a time.
    """
    derived(lambda: _contracted_well(scop, tree), "contraction", (), scop, tree)


def _contracted_well(scop: Scop, tree: Tree) -> bool:
    above = paths(tree)
    for tensor in (t for t in scop.tensors if t.contracted):
        uses = list(_uses(scop, tensor.name))
        if not uses:
            continue
        shared = _shared([above[s.name] for s, _ in uses])
        several = _several(scop, tensor)
        places = [_telling(scop, tensor, k, uses, shared) for k in several]
        if not places:
            continue
        around = [x for x in shared[: max(places) + 1] if isinstance(x, Loop)]
        told = {id(x) for x in around if _follows(x, uses, several)}
        if any(id(loop) not in told for loop in around):
            _check_confined(scop, tree, tensor, [s for s, _ in uses], around)
    return True


def _several(scop: Scop, tensor: Tensor) -> tuple[int, ...]:
    """The contracted dimensions of more than one element: loops have to tell these apart."""
    return tuple(k for k in range(tensor.contracted) if _may_exceed_one(scop, tensor.shape[k]))


def _may_exceed_one(scop: Scop, size: Expr) -> bool:
    """Whether ``size`` is more than 1 for some parameters in the context."""
    if isinstance(size, Literal):
        return size != literal(1)
    space = parameter_space(scop).set_from_params()
    more = isl.Set.from_basic_set(constrained(space, (), [Constraint(size - 2)])).params()
    return not more.intersect(context_set(scop)).is_empty()


def _uses(scop: Scop, name: str) -> Iterator[Use]:
    for statement in scop.statements:
        for access in (*statement.writes, *statement.reads):
            if access.tensor == name:
                yield statement, access


def _shared(above: Sequence[Path]) -> Path:
    """The entries before the first place at which paths differ."""
    first, *others = above
    for place, entry in enumerate(first):
        if any(len(o) <= place or not _same(o[place], entry) for o in others):
            return first[:place]
    return first


def _same(one: Loop | int, other: Loop | int) -> bool:
    return one is other or (isinstance(one, int) and one == other)


def _follows(loop: Loop, uses: Sequence[Use], coordinates: Sequence[int]) -> bool:
    """Whether ``loop`` differs from one of ``coordinates`` by a constant, the same everywhere."""
    distances = ({_distance(loop, s, access, k) for s, access in uses} for k in coordinates)
    return any(len(found) == 1 and None not in found for found in distances)


def _telling(scop: Scop, tensor: Tensor, coordinate: int, uses: Sequence[Use], shared: Path) -> int:
    """The place of the shared loop from which on ``coordinate`` is a function of the loops so far:
    it follows that loop, or all of them together (a loop that was split)."""
    for place, loop in enumerate(shared):
        if isinstance(loop, Loop) and _follows(loop, uses, [coordinate]):
            return place
    with bounded(what="the check of reused storage"):
        for place in range(len(shared) if not any(a.may for _, a in uses) else 0):
            around = [x for x in shared[: place + 1] if isinstance(x, Loop)]
            if around and _is_function(scop, coordinate, uses, around):
                return place
    raise refusal(
        "WEFT-E0423",
        f"dimension {coordinate} of {tensor.name} has no storage",
        [s for s, _ in uses],
        "the loops around its accesses do not follow it",
        "let one loop around all of its accesses run over that dimension",
    )


def _is_function(scop: Scop, coordinate: int, uses: Sequence[Use], around: Sequence[Loop]) -> bool:
    """Whether ``coordinate`` is one function of the values of the loops ``around`` in all uses."""
    found = None
    for s, access in uses:
        loops = _iteration(scop, s, [affine(loop.at[s.name]) for loop in around])
        reached = loops.reverse().apply_range(
            _iteration(scop, s, [affine(access.indices[coordinate])])
        )
        found = reached if found is None else found.union(reached)
    return found is not None and found.is_single_valued()


def _distance(loop: Loop, statement: Statement, access: Access, coordinate: int) -> int | None:
    if access.may:
        return None
    difference = affine(access.indices[coordinate]) - affine(loop.at[statement.name])
    return difference.constant if difference.is_constant else None


def _check_confined(
    scop: Scop, tree: Tree, tensor: Tensor, users: Sequence[Statement], around: Sequence[Loop]
) -> None:
    """Raise if a value goes through ``tensor`` from one iteration of the loops ``around`` to
    another: some of these loops do not follow a contracted coordinate, so flow must tell."""
    with bounded(what="the check of reused storage"):
        iteration = isl.UnionMap.empty(parameter_space(scop))
        for statement in dict.fromkeys(s.name for s in users):
            values = [affine(loop.at[statement]) for loop in around]
            part = _iteration(scop, scop.statement(statement), values)
            iteration = iteration.union(part.to_union_map())
        same = iteration.apply_range(iteration.reverse())
        seen = flow_under(scop, tree, wanted=_reads(users, tensor))
        for sources in seen.sources.values():
            for escaped in union_maps(sources.subtract(same)):
                if not escaped.is_empty():
                    _refuse(scop, tensor, escaped)


def _iteration(scop: Scop, statement: Statement, values: Sequence[Affine]) -> isl.Map:
    target = tuple_space(scop, "", len(values))
    whole = isl.Map.from_multi_aff(multi_aff(scop, statement, values, target))
    return whole.intersect_domain(domain_set(scop, statement))


def _reads(users: Sequence[Statement], tensor: Tensor) -> list[Read]:
    """Every read of ``tensor``, those that its updates do themselves included."""
    return [
        read
        for s in {s.name: s for s in users}.values()
        for read in reads_of(s, folds=False)
        if s.accesses[read.number].tensor == tensor.name
    ]


def _refuse(scop: Scop, tensor: Tensor, escaped: isl.Map) -> None:
    pair = sample_pair(escaped)
    assert pair is not None, "an empty map of violations"
    reader, writer = (scop.statement(name) for name in tuple_names(escaped))
    parameters, read, written = pair
    raise refusal(
        "WEFT-E0423",
        f"the storage of {tensor.name} is reused while it is still needed",
        (writer, reader),
        f"{instance(reader, read)} reads what {instance(writer, written)} wrote in another "
        f"iteration of the loops that share the storage{for_parameters(parameters)}",
        f"give {tensor.name} storage for the dimensions that these loops run over",
    )
