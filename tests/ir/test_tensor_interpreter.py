"""Tensor expressions mean what NumPy says in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import build as w
from weft.ir import dtypes, tensor_interpreter
from weft.ir import tensor_interpreter as monoid_interpreter
from weft.ir.errors import ExecutionError, ExpressionError
from weft.ir.scalar_expr import Var, select
from weft.ir.tensor_expr import Axis, Monoid, Program
from weft.ir.tensor_interpreter import blocks, interpret

SIZES = [0, 1, 2, 7]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def f32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def run(outputs, inputs, arrays, **kw):
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    results = interpret(Program("test", tuple(inputs), outputs), arrays, **kw)
    return results[0] if len(results) == 1 else results


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("k", SIZES)
def test_matmul_with_symbolic_sizes(m, k, rng):
    ms, ns, ks = w.var("m"), w.var("n"), w.var("k")
    a, b = w.placeholder((ms, ks), name="a"), w.placeholder((ks, ns), name="b")
    axis = w.reduce_axis((0, ks), name="r")
    c = w.compute((ms, ns), lambda i, j: w.sum(a[i, axis] * b[axis, j], axis), name="c")
    x, y = f32(rng, m, k), f32(rng, k, 5)
    np.testing.assert_allclose(run(c, (a, b), (x, y)), x @ y, rtol=1e-5, atol=1e-6)
    precise = run(c, (a, b), (x, y), precise=True)
    np.testing.assert_allclose(precise, x.astype(np.float64) @ y, rtol=1e-13, atol=1e-15)


def test_small_blocks_change_nothing(rng, monkeypatch):
    x, y = f32(rng, 3, 4, 5), f32(rng, 5, 7)
    a, b = w.placeholder((3, 4, 5), name="a"), w.placeholder((5, 7), name="b")
    r = w.reduce_axis((0, 5), name="r")
    c = w.compute((3, 4, 7), lambda i, j, h: w.sum(a[i, j, r] * b[r, h], r), name="c")
    for limit in (1, 3, 10, 50):
        monkeypatch.setattr(tensor_interpreter, "BLOCK", limit)
        np.testing.assert_allclose(run(c, (a, b), (x, y)), x @ y, rtol=1e-5)


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(1, 40))
def test_blocks_cover_a_box_once_and_stay_small(extents, limit):
    counts = np.zeros(extents, int)
    for block in blocks(extents, limit):
        assert counts[block].size <= limit
        counts[block] += 1
    assert (counts == 1).all()


@pytest.mark.parametrize("stride", [1, 2])
def test_padded_convolution(stride, rng):
    x, f = f32(rng, 2, 3, 5, 7), f32(rng, 4, 3, 3, 3)
    a, b = w.placeholder(x.shape, name="a"), w.placeholder(f.shape, name="b")
    c, r, s = (w.reduce_axis((0, 3), name=n) for n in "crs")
    oh, ow = (5 - 1) // stride + 1, (7 - 1) // stride + 1

    def body(n, k, i, j):
        y, z = i * stride + r - 1, j * stride + s - 1
        inside = (y >= 0) & (y < 5) & (z >= 0) & (z < 7)
        return w.sum(select(inside, a[n, c, y, z], 0.0) * b[k, c, r, s], (c, r, s))

    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    expected = np.einsum("ncijrs,kcrs->nkij", windows, f)
    out = w.compute((2, 4, oh, ow), body, name="conv")
    np.testing.assert_allclose(run(out, (a, b), (x, f)), expected, rtol=1e-4, atol=1e-5)


def test_reductions_inside_reductions_and_shared_axes(rng):
    x = f32(rng, 3, 5)
    a = w.placeholder((3, 5), name="a")
    k, h = w.reduce_axis((0, 5), name="k"), w.reduce_axis((0, 5), name="h")
    soft = w.compute(
        (3, 5),
        lambda i, j: (
            w.exp(a[i, j] - w.max_over(a[i, h], h))
            / w.sum(w.exp(a[i, k] - w.max_over(a[i, h], h)), k)
        ),
        name="softmax",
    )
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(run(soft, (a,), (x,)), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_triangular_and_conditional_reductions(rng):
    x = f32(rng, 6)
    a = w.placeholder((6,), name="a")
    i = Axis("i", dtypes.int64, w.as_size(0), w.as_size(6))
    k = w.reduce_axis((0, i + 1), name="k")
    prefix = w.compute((6,), lambda i: w.sum(a[k], k), name="prefix")
    np.testing.assert_allclose(run(prefix, (a,), (x,)), np.cumsum(x), rtol=1e-5)
    after = w.reduce_axis((i + 1, 6), name="k")
    h = w.reduce_axis((0, after), name="h")
    nested = w.compute((6,), lambda i: w.sum(a[after] * a[h], (after, h)), name="nested")
    expected = [
        sum(float(x[p]) * x[q] for p in range(o + 1, 6) for q in range(p)) for o in range(6)
    ]
    np.testing.assert_allclose(run(nested, (a,), (x,)), expected, rtol=1e-4, atol=1e-6)
    r = w.reduce_axis((0, 6), name="r")
    odd = w.compute((6,), lambda i: w.sum(a[r - i], r, where=(r >= i) & (r % 2).equal(1)), name="o")
    expected = [sum(float(x[p - o]) for p in range(o, 6) if p % 2) for o in range(6)]
    np.testing.assert_allclose(run(odd, (a,), (x,)), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("last", [False, True])
def test_argmax_with_ties_and_nan(last):
    x = np.float32([[1, 3, 3, 2], [-np.inf] * 4, [1, np.nan, 5, np.nan]])
    a = w.placeholder((3, 4), name="a")
    k = w.reduce_axis((0, 4), name="k")
    best = w.compute((3,), lambda i: w.argmax(a[i, k], k, k, last=last), name="best")
    assert run(best, (a,), (x,)).tolist() == ([2, 3, 3] if last else [1, 0, 1])
    assert run(best, (a,), (x,)).dtype == np.int64


def compose(laws):
    (p, q), (s, t) = ((Var(n, dtypes.int64) for n in ns) for ns in ("pq", "st"))
    return Monoid("compose", (p, q), (s, t), (p * s, q * s + t), (1, 0), frozenset(laws))


def test_a_sum_without_laws_is_rounded_after_each_element():
    left, right = Var("left", dtypes.float32), Var("right", dtypes.float32)
    in_order = Monoid("in_order", (left,), (right,), (left + right,), (0,), frozenset())
    x = np.random.default_rng(0).standard_normal((3, 301)).astype(np.float32)
    a, k = w.placeholder(x.shape, name="a"), w.reduce_axis((0, 301), name="k")
    total = w.compute((3,), lambda i: w.reduce(in_order, (a[i, k],), k)[0], name="total")
    (y,) = interpret(Program("p", (a,), (total,)), [x])
    np.testing.assert_array_equal(y, np.cumsum(x, 1, dtype=np.float32)[:, -1])


@pytest.mark.parametrize("laws", [(), ("associative",)])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 13])
def test_folds_keep_the_order_of_a_monoid_that_does_not_commute(n, laws):
    data = np.arange(3 * n).reshape(3, n) % 5 - 2
    a = w.placeholder((3, n), "int64", name="a")
    k = w.reduce_axis((0, n), name="k")
    fold = w.computes(
        (3,), lambda i: w.reduce(compose(laws), (a[i, k], a[i, k] + 1), k), name="fold"
    )
    expected = []
    for row in data:
        p, q = 1, 0
        for v in row:
            p, q = p * v, q * v + v + 1
        expected.append((p, q))
    first, second = run(fold, (a,), (data,))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected


def test_small_floats_round_in_every_step_of_a_fold():
    a = w.placeholder((8,), "bfloat16", name="a")
    k = w.reduce_axis((0, 8), name="k")
    total = w.compute((), lambda: w.sum(a[k], k), name="total")
    x = np.array([256, 1, 1, 1, 1, 1, 1, 1]).astype(ml_dtypes.bfloat16)
    assert float(run(total, (a,), (x,))) in (256, 262, 264)  # rounded, in some order
    assert float(run(total, (a,), (x,), precise=True)) == 263


def test_scans_read_what_was_computed_before(rng):
    x = f32(rng, 5, 3)
    a = w.placeholder((5, 3), name="a")

    def body(itself, t, j):
        before = select(t > 0, itself(0, t - 1, (j + 1) % 3), 0.0)
        return (before * 0.5 + a[t, j], before + select(t > 1, itself(1, t - 2, j), 1.0))

    f = dtypes.float32
    first, second = w.scan((5, 3), body, dtypes_=(f, f), name="scan")
    h = np.zeros((5, 3))
    g = np.zeros((5, 3))
    for t in range(5):
        before = np.roll(h[t - 1], -1) if t else np.zeros(3)
        h[t] = before * 0.5 + x[t]
        g[t] = before + (g[t - 2] if t > 1 else 1.0)
    one, two = run((first, second), (a,), (x,))
    np.testing.assert_allclose(one, h, rtol=1e-5)
    np.testing.assert_allclose(two, g, rtol=1e-5)


def test_a_scan_may_not_read_the_future():
    (bad,) = w.scan(
        (3,), lambda itself, t: (itself(0, 2 - t),), dtypes_=(dtypes.float32,), name="bad"
    )
    with pytest.raises(ExecutionError, match="E0140"):
        run(bad, (), ())


def test_gather_checks_its_indices(rng):
    x = f32(rng, 4, 3)
    a, ix = w.placeholder((4, 3), name="a"), w.placeholder((2,), "int64", name="ix")
    g = w.compute((2, 3), lambda i, j: a[ix[i], j], name="g")
    np.testing.assert_array_equal(run(g, (a, ix), (x, np.array([3, 0]))), x[[3, 0]])
    with pytest.raises(ExecutionError, match="index -1 in dimension 0, whose size is 4"):
        run(g, (a, ix), (x, np.array([0, -1])))


@pytest.mark.parametrize("combine", [None, "add", "max"])
def test_scatter_is_ordered(combine, rng):
    x = f32(rng, 5, 2)
    at = np.array([3, 1, 3, 3, -1])
    v = f32(rng, 5)
    a, ix = w.placeholder((5, 2), name="a"), w.placeholder((5,), "int64", name="ix")
    values = w.placeholder((5,), name="v")
    out = w.scatter(
        a, (5, 2), lambda i, j: ((ix[i], 1 - j), values[i]),
        combine=combine, condition=lambda i, j: ix[i] >= 0, name="out",
    )  # fmt: skip
    expected = x.copy()
    for i in range(4):
        old, new = expected[at[i]], v[i]
        expected[at[i]] = {None: new, "add": old + new, "max": np.maximum(old, new)}[combine]
    np.testing.assert_allclose(run(out, (a, ix, values), (x, at, v)), expected, rtol=1e-6)
    with pytest.raises(ExecutionError, match="E0140"):
        run(out, (a, ix, values), (x, np.full(5, 5), v))


def test_reshape_is_row_major_and_outputs_never_alias_inputs():
    n = w.var("n")
    a = w.placeholder((n, 6), name="a")
    b = w.reshape(a, (n * 2, 3), name="b")
    c = w.compute((n * 2, 3), lambda i, j: b[i, j] + 1.0, name="c")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    r, same, plus = run((b, a, c), (a,), (x,))
    np.testing.assert_array_equal(plus, x.reshape(4, 3) + 1)
    np.testing.assert_array_equal(r.reshape(4, 3), x.reshape(4, 3))
    assert not np.shares_memory(same, x) and not np.shares_memory(r, x)


def test_a_thousand_operations_in_a_row():
    t = a = w.placeholder((3,), name="a")
    for n in range(1500):
        before = t
        t = w.compute((3,), lambda i: before[i] + 1.0, name=f"t{n}")  # noqa: B023
    assert run(t, (a,), (np.zeros(3, np.float32),)).tolist() == [1500.0] * 3


def test_inputs_that_do_not_fit_are_refused():
    n = w.var("n")
    a, b = w.placeholder((n, 2), name="a"), w.placeholder((n,), name="b")
    c = w.compute((n,), lambda i: a[i, 0] + b[i], name="c")
    x = np.zeros((3, 2), np.float32)
    for wrong in ([x], [x, x], [x, np.zeros(3)], [x, np.zeros(4, np.float32)]):
        with pytest.raises(ExpressionError, match="E0121"):
            run(c, (a, b), wrong)
    d = w.compute((w.var("m"),), lambda i: 1.0, dtype="float32", name="d")
    with pytest.raises(ExpressionError, match="size symbol m has no value"):
        run(d, (), ())
    assert run(d, (), (), sizes={"m": 4}).shape == (4,)
    with pytest.raises(ExpressionError, match="placeholder b is not an input"):
        run(c, (a,), (x,))


@settings(max_examples=40)
@given(st.sampled_from(["add", "mul", "min", "max"]), st.integers(0, 9), st.data())
def test_named_monoids_are_numpys(name, n, data):
    values = data.draw(st.lists(st.integers(-128, 127), min_size=n, max_size=n))
    x = np.array(values, np.int8)
    a = w.placeholder((n,), "int8", name="a")
    k = w.reduce_axis((0, n), name="k")
    m = w.monoid(name, dtypes.int8)
    out = w.compute((), lambda: w.reduce(m, (a[k],), k)[0], name="out")
    ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[name]
    expected = ufunc.reduce(x, dtype=np.int8, initial=np.int8(m.identity[0]))
    assert run(out, (a,), (x,)) == expected
    start = (np.int8(m.identity[0]),)
    slow = (
        monoid_interpreter.fold(
            Monoid(name, m.left, m.right, m.combined, m.identity, frozenset()), start, (x,)
        )
        if n
        else start
    )
    assert slow[0] == expected
