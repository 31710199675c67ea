from __future__ import annotations

from tests.polyhedral.transform.integer_programs import read
from weft.ir.machine import Cache, Machine
from weft.polyhedral.policy.window_costs import WindowTile, window_tile

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))
LANES = 8  # of float64


def tile(h: int, w: int, c: int, taps: int = 3, stride: int = 1) -> WindowTile:
    text = f"""
    for h in range({h}):
        for w in range({w}):
            for c in range({c}):
                for r in range({taps}):
                    for s in range({taps}):
                        y[h, w, c] += x[h * {stride} + r, w * {stride} + s, c] * f[c, s, r]
    """
    n, m = (h - 1) * stride + taps, (w - 1) * stride + taps
    scop = read(text, "", x=f"in {n} {m} {c}", f=f"in {c} {taps} {taps}", y=f"io {h} {w} {c}")
    (s,) = scop.statements
    found = window_tile(scop, s, "c", ("h", "w"), ("r", "s"), WIDE)
    assert found is not None
    return found


def test_rows_of_a_tile_are_shared_out_evenly() -> None:
    for width in (7, 14, 13):
        assert (tile(5, width, 64).row, tile(5, width, 64).rows) == ("w", width)
    assert 28 % tile(28, 28, 64).rows == 0


def test_a_narrow_image_has_rows_along_its_height() -> None:
    assert tile(14, 1, 64).row == "h"
    assert tile(1, 1, 64).row == ""


def channels_first(size: int) -> WindowTile:
    text = f"""
    for c in range(64):
        for h in range({size}):
            for w in range({size}):
                for r in range(3):
                    for s in range(3):
                        y[c, h, w] += x[c, h + r, w + s] * f[c, r, s]
    """
    n = size + 2
    scop = read(text, "", x=f"in 64 {n} {n}", f="in 64 3 3", y=f"io 64 {size} {size}")
    (s,) = scop.statements
    found = window_tile(scop, s, "w", ("c", "h"), ("r", "s"), WIDE)
    assert found is not None
    return found


def test_rows_that_share_a_part_of_their_windows_are_whole() -> None:
    for size in (7, 8, 13, 32):
        found = channels_first(size)
        assert found.row == "h" and found.rows > 1 and found.lanes == size
    assert channels_first(200).row == ""  # strips of an image would not be read in order


def test_costs_grow_with_the_work_and_not_with_what_is_shared() -> None:
    assert tile(14, 14, 64).cycles < tile(14, 14, 128).cycles
    assert tile(14, 14, 64, taps=1).cycles < tile(14, 14, 64, taps=3).cycles
    assert tile(14, 14, 64).cycles < tile(14, 14, 64, stride=4).cycles  # fewer loads in common
    each = tile(14, 14, 64).cycles / (14 * 14 * 64 / LANES)
    assert each < 9  # cycles for the nine loads of a sum that has nothing in common with others


def test_sizes_have_to_be_known() -> None:
    text = (
        "for i in range(N):\n for c in range(N):\n  for k in range(3):\n   y[i, c] += x[i + k, c]"
    )
    scop = read(text, x="in N+2 N", y="io N N")
    (s,) = scop.statements
    assert window_tile(scop, s, "c", ("i",), ("k",), WIDE) is None
