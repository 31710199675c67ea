"""Faults planted in the launches of a layer by tensor cores: every kind is refused by a proof, or
the twin computes something wrong; at least nine in ten by a proof.

They are planted between the passes that make launches and the proofs, each as a pass might have
made it. The layer has a pipeline of three stages, a start and an epilogue on fragments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

import numpy as np
import pytest

import weft
from weft.codegen.rebuild import block, map_children, map_expressions
from weft.driver import gpu_code
from weft.ir.errors import CompileError, ExecutionError
from weft.ir.instruction import ACCUMULATOR, ROW
from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    CommitCopies,
    For,
    If,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Stmt,
    Store,
    children,
    walk,
)
from weft.ir.scalar_expr import (
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    substitute,
    variable_names,
)
from weft.ir.scalar_expr import walk as walk_expr

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0, cache=False)
N, M, H, STAGES = 40, 50, 100, 3
Change = Callable[[Stmt], Stmt]


@weft.kernel
def layer(A: weft.f16[40, 100], B: weft.f16[100, 50], b: weft.f32[50], D: weft.f32[40, 50]):
    C = weft.empty((40, 50), weft.f32)
    for i in range(40):
        for j in range(50):
            C[i, j] = b[j]
            for k in range(100):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])
            D[i, j] = 2.0 * C[i, j]


def schedule() -> weft.Schedule:
    s = weft.schedule(layer, options=TWIN).tile({"i": 32, "j": 32}).distribute("i_p")
    s = s.reorder(["k", "i_p_S1", "j_p_S1"])
    how = {"warps": (2, 1), "depth": 32, "stages": STAGES, "instruction": "mma.m16n8k16.f16"}
    s = s.tensorize(["k"], {"i_p_S1": 32}, {"j_p_S1": 32}, **how)
    loops = dict.fromkeys(("i_p", "j_p", "i_p_S2", "j_p_S2"), "block")
    s = s.set_kinds({"i_t": "grid", "j_t": "grid", **loops})
    return s.contract("C", scope="fragment")


def everywhere(change: Change, *kinds: type, only: int | None = None) -> Callable[[Kernel], Kernel]:
    """A kernel with ``change`` of each statement of ``kinds``, or of that with number ``only``."""

    def planted(kernel: Kernel) -> Kernel:
        count = 0

        def walked(stmt: Stmt) -> Stmt:
            nonlocal count
            stmt = map_children(stmt, walked)
            if isinstance(stmt, kinds):
                count += 1
                return change(stmt) if only in (None, count - 1) else stmt
            return stmt

        made = replace(kernel, body=walked(kernel.body))
        assert made.body != kernel.body, "the fault changes something"
        return made

    return planted


def dropped(_: Stmt) -> Stmt:
    return Block(())


def at_slot(change: Callable[[Expr], Expr]) -> Change:
    def moved(stmt: Stmt) -> Stmt:
        if isinstance(stmt, AsyncCopy):
            name, (slot, *rest) = stmt.target
            return replace(stmt, target=(name, (change(slot), *rest)))
        assert isinstance(stmt, LoadMatrices)
        slot, *rest = stmt.indices
        return replace(stmt, indices=(change(slot), *rest))

    return moved


def half_of_the_lines(stmt: Stmt) -> Stmt:
    copies = isinstance(stmt, For) and any(isinstance(x, AsyncCopy) for x in walk(stmt))
    if not copies or stmt.kind != "block":
        return stmt
    assert isinstance(stmt.upper, Literal)
    return replace(stmt, upper=literal(int(stmt.upper.value) // 2))


def half_of_a_later_stage(steps: Stmt) -> Stmt:
    """From the second step on half of the lines are copied: the slot has those of another step."""
    if not is_steps(steps):
        return steps

    def change(stmt: Stmt) -> Stmt:
        if not (isinstance(stmt, For) and stmt.kind == "block" and isinstance(stmt.upper, Literal)):
            return map_children(stmt, change)
        line = Var(stmt.var) < int(stmt.upper.value) // 2
        return replace(stmt, body=If(Var(steps.var).equal(0) | line, stmt.body, Block(())))

    return replace(steps, body=change(steps.body))


def is_steps(stmt: Stmt) -> TypeGuard[For]:
    serial = isinstance(stmt, For) and stmt.kind == "serial"
    return serial and any(isinstance(x, Issue) for x in walk(stmt))


def no_stages_before(stmt: Stmt) -> Stmt:
    serial = isinstance(stmt, For) and stmt.kind == "serial"
    return Block(()) if serial and not any(isinstance(x, Issue) for x in walk(stmt)) else stmt


def shuffled(stmt: Stmt) -> Stmt:
    swizzle = stmt.buffer.swizzle
    if swizzle is None:
        return stmt
    return replace(stmt, buffer=replace(stmt.buffer, swizzle=replace(swizzle, bits=4, shift=2)))


def other_row(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, LoadMatrices) and isinstance(stmt.lane, Var)
    other = {stmt.lane.name: (stmt.lane + 1) % 32}
    return substituted_deep(stmt, other)


def substituted_deep(stmt: LoadMatrices, values: dict[str, Expr]) -> Stmt:
    return replace(stmt, indices=tuple(substitute(i, values) for i in stmt.indices))


def in_lanes(change: Callable[[For], Stmt], inside: type) -> Change:
    """``change`` of the lane loops with a statement of the kind ``inside``."""

    def changed(stmt: Stmt) -> Stmt:
        lanes = isinstance(stmt, For) and stmt.kind == "lane"
        return change(stmt) if lanes and any(isinstance(x, inside) for x in walk(stmt)) else stmt

    return changed


def next_lane(loop: For) -> Stmt:
    """All places are those of the next lane, but for what says who this is."""
    other = (Var(loop.var) + 1) % 32

    def change(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, change)
        moved = map_expressions(stmt, lambda e: substitute(e, {loop.var: other}))
        return replace(moved, lane=stmt.lane) if isinstance(stmt, LoadMatrices) else moved

    return replace(loop, body=change(loop.body))


def epilogue(stmt: Stmt) -> bool:
    return isinstance(stmt, Store) and stmt.buffer == "D"


def of_lane(stmt: Stmt) -> Stmt:
    """The sum of the next lane."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.source == "C":
            *tile, lane, number = node.indices
            return replace(node, indices=(*tile, (lane + 1) % 32, number))
        return None

    if not epilogue(stmt):
        return stmt
    assert isinstance(stmt, Store)
    return replace(stmt, value=rewrite(stmt.value, change))


