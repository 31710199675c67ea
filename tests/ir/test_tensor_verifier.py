"""One test per rule that a tensor program can break, and none for programs that are well-formed."""

from __future__ import annotations

import pytest

from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Load, Var, literal, select
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Itself,
    Monoid,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Tensor,
)
from weft.ir.tensor_verifier import verify

F = dtypes.float32
n, m = w.var("n"), w.var("m")
a = w.placeholder((5,), name="a")
b = w.placeholder((n, m), name="b")


def program(*outputs, inputs=(a, b), **kw):
    return Program("p", inputs, outputs, **kw)


def refused(code, tensor, match=None, **kw):
    with pytest.raises(ExpressionError, match=match) as caught:
        verify(program(tensor, **kw))
    assert caught.value.code == f"WEFT-{code}"


def axis(name, upper, lower=0):
    return Axis(name, dtypes.int64, w.as_size(lower), w.as_size(upper))


def computed(axes, *values, shape=None, scan=0, dtype=F, index=0):
    operation = Compute("c", tuple(axes), values, scan)
    return Tensor("c", shape or tuple(x.upper for x in axes), dtype, operation, index)


def test_what_is_well_formed_passes():
    k, r = w.reduce_axis((0, 5), name="k"), w.reduce_axis((0, 3), name="r")
    i = axis("i", 5)
    tri = w.reduce_axis((0, i + 1), name="k")
    bounded = (i + r - 1 >= 0) & (i + r - 1 < 5)
    t = w.placeholder((), "int64", name="t")
    good = [
        w.compute((5,), lambda i: a[4 - i] + w.sum(a[k], k) * w.sum(a[k] * a[i], k), name="x"),
        w.compute((5,), lambda i: w.sum(select(bounded, a[i + r - 1], 0.0), r), name="x"),
        w.compute((5,), lambda i: w.sum(a[tri], tri), name="x"),
        w.compute((5,), lambda i: a[t[()]], name="x"),
        w.compute((n, m), lambda i, j: b[n - 1 - i, j], name="x"),
        w.compute((0,), lambda i: a[i + 7], name="x"),
        w.scan((n,), lambda s, t: (select(t > 0, s(0, t - 1), 0.0),), dtypes_=(F,), name="x")[0],
        w.scan(
            (3, 4),
            lambda s, t, u: (
                select((t > 0) & (u < 3), s(0, t - 1, u + 1), 0.0)
                + select(u > 0, s(0, t, u - 1), 1.0),
            ),
            dtypes_=(F,), along=2, name="x",
        )[0],
        w.reshape(b, (n * m,), name="x"),
    ]  # fmt: skip
    for tensor in good:
        verify(program(tensor, inputs=(a, b, t)))
    verify(program(good[0], a, in_place=((0, 0),)))


def test_axis_names_are_unique():
    k = w.reduce_axis((0, 5), name="k")
    other = w.reduce_axis((0, 3), name="k")
    refused("E0123", w.compute((5,), lambda k: a[k] + w.sum(a[k], other), name="x"))
    refused("E0123", w.compute((5,), lambda i: w.sum(a[k], k) + w.sum(a[other], other), name="x"))
    refused("E0123", w.compute((5,), lambda i: w.sum(w.sum(a[k], k), k), name="x"))
    refused("E0123", computed([axis("n", 5)], a[axis("n", 5)] + b[0, 0]), "n is taken")


def test_axes_span_the_shape():
    i = axis("i", 4)
    refused("E0124", computed([i], a[i], shape=(5,)), "do not span")
    refused("E0124", computed([i], a[i], shape=(4, 1)))
    refused("E0124", computed([axis("i", 4, 1)], a[i]))
    refused("E0124", computed([i], a[i], index=1), "has no result 1")
    refused("E0124", Tensor("z", (-1,), F), "a size is -1")
    refused("E0124", Tensor("z", (i + 1,), F), "over size symbols")
    refused("E0124", w.placeholder((w.var("{n * m}"),), name="z"), "a brace")


def test_dtypes_agree():
    i = axis("i", 5)
    refused("E0125", computed([i], a[i], dtype=dtypes.int8), "c is int8, its value float32")
    k = w.reduce_axis((0, 5), name="k")
    refused("E0125", w.compute((5,), lambda i: w.sum(a[k], k, where=k), name="x"), "not bool")
    wrong = Load(a, (literal(0),), dtypes.float64)
    refused("E0125", computed([i], wrong, dtype=dtypes.float64))


def itself(*values, scan=1, extents=(5,)):
    axes = [axis(name, size) for name, size in zip("tu", extents, strict=False)]
    return computed(axes, *values, scan=scan)


