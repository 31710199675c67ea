"""Placements beside brute force: all covers of random graphs by choices, cyclic ones too."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import networkx as nx
import pytest

from weft.tuner.placement import Choice, Part, Placement, cheapest

Convert = dict[tuple[str, object, object], float]
LAYOUTS = (None, (1, 0), (0, 2, 1))


def random_parts(rng: random.Random, n: int) -> tuple[list[Part], list[str]]:
    """Parts that read two earlier values at most, and outputs: what nobody reads, or anything."""
    values, parts = ["x", "z"], []
    for k in range(n):
        made = [f"v{k}", f"w{k}"][: rng.choice((1, 1, 1, 2))]
        near = values[-rng.randint(1, 6) :]
        reads = rng.sample(near, min(len(near), rng.randint(0, 2)))
        parts.append(Part(tuple(reads), tuple(made)))
        values += made
    read = {v for part in parts for v in part.reads}
    outputs = [v for v in values[2:] if v not in read or rng.random() < 0.2]
    return parts, outputs


def random_choices(rng: random.Random, parts: Sequence[Part]) -> list[Choice]:
    """Any sets, those that can never run included; prices and layouts at random."""
    found = []
    for provider in ("a", "b", "c"):
        for size in range(1, len(parts) + 1):
            for own in combinations(range(len(parts)), size):
                if rng.random() < (0.8 if size == 1 else 0.25):
                    seconds = rng.choice((0.0, 1.0, rng.random() * size))
                    found.append(laid(rng, parts, frozenset(own), provider, seconds))
    return found


def laid(
    rng: random.Random, parts: Sequence[Part], own: frozenset[int], provider: str, seconds: float
) -> Choice:
    made = {v for n in own for v in parts[n].makes}
    read = {v for n in own for v in parts[n].reads} - made
    sides = [
        {v: rng.choice(LAYOUTS[1:]) for v in sorted(side) if provider != "a" and rng.random() < 0.4}
        for side in (read, made)
    ]
    return Choice(own, provider, seconds, *sides)


def covers(n: int, choices: Sequence[Choice], left: frozenset[int]) -> Iterator[list[Choice]]:
    if not left:
        yield []
        return
    first = min(left)
    for choice in choices:
        if first in choice.parts and choice.parts <= left:
            for rest in covers(n, choices, left - choice.parts):
                yield [choice, *rest]


def cost(
    cover: Sequence[Choice], parts: Sequence[Part], outputs: Sequence[str], convert: Convert
) -> float | None:
    """Of a cover in whatever order; None where its choices wait for each other."""
    home = {n: k for k, choice in enumerate(cover) for n in choice.parts}
    maker = {v: n for n, part in enumerate(parts) for v in part.makes}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(cover)))
    wanted = {(v, None) for v in outputs}
    for n, part in enumerate(parts):
        for value in part.reads:
            source = home[maker[value]] if value in maker else None
            if source != home[n]:
                wanted.add((value, cover[home[n]].wants.get(value)))
                if source is not None:
                    graph.add_edge(source, home[n])
    if not nx.is_directed_acyclic_graph(graph):
        return None
    total = sum(choice.seconds for choice in cover)
    for value, layout in wanted:
        made = cover[home[maker[value]]].gives.get(value) if value in maker else None
        total += 0.0 if made == layout else convert[value, made, layout]
    return total


def prices(rng: random.Random, parts: Sequence[Part]) -> Convert:
    values = ["x", "z", *(v for part in parts for v in part.makes)]
    pairs = [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b]
    return {(v, a, b): rng.choice((0.0, rng.random())) for v in values for a, b in pairs}


@pytest.mark.parametrize("seed", range(300))
def test_as_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    parts, outputs = random_parts(rng, rng.randint(1, 5))
    choices, convert = random_choices(rng, parts), prices(rng, parts)
    whole = frozenset(range(len(parts)))
    costs = [cost(c, parts, outputs, convert) for c in covers(len(parts), choices, whole)]
    expected = min((c for c in costs if c is not None), default=None)
    found = cheapest(parts, outputs, choices, lambda *key: convert[key])
    if expected is None:
        assert found is None
        return
    assert found is not None and found.proved
    assert found.seconds == pytest.approx(expected)
    assert cost(found.choices, parts, outputs, convert) == pytest.approx(found.seconds)
    assert in_order(found, parts)


def in_order(found: Placement, parts: Sequence[Part]) -> bool:
    there = {"x", "z"}
    for choice in found.choices:
        made = {v for n in choice.parts for v in parts[n].makes}
        if not {v for n in choice.parts for v in parts[n].reads} <= there | made:
            return False
        there |= made
    return sum(len(choice.parts) for choice in found.choices) == len(parts)


def test_a_long_chain_takes_each_part_where_it_is_fast() -> None:
    n = 300
    parts = [Part((f"v{k}",), (f"v{k + 1}",)) for k in range(n)]
    fast = {"a": lambda k: k % 3 == 0, "b": lambda k: k % 3 != 0}
    choices = [
        Choice(frozenset([k]), name, 1.0 if fast[name](k) else 2.0)
        for k in range(n)
        for name in fast
    ]
    found = cheapest(parts, [f"v{n}"], choices)
    assert found is not None and found.seconds == n and found.proved
    assert [c.provider for c in found.choices[:6]] == list("abbabb")


def test_a_set_that_would_run_before_and_after_another_is_not_taken() -> None:
    parts = [Part(("x",), ("a",)), Part(("a",), ("b",)), Part(("a", "b"), ("c",))]
    ends = Choice(frozenset([0, 2]), "free", 0.0)
    singles = [Choice(frozenset([k]), "dear", 1.0) for k in range(3)]
    found = cheapest(parts, ["c"], [ends, *singles])
    assert found is not None and {c.provider for c in found.choices} == {"dear"}
    assert cheapest(parts, ["c"], [ends, singles[1]]) is None


def test_no_parts_and_no_choices() -> None:
    assert cheapest([], ["x"], []) == Placement((), 0.0, True)
    assert cheapest([Part(("x",), ("y",))], ["y"], []) is None


def test_a_graph_too_wide_to_be_sure() -> None:
    parts = [Part(("x",), (f"v{k}",)) for k in range(8)]
    choices = [Choice(frozenset([k]), "a", 1.0) for k in range(8)]
    choices += [Choice(frozenset([0, 7]), "b", 1.0)]
    outputs = [part.makes[0] for part in parts]
    exact, narrow = (cheapest(parts, outputs, choices, width=width) for width in (1000, 1))
    assert exact is not None and (exact.seconds, exact.proved) == (7.0, True)
    assert narrow is not None and not narrow.proved and 7.0 <= narrow.seconds <= 8.0
