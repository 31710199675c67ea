"""A result and the input that it replaces as one array: written where they differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.ir.errors import InternalError
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_printer import scop_text
from weft.ir.scop_verifier import verify
from weft.ir.tensor_expr import Program, Tensor
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.proof.legality import check_bounds
from weft.polyhedral.update_in_place import update_in_place

p, m = weft.var("p"), weft.var("m")
OLD, NEW = (
    weft.placeholder((8, 2), "int64", name="old"),
    weft.placeholder((m, 2), "int64", name="new"),
)
BEFORE = weft.placeholder((p, 0), "uint8", name="before")
AT = weft.placeholder((m,), "int64", name="at")


def sliced(step: int = 1) -> Tensor:
    def body(i: weft.Expr, j: weft.Expr) -> weft.Expr:
        inside = (i >= p) & (i < p + m * step) & ((i - p) % step).equal(0)
        return weft.select(inside, NEW[(i - p) // step, j], OLD[i, j])

    return weft.compute((8, 2), body, name="out")


SCATTERED = weft.scatter(OLD, (m, 2), lambda k, j: ((AT[k], j), NEW[k, j]), name="out")
ADDED = weft.compute((8, 2), lambda i, j: OLD[i, j] + 1, name="out")


def both(result: Tensor, *more: Tensor) -> tuple[Scop, Scop]:
    """The statements of ``result`` apart, and in place."""
    scop = lower(Program("f", (OLD, NEW, BEFORE, AT), (result, *more)), "f")
    now = update_in_place(scop, [("out", "old")])
    verify(now)
    check_bounds(now)
    return scop, now


@pytest.mark.parametrize("result", [sliced(), sliced(2), SCATTERED, ADDED])
@pytest.mark.parametrize(("past", "count"), [(0, 0), (0, 4), (3, 1), (2, 3), (7, 1), (8, 0)])
def test_results_stay(result: Tensor, past: int, count: int) -> None:
    if result is not ADDED and result is not SCATTERED and past + count > 8:
        pytest.skip("beyond the end")
    if past + 2 * count > 8:
        count //= 2
    rng = np.random.default_rng(past + 10 * count)
    twice = weft.compute((8, 2), lambda i, j: result[i, j] * 2, name="twice")
    scop, now = both(result, twice)
    arrays = {
        "old": rng.integers(0, 99, (8, 2)), "new": rng.integers(0, 99, (count, 2)),
        "before": np.zeros((past, 0), np.uint8), "at": rng.permutation(8)[:count],
    }  # fmt: skip
    sizes = {"p": past, "m": count}
    expected = interpret(scop, arrays, sizes)
    found = interpret(now, {**arrays, "out": arrays["old"].copy()}, sizes)
    for name in ("out", "twice"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_golden() -> None:
    _, now = both(sliced())
    (statement,) = now.statements
    assert [a.tensor for a in statement.accesses] == ["new", "out"]
    assert now.tensor("out").role == "inout" and now.tensor("old").role == "input"
    assert scop_text(now).splitlines()[-5:-1] == [
        "  out[i, j] at (0, i, 0, j, 0)",
        "    where i >= 0 and 7 - i >= 0 and j >= 0 and 1 - j >= 0 and i - p >= 0"
        " and m + p - i - 1 >= 0",
        "    r0 = new[i - p, j] if i - p >= 0 and m + p - i - 1 >= 0",
        "    out[i, j] = r0",
    ]
    _, now = both(SCATTERED)
    assert [s.name for s in now.statements] == ["out"]  # and none that copies


def test_what_is_read_elsewhere_is_refused() -> None:
    scop, _ = both(ADDED)
    turned = weft.compute((8, 2), lambda i, j: OLD[7 - i, j], name="out")
    more = weft.compute((8, 2), lambda i, j: OLD[i, j] * 2, name="more")
    (s,) = scop.statements
    late = scop.with_statement(replace(s, writes=(replace(s.writes[0], tensor="old"),)))
    for wrong in (
        lower(Program("f", (OLD,), (turned,)), "f"),
        lower(Program("f", (OLD,), (ADDED, more)), "f"),
        late,
    ):
        with pytest.raises(InternalError, match="WEFT-E0475"):
            update_in_place(wrong, [("out", "old")])
