"""Detach: what an argument holds for a while, and no caller sees, moves to temporaries.

    for i: { p[i] = A[i]; B[i] = p[i] }         for i: { p_2[i] = A[i]; B[i] = p_2[i] }
    for i: { p[i] = C[i]; D[i] = p[i] }    →    for i: { p[i] = C[i];   D[i] = p[i] }

The values that a caller may see are those in the array at the end, and those that are read before
they are written. All others need no memory of the caller's: in a temporary (``expand``,
``contract``) they take as much as one iteration of the loops around them needs.
Also known as: ``separate`` for arrays that outlive the program; dead stores are a special case.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from weft.polyhedral.analysis.values_through import meetings
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.edit import Use, parts_of, renamed_uses, uses_of
from weft.polyhedral.transform.scheduled import fresh

_OUTSIDE: Use = ("", -1)


def detach(scop: Scop, tensor: str) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with the uses of ``tensor`` that exchange values only with each other in temporaries
    instead; the names of these. Nothing changes where ``tensor`` is no argument that is written.
    """
    uses = {s.name: uses_of(s, tensor) for s in scop.statements}
    written = {s for s, found in uses.items() if any(is_write for _, is_write in found)}
    if scop.tensor(tensor).role != "inout" or len(written) < 2:
        return scop, ()
    together: nx.Graph[Use] = nx.Graph()
    together.add_node(_OUTSIDE)
    together.add_nodes_from((s, k) for s, found in uses.items() for k in range(len(found)))
    found = meetings(scop, tensor)
    for reader, number, writer in found.seen:
        one = (reader, number) if reader else _OUTSIDE
        for k, (_, is_write) in enumerate(uses[writer]):
            if is_write:
                together.add_edge(one, (writer, k))
    together.add_edges_from((_OUTSIDE, use) for use in found.initial)
    parts = [part for part in parts_of(together, uses) if _OUTSIDE not in part]
    taken = {t.name for t in scop.tensors}
    names = tuple(fresh(tensor, taken) for _ in parts)
    name_of = {use: name for name, part in zip(names, parts, strict=True) for use in part}
    statements = tuple(renamed_uses(s, tensor, name_of) for s in scop.statements)
    new = tuple(replace(scop.tensor(tensor), name=name, role="temp") for name in names)
    return replace(scop, tensors=(*scop.tensors, *new), statements=statements), names
