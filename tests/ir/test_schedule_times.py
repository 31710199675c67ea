"""Times order instances as trees and the initial order say."""

from __future__ import annotations

import islpy as isl

from tests.ir.test_named_isl import points_of
from tests.polyhedral.scops import Band, Leaf, Sequence, Var, at, box, loop, scop, statement, tensor
from weft.ir import named_isl
from weft.ir.schedule_times import schedule_map

i = Var("i")


def test_schedule_orders_as_the_tree_says() -> None:
    first = statement("F", box(i=4), at("A", i))
    second = statement("G", box(i=4), at("A", i))
    whole = scop((tensor("A", 4),), first, second)
    tree = Band((loop("t", F=i // 2, G=i // 2),), Sequence((
        Band((loop("p", F=i % 2),), Leaf("F")),
        Band((loop("q", G=3 - i),), Leaf("G")),
    )))  # fmt: skip
    times = schedule_map(whole, tree)
    rows = {}
    for name in ("F", "G"):
        domain = named_isl.domain_set(whole, whole.statement(name))
        part = times.intersect_domain(domain.to_union_set())
        for row in points_of(isl.Map.from_union_map(part).wrap().flatten()):
            rows[name, row[0]] = row[1:]
    assert sorted(rows, key=lambda key: rows[key]) == [
        ("F", 0), ("F", 1), ("G", 1), ("G", 0), ("F", 2), ("F", 3), ("G", 3), ("G", 2),
    ]  # fmt: skip