def to_even_columns(stmt: Stmt) -> Stmt:
    if not epilogue(stmt):
        return stmt
    assert isinstance(stmt, Store)
    row, column = stmt.indices
    return replace(stmt, indices=(row, column // 2 * 2))


def rows_of_pairs(stmt: Stmt) -> Stmt:
    """Sums of neighbouring columns go to neighbouring rows."""
    if not epilogue(stmt):
        return stmt
    assert isinstance(stmt, Store)
    row, column = stmt.indices
    return replace(stmt, indices=(row // 2 * 2 + column % 2, column // 2 * 2 + row % 2))


def other_numbers(stmt: Stmt) -> Stmt:
    """Where the sums are taken for stored, a thread's numbers count columns first."""
    stores = any(map(epilogue, walk(stmt)))
    if not (isinstance(stmt, Let) and stores and stmt.name.startswith(("row", "column"))):
        return stmt
    number = next(n for n in sorted(variable_names(stmt.value)) if n.startswith("number"))
    turned = Var(number) // 2 + Var(number) % 2 * 2
    return replace(stmt, value=substitute(stmt.value, {number: turned}))


def without_guard(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, If)
    return stmt.then if any(map(epilogue, walk(stmt))) else stmt


def barrier_first(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Block)
    match stmt.stmts:
        case (AwaitCopies() as wait, *rest):
            return Block((Barrier(), wait, *rest))
    return stmt


def one_more(stmt: Stmt) -> Stmt:
    return replace(stmt, upper=stmt.upper + 1) if is_steps(stmt) else stmt


def other_warp(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Issue)
    (sums, (warp, *tile)), *rest = stmt.operands
    return replace(stmt, operands=((sums, (1 - warp, *tile)), *rest))


def first_tile(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Issue)
    sums, left, (name, (warp, _)) = stmt.operands
    return replace(stmt, operands=(sums, left, (name, (warp, literal(0)))))


def first_warp(loop: Stmt) -> Stmt:
    """Every warp reads the rows of the first."""
    if not (isinstance(loop, For) and loop.kind == "warp"):
        return loop

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, LoadMatrices):
            return stmt
        stmt = map_children(stmt, change)
        inside = any(isinstance(x, LoadMatrices) for x in walk(stmt))
        if not inside or isinstance(stmt, For):
            return stmt
        return map_expressions(stmt, lambda e: substitute(e, {loop.var: literal(0)}))

    return replace(loop, body=change(loop.body))


def other_formula(stmt: Stmt) -> Stmt:
    """A record whose sums are in other rows."""
    assert isinstance(stmt, Issue)
    own = stmt.instruction.operands[ACCUMULATOR]
    elements = {**own.elements, ROW: Var("thread") // 4 + Var("number") % 2 * 8}
    operands = {**stmt.instruction.operands, ACCUMULATOR: replace(own, elements=elements)}
    return replace(stmt, instruction=replace(stmt.instruction, operands=operands))


def later_steps(stmt: Stmt) -> Stmt:
    """The second operand is of the 16 steps that follow."""
    if not (isinstance(stmt, LoadMatrices) and stmt.transposed):
        return stmt
    slot, step, lane = stmt.indices
    return replace(stmt, indices=(slot, (step + 16) % 32, lane))


def whole_lines(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, AsyncCopy)
    return replace(stmt, valid=literal(stmt.count))


def of_next_steps(stmt: Stmt) -> Stmt:
    """The first operand is copied from 8 steps further on."""
    assert isinstance(stmt, AsyncCopy)
    name, (row, step) = stmt.source
    return replace(stmt, source=(name, (row, step + 8)), valid=literal(0)) if name == "A" else stmt


def wide(stmt: Stmt) -> Stmt:
    if stmt.buffer.scope != "shared":
        return stmt
    _, *rest = stmt.buffer.shape
    return replace(stmt, buffer=replace(stmt.buffer, shape=(literal(100), *rest)))


def many_warps(stmt: Stmt) -> Stmt:
    warps = isinstance(stmt, For) and stmt.kind == "warp"
    return replace(stmt, upper=literal(64)) if warps else stmt


def barrier_of_some(stmt: Stmt) -> Stmt:
    copies = any(isinstance(x, AsyncCopy) for x in children(stmt))
    return replace(stmt, body=block([stmt.body, Barrier()])) if copies else stmt


def not_started(stmt: Stmt) -> Stmt:
    return Block(()) if isinstance(stmt, Store) and stmt.buffer == "C" else stmt


def other_bias(stmt: Stmt) -> Stmt:
    """The sums start from the next column's bias."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.source == "b":
            return replace(node, indices=((node.indices[0] + 1) % M,))
        return None

    if not isinstance(stmt, Store) or not any(isinstance(n, Load) for n in walk_expr(stmt.value)):
        return stmt
    return replace(stmt, value=rewrite(stmt.value, change))


FAULTS: dict[str, Callable[[Kernel], Kernel]] = {
    "a barrier dropped": everywhere(dropped, Barrier),
    "a wait dropped": everywhere(dropped, AwaitCopies),
    "a wait for one group less": everywhere(lambda _: AwaitCopies(STAGES - 1), AwaitCopies),
    "a commit dropped": everywhere(dropped, CommitCopies, only=1),
    "a slot reused too early": everywhere(at_slot(lambda s: (s + 1) % STAGES), AsyncCopy),
    "one slot for all": everywhere(at_slot(lambda _: literal(0)), AsyncCopy, LoadMatrices),
    "a slot beyond the last": everywhere(at_slot(lambda s: s + 1), AsyncCopy, LoadMatrices),
    "no stages before the first step": everywhere(no_stages_before, For),
    "half of the lines": everywhere(half_of_the_lines, For),
    "half of a later stage": everywhere(half_of_a_later_stage, For),
    "a swizzle that is not one to one": everywhere(shuffled, Allocate),
    "the row of the next lane": everywhere(in_lanes(next_lane, LoadMatrices), For),
    "not transposed": everywhere(lambda s: replace(s, transposed=False), LoadMatrices),
    "one operand for all": everywhere(first_tile, Issue),
    "the rows of the first warp": everywhere(first_warp, For),
    "another formula of a fragment": everywhere(other_formula, Issue),
    "steps that do not belong together": everywhere(later_steps, LoadMatrices),
    "a copy beyond the end": everywhere(whole_lines, AsyncCopy),
    "more shared memory than there is": everywhere(wide, Allocate),
    "more warps than a block may have": everywhere(many_warps, For),
    "a barrier that some threads meet": everywhere(barrier_of_some, For),
    "sums that nobody starts": everywhere(not_started, Store),
    "the sum of another lane": everywhere(of_lane, Store),
    "two sums to one element": everywhere(to_even_columns, Store),
    "rows and columns mixed up": everywhere(rows_of_pairs, Store),
    "a thread's numbers in another order": everywhere(other_numbers, Let),
    "an epilogue without its tail": everywhere(without_guard, If),
    "a barrier before the wait": lambda k: everywhere(barrier_first, Block)(
        everywhere(dropped, Barrier)(k)
    ),
    "one step too many": everywhere(one_more, For),
    "the sums of another warp": everywhere(other_warp, Issue),
    "a copy of nothing": everywhere(of_next_steps, AsyncCopy),
    "another start": everywhere(other_bias, Store),
}
TWIN_ALONE = {"a copy of nothing", "another start", "rows and columns mixed up"}  # which values


def judged(fault: Callable[[Kernel], Kernel] | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who finds the fault: a proof's code, 'twin', or '' for nobody."""
    if fault is not None:
        formed = gpu_code.form_launches
        monkeypatch.setattr(gpu_code, "form_launches", lambda k: fault(formed(k)))
    try:
        program = layer.compile(schedule(), options=TWIN)
    except CompileError as error:
        return error.code
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((N, H), (H, M)))
    bias, d = random.standard_normal(M).astype(np.float32), np.full((N, M), np.nan, np.float32)
    try:
        program(a, b, bias, d)
    except ExecutionError:
        return "twin"
    want = 2 * (a.astype(float) @ b.astype(float) + bias)
    return "" if np.allclose(d, want, rtol=1e-3, atol=1e-3) else "twin"


def test_without_a_fault_nobody_finds_any(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(None, monkeypatch) == ""


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(FAULTS[name], monkeypatch)
    assert (found == "twin") == (name in TWIN_ALONE) and found, found


def test_nine_in_ten_are_refused_by_a_proof() -> None:
    assert len(FAULTS) >= 15 and len(TWIN_ALONE) <= len(FAULTS) / 10
