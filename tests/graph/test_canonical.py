from dataclasses import replace

import pytest

from weft.graph.canonical import canonical_text
from weft.ir.build import compute, monoid, placeholder, reduce, reduce_axis, sum, var
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Program


def product(a="A", i="i", k="k", rows=6, dtype="float32", name="C"):
    A, B = placeholder((rows, 8), dtype, name=a), placeholder((8, 5), dtype, name="B")
    r = reduce_axis((0, 8), name=k)

    def body(*index: Expr) -> Expr:
        x, y = index
        return sum(A[x, r] * B[r, y], axis=r)

    return Program(name, (A, B), (compute((rows, 5), body, name=name),))


def test_names_do_not_count():
    assert canonical_text(product()) == canonical_text(product(a="x", k="q", name="other"))


@pytest.mark.parametrize("change", [{"rows": 7}, {"dtype": "float64"}])
def test_sizes_and_dtypes_count(change):
    assert canonical_text(product()) != canonical_text(product(**change))


def unary(body, shape=(4,)):
    x = placeholder(shape, name="x")
    return Program("p", (x,), (compute(shape, lambda *i: body(x, *i), name="y"),))


@pytest.mark.parametrize(
    "left, right",
    [
        (lambda x, i: x[i] * 0.0, lambda x, i: x[i] * -0.0),
        (lambda x, i: x[i] - 1.0, lambda x, i: 1.0 - x[i]),
        (lambda x, i: x[i], lambda x, i: x[3 - i]),
        (lambda x, i: x[i].astype("float16"), lambda x, i: x[i].astype("bfloat16")),
        (lambda x, i: x[i] + x[i], lambda x, i: x[i]),
    ],
)
def test_small_differences_count(left, right):
    assert canonical_text(unary(left)) != canonical_text(unary(right))


def test_monoids_count_by_what_they_do_not_by_their_name():
    x = placeholder((4,), name="x")
    r = reduce_axis((0, 4), name="r")
    plus = monoid("add", x.dtype)
    impostor = replace(monoid("max", x.dtype), name="add", identity=plus.identity)
    totals = [
        compute((), lambda *_, m=m: reduce(m, [x[r]], r)[0], name="y") for m in (plus, impostor)
    ]
    first, second = (canonical_text(Program("p", (x,), (total,))) for total in totals)
    assert first != second


def test_symbols_count():
    n, m = var("n"), var("m")
    texts = {canonical_text(unary(lambda x, i: x[i], (size,))) for size in (n, m, 4)}
    assert len(texts) == 3


def test_shared_expressions_stay_linear():
    def body(x, i):
        value = x[i]
        for _ in range(60):
            value = value + value
        return value

    assert len(canonical_text(unary(body))) < 3000
