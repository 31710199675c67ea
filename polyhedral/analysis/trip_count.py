"""How often a loop of a schedule turns, at most, for one iteration of the loops around it."""

from __future__ import annotations

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import coordinate, domain_set, multi_aff, tuple_space
from weft.ir.quasi_affine import affine
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Scop


def trip_count(scop: Scop, tree: Tree, loop: str) -> int | None:
    """The greatest distance between two values of ``loop``, plus one; None if sizes decide.

    Exact for loops without gaps. Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="counting the iterations of a loop"):
        turns = _turns(scop, tree, loop)
        if turns is None or turns.is_empty():
            return 0
        together = turns.reverse().apply_range(turns).deltas()
        most = together.max_val(coordinate(together.get_space()))
    return most.to_python() + 1 if most.is_int() else None


def _turns(scop: Scop, tree: Tree, loop: str) -> isl.Map | None:
    """Values of the loops around ``loop`` → its values, over all statements inside."""
    found: isl.Map | None = None
    for name, path in paths(tree).items():
        loops = [entry for entry in path if isinstance(entry, Loop)]
        place = next((k for k, entry in enumerate(loops) if entry.name == loop), None)
        if place is None:
            continue
        statement = scop.statement(name)
        values = [affine(entry.at[name]) for entry in loops[: place + 1]]
        outer = multi_aff(scop, statement, values[:-1], tuple_space(scop, "", place))
        inner = multi_aff(scop, statement, values[-1:], tuple_space(scop, "", 1))
        domain = domain_set(scop, statement)
        times = isl.Map.from_multi_aff(outer).intersect_domain(domain).reverse()
        part = times.apply_range(isl.Map.from_multi_aff(inner))
        found = part if found is None else found.union(part)
    return found
