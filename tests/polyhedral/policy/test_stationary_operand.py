"""Blocks of a matrix unit: which operand is stationary in L2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.codegen.llvm.test_tiles import OPTIONS, TILES, expected, numbers, product
from weft import bf16, i8
from weft.driver.compiler import lower_loops
from weft.driver.lowered import Lowered
from weft.ir.loop_interpreter import interpret
from weft.ir.machine import Cache
from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import Band, Tree, walk
from weft.polyhedral.transform.scheduled import loops_above

CACHES = Cache(1 << 12), Cache(1 << 15), Cache(1 << 25)
SMALL = replace(TILES.machine, caches=CACHES)  # 128 rows or lanes of 64 steps stay


def lowered(m: int, n: int, k: int, *, threads: int = 1, turned: bool = False) -> Lowered:
    options = replace(OPTIONS, threads=threads)
    return lower_loops(product(bf16, bf16, m, n, k, turned=turned).lowered, options, machine=SMALL)


def tree(found: Lowered) -> Tree:
    (code,) = found.distinct
    return code.scheduled.tree


def around(found: Lowered) -> list[str]:
    """The loops around the blocks."""
    bands = [node.loops for node in walk(tree(found)) if isinstance(node, Band)]
    names = [loop.name for loops in bands for loop in loops if "S0" in loop.at]
    return names[: names.index("q")]


@pytest.mark.parametrize(
    ("m", "n", "threads", "loops"),
    [
        (300, 200, 1, ["j_t", "i_r", "j_r"]),  # lanes stay: rows come twice, lanes once
        (64, 400, 1, ["j_t", "j_r", "i_r"]),  # rows stay, and all lanes come once
        (64, 90, 1, ["j_t", "j_r", "i_r"]),  # there is room for both
        (300, 200, 2, ["i_t", "j_t", "j_r", "i_r"]),  # threads share out what is more
    ],
)
def test_what_stays_leaves_least_to_come_again(
    m: int, n: int, threads: int, loops: list[str]
) -> None:
    assert around(lowered(m, n, 64, threads=threads)) == loops


def test_longer_sums_leave_room_for_fewer() -> None:
    for steps, stay in ((64, 128), (128, 64)):
        order = tree(lowered(300, 600, steps))
        loops = [loop for node in walk(order) if isinstance(node, Band) for loop in node.loops]
        assert [x.at["S0"] for x in loops if x.name == "j_t"] == [Var("j") // stay]


def test_panels_are_made_where_they_stay_row_by_row() -> None:
    (code,) = lowered(300, 200, 64).distinct
    made = code.scheduled
    assert made.scop.tensor("B_packed").scope == "local"
    loops = [loop.name for loop in loops_above(made.tree, "copy_B_packed")]
    assert loops[0] == "j_t" and loops[1:3] == ["B_packed_1", "B_packed_0"]  # steps, then panels


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "m", "n", "k", "turned", "loops"),
    [(bf16, 49, 66, 33, False, ["j_t", "i_r", "j_r"]), (i8, 34, 50, 65, True, ["i_t", "i_r"])],
)
def test_blocks_mean_the_product(
    kind: weft.DType, m: int, n: int, k: int, *, turned: bool, loops: list[str]
) -> None:
    """In the interpreter, beside NumPy."""
    tiny = replace(SMALL, caches=(Cache(1 << 9), Cache(1 << 11), Cache(1 << 25)))
    kernel = product(kind, kind, m, n, k, turned=turned)
    found = lower_loops(kernel.lowered, OPTIONS, machine=tiny)
    assert around(found) == loops
    a, b = numbers(kind, (m, k)), numbers(kind, (k, n))
    c = numbers(i8, (m, n)).astype(np.float32 if kind == bf16 else np.int32)
    stored = (a.T, b.T) if turned else (a, b)
    arrays = {name: x.ravel().copy() for name, x in zip("ABC", (*stored, c), strict=True)}
    memory = {b.name: b for k in found.program.kernels for b in k.buffers}
    for name, buffer in memory.items():
        size = int(np.prod([int(s.value) for s in buffer.shape]))  # type: ignore[attr-defined]
        arrays.setdefault(name, np.zeros(size, buffer.dtype.numpy))
    for part in found.program.kernels:
        interpret(part, {}, arrays)
    np.testing.assert_array_equal(arrays["C"].reshape(m, n), expected(a, b, c))
