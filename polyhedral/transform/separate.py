"""Separate: uses of one temporary that exchange no values get temporaries of their own.

    for i: { x = A[i]; B[i] = x }         for i: { x = A[i];   B[i] = x }
    for j: { x = C[j]; D[j] = x }    →    for j: { x_2 = C[j]; D[j] = x_2 }

Also known as: renaming, web splitting; what static single assignment does for scalars.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from weft.polyhedral.analysis.values_through import values_through
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.transform.scheduled import fresh

_Use = tuple[str, int]  # statement, number: its reads of the tensor, then its writes


def separate(scop: Scop, tensor: str) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with the temporary ``tensor`` in as many parts as its values allow; their names.

    Reads and the writes whose values they see stay together. The first part keeps the name. A
    tensor that may be read before it is written stays whole.
    """
    through = values_through(scop, tensor)
    if through.uninitialised or scop.tensor(tensor).role != "temp":
        return scop, (tensor,)
    uses = {s.name: _uses(s, tensor) for s in scop.statements}
    together: nx.Graph[_Use] = nx.Graph()
    together.add_nodes_from((s, k) for s, found in uses.items() for k in range(len(found)))
    for number, pairs in through.seen:
        writer = pairs.second.name
        for k, (_, is_write) in enumerate(uses[writer]):
            if is_write:
                together.add_edge((pairs.first.name, number), (writer, k))
    parts = list(nx.connected_components(together))  # in the order in which uses were added
    taken = {t.name for t in scop.tensors}
    names = [tensor, *(fresh(tensor, taken) for _ in parts[1:])]
    name_of = {use: name for name, part in zip(names, parts, strict=False) for use in part}
    statements = tuple(_renamed(s, tensor, name_of) for s in scop.statements)
    new = tuple(replace(scop.tensor(tensor), name=name) for name in names[1:])
    tensors = (*scop.tensors, *new)
    return replace(scop, tensors=tensors, statements=statements), tuple(names)


def _uses(statement: Statement, tensor: str) -> list[tuple[Access, bool]]:
    """The accesses of ``tensor``, with whether each writes it."""
    groups = ((statement.reads, False), (statement.writes, True))
    return [(a, is_write) for group, is_write in groups for a in group if a.tensor == tensor]


def _renamed(statement: Statement, tensor: str, name_of: dict[_Use, str]) -> Statement:
    number = 0

    def change(access: Access) -> Access:
        nonlocal number
        if access.tensor != tensor:
            return access
        name = name_of[statement.name, number]
        number += 1
        return access if name == tensor else replace(access, tensor=name)

    reads = tuple(map(change, statement.reads))
    return replace(statement, reads=reads, writes=tuple(map(change, statement.writes)))
