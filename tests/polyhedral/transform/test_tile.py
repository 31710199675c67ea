"""Tiling loops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    legal,
    lowered,
    matmul,
    promise,
    random_scops,
    refusal,
    tensor,
)
from tests.polyhedral.transform.test_share import fused
from weft.ir import build as w
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, select
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Band, Loop
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled, with_loops
from weft.polyhedral.transform.tile import tile


def test_golden() -> None:
    start = initial(matmul(relu=False))
    assert print_schedule(tile(start, {"i_2": 4, "r": 2}).tree) == (
        "sequence\n"
        "  for i = i\n"
        "    for j = j\n"
        "      C_add_init\n"
        "  for i_2_t = i // 4\n"
        "    for j_2 = j\n"
        "      for r_t = r // 2\n"
        "        for i_2_p = i - 4*(i // 4)\n"
        "          for r_p = r - 2*(r // 2)\n"
        "            C_add\n"
    )


@pytest.mark.parametrize("n", AWKWARD)
@pytest.mark.parametrize("size", [1, 4, 8])
def test_sizes(n: int, size: int) -> None:
    of = matmul(n, 3, 2)
    promise(of, tile(fused(of, 2), {"s0": size, "s1": 2}))


def test_a_symbolic_size() -> None:
    of = chain(w.var("n"))
    promise(of, tile(fused(of), {"s0": 4}), *({"n": n} for n in AWKWARD))


def test_a_tile_of_one_statement_only_is_refused() -> None:
    """T in tiles of 4 and Y in tiles of 8 under one loop: Y runs ahead of T."""
    of = chain()
    now = tile(fused(of), {"s0": 4})

    def broken(loop: Loop) -> Loop:
        at = dict(loop.at)
        at["Y"] = (w.var("i") // 8) if loop.name == "s0_t" else w.var("i") % 8
        return replace(loop, at=at)

    text = refusal(of, Scheduled(of, of, with_loops(now.tree, broken)))
    assert "WEFT-E0420" in text and "T[i=4] writes T[4] before Y[i=4] reads it" in text


def skewed(n: int = 6) -> Scop:
    """A[t, i] = A[t - 1, i] + A[t - 1, i + 1]: tiling (t, i) is wrong without skewing."""

    def value(itself: object, t: Expr, i: Expr) -> tuple[Expr]:
        before = itself(0, t - 1, i) + itself(0, t - 1, i + 1)  # type: ignore[operator]
        return (select((t > 0) & (i < n - 1), before, x[i] + t),)

    x = tensor("X", n)
    from weft.ir import dtypes

    (a,) = w.scan((n, n), value, dtypes_=(dtypes.int64,), name="A")
    return lowered(a, inputs=(x,))


def test_tiles_of_what_is_not_permutable_are_refused() -> None:
    of = skewed()
    loops = [loop.name for loop in initial(of).loops()]
    text = refusal(of, tile(initial(of), dict.fromkeys(loops[:2], 2)))
    assert "WEFT-E0420" in text and "runs the second before the first" in text


def test_one_loop_alone_may_always_be_tiled() -> None:
    for of, sizes in random_scops(4, seed=100):
        for loop in initial(of).loops():
            last = [b.loops[-1] for b in _bands(of) if loop in b.loops]
            if last == [loop]:
                promise(of, tile(initial(of), {loop.name: 3}), sizes)


def _bands(of: Scop) -> list[Band]:
    from weft.ir.schedule_tree import walk

    return [node for node in walk(initial(of).tree) if isinstance(node, Band)]


def test_random_bands() -> None:
    """All loops of a program tiled: whatever is accepted computes the same."""
    accepted = 0
    for of, sizes in random_scops(16, seed=120):
        now = tile(initial(of), {loop.name: 2 for loop in initial(of).loops()})
        if legal(now):
            accepted += 1
            promise(of, now, sizes)
    assert accepted > 5


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'") as caught:
        tile(initial(chain()), {"x": 4})
    assert caught.value.hint == "loops: i, i_2"
    for size in (0, -4):
        with pytest.raises(IllegalScheduleError, match=r"E0458"):
            tile(initial(chain()), {"i": size})
