"""Whether an issue may read what it updates, against enumeration of pairs of instances."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

from itertools import product

import pytest

import weft
from weft.ir.quasi_affine import affine
from weft.ir.scop import Statement
from weft.loop_kernel import Kernel
from weft.polyhedral.map_instruction import Assignment, issue_conflict, map_instruction

SIZE = 5  # N of the kernels here, when they are enumerated


@weft.instruction
def fused(acc: weft.f32[3], a: weft.f32[1], b: weft.f32[3]):
    for lane in range(3):
        acc[lane] += a[0] * b[lane]


@weft.instruction
def dot(acc: weft.f32[3], a: weft.f32[2], b: weft.f32[3, 2]):
    for lane in range(3):
        for q in range(2):
            acc[lane] += a[q] * b[lane, q]


@weft.kernel
def own(X: weft.f32["N", "N"], Y: weft.f32["N", "N"]):
    for i in range(N):
        for j in range(N):
            for k in range(N):
                Y[i, j] += Y[i, k] * X[k, j]


@weft.kernel
def below(Y: weft.f32["N", "N"]):
    for i in range(N):
        for j in range(i, N):
            for k in range(i):
                Y[i, j] += Y[i, k] * Y[k, j]


@weft.kernel
def halves(X: weft.f32["N", "N"], Y: weft.f32["N", "2*N"]):
    for i in range(N):
        for j in range(N):
            for k in range(N):
                Y[i, j] += Y[i, N + k] * X[k, j]


@weft.kernel
def two_ahead(X: weft.f32["N"], Y: weft.f32["N + 2"]):
    for j in range(N):
        for k in range(N):
            Y[j] += X[k] * Y[j + 2]


@weft.kernel
def three_ahead(X: weft.f32["N"], Y: weft.f32["N + 3"]):
    for j in range(N):
        for k in range(N):
            Y[j] += X[k] * Y[j + 3]


@weft.kernel
def next_short_row(X: weft.f32["N"], Y: weft.f32["N + 1", 2]):
    for h in range(N):
        for w in range(2):
            for k in range(N):
                Y[h, w] += X[k] * Y[h + 1, w]


@weft.kernel
def next_row(X: weft.f32["N"], Y: weft.f32["N + 1", 3]):
    for h in range(N):
        for w in range(3):
            for k in range(N):
                Y[h, w] += X[k] * Y[h + 1, w]


KERNELS = (own, below, halves, two_ahead, three_ahead, next_short_row, next_row)
WIDTHS = {"w": {"next_short_row": 2, "next_row": 3}}  # of dims with constant sizes


def meets(kernel: Kernel, statement: Statement, found: Assignment) -> bool:
    """Whether two instances that are near enough for one issue meet in an element."""
    points = []
    for values in product(range(SIZE), repeat=len(statement.dims)):
        at = {**dict(zip(statement.dims, values, strict=True)), "N": SIZE}
        if all(affine(c.expr).value(at) >= 0 for c in statement.domain):
            points.append(at)
    inside = [d for dims in found.dims.values() for d in dims]
    (write,) = statement.writes
    reads = [r for r in statement.reads if r.tensor == write.tensor]

    def number(at: dict[str, int], dims: tuple[str, ...]) -> int:
        value = 0
        for dim in dims:
            value = value * WIDTHS.get(dim, {}).get(kernel.__name__, SIZE) + at[dim]
        return value

    for one, two in product(points, repeat=2):
        near = all(one[d] == two[d] for d in statement.dims if d not in inside) and all(
            abs(number(one, dims) - number(two, dims)) < found.instruction.extents[name]
            for name, dims in found.dims.items()
        )
        if near and one != two:
            element = [affine(e).value(one) for e in write.indices]
            if any([affine(e).value(two) for e in r.indices] == element for r in reads):
                return True
    return False


@pytest.mark.parametrize("instruction", [fused, dot], ids=lambda one: one.name)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda one: one.__name__)
def test_equals_enumeration(kernel: Kernel, instruction: weft.Instruction) -> None:
    scop = kernel.lowered.scop
    for statement in scop.statements:
        mapped = map_instruction(scop, statement, instruction, several=True)
        for found in mapped.assignments:
            conflict = issue_conflict(scop, statement, found)
            assert bool(conflict) == meets(kernel, statement, found), (found.dims, conflict)


def test_both_answers_are_among_them() -> None:
    answers = {}
    for kernel in (two_ahead, three_ahead, next_short_row, next_row):
        (statement,) = kernel.lowered.scop.statements
        for found in map_instruction(
            kernel.lowered.scop, statement, fused, several=True
        ).assignments:
            conflict = issue_conflict(kernel.lowered.scop, statement, found)
            answers[kernel.__name__, found.dims["lane"]] = bool(conflict)
    assert answers["two_ahead", ("j",)] and not answers["three_ahead", ("j",)]
    assert answers["next_short_row", ("h", "w")] and not answers["next_row", ("h", "w")]
    assert not answers["next_short_row", ("w",)]