def test_itself_is_read_earlier_and_only_under_a_scan():
    t, u = Var("t"), Var("u")

    def own(*indices, c=0):
        return Load(Itself(c), indices, F)

    refused("E0126", itself(own(t)), "not proved to come earlier")
    refused("E0126", itself(own(t + 1)))
    refused("E0126", itself(select(t > 0, own(t - 1), 0.0), scan=0), "earlier indices")
    refused("E0126", itself(own(a[t].astype("int64"))), "not proved")
    refused("E0126", itself(own(t - 1, c=1)), "result 1")
    refused("E0126", itself(own(t // 2)))
    refused("E0126", itself(own(t, u - 1), extents=(5, 5)))
    refused("E0126", itself(a[t], scan=2), "1 axes")
    refused("E0127", itself(own(t - 1)), "-1 to 3; the size is 5")
    refused("E0127", itself(own(t - 1, t)), "1 dimensions, not 2")


def test_indices_outside_are_refused_where_they_are_certain():
    refused("E0127", w.compute((5,), lambda i: a[i + 1], name="x"), "i \\+ 1 goes from 1 to 5")
    refused("E0127", w.compute((5,), lambda i: a[i - 1], name="x"))
    refused("E0127", w.compute((5,), lambda i: a[3 - i], name="x"), "-1 to 3")
    refused("E0127", w.compute((n, m), lambda i, j: b[i, j + 1], name="x"), "size is m")
    refused("E0127", w.compute((n,), lambda i: b[i - 1, 0], name="x"))
    refused("E0127", computed([axis("i", 5)], Load(a, (), F)), "1 dimensions, not 0")
    k = w.reduce_axis((0, 3), name="k")
    refused("E0127", w.compute((4,), lambda i: w.sum(a[i + k], k), name="x"))
    out = w.scatter(a, (6,), lambda i: ((i,), a[0]), name="out")
    refused("E0127", out)


def test_monoids_are_well_formed():
    left, r, x = Var("l", F), Var("r", F), Var("x", F)
    k = axis("k", 5)

    def fold(*args, **kw):
        return computed([axis("i", 5)], Reduce(Monoid("mine", *args, **kw), (k,), (a[k],)))

    verify(program(fold((left,), (r,), (left + r,), (0.0,))))
    refused("E0128", fold((left,), (r,), (left + r,), ()), "1 components")
    refused("E0128", fold((left,), (left,), (left + left,), (0.0,)), "one name twice")
    refused("E0128", fold((left,), (r,), (left + x,), (0.0,)), "more than its two sides")
    refused("E0128", fold((left,), (r,), (left.astype("float64"),), (0.0,)), "not float32")
    refused("E0128", fold((left,), (r,), (left,), (0.0,), laws=frozenset({"idempotent"})), "laws")


def test_bounds_are_known_and_do_not_load():
    k = w.reduce_axis((0, Var("q") + 1), name="k")
    refused("E0131", w.compute((5,), lambda i: w.sum(a[k], k), name="x"), "q is neither")
    inner = w.reduce_axis((0, a[0].astype("int64")), name="k")
    refused("E0129", w.compute((5,), lambda i: w.sum(a[inner], inner), name="x"))
    free = w.reduce_axis((0, 5), name="k")
    refused("E0131", w.compute((5,), lambda i: w.sum(a[free], free) + a[free], name="x"))


def test_in_place_pairs_match():
    refused("E0130", b, in_place=((0, 0),), match="cannot share")
    refused("E0130", b, in_place=((1, 0),))


def test_reshapes_keep_the_number_of_elements():
    refused("E0132", w.reshape(a, (2, 3), name="x"), "5 elements there, 6 here")
    assert isinstance(w.reshape(a, (5,), name="x").operation, Reshape)


def test_placeholders_are_inputs():
    refused("E0133", w.compute((5,), lambda i: a[i], name="x"), inputs=(b,))


def test_scatters_have_an_index_per_dimension():
    i = axis("i", 5)
    operation = Scatter("s", a, (i,), (i, i), a[i])
    refused("E0134", Tensor("s", (5,), F, operation), "1 dimensions, not 2")


def test_deep_expressions_and_long_programs():
    t = a
    for k in range(1200):
        before = t
        t = w.compute((5,), lambda i: before[i] + 1.0, name=f"t{k}")  # noqa: B023
    i = axis("i", 5)
    chain = a[i]
    for k in range(1200):
        chain = select(i.equal(k), a[i] + 1.0, chain)
    verify(program(t, computed([i], chain)))
