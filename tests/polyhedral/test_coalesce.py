"""Neighbouring dims that are walked together become one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    lowered,
    matmul,
    random_scops,
    stencil,
    tensor,
)
from tests.polyhedral.transform.harness import inputs_of as arrays_of
from weft.ir import build as w
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_printer import scop_text
from weft.ir.scop_verifier import verify
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.proof.legality import check_bounds


def ranks(of: Scop) -> dict[str, int]:
    return {t.name: len(t.shape) for t in of.tensors}


def promise(of: Scop, sizes: dict[str, int] | None = None) -> Scop:
    """The coalesced ``of``, which computes the same bytes; nothing is left to merge in it."""
    now = same_bytes(of, coalesce(of), sizes)
    assert coalesce(now) == now
    return now


def same_bytes(of: Scop, now: Scop, sizes: dict[str, int] | None = None) -> Scop:
    """``now``, which has the same bytes in every output as ``of``."""
    verify(now)
    check_bounds(now)
    values = dict(sizes or {})
    arrays = arrays_of(of, values)
    for name, value in now.derived:
        values.setdefault(name, _size(value, values))
    shapes = {t.name: t.shape for t in now.tensors}
    merged = {
        name: data.reshape([_size(s, values) for s in shapes[name]])
        for name, data in arrays.items()
    }
    expected, found = interpret(of, arrays, values), interpret(now, merged, values)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name].ravel(), value.ravel(), err_msg=name)
    return now


def _size(size: object, values: dict[str, int]) -> int:
    from weft.ir.scalar_interpreter import evaluate

    return int(evaluate(size, values))  # type: ignore[arg-type]


def pointwise(*shape: object) -> Scop:
    x = tensor("X", *shape)
    return lowered(w.compute(shape, lambda *i: x[i] + 1, name="Y"), inputs=(x,))  # type: ignore


def test_golden() -> None:
    assert scop_text(coalesce(pointwise(4, 3, 5))) == (
        "scop test()\n"
        "  input X: int64[60]\n"
        "  output Y: int64[60]\n"
        "  Y[i0] at (0, i0, 0)\n"
        "    where i0 >= 0 and 59 - i0 >= 0\n"
        "    r0 = X[i0]\n"
        "    Y[i0] = r0 + 1\n"
        "    for 'Y'\n"
    )


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    promise(pointwise(n, 3))
    promise(pointwise(2, n, 3))
    promise(matmul(n, 2, 3))


def test_a_broadcast_operand_keeps_its_dim_apart() -> None:
    """X[c, h, w] + B[c]: h and w merge, c does not."""
    x, b = tensor("X", 3, 4, 5), tensor("B", 3)
    y = w.compute((3, 4, 5), lambda c, h, v: x[c, h, v] + b[c], name="Y")
    assert ranks(promise(lowered(y, inputs=(x, b)))) == {"X": 2, "B": 1, "Y": 2}


def test_a_pair_merges_everywhere_or_nowhere() -> None:
    """Y is read transposed by Z, so X and Y keep both dims."""
    x = tensor("X", 3, 4)
    y = w.compute((3, 4), lambda i, j: x[i, j] * 2, name="Y")
    z = w.compute((4, 3), lambda j, i: y[i, j] + 1, name="Z")
    assert set(ranks(promise(lowered(y, z, inputs=(x,)))).values()) == {2}


def test_reduction_dims_merge_with_each_other() -> None:
    """Mean over h and w: one reduction over both; a reduced and a kept dim stay apart."""
    x = tensor("X", 3, 4, 5)
    h, v = w.reduce_axis((0, 4), name="h"), w.reduce_axis((0, 5), name="v")
    y = w.compute((3,), lambda c: w.sum(x[c, h, v], (h, v)), name="Y")
    now = promise(lowered(y, inputs=(x,)))
    assert ranks(now)["X"] == 2
    assert [s.update.dims for s in now.statements if s.update] == [("h",)]


def test_what_is_used_otherwise_stays() -> None:
    """An index in the body, a window, a flip, a guard, data-dependent indices."""
    x = tensor("X", 3, 4)
    uses_index = w.compute((3, 4), lambda i, j: x[i, j] + j, name="Y")
    flipped = w.compute((3, 4), lambda i, j: x[i, 3 - j], name="Y")
    at = tensor("at_4", 4)
    gathered = w.compute((3, 4), lambda i, j: x[i, at[j]], name="Y")
    for y, inputs in ((uses_index, (x,)), (flipped, (x,)), (gathered, (x, at))):
        of = lowered(y, inputs=inputs)
        assert promise(of) == of
    assert coalesce(stencil()) == stencil()


def test_symbolic_sizes() -> None:
    """A product of symbols is not affine, and becomes a parameter."""
    m, n = w.var("m"), w.var("n")
    for shape in ((m, 4), (4, m), (m, n), (m, n, 3), (2, m, 3)):
        for size in AWKWARD[:5]:
            now = promise(pointwise(*shape), {"m": size, "n": 3} if n in shape else {"m": size})
            assert set(ranks(now).values()) == {1}
            assert dict(now.derived) == ({"{m * n}": m * n} if n in shape else {})


def test_random_programs() -> None:
    merged = 0
    for of, sizes in random_scops(120, seed=1300):
        merged += promise(of, sizes) is not of
    assert merged > 20
