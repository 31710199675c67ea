"""Producers recomputed, halo included, in the tiles of their consumer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    lowered,
    matmul,
    promise,
    refusal,
    stencil,
    tensor,
)
from tests.polyhedral.transform.test_inline_producer import gathered, padded
from weft.errors import IllegalScheduleError
from weft.frontend import build as w
from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.scop import Constraint, Scop, Statement
from weft.polyhedral.scop_printer import scop_text
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.overlap import overlap
from weft.polyhedral.transform.scheduled import Scheduled, loops_above
from weft.polyhedral.transform.share import share
from weft.polyhedral.transform.tile import tile, tile_name


def in_tiles(of: Scop, now: Scop, consumers: Mapping[str, tuple[str, ...]], size: int) -> Scheduled:
    """``now`` with the tile loops of the consumers (statement -> dims) around all statements that
    have tiles; a clone's first dims are its tiles."""
    start = replace(initial(now), original=of)
    depth = len(next(iter(consumers.values())))
    names: dict[str, list[str]] = {}
    for s in now.statements:
        above = loops_above(start.tree, s.name)
        if s.name in consumers:
            own = [next(x.name for x in above if x.at[s.name] == Var(d)) for d in consumers[s.name]]
            start = tile(start, dict.fromkeys(own, size))
            names[s.name] = [tile_name(x) for x in own]
        elif any("_tile" in d for d in s.dims):
            names[s.name] = [x.name for x in above[:depth]]
    shared = {f"t{d}": {s: loops[d] for s, loops in names.items()} for d in range(depth)}
    return share(start, shared, list(names))


def overlapped(of: Scop, size: int = 4) -> Scheduled:
    return in_tiles(of, overlap(of, "T", "Y", {"i": size}), {"Y": ("i",)}, size)


def test_golden() -> None:
    now = overlap(stencil(), "T", "Y", {"i": 4})
    assert scop_text(now) == (
        "scop test()\n"
        "  input X: int64[11]\n"
        "  output Y: int64[9]\n"
        "  temp T: int64[3, 6] local, contracted 1\n"
        "  T[i_tile, i_local] at (0, i_tile, 0, i_local, 0)\n"
        "    where i_local + i_tile * 4 >= 0 and 10 - (i_local + i_tile * 4) >= 0 and i_tile >= 0"
        " and 2 - i_tile >= 0 and i_local >= 0 and 5 - i_local >= 0\n"
        "    r0 = X[i_local + i_tile * 4]\n"
        "    T[i_tile, i_local] = r0 * 2\n"
        "    for 'T'\n"
        "  Y[i] at (1, i, 0)\n"
        "    where i >= 0 and 8 - i >= 0\n"
        "    r0 = T[i // 4, i - i // 4 * 4]\n"
        "    r1 = T[i // 4, i + 1 - i // 4 * 4]\n"
        "    r2 = T[i // 4, i + 2 - i // 4 * 4]\n"
        "    Y[i] = r0 + r1 + r2\n"
        "    for 'Y'\n"
    )


def test_an_element_stands_for_its_original() -> None:
    clone = overlap(stencil(), "T", "Y", {"i": 4}).statement("T")
    assert clone.origin is not None and clone.origin.statement == "T"
    assert clone.origin.instance == (Var("i_local") + Var("i_tile") * 4,)


@pytest.mark.parametrize("n", AWKWARD[1:])
@pytest.mark.parametrize("width, stride", [(1, 1), (3, 1), (2, 2), (3, 2), (2, 3)])
def test_sizes(n: int, width: int, stride: int) -> None:
    of = stencil(n, width, stride)
    promise(of, overlapped(of))


def test_nothing_to_compute() -> None:
    of = stencil(0, 3, 3)
    promise(of, overlapped(of))


def test_symbolic_sizes() -> None:
    of = stencil(w.var("n"))
    promise(of, overlapped(of), *({"n": n} for n in AWKWARD[1:]))


def test_parameters_that_are_called_like_the_dims_of_clones() -> None:
    of = stencil(w.var("i_tile"))
    promise(of, overlapped(of), {"i_tile": 5})


def conv_pool(height: int = 7, width: int = 6) -> Scop:
    """T = 3×3 sums of X, then Y = 2×2 maxima of T: a reduction recomputed for another."""
    x = tensor("X", height + 3, width + 3)
    a, b = w.reduce_axis((0, 3), name="a"), w.reduce_axis((0, 3), name="b")
    t = w.compute((height + 1, width + 1), lambda i, j: w.sum(x[i + a, j + b], (a, b)), name="T")
    c, d = w.reduce_axis((0, 2), name="c"), w.reduce_axis((0, 2), name="d")
    y = w.compute((height, width), lambda i, j: w.max_over(t[i + c, j + d], (c, d)), name="Y")
    return lowered(y, inputs=(x,))


@pytest.mark.parametrize("height, width, size", [(7, 6, 4), (8, 8, 4), (1, 5, 2), (5, 4, 8)])
def test_a_reduction_in_two_dims(height: int, width: int, size: int) -> None:
    of = conv_pool(height, width)
    now = overlap(of, "T", "Y_max", {"i": size, "j": size})
    dims = ("i", "j")
    promise(of, in_tiles(of, now, {"Y_max_init": dims, "Y_max": dims}, size))


