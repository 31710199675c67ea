"""Rows of the suite that compares both efforts."""

import numpy as np
import pytest

from weft.benchmarks import compile_times
from weft.benchmarks.compile_times import Settings


def test_rows_say_what_both_efforts_take() -> None:
    *rows, mean = compile_times.run(Settings(quick=True, only=("gesummv", "lcs"), cpu_time=True))
    assert [row["name"] for row in rows] == ["gesummv", "lcs"]
    for row in rows:
        assert row["right"]
        assert row["compile_s"] > 0 and row["quick_compile_s"] > 0
        assert row["ms"] > 0 and row["quick_ms"] > 0
    assert mean["right"]
    ratios = [row["speed"] for row in rows]
    assert mean["speed"] == pytest.approx(np.sqrt(np.prod(ratios)), abs=0.01)


def test_an_unknown_program_is_named() -> None:
    with pytest.raises(ValueError, match="no program gem in gemm"):
        _ = Settings(only=("gem",)).names
