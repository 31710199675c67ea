"""Row tiles by closed forms: what fits, and what moves fewer bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.polyhedral.analysis.work import LEAST_ROWS, rows_in_cache

sizes = st.integers(0, 1 << 24)


@given(st.integers(1, 1 << 22), st.integers(1, 5000), sizes, sizes)
def test_tiles_stay_in_the_cache_and_move_no_more_than_they_save(
    near: int, rows: int, row: int, held: int
) -> None:
    most = rows_in_cache(near, rows, row, held)
    assert 0 <= most <= rows
    if most:
        assert most * row <= near and most >= min(rows, LEAST_ROWS)
        together = most * row + held <= near
        assert together or (-(-rows // most) - 1) * held <= rows * row


def test_operands_that_stay_leave_less_room_for_rows() -> None:
    assert rows_in_cache(1 << 20, 1024, 4096, 0) == 192
    assert rows_in_cache(1 << 20, 1024, 4096, 1 << 19) == 64
    assert rows_in_cache(1 << 20, 50, 4096, 0) == 50  # all of them


def test_rows_that_are_too_long_and_operands_that_come_again_are_refused() -> None:
    assert rows_in_cache(1 << 20, 1024, 1 << 16, 0) == 0
    assert rows_in_cache(1 << 20, 128, 6144, 9 << 19) == 0  # 128 x 1536 between large weights
    assert (
        rows_in_cache(1 << 20, 4096, 6144, 5 << 18)
        == 0
        < rows_in_cache(1 << 20, 170, 6144, 600_000)
    )
