"""Dependences that are left out follow from those that are kept."""

from __future__ import annotations

from random import Random

import networkx as nx
import pytest

from tests.polyhedral.proof.test_dependences import pairs_of
from tests.polyhedral.scops import Constraint, Var, at, box, scop, statement, tensor
from tests.properties.brute_force import all_parameters
from tests.properties.random_scops import random_scop
from weft.ir.scalar_expr import Expr
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.proof.dependences import dependences

i, n = Var("i"), Var("n")


def _closed(of: Scop, parameters: dict[str, int]) -> None:
    """Everything ordered strictly is so along kept pairs; what may be reordered is kept, or so."""
    graph = nx.DiGraph()
    kept = pairs_of(of, parameters, implied=False)
    graph.add_edges_from(((a, p), (b, q)) for a, p, b, q, free in kept if not free)
    loose = {pair[:4] for pair in kept if pair[4]}
    for a, p, b, q, free in pairs_of(of, parameters):
        known = graph.has_node((a, p)) and graph.has_node((b, q))
        assert (known and nx.has_path(graph, (a, p), (b, q))) or (free and (a, p, b, q) in loose)


@pytest.mark.parametrize("seed", range(20))
def test_random_scops(seed: int) -> None:
    of = random_scop(Random(seed))
    for parameters in all_parameters(of):
        _closed(of, parameters)


def crowded_scop(random: Random) -> Scop:
    """Statements on few elements, in loops that some of them share, one of them around others."""
    made: list[Statement] = []
    place: tuple[int, int] = (0, 0)
    for number in range(random.randint(3, 7)):
        if random.random() < 0.4:
            place = (place[0] + 1, 0)
        elif random.random() < 0.5:
            place = (place[0], place[1] + 1)
        indices: list[Expr] = [i, i, i, i - 1, i + 1, n - i, Var("t") + i]
        short = box(t=2, i=(1, n)) if random.random() < 0.8 else box(t=2, i=(2, n))
        guard = (Constraint(i - 2),) if random.random() < 0.2 else ()
        made.append(
            statement(
                f"S{number}",
                short,
                at("A", random.choice(indices), guard=guard),
                tuple(at("A", random.choice(indices)) for _ in range(random.randint(0, 1))),
                dims=("t", "i"),
                position=(place[0], "t", place[1], "i", number),
                reduce=("t",) if random.random() < 0.2 else (),
            )
        )
    return scop(
        (tensor("A", n + 3, role="inout"),), *made, parameters=("n",), context=(Constraint(4 - n),)
    )


@pytest.mark.parametrize("seed", range(60))
def test_crowded_scops(seed: int) -> None:
    of = crowded_scop(Random(seed))
    for size in (2, 4):
        _closed(of, {"n": size})


def _accesses(number: int) -> tuple[Access, tuple[Access, ...]]:
    return at("A", i), (at("A", i - 1), at("A", i)) if number % 2 else (at("A", i),)


def test_a_long_list_has_few_left() -> None:
    """Of statements on one array in one loop, each is asked about with its neighbours only."""

    def count(length: int) -> int:
        made = []
        for number in range(length):
            write, reads = _accesses(number)
            domain, position = box(i=(1, n)), (0, "i", number)
            made.append(
                statement(f"S{number}", domain, write, reads, dims=("i",), position=position)
            )
        of = scop((tensor("A", n, role="inout"),), *made, parameters=("n",))
        return len(dependences(of, implied=False))

    assert count(24) - count(12) == count(36) - count(24)
