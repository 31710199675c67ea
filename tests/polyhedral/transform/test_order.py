"""Nests in an order in which all that they need is done."""

from __future__ import annotations

from random import Random

from tests.polyhedral.tensor_programs import running_sum
from tests.polyhedral.transform import integer_programs
from tests.polyhedral.transform.harness import (
    chain,
    lowered,
    matmul,
    promise,
    random_scops,
    refusal,
    tensor,
)
from tests.polyhedral.transform.test_share import fused
from weft.ir import build as w
from weft.ir.schedule_tree import Sequence, Tree, statements_below
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.order import order
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled, rewrite
from weft.polyhedral.transform.split import split


def needing() -> Scheduled:
    """A and C fused before B, whose sum C reads."""
    x = tensor("X", 4)
    r = w.reduce_axis((0, 4), name="r")
    a = w.compute((4,), lambda i: x[i] * 2, name="A")
    b = w.compute((), lambda: w.sum(x[r], r), name="B")
    c = w.compute((4,), lambda i: a[i] + b[()], name="C")
    return fused(lowered(c, inputs=(x,)), 1, ("A", "C"))


def test_golden() -> None:
    now = needing()
    assert statements_below(now.tree) == ("A", "C", "B_add_init", "B_add")
    assert "WEFT-E0420" in refusal(now.original, now)
    assert statements_below(order(now).tree) == ("B_add_init", "B_add", "A", "C")
    promise(now.original, order(now))


def test_a_good_order_stays() -> None:
    for of in (chain(), matmul(), running_sum(5, 3)):
        assert order(initial(of)).tree == initial(of).tree


def test_copies_stay_where_they_were_put() -> None:
    made = cache_write(split(initial(integer_programs.matmul()), "i", 4), "C", ["S0", "S1"], "i_t")
    assert order(made).tree == made.tree
    made = rfactor(initial(integer_programs.matmul()), "S1", "k")
    assert order(made).tree == made.tree


def test_what_no_order_serves_stays_and_is_refused() -> None:
    """The start and the end of a product around its updates."""
    now = fused(matmul(), 2, ("C_add_init", "D"))
    assert order(now).tree == now.tree
    assert "WEFT-E0420" in refusal(matmul(), order(now))


def test_shuffled_nests_come_back_in_order() -> None:
    random, moved = Random(0), 0

    def shuffled(node: Tree) -> Tree | None:
        if not isinstance(node, Sequence):
            return None
        return Sequence(tuple(random.sample(node.children, len(node.children))))

    for of, sizes in random_scops(20, seed=2700):
        start = initial(of)
        mixed = Scheduled(of, of, rewrite(start.tree, shuffled))
        moved += mixed.tree != start.tree
        promise(of, order(mixed), sizes)
    assert moved > 5
