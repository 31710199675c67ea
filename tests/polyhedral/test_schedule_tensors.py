"""The automatic scheduler on tensor programs: what it makes of them, and that it can be proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.tensor_programs import TOY, WIDE, gemm, running_sum, softmax
from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    conv_pool,
    matmul,
    promise,
    random_scops,
    stencil,
)
from tests.polyhedral.transform.test_hoist_constants import constant, scaled
from tests.polyhedral.transform.test_inline_producer import gathered, padded
from weft.ir import build as w
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Sequence, statements_below
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.schedule_loops import schedule_loops


def test_what_comes_before_and_after_a_product_is_in_its_register_tiles() -> None:
    now = schedule_loops(matmul(9, 16, 5), TOY)
    text = print_schedule(now.tree)
    mark = text.index("mark RegisterTile")
    assert text.index("C_add_init") < mark < text.index("C_add\n") < text.index("D\n")
    assert text.count("parallel") <= 2 and "sequence" in text
    accumulator = now.scop.tensor("C")
    assert accumulator.scope == "local" and accumulator.contracted


def test_softmax_runs_by_rows() -> None:
    now = schedule_loops(softmax(64, 48), TOY)
    lines = print_schedule(now.tree).splitlines()
    assert lines[0] == "for i = i    parallel" and lines[1] == "  sequence"
    assert sum("vector" in line for line in lines) >= 3
    assert all(t.scope != "global" for t in now.scop.tensors if t.role == "temp")


def test_a_constant_is_packed_in_a_nest_of_its_own() -> None:
    of = constant(gemm(64, 64, 64, turned=True), "B")
    now = schedule_loops(of, WIDE)
    (copy,) = (s for s in now.scop.statements if {r.tensor for r in s.reads} == {"B"})
    assert isinstance(now.tree, Sequence)
    assert any(list(statements_below(part)) == [copy.name] for part in now.tree.children)
    small = constant(gemm(18, 33, 7, turned=True), "B")
    promise(small, schedule_loops(small, WIDE))


@pytest.mark.parametrize(
    "of", [chain, matmul, stencil, softmax, running_sum, padded, scaled, conv_pool]
)
def test_it_computes_the_same(of) -> None:  # type: ignore[no-untyped-def]
    small = of(9, 7) if of in (softmax, running_sum) else of()
    promise(small, schedule_loops(small, TOY))


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = matmul(n, 13, 3)
    promise(of, schedule_loops(of, TOY))
    of = matmul(3, n, 2, relu=False)
    promise(of, schedule_loops(of, TOY))


def test_symbolic_sizes() -> None:
    of = matmul(w.var("m"), w.var("n"), w.var("h"))
    sizes = [{"m": m, "n": n, "h": h} for m, n, h in ((0, 1, 2), (1, 8, 0), (13, 9, 2), (6, 4, 1))]
    promise(of, schedule_loops(of, TOY), *sizes)


def test_gathers_and_scatters_are_scheduled_too() -> None:
    for of in (gathered(at_first=True), gathered(at_first=False)):
        promise(of, schedule_loops(of, TOY))


def test_no_statements() -> None:
    of = replace(chain(), statements=())
    assert schedule_loops(of, TOY).scop.statements == ()


def test_random_programs() -> None:
    """As the compiler does it: coalesced, scheduled, proved."""
    for of, sizes in random_scops(30, seed=2100):
        base = coalesce(of)
        promise(base, schedule_loops(base, TOY), sizes)
