"""Tiles of warps as loops: what they compute, what lies where, and that each part is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.codegen.cuda.bank_conflicts import bank_conflicts
from weft.codegen.cuda.form_launches import form_launches
from weft.codegen.cuda.optimise_launches import optimise_launches
from weft.codegen.from_schedule import build_kernel
from weft.codegen.rebuild import map_children
from weft.codegen.warp_tile import swizzle_of
from weft.ir.dtypes import float16, int8
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    CommitCopies,
    Kernel,
    LoadMatrices,
    Stmt,
    walk,
)
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import literal
from weft.polyhedral.proof.gpu import check_races

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)
LINE = 16


@weft.kernel
def product(A: weft.f16[40, 70], B: weft.f16[70, 40], C: weft.f32[40, 40]):
    for i in range(40):
        for j in range(40):
            for k in range(70):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


@weft.kernel
def small(A: weft.f16[20, 20], B: weft.f16[20, 25], C: weft.f32[20, 25]):
    for i in range(20):
        for j in range(25):
            for k in range(20):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


def kernel(stages: int, depth: int = 16, of: weft.Kernel = product) -> Kernel:
    s = weft.schedule(of, options=TWIN).tile({"i": 32, "j": 32})
    s = s.reorder(["i_t", "j_t", "k", "i_p", "j_p"])
    how = {"warps": (2, 1), "depth": depth, "stages": stages}
    s = s.tensorize(["k"], {"i_p": 32}, {"j_p": 32}, instruction="mma.m16n8k16.f16", **how)
    s = s.set_kinds({"i_t": "grid", "j_t": "grid"}).scheduled
    made = form_launches(optimise_launches(build_kernel(s.scop, s.tree, "product")))
    verify_kernel(made)
    return made


@pytest.mark.parametrize("stages", [0, 1, 2, 3])
def test_the_loops_compute_a_product(stages: int) -> None:
    random = np.random.default_rng(stages)
    a, b = (random.standard_normal(size).astype(np.float16) for size in (400, 500))
    c = random.standard_normal(500).astype(np.float32)
    want = c.reshape(20, 25) + a.reshape(20, 20).astype(float) @ b.reshape(20, 25).astype(float)
    interpret(kernel(stages, of=small), {}, {"A": a, "B": b, "C": c})
    np.testing.assert_allclose(c.reshape(20, 25), want, rtol=1e-4, atol=1e-4)


def test_no_two_rows_that_are_read_at_once_share_a_bank() -> None:
    made = kernel(2, 32)
    found = bank_conflicts(made)
    assert len(found) == 2 and set(found.values()) == {1}
    plain = changed(made, lambda s: replace(s, buffer=replace(s.buffer, swizzle=None)), Allocate)
    assert sorted(bank_conflicts(plain).values()) == [4, 4]


@pytest.mark.parametrize("row", [16, 32, 64, 128])
@pytest.mark.parametrize("dtype", [float16, int8], ids=str)
def test_swizzles_are_one_to_one_and_keep_lines(row: int, dtype: weft.DType) -> None:
    swizzle, each = swizzle_of(row, dtype, LINE), LINE // dtype.itemsize
    if swizzle is None:
        assert row == each
        return
    places = [swizzle.place(k) for k in range(64 * row)]
    assert sorted(places) == list(range(64 * row))
    assert [swizzle.place(p) for p in places] == list(range(64 * row))
    assert all(p % each == k % each for k, p in enumerate(places))
    assert swizzle_of(row + each, dtype, LINE) is None


def test_a_pipeline_is_free_of_races() -> None:
    assert check_races(kernel(3)) > 0


def slots(stmt: Stmt, by: int) -> Stmt:
    """A copy to the slot ``by`` further on, of three."""
    assert isinstance(stmt, AsyncCopy)
    name, (slot, *rest) = stmt.target
    return replace(stmt, target=(name, ((slot + by) % 3, *rest)))


FAULTS = {
    "no wait": lambda k: changed(k, lambda _: Block(()), AwaitCopies),
    "a wait for one group less": lambda k: changed(k, lambda _: AwaitCopies(2), AwaitCopies),
    "no commit": lambda k: changed(k, lambda _: Block(()), CommitCopies),
    "no barrier": lambda k: changed(k, lambda _: Block(()), Barrier),
    "a slot too early": lambda k: changed(k, lambda s: slots(s, 1), AsyncCopy),
    "one slot for all": lambda k: changed(k, one_slot, AsyncCopy, LoadMatrices),
}  # fmt: skip


def one_slot(stmt: Stmt) -> Stmt:
    if isinstance(stmt, AsyncCopy):
        return replace(stmt, target=(stmt.target[0], (literal(0), *stmt.target[1][1:])))
    assert isinstance(stmt, LoadMatrices)
    return replace(stmt, indices=(literal(0), *stmt.indices[1:]))


@pytest.mark.parametrize("name", FAULTS)
def test_each_part_of_a_pipeline_is_needed(name: str) -> None:
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0426[^$]*a copy's write by thread"):
        check_races(FAULTS[name](kernel(3)))


def test_waiting_for_more_than_needed_is_no_race() -> None:
    check_races(changed(kernel(3), lambda _: AwaitCopies(0), AwaitCopies))


def changed(made: Kernel, change, *kinds: type) -> Kernel:
    """``made`` with ``change`` of each statement of ``kinds``."""

    def walked(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, walked)
        return change(stmt) if isinstance(stmt, kinds) else stmt

    assert any(isinstance(s, kinds) for s in walk(made.body))
    return replace(made, body=walked(made.body))
