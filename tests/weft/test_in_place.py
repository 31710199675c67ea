"""Compiled programs that replace their arguments: in their memory where that is right, by a copy at
the end of the call where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

p, n = weft.var("p"), weft.var("n")
OLD, NEW = weft.placeholder((16, 3), name="old"), weft.placeholder((n, 3), name="new")
BEFORE = weft.placeholder((p, 0), "uint8", name="before")
AT = weft.placeholder((n,), "int64", name="at")
OPTIONS = weft.Options(threads=1, workers=0)


def _slice(i: Any, j: Any) -> Any:
    return weft.select((i >= p) & (i < p + n), NEW[i - p, j], OLD[i, j])


SLICE = weft.compute((16, 3), _slice, name="out")
SCATTER = weft.scatter(OLD, (n, 3), lambda k, j: ((AT[k], j), NEW[k, j]), name="out")
ADDED = weft.scatter(OLD, (n, 3), lambda k, j: ((AT[k], j), NEW[k, j]), combine="add", name="out")
SCALED = weft.compute((16, 3), lambda i, j: OLD[i, j] * 2, name="out")
TURNED = weft.compute((16, 3), lambda i, j: OLD[15 - i, j], name="out")


def expected(result: Any, old: Any, new: Any, past: int, at: Any) -> Any:
    out = old.copy()
    if result is SLICE:
        out[past : past + len(new)] = new
    elif result is SCATTER:
        out[at] = new
    elif result is ADDED:
        np.add.at(out, at, new)
    else:
        out = old * 2 if result is SCALED else old[::-1].copy()
    return out


def compiled(result: Any) -> Any:
    """``result`` in place of ``old``, and its column sums up to the last new row."""
    k = weft.reduce_axis((0, p + n), name="k")
    sums = weft.compute((3,), lambda j: weft.sum(result[k, j], axis=k), name="sums")
    program = weft.Program("f", (OLD, NEW, BEFORE, AT), (result, sums), in_place=((0, 0),))
    return weft.compile(program, options=OPTIONS)


@pytest.mark.parametrize(
    ("result", "shared"),
    [(SLICE, True), (SCATTER, True), (ADDED, True), (SCALED, True), (TURNED, False)],
)
def test_values_and_memory(result: Any, shared: bool, tmp_path: Path) -> None:
    program = compiled(result)
    assert [pair.shared for pair in program.compiled.in_place] == [shared]
    program.save(tmp_path / "f.weft")
    rng = np.random.default_rng(0)
    for call in (program, weft.load(tmp_path / "f.weft")):
        for past, count in ((0, 0), (0, 7), (7, 1), (8, 5), (15, 1), (16, 0)):
            old = rng.standard_normal((16, 3), np.float32)
            new = rng.standard_normal((count, 3), np.float32)
            at = rng.permutation(16)[:count]
            wanted = expected(result, old, new, past, at)
            found, sums = call(old, new, np.empty((past, 0), np.uint8), at)
            assert found is old
            np.testing.assert_array_equal(old, wanted)
            np.testing.assert_allclose(sums, wanted[: past + count].sum(0), rtol=1e-5, atol=1e-5)


def test_a_number_that_is_replaced_is_an_array() -> None:
    count = weft.placeholder((), "int64", name="count")
    more = weft.compute((), lambda: count[()] + 1, name="more")
    program = weft.compile(more, in_place={"more": "count"}, options=OPTIONS)
    given = np.array(3)
    for _ in range(2):
        program(given)
    assert given == 5
    with pytest.raises(weft.CallError, match="WEFT-E06"):
        program(3)


def test_only_what_differs_is_written() -> None:
    kernels = compiled(SLICE).as_text("loops")
    assert "old" not in kernels.split("kernel", 1)[1]


def test_arguments_that_kernels_would_not_read() -> None:
    """In memory that begins anywhere, or has gaps."""
    program = compiled(SLICE)
    for old in (np.zeros((16, 4), np.float32)[:, :3], np.zeros(49, np.float32)[1:].reshape(16, 3)):
        new = np.ones((2, 3), np.float32)
        program(old, new, np.empty((5, 0), np.uint8), np.zeros(2, np.int64))
        assert old.sum() == 6 and (old[5:7] == 1).all()
