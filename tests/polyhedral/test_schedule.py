"""The automatic scheduler: what it makes of programs, and that all of it can be proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.test_grouping import running_sum, softmax
from tests.polyhedral.test_tile_choice import WIDE, gemm
from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    conv_pool,
    matmul,
    promise,
    random_scops,
    refusal,
    stencil,
)
from tests.polyhedral.transform.test_hoist_constants import constant, scaled
from tests.polyhedral.transform.test_inline_producer import gathered, padded
from weft.frontend import build as w
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.machine import Cache, Machine
from weft.polyhedral.schedule import schedule
from weft.polyhedral.schedule_printer import print_schedule
from weft.polyhedral.schedule_tree import Loop
from weft.polyhedral.transform.scheduled import Scheduled, with_loops

TOY = Machine("toy", 32, 10, (Cache(1 << 12), Cache(1 << 14)), 4, 2, 2)  # 4 lanes of int64


def test_golden() -> None:
    """A matrix product with its epilogue: a register tile, the reduction outside of it."""
    now = schedule(matmul(9, 16, 5), TOY)
    assert print_schedule(now.tree) == (
        "for j_t = j // 4    parallel\n"
        "  for i_t = i // 5    parallel\n"
        "    sequence\n"
        "      for i_p_C_add_init = i - 5*(i // 5)    unrolled\n"
        "        for j_p_C_add_init = j - 4*(j // 4)    vector\n"
        "          C_add_init\n"
        "      for r = r\n"
        "        for i_p_C_add = i - 5*(i // 5)    unrolled\n"
        "          for j_p_C_add = j - 4*(j // 4)    vector\n"
        "            C_add\n"
        "      for i_p_D = i - 5*(i // 5)    unrolled\n"
        "        for j_p_D = j - 4*(j // 4)    vector\n"
        "          D\n"
    )
    accumulator = now.scop.tensor("C")
    assert (accumulator.scope, accumulator.contracted) == ("register", 2)


def test_softmax_runs_by_rows() -> None:
    now = schedule(softmax(64, 48), TOY)
    lines = print_schedule(now.tree).splitlines()
    assert lines[0] == "for i = i    parallel" and lines[1] == "  sequence"
    assert sum("vector" in line for line in lines) >= 3
    assert all(t.scope != "global" for t in now.scop.tensors if t.role == "temp")


def test_what_others_see_is_accumulated_in_registers_first() -> None:
    now = schedule(matmul(relu=False), TOY)
    assert [s.name for s in now.scop.statements][-1] == "store_C"
    assert now.scop.tensor("C_acc").scope == "register"


def test_a_packed_constant_is_a_nest_of_its_own() -> None:
    of = constant(gemm(64, 64, 64, turned=True), "B")
    now = schedule(of, WIDE)
    assert now.scop.statements[0].name == "pack_B"
    assert {r.tensor for r in now.scop.statements[0].reads} == {"B"}


@pytest.mark.parametrize(
    "of", [chain, matmul, stencil, softmax, running_sum, padded, scaled, conv_pool]
)
def test_it_computes_the_same(of) -> None:  # type: ignore[no-untyped-def]
    small = of(9, 7) if of in (softmax, running_sum) else of()
    promise(small, schedule(small, TOY))


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = matmul(n, 13, 3)
    promise(of, schedule(of, TOY))
    of = matmul(3, n, 2, relu=False)
    promise(of, schedule(of, TOY))


def test_symbolic_sizes() -> None:
    of = matmul(w.var("m"), w.var("n"), w.var("h"))
    sizes = [{"m": m, "n": n, "h": h} for m, n, h in ((0, 1, 2), (1, 8, 0), (13, 9, 2), (6, 4, 1))]
    promise(of, schedule(of, TOY), *sizes)


def test_gathers_and_scatters_are_scheduled_too() -> None:
    for of in (gathered(at_first=True), gathered(at_first=False)):
        promise(of, schedule(of, TOY))


def test_no_statements() -> None:
    of = replace(chain(), statements=())
    assert schedule(of, TOY).scop.statements == ()


def test_mutations_of_a_schedule_are_refused() -> None:
    """The tile size of one statement, the order of a tile loop, and a loop that is not parallel."""
    of = matmul(9, 16, 5)
    now = schedule(of, TOY)
    assert refusal(of, now) == ""

    def changed(name: str, statement: str, dim: str, size: int) -> Scheduled:
        def change(loop: Loop) -> Loop:
            if loop.name != name:
                return loop
            return replace(loop, at={**loop.at, statement: w.var(dim) // size})

        return replace(now, tree=with_loops(now.tree, change))

    assert "WEFT-E04" in refusal(of, changed("j_t", "C_add", "j", 8))
    assert "WEFT-E04" in refusal(of, changed("i_t", "D", "i", 3))
    parallel = with_loops(now.tree, lambda x: replace(x, kind="parallel") if x.name == "r" else x)
    text = refusal(of, replace(now, tree=parallel))
    assert "WEFT-E0421" in text and "parallel loop r may run both at the same time" in text


def test_random_programs() -> None:
    """As the compiler does it: coalesced, scheduled, proved."""
    for of, sizes in random_scops(30, seed=2100):
        base = coalesce(of)
        promise(base, schedule(base, TOY), sizes)