def test_random_windows() -> None:
    random = Random(0)
    for _ in range(12):
        n, width, stride = random.randint(1, 12), random.randint(1, 4), random.randint(1, 3)
        of = stencil(n, width, stride)
        promise(of, overlapped(of, random.choice((1, 2, 3, 5))))


# ---- mutations ----------------------------------------------------------------------------------


def mutated(change: dict[str, object], of: Scop | None = None) -> str:
    """The refusal of an overlapped stencil whose clone is ``change``d."""
    of = of or stencil()
    now = overlap(of, "T", "Y", {"i": 4})
    clone = replace(now.statement("T"), **change)  # type: ignore[arg-type]
    statements = tuple(clone if s.name == "T" else s for s in now.statements)
    return refusal(of, in_tiles(of, replace(now, statements=statements), {"Y": ("i",)}, 4))


def clone() -> Statement:
    return overlap(stencil(), "T", "Y", {"i": 4}).statement("T")


def test_the_unchanged_clone_is_accepted() -> None:
    assert mutated({}) == ""


def test_a_window_that_is_one_too_small_is_refused() -> None:
    text = mutated({"domain": (*clone().domain, Constraint(4 - Var("i_local")))})
    assert "WEFT-E0440: what Y reads of T is not what it was" in text
    assert re.search(r"Y\[i=(3|7)\] reads .*: it (sees|should see)", text), (
        "the last of a tile lacks its halo"
    )


def test_a_base_that_is_off_by_one_is_refused() -> None:
    reads = (replace(clone().reads[0], indices=(clone().reads[0].indices[0] - 1,)),)
    assert "WEFT-E0430" in mutated({"reads": reads}), "the first one reads X[-1]"
    inside = (*clone().domain, Constraint(Var("i_local") + Var("i_tile") * 4 - 1))
    assert "WEFT-E0440" in mutated({"reads": reads, "domain": inside})


def test_an_origin_that_is_off_by_one_is_refused() -> None:
    origin = clone().origin
    assert origin is not None
    text = mutated({"origin": replace(origin, instance=(origin.instance[0] - 1,))})
    assert "WEFT-E0442" in text or "WEFT-E0440" in text


def test_a_buffer_that_is_one_too_small_is_refused() -> None:
    of = stencil()
    now = overlap(of, "T", "Y", {"i": 4})
    local = now.tensor("T")
    small = replace(local, shape=(local.shape[0], local.shape[1] - 1))
    tensors = tuple(small if t.name == "T" else t for t in now.tensors)
    text = refusal(of, in_tiles(of, replace(now, tensors=tensors), {"Y": ("i",)}, 4))
    assert "WEFT-E0430" in text and "T[" in text and ", 5] of shape [3, 5]" in text


def test_another_tile_size_in_the_schedule_is_refused() -> None:
    of = stencil()
    now = in_tiles(of, overlap(of, "T", "Y", {"i": 4}), {"Y": ("i",)}, 8)
    assert refusal(of, now)


# ---- refusals -----------------------------------------------------------------------------------


def mirrored() -> Scop:
    """Y[i] = T[i] + T[8 - i]: windows that move apart."""
    x = tensor("X", 9)
    t = w.compute((9,), lambda i: x[i] * 2, name="T")
    return lowered(w.compute((9,), lambda i: t[i] + t[8 - i], name="Y"), inputs=(x,))


def two_readers() -> Scop:
    x = tensor("X", 9)
    t = w.compute((9,), lambda i: x[i] * 2, name="T")
    y = w.compute((8,), lambda i: t[i] + t[i + 1], name="Y")
    return lowered(y, w.compute((8,), lambda i: t[i], name="Z"), inputs=(x,))


@pytest.mark.parametrize(
    "of, tensor_, reason",
    [
        (mirrored, "T", "constant windows"),
        (lambda: gathered(at_first=False), "A", "constant windows"),
        (two_readers, "T", "in the tiles of Y alone"),
        (stencil, "X", "in the tiles of Y alone"),
    ],
)
def test_refusals(of, tensor_: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(IllegalScheduleError, match=f"WEFT-E0457.*{reason}"):
        overlap(of(), tensor_, "Y", {"i": 4})


def test_a_consumer_that_does_not_start_at_zero_is_refused() -> None:
    of = stencil()
    y = of.statement("Y")
    late = replace(y, domain=(*y.domain, Constraint(Var("i") - 1)))
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0457.*cannot be tiled along i"):
        overlap(replace(of, statements=(of.statement("T"), late)), "T", "Y", {"i": 4})


def test_a_guarded_reader() -> None:
    """Around the edges the window is cut, and the guard stays."""
    of = padded(9)
    promise(of, overlapped(of))


def test_a_matrix_product_over_all_of_a_row() -> None:
    """A dim that is not tiled has a window of its whole range."""
    of = matmul(5, 3, 4)
    now = overlap(of, "C", "D", {"i": 2})
    promise(of, in_tiles(of, now, {"D": ("i",)}, 2))
    assert isinstance(now.tensor("C").shape[2], Expr)
