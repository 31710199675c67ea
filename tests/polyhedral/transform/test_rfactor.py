"""Reductions in partial results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import every, promise, read, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree
from weft.ir.scop import Access, Body, Constraint, Scop, Statement
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled, rewrite
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tile import tile


def total() -> Scop:
    return read(
        """
        for i in range(N):
            s[0] += A[i]
        """, A="in N", s="io 1",
    )  # fmt: skip


def rows() -> Scop:
    """A sum for each row of a triangle, from zero."""
    return read(
        """
        for i in range(N):
            s[i] = 0
            for k in range(i):
                s[i] += A[i, k]
        """, A="in N N", s="out N",
    )  # fmt: skip


def gemm() -> Scop:
    return read(
        """
        for i in range(M):
            for j in range(N):
                C[i, j] = 2 * C[i, j]
                for k in range(K):
                    C[i, j] += A[i, k] * B[k, j]
        """, "M N K", A="in M K", B="in K N", C="io M N",
    )  # fmt: skip


def test_golden() -> None:
    now = rfactor(tile(initial(total()), {"i": 4}), "S0", "i_t", name="P")
    assert scop_text(now.scop) == (
        "scop test(N) where N >= 0\n"
        "  input A: int64[N]\n"
        "  inout s: int64[1]\n"
        "  temp P: int64[(N + 3) // 4]\n"
        "  S0[i] at (0, i, 0)\n"
        "    where i >= 0 and N - 1 - i >= 0\n"
        "    r0 = A[i]\n"
        "    along i\n"
        "    P[i // 4] sum= r0\n"
        "    for 'line 3'\n"
        "  start_P[P_0] at ()\n"
        "    where P_0 >= 0 and N - P_0 * 4 - 1 >= 0\n"
        "    P[P_0] = 0\n"
        "  finish_P[P_0] at ()\n"
        "    where P_0 >= 0 and N - P_0 * 4 - 1 >= 0\n"
        "    r0 = P[P_0]\n"
        "    along P_0\n"
        "    s[0] sum= r0\n"
    )
    assert outline(now) == "start_P_0 { start_P }; i_t i_p { S0 }; finish_P_0 { finish_P }"


def test_in_parallel() -> None:
    now = tile(initial(total()), {"i": 4})
    assert "E0421" in refusal(set_kinds(now, {"i_t": "parallel"}))
    now = set_kinds(rfactor(now, "S0", "i_t"), {"i_t": "parallel"})
    computes(now, *every(total(), (0, 1, 4, 5, 9)))


def test_lanes() -> None:
    """Along the point loop: partial results of a vector."""
    now = rfactor(tile(initial(total()), {"i": 4}), "S0", "i_p", name="lane")
    assert now.scop.tensor("lane").contracted == 1
    now = set_kinds(reorder(tile(initial(total()), {"i": 4}), ["i_p", "i_t"]), {})
    computes(set_kinds(rfactor(now, "S0", "i_p"), {"i_p": "parallel"}), *every(total()))


@pytest.mark.parametrize("loop", ["k", "k_t"])
def test_within_other_loops(loop: str) -> None:
    now = initial(rows()) if loop == "k" else tile(initial(rows()), {"k": 2})
    now = rfactor(now, "S1", loop)
    promise(now, *every(rows(), (0, 1, 2, 5)))


def test_split_k() -> None:
    now = reorder(tile(initial(gemm()), {"k": 4}), ["k_t", "k_p"])
    now = rfactor(now, "S1", "k_t")
    computes(now, {"M": 0, "N": 0, "K": 0}, {"M": 3, "N": 2, "K": 0}, {"M": 3, "N": 5, "K": 9})


def test_twice() -> None:
    """Partial results of partial results: of each tile, then of all of them."""
    now = rfactor(tile(initial(total()), {"i": 4}), "S0", "i_t", name="P")
    now = rfactor(tile(now, {"start_P_0": 2, "finish_P_0": 2}), "finish_P", "finish_P_0_t")
    promise(now, *every(total(), (0, 1, 5, 9, 17)))


def with_statement(now: Scheduled, changed: Statement) -> Scheduled:
    statements = (changed if s.name == changed.name else s for s in now.scop.statements)
    return replace(now, scop=replace(now.scop, statements=tuple(statements)))


def factored() -> Scheduled:
    return rfactor(tile(initial(total()), {"i": 4}), "S0", "i_t", name="P")


def test_mutations_are_caught() -> None:
    now = factored()
    start, finish = now.scop.statement("start_P"), now.scop.statement("finish_P")
    p = Var("P_0")
    one = replace(start, body=Body((), (literal(1),)))
    assert "E0442" in refusal(with_statement(now, one))  # no identity
    some = replace(start, domain=(*start.domain, Constraint(p - 1)))
    assert "E0440" in refusal(with_statement(now, some))  # what P held before
    less = replace(finish, domain=(*finish.domain, Constraint(p - 1)))
    assert "E0440" in refusal(with_statement(now, less))  # a contribution is missing
    shifted = replace(finish, reads=(Access("P", (p * 0,)),))
    assert "E044" in refusal(with_statement(now, shifted))
    doubled = replace(finish, body=Body((), (finish.body.results[0] + finish.body.results[0],)))
    assert "E0442" in refusal(with_statement(now, doubled))  # no bare partial result


def test_partial_results_that_are_folded_twice() -> None:
    now = factored()
    finish = now.scop.statement("finish_P")
    assert finish.update is not None
    again = replace(finish, name="again")
    scop = replace(now.scop, statements=(*now.scop.statements, again))

    def add(node: Tree) -> Tree | None:
        if isinstance(node, Sequence):
            more = Band((Loop("again_0", {"again": Var("P_0")}),), Leaf("again"))
            return Sequence((*node.children, more))
        return None

    assert "E0441" in refusal(replace(now, scop=scop, tree=rewrite(now.tree, add)))
    rounds = (*finish.domain, Constraint(Var("r")), Constraint(1 - Var("r")))
    update = replace(finish.update, dims=("P_0", "r"))
    thrice = replace(finish, dims=("P_0", "r"), domain=rounds, update=update)

    def loop(node: Tree) -> Tree | None:
        if isinstance(node, Band) and "finish_P" in node.loops[0].at:
            return Band((*node.loops, Loop("r", {"finish_P": Var("r")})), node.child)
        return None

    twice = replace(with_statement(now, thrice), tree=rewrite(now.tree, loop))
    assert "E0441" in refusal(twice)


def test_too_early() -> None:
    """The partial results are folded before they are complete."""
    now = factored()

    def change(node: Tree) -> Tree | None:
        if isinstance(node, Sequence):
            first, second, third = node.children
            return Sequence((first, third, second))
        return None

    assert "E0440" in refusal(replace(now, tree=rewrite(now.tree, change)))


def opened(body: Body | None = None, k: int = 0) -> Scheduled:
    """Rows from their first element on: no start, where there is one."""
    scop = read(
        """
        for i in range(N):
            s[i] = 0
            for k in range(N):
                s[i] += A[i, k]
        """, least=1, A="in N N", s="out N",
    )  # fmt: skip
    start, update = scop.statements
    if body is not None:
        scop = replace(scop, statements=(replace(start, body=body), update))
    first = replace(
        update, name="first", domain=(*update.domain, Constraint(Var("k") - k, equality=True)),
        update=None,
    )  # fmt: skip
    others = replace(update, domain=(*update.domain, Constraint(Var("k") - 1)))
    return Scheduled(scop, replace(scop, statements=(first, others)), initial(scop).tree)


def tree_of(now: Scheduled) -> Tree:

    k = Band((Loop("k", {"S1": Var("k")}),), Leaf("S1"))
    i = Loop("i", {"S1": Var("i"), "first": Var("i")})
    return Band((i,), Sequence((Leaf("first"), k)))


def test_the_first_contribution_may_overwrite() -> None:
    now = opened()
    now = replace(now, tree=tree_of(now))
    promise(now, {"N": 1}, {"N": 5})
    other = opened(Body((), (literal(1),)))
    assert "E0442" in refusal(replace(other, tree=tree_of(other)))
    late = opened(k=1)
    assert "E044" in refusal(replace(late, tree=tree_of(late)))


@pytest.mark.parametrize(
    ("statement", "loop", "reason"),
    [
        ("S0", "i", "no update"),
        ("S1", "i", "E0469.*\n.*each iteration of i folds into elements of its own"),
        ("S1", "z", "E0450"),
        ("S7", "k", "E0451"),
        ("S0", "k", "E0470"),
    ],
)
def test_refusals(statement: str, loop: str, reason: str) -> None:
    with pytest.raises(IllegalScheduleError, match=reason):
        rfactor(initial(rows()), statement, loop)


def test_an_order_that_matters() -> None:
    scop = total()
    (s,) = scop.statements
    assert s.update is not None
    strict = replace(s.update, monoid=replace(s.update.monoid, laws=frozenset({"associative"})))
    scop = replace(scop, statements=(replace(s, update=strict),))
    with pytest.raises(IllegalScheduleError, match="WEFT-E0469"):
        rfactor(initial(scop), "S0", "i")


def test_updates_of_another_kind() -> None:
    """Sums and maxima in turn are neither a sum nor a maximum."""
    scop = read(
        "for i in range(N):\n s[0] += A[i]\nfor j in range(N):\n s[0] += A[j]",
        A="in N", s="io 1",
    )  # fmt: skip
    first, second = scop.statements
    assert second.update is not None
    other = replace(second, update=replace(second.update, monoid=monoid("max", dtypes.int64)))
    scop = replace(scop, statements=(first, other))
    for name, loop in (("S0", "i"), ("S1", "j")):
        with pytest.raises(IllegalScheduleError, match=r"WEFT-E0469(.|\n)*combine in another way"):
            rfactor(initial(scop), name, loop)


def test_updates_of_another_kind_in_the_original() -> None:
    """A tile of the sum alone does not make its order free: what is copied out of it meets maxima
    (found by `fuzz --sources`, program 20069)."""
    scop = read("for i in range(N):\n s[0] += A[i]\n s[0] += A[i]", A="in N", s="io 1")
    first, second = scop.statements
    assert second.update is not None
    other = replace(second, update=replace(second.update, monoid=monoid("max", dtypes.int64)))
    scop = replace(scop, statements=(first, other))
    own = replace(scop.tensor("s"), name="s_own", role="temp")
    apart = replace(first, writes=(replace(first.writes[0], tensor="s_own"),))
    changed = replace(scop, tensors=(*scop.tensors, own), statements=(apart, other))
    of = replace(initial(scop), scop=changed)
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0469(.|\n)*combine in another way"):
        rfactor(of, "S0", "i")


def test_partial_results_in_a_register() -> None:
    now = cache_write(factored(), "P", "S0", "i_t", name="x", scope="register")
    computes(now, *every(total(), (0, 1, 5, 9)))
    both = cache_write(factored(), "s", "finish_P", "finish_P_0", name="y")
    promise(both, *every(total(), (0, 1, 5)))


def test_a_copy_of_partial_results_is_folded_too() -> None:
    """By another way, but the same contributions."""
    now = factored()
    finish, p = now.scop.statement("finish_P"), Var("P_0")
    copy = replace(finish, name="aside", update=None, writes=(Access("Q", (p,)),))
    more = replace(finish, name="again", reads=(Access("Q", (p,)),))
    tensors = (*now.scop.tensors, replace(now.scop.tensor("P"), name="Q"))
    statements = (*now.scop.statements, copy, more)
    scop = replace(now.scop, tensors=tensors, statements=statements)

    def add(node: Tree) -> Tree | None:
        if isinstance(node, Sequence):
            bands = (Band((Loop(n, {n: p}),), Leaf(n)) for n in ("aside", "again"))
            return Sequence((*node.children, *bands))
        return None

    assert "E0441" in refusal(replace(now, scop=scop, tree=rewrite(now.tree, add)))
