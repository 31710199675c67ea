"""Separate: uses of one temporary that exchange no values get temporaries of their own.

    for i: { x = A[i]; B[i] = x }         for i: { x = A[i];   B[i] = x }
    for j: { x = C[j]; D[j] = x }    →    for j: { x_2 = C[j]; D[j] = x_2 }

Also known as: renaming, web splitting; what static single assignment does for scalars.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from weft.polyhedral.analysis.values_through import values_through
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.edit import Use, parts_of, renamed_uses, uses_of
from weft.polyhedral.transform.scheduled import fresh


def separate(scop: Scop, tensor: str) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with the temporary ``tensor`` in as many parts as its values allow; their names.

    Reads and the writes whose values they see stay together. The first part keeps the name, as do
    reads that no instance performs. A tensor that may be read before it is written stays whole.
    """
    through = values_through(scop, tensor)
    if through.uninitialised or scop.tensor(tensor).role != "temp":
        return scop, (tensor,)
    uses = {s.name: uses_of(s, tensor) for s in scop.statements}
    together: nx.Graph[Use] = nx.Graph()
    together.add_nodes_from((s, k) for s, found in uses.items() for k in range(len(found)))
    for number, pairs in through.seen:
        writer = pairs.second.name
        for k, (_, is_write) in enumerate(uses[writer]):
            if is_write:
                together.add_edge((pairs.first.name, number), (writer, k))
    parts = parts_of(together, uses)
    taken = {t.name for t in scop.tensors}
    names = [tensor, *(fresh(tensor, taken) for _ in parts[1:])]
    name_of = {use: name for name, part in zip(names, parts, strict=False) for use in part}
    statements = tuple(renamed_uses(s, tensor, name_of) for s in scop.statements)
    new = tuple(replace(scop.tensor(tensor), name=name) for name in names[1:])
    tensors = (*scop.tensors, *new)
    return replace(scop, tensors=tensors, statements=statements), tuple(names)
