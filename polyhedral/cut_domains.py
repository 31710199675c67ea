"""What nothing reads is not computed: domains are cut to the elements that are needed.

    for i: for j: s[i, j] = …                       for i: for j <= i: s[i, j] = …
    for i: for j <= i: y[i] += f(s[i, j])      →    for i: for j <= i: y[i] += f(s[i, j])

Of temporaries alone, and by conditions that are affine: triangles, bands, boxes; holes between
elements that are needed are filled. From the last statement to the first, so that what only a cut
statement reads is cut as well.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import access_map, constraints_of, domain_set
from weft.ir.scop import Scop, Statement


def cut_domains(scop: Scop) -> Scop:
    """``scop`` without instances whose results nothing reads; as it is where that takes too long
    to find out."""
    try:
        with bounded(what="what is read of temporaries"):
            for statement in reversed(scop.statements):
                scop = _cut(scop, statement)
    except BudgetError:
        pass
    return scop


def _cut(scop: Scop, statement: Statement) -> Scop:
    if len(statement.writes) != 1 or statement.writes[0].may or not statement.dims:
        return scop
    (write,) = statement.writes
    needed = _needed(scop, write.tensor) if scop.tensor(write.tensor).role == "temp" else None
    if needed is None:
        return scop
    domain = domain_set(scop, statement)
    wanted = access_map(scop, statement, write).intersect_range(needed.to_set()).domain()
    if domain.is_subset(wanted) or wanted.is_empty():
        return scop
    rest = wanted.gist(domain).coalesce()
    if rest.n_basic_set() != 1:
        return scop
    try:
        more = constraints_of(rest.get_basic_sets()[0], statement.dims)
    except ValueError:
        return scop
    cut = replace(statement, domain=(*statement.domain, *more))
    statements = tuple(cut if s is statement else s for s in scop.statements)
    return replace(scop, statements=statements)


def _needed(scop: Scop, tensor: str) -> isl.BasicSet | None:
    """The elements of ``tensor`` that are read, and what lies between them; None where statements
    read what they write there themselves, or nothing reads it."""
    found: isl.Set | None = None
    for statement in scop.statements:
        own = any(write.tensor == tensor for write in statement.writes)
        for read in statement.reads:
            if read.tensor == tensor:
                if own:
                    return None
                here = access_map(scop, statement, read).range()
                found = here if found is None else found.union(here)
    return None if found is None else found.remove_divs().coalesce().simple_hull()
