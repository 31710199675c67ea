"""Windows read over edges where vectors do not cross them, and come out the same."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.build import compute, placeholder, reduce_axis, sum
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import select
from weft.ir.tensor_expr import Program
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.prepare import implicit_padding
from weft.polyhedral.transform.initial import initial

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))


def window(h: int, c: int, *, last: bool = True, taps: int = 3, fill: float = 0.0) -> Program:
    """Sums over rows and columns, of an image surrounded by ``fill``, channels last or first."""
    n = h + taps - 1

    def at(i, j, l):  # noqa: E741
        return (i, j, l) if last else (l, i, j)

    x, f = placeholder(at(h, h, c), name="x"), placeholder((c, taps, taps), name="f")
    r, s = reduce_axis((0, taps), name="r"), reduce_axis((0, taps), name="s")
    before = taps // 2

    def surrounded(*index):
        i, j, l = index if last else (*index[1:], index[0])  # noqa: E741
        inside = (i >= before) & (i < h + before) & (j >= before) & (j < h + before)
        return select(inside, x[at(i - before, j - before, l)], fill)

    p = compute(at(n, n, c), lambda i, j, k: surrounded(i, j, k), name="p")

    def sums(*index):
        i, j, l = index if last else (*index[1:], index[0])  # noqa: E741
        return sum(p[at(i + r, j + s, l)] * f[l, r, s], (r, s))

    return Program("own", (x, f), (compute(at(h, h, c), lambda i, j, k: sums(i, j, k), name="y"),))


def stored(program: Program) -> set[str]:
    scop = lower(program, "own")
    changed = implicit_padding(initial(scop), WIDE).scop
    return {t.name for t in scop.tensors} - {t.name for t in changed.tensors}


def test_a_copy_with_edges_is_done_without_where_vectors_do_not_cross_them() -> None:
    assert len(stored(window(14, 32))) == 1
    assert len(stored(window(7, 17, fill=1.5))) == 1


def test_nor_where_they_cross_them_in_the_same_lanes_every_time() -> None:
    assert len(stored(window(14, 32, last=False))) == 1  # an image as wide as a vector of 16 holds
    assert len(stored(window(7, 5, last=False, fill=1.5))) == 1


def test_other_copies_stay() -> None:
    assert not stored(window(28, 32, last=False))  # of two vectors each crosses another edge
    scop = lower(window(14, 32), "own")
    temps = frozenset(t.name for t in scop.tensors if t.role == "temp")
    assert implicit_padding(initial(scop), WIDE, temps).scop == scop


@pytest.mark.long
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("h", "c", "taps", "fill"),
    [(1, 5, 3, 0.0), (13, 17, 3, 2.5), (7, 16, 5, 0.0), (16, 3, 3, -1.5), (17, 2, 4, 0.5)],
)
def test_the_same_sums(h: int, c: int, taps: int, fill: float, last: bool) -> None:
    program = window(h, c, last=last, taps=taps, fill=fill)
    rng = np.random.default_rng(0)
    x, f = (rng.standard_normal(t.shape).astype(np.float32) for t in program.inputs)
    x.flat[0] = np.nan
    made = weft.compile(list(program.outputs), options=weft.Options(cache=False, threads=1))
    image = x if last else x.transpose(1, 2, 0)
    around = np.pad(image, [(taps // 2, taps - 1 - taps // 2)] * 2 + [(0, 0)], constant_values=fill)
    expected = np.zeros((h, h, c))
    for r in range(taps):
        for s in range(taps):
            expected += around[r : r + h, s : s + h].astype(np.float64) * f[:, r, s]
    result = np.asarray(made(x, f))
    result = result if last else result.transpose(1, 2, 0)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
