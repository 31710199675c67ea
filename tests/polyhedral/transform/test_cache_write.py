"""Writes that go to a local tile first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import (
    every,
    gemm,
    matmul,
    promise,
    read,
    refusal,
    stencil,
    triangular,
)
from tests.polyhedral.transform.machine_code import computes
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Sequence, Tree, statements_below
from weft.ir.scop import Constraint
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.scheduled import Scheduled, rewrite
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tile import tile


def tiled() -> Scheduled:
    now = tile(initial(gemm()), {"i": 4, "j": 2, "k": 3})
    return reorder(now, ["k_t", "i_t", "j_t"])


def names(now: Scheduled) -> list[str]:
    return [s.name for s in now.scop.statements]


@pytest.mark.parametrize("loop", ["k_t", "i_t", "j_t", "i_p", "j_p"])
def test_load_accumulate_store(loop: str) -> None:
    """At every level, also where blocks of the reduction take turns on one tile of C."""
    now = cache_write(tiled(), "C", "S0", loop, name="L")
    assert names(now) == ["S0", "store_L", "copy_L"]
    promise(now, {"M": 0, "N": 1, "K": 1}, {"M": 5, "N": 3, "K": 7})


def test_machine_code() -> None:
    now = cache_write(tiled(), "C", "S0", "j_t", order=[1, 0])
    now = cache_read(now, "A", "S0", "i_t", panels={0: 4}, pad=True)
    computes(now, *every(now.original, (0, 1, 5)))
    computes(set_kinds(now, {"i_t": "parallel"}), {"M": 5, "N": 3, "K": 7})


def test_in_registers() -> None:
    now = reorder(tile(initial(gemm()), {"i": 2, "j": 4}), ["i_t", "j_t", "k", "i_p", "j_p"])
    now = cache_write(now, "C", "S0", "j_t", scope="register", name="acc")
    kinds = {"i_p": "unrolled", "j_p": "vector", "acc_0": "unrolled", "acc_1": "vector"}
    kinds |= {"acc_out_0": "unrolled", "acc_out_1": "vector"}
    now = set_kinds(now, kinds)  # type: ignore[arg-type]
    computes(now, {"M": 4, "N": 8, "K": 5}, {"M": 6, "N": 4, "K": 2})


def test_no_copy_in_where_all_is_written_first() -> None:
    scop = read(
        """
        for i in range(N):
            C[i] = 0
            for k in range(i):
                C[i] += A[i, k]
        """, A="in N N", C="out N",
    )  # fmt: skip
    now = cache_write(tile(initial(scop), {"i": 4}), "C", ["S0", "S1"], "i_p", name="x")
    assert names(now) == ["S0", "S1", "store_x"]
    computes(now, *every(scop, (0, 1, 5)))
    both = cache_write(tile(initial(matmul()), {"i": 2, "j": 2}), "C", ["S0", "S1"], "j_t")
    assert names(both) == ["S0", "S1", "store_C_tile", "copy_C_tile"]  # S0 reads the old C
    promise(both, *every(both.original, (0, 1, 5)))


def test_in_place() -> None:
    """Reads in the window of the write come from the buffer, others from the tensor."""
    sweep = read("for t in range(T):\n for i in range(1, N - 1):\n  A[i] = A[i - 1] + A[i + 1]",
                 "T N", A="io N")  # fmt: skip
    for loop in ("i_t", "t"):
        promise(cache_write(tile(initial(sweep), {"i": 4}), "A", "S0", loop), *every(sweep))
    for loop in ("i", "j"):
        now = cache_write(initial(triangular()), "B", ["S0", "S1"], loop)
        promise(now, *every(triangular(), (0, 1, 5)))


def test_what_others_would_miss() -> None:
    """S1 reads what S0 keeps to itself until the iteration of t ends."""
    now = initial(stencil())
    promise(cache_write(now, "B", "S0", "i"), {"T": 2, "N": 5})
    late = cache_write(now, "B", "S0", "t", name="L")

    def last(node: Tree) -> Tree | None:
        if isinstance(node, Sequence) and ("store_L",) in map(statements_below, node.children):
            store = next(c for c in node.children if statements_below(c) == ("store_L",))
            return Sequence((*(c for c in node.children if c is not store), store))
        return None

    promise(late, {"T": 2, "N": 5})
    assert "E0440" in refusal(replace(late, tree=rewrite(late.tree, last)))


def test_mutations_are_caught() -> None:
    now = cache_write(tiled(), "C", "S0", "j_t", name="L")

    def without(name: str) -> Scheduled:
        of = now.scop.statement(name)
        none = replace(of, domain=(*of.domain, Constraint(of.domain[0].expr * 0 - 1)))
        return _with(now, none)

    assert "E0440" in refusal(without("copy_L"))
    assert "E0440" in refusal(without("store_L"))
    store = now.scop.statement("store_L")
    (write,) = store.writes
    for shift in (1, -1):
        moved = replace(write, indices=(write.indices[0] + shift, write.indices[1]))
        assert "E04" in refusal(_with(now, replace(store, writes=(moved,))))
    short = replace(store, domain=(*store.domain, Constraint(2 - store.writes[0].indices[0])))
    assert "E0440" in refusal(_with(now, short))


def _with(now: Scheduled, changed) -> Scheduled:  # type: ignore[no-untyped-def]
    statements = (changed if s.name == changed.name else s for s in now.scop.statements)
    return replace(now, scop=replace(now.scop, statements=tuple(statements)))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("A", "S0", "i_t"), "E0466.*|does not write it"),
        (("C", "S0", "q"), "E0450"),
        (("C", "S9", "i_t"), "E0451"),
        (("C", [], "i_t"), "E0466"),
    ],
)
def test_refusals(arguments: tuple[str, str, str], reason: str) -> None:
    with pytest.raises(IllegalScheduleError, match=reason):
        cache_write(tiled(), *arguments)
