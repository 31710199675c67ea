"""Tensors in a shape in which their accesses need no division."""

from __future__ import annotations

from math import prod
from random import Random

import pytest

from tests.polyhedral.test_coalesce import pointwise
from tests.polyhedral.test_coalesce import same_bytes as promise
from tests.polyhedral.transform.harness import chain, lowered, matmul, random_scops, tensor
from weft.ir import build as w
from weft.ir.scalar_affine import FloorDiv, to_affine
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.unravel import unravel


def divisions(of: Scop) -> int:
    forms = (
        to_affine(index)
        for s in of.statements
        for access in (*s.reads, *s.writes)
        for index in access.indices
    )
    return sum(isinstance(term, FloorDiv) for form in forms if form for term, _ in form.terms)


def viewed(shape: tuple[int, ...], other: tuple[int, ...]) -> Scop:
    """Y = X + 1, seen in another shape."""
    x = tensor("X", *shape)
    t = w.compute(shape, lambda *i: x[i] + 1, name="T")
    return lowered(w.reshape(t, other, name="Y"), inputs=(x,))


def test_golden() -> None:
    lines = scop_text(unravel(viewed((4, 6), (3, 8)))).splitlines()
    assert lines[2] == "  output Y: int64[4, 6]"
    assert "    Y[i0, i1] = r0" in lines


@pytest.mark.parametrize(
    "shape, other",
    [
        ((4, 6), (3, 8)),
        ((13, 8, 8, 2), (1, 8, 16, 13)),
        ((5, 7), (7, 5)),
        ((6,), (2, 3)),
        ((1,), ()),
    ],
)
def test_outputs_need_no_division(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    of = viewed(shape, other)
    now = promise(of, unravel(of))
    assert divisions(now) == 0


def test_a_flattened_tensor_that_is_read_by_its_number() -> None:
    """The writer walks (h, d), the reader both at once."""
    x, f = tensor("X", 3, 2, 4), tensor("F", 8, 5)
    t = w.compute((3, 2, 4), lambda n, h, d: x[n, h, d] * 2, name="T")
    flat = w.reshape(t, (3, 8), name="flat")
    r = w.reduce_axis((0, 8), name="r")
    y = w.compute((3, 5), lambda n, o: w.sum(flat[n, r] * f[r, o], r), name="Y")
    of = lowered(y, inputs=(x, f))
    now = promise(of, unravel(of))
    assert divisions(of) > 0 and divisions(now) == 0


def test_a_walk_backwards_and_one_under_a_guard() -> None:
    x = tensor("X", 4, 6)
    t = w.compute((4, 6), lambda i, j: x[3 - i, j] + 1, name="T")
    flat = w.reshape(t, (24,), name="flat")
    y = w.compute((26,), lambda i: select(i >= 2, flat[25 - i], literal(7)), name="Y")
    promise(lowered(y, inputs=(x,)), unravel(lowered(y, inputs=(x,))))


def test_what_needs_no_division_stays() -> None:
    for of in (chain(), matmul(), pointwise(3, 4)):
        assert unravel(of) == of


def test_a_dim_that_two_loops_walk_is_two() -> None:
    """Rows of weights by gate and unit, and one gate's rows alone."""
    x, f = tensor("X", 5, 7), tensor("F", 12, 7)
    r = w.reduce_axis((0, 7), name="r")
    y = w.compute((5, 3, 4), lambda b, g, h: w.sum(x[b, r] * f[g * 4 + h, r], r), name="Y")
    z = w.compute((4, 7), lambda h, k: f[h + 8, k] * 2, name="Z")
    of = lowered(y, z, inputs=(x, f))
    lines = scop_text(promise(of, unravel(of))).splitlines()
    assert "  input F: int64[3, 4, 7]" in lines
    assert "    r1 = F[g, h, r]" in lines and "    r0 = F[2, h, k]" in lines


def test_windows_and_rows_of_memory_stay_whole() -> None:
    """A window overlaps; what is walked along a row would no longer be contiguous."""
    x = tensor("X", 9, 8)
    r = w.reduce_axis((0, 3), name="r")
    y = w.compute((4, 8), lambda i, j: w.sum(x[i * 2 + r, j], r), name="Y")
    z = w.compute((9, 4, 2), lambda i, j, k: x[i, j * 2 + k] + 1, name="Z")
    column = tensor("C", 12, 1)
    c = w.compute((3, 4), lambda i, j: column[i * 4 + j, 0] + 1, name="D")
    for of in (lowered(y, z, inputs=(x,)), lowered(c, inputs=(column,))):
        assert unravel(of) == of


def test_walks_that_do_not_agree_stay() -> None:
    """One reader goes by rows of 6, the other by rows of 8."""
    x = tensor("X", 4, 6)
    t = w.compute((4, 6), lambda i, j: x[i, j] + 1, name="T")
    other = w.reshape(t, (3, 8), name="other")
    y = w.compute((3, 8), lambda i, j: other[i, j] * i, name="Y")
    z = w.compute((4, 6), lambda i, j: t[i, j] * i, name="Z")
    of = lowered(y, z, inputs=(x,))
    promise(of, unravel(of))


def test_data_dependent_and_symbolic_accesses_stay() -> None:
    x, at = tensor("X", 4, 6), tensor("at_24", 5)
    flat = w.reshape(x, (24,), name="flat")
    y = w.compute((5,), lambda i: flat[at[i]], name="Y")
    of = lowered(y, inputs=(x, at))
    promise(of, unravel(of))
    n = w.var("n")
    open_, x = pointwise(n, 2), tensor("X", n, 2)
    assert unravel(open_) == open_
    t = w.compute((n, 2), lambda i, j: x[i, j] + 1, name="T")
    view = lowered(w.reshape(t, (2, n), name="Y"), inputs=(x,))
    promise(view, unravel(view), {"n": 3})


def test_random_reshapes() -> None:
    """Chains of pointwise operations and reshapes."""
    random, helped = Random(0), 0
    for _ in range(40):
        sizes = [random.choice((1, 2, 3, 4, 5)) for _ in range(3)]
        x = tensor("X", *sizes)
        now = x
        for step in range(random.randint(1, 4)):
            if random.random() < 0.5:
                left, shape = prod(sizes), []
                while left > 1:
                    factor = random.choice([f for f in range(2, left + 1) if left % f == 0])
                    shape.append(factor)
                    left //= factor
                now = w.reshape(now, shape, name=f"v{step}")
            else:
                now = _turned(now, random, step)
        if now is x:
            continue
        of = lowered(now, inputs=(x,))
        helped += divisions(promise(of, unravel(of))) < divisions(of)
    assert helped > 5


def _turned(t, random: Random, step: int):  # type: ignore[no-untyped-def]
    flip = random.randrange(max(1, t.rank))

    def value(*i: Expr) -> Expr:
        at = tuple(w.as_size(t.shape[d]) - 1 - e if d == flip else e for d, e in enumerate(i))
        return t[at] + step

    return w.compute(t.shape, value, name=f"t{step}")


def test_random_programs() -> None:
    for of, sizes in random_scops(60, seed=2500):
        promise(of, unravel(of), sizes)
