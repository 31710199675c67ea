"""Accesses through a reshape reach the element that NumPy's reshape moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Apply, Var, literal, walk
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_reshape import delinearize, linearize, reshape_indices

N, M = Var("n"), Var("m")


def sizes(*values):
    return tuple(v if isinstance(v, Var | Apply) else literal(v) for v in values)


def compose(shape, source, known=None):
    """Indices into ``source`` of element (i0, i1, …) of the reshape, and the axes' ranges."""
    axes = tuple(Var(f"i{d}") for d in range(len(shape)))
    ranges = {
        f"i{d}": (0, n.value - 1 if not isinstance(n, Var | Apply) else None)
        for d, n in enumerate(shape)
    }
    return axes, reshape_indices(axes, shape, source, ranges)


def check(shape, source, symbols):
    axes, found = compose(shape, source)
    out = [int(evaluate(n, symbols)) for n in shape]
    inner = [int(evaluate(n, symbols)) for n in source]
    data = np.arange(int(np.prod(inner, dtype=int))).reshape(inner)
    grid = dict(zip((a.name for a in axes), np.indices(out), strict=True)) | symbols
    got = data[tuple(np.broadcast_to(evaluate(e, grid), out) for e in found)]
    np.testing.assert_array_equal(got, data.reshape(out))
    return found


def divisions(indices):
    return [
        n for e in indices for n in walk(e) if isinstance(n, Apply) and n.op[-3:] in ("div", "mod")
    ]


FACTORS = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=0, max_size=5)


@settings(max_examples=150)
@given(FACTORS, st.data())
def test_any_constant_reshape(factors, data):
    def grouped():
        groups, rest = [], list(factors)
        while rest:
            take = data.draw(st.integers(1, len(rest)))
            groups.append(int(np.prod(rest[:take])))
            rest = rest[take:]
        return sizes(*groups)

    check(grouped(), grouped(), {})


def test_splitting_a_dimension_needs_no_division():
    for shape, source in [
        ((2, 3, 4), (2, 12)), ((N, 3, 4), (N, 12)), ((2, 3, 5, 4), (6, 20)), ((N, 4), (N * 4,)),
        ((1, 6, 1), (6,)), ((6,), (1, 6)), ((N, 1, M), (N, M)), ((N, M), (N, M)),
        ((2, N, 8, 4), (2, N, 32)), ((), ()), ((1, 1), ()), ((), (1,)),
    ]:  # fmt: skip
        found = check(sizes(*shape), sizes(*source), {"n": 3, "m": 5})
        assert not divisions(found), (shape, source, found)


def test_an_identity_reshape_is_the_identity():
    axes, found = compose(sizes(N, 4, M), sizes(N, 4, M))
    assert found == axes
    assert compose(sizes(N + M, 2), sizes(M + N, 2))[1] == compose(sizes(N, 2), sizes(N, 2))[0]


def test_merging_dimensions_divides_by_constants_only():
    for shape, source in [((2, 12), (2, 3, 4)), ((N * 4,), (N, 4)), ((6, 4), (4, 6))]:
        found = check(sizes(*shape), sizes(*source), {"n": 3})
        assert all(to_affine(e) is not None for e in found)


def test_symbolic_products_match_or_are_not_affine():
    found = check(sizes(N * M, 2), sizes(N, M, 2), {"n": 3, "m": 4})
    assert to_affine(found[0]) is None and found[2] == Var("i1")
    check(sizes(N * M), sizes(M * N), {"n": 3, "m": 4})
    assert compose(sizes(N * M, 3), sizes(M * N, 3))[1] == (Var("i0"), Var("i1"))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_linearize_and_delinearize_are_inverses(shape, data):
    index = [data.draw(st.integers(0, n - 1)) for n in shape]
    flat = linearize(sizes(*index), sizes(*shape))
    assert flat == literal(int(np.ravel_multi_index(index, shape)))
    assert delinearize(flat, sizes(*shape)) == sizes(*index)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_tensors(shape):
    check(sizes(*shape), sizes(*shape[::-1]), {})
