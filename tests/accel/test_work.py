"""What a cluster of statements is to an accelerator; and what is none, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft.accel.refusal import Refusal
from weft.accel.work import Work, work
from weft.ir.build import compute, maximum, placeholder, reduce_axis, reshape, sum, var
from weft.ir.dtypes import i8, i32, i64
from weft.ir.scalar_expr import cast, literal
from weft.ir.tensor_expr import Program, Tensor
from weft.offload.offload import prepared
from weft.polyhedral.from_tensor_expr import lower

A = placeholder((6, 8), i8, name="a")
B = placeholder((8, 5), i8, name="b")


def made(*results: Tensor, inputs: tuple[Tensor, ...] = (A, B)) -> Work:
    return work(prepared(lower(Program("work", inputs, results), "work")))


def product(a: Tensor = A, b: Tensor = B, name: str = "sums") -> Tensor:
    k = reduce_axis((0, a.shape[1]), name="k")
    shape = (a.shape[0], b.shape[1])
    return compute(
        shape, lambda i, j: sum(cast(a[i, k], i32) * cast(b[k, j], i32), (k,)), name=name
    )


def shifted(sums: Tensor) -> Tensor:
    return compute(sums.shape, lambda *i: cast(sums[i] >> 4, i8), name="y")


def test_a_sum_and_what_becomes_of_it() -> None:
    found = made(shifted(product()))
    assert found.start == 0 and found.gather is None and not found.reads
    assert sorted(found.extents.values()) == [5, 6, 8]
    assert [read.tensor for read in found.operands] == ["a", "b"]
    assert found.write.tensor == "y"


def test_a_sum_alone() -> None:
    found = made(product())
    assert found.write.tensor == "sums" and found.gather is None


def test_without_a_sum() -> None:
    found = made(
        compute((6, 8), lambda i, j: maximum(A[i, j], literal(3, i8)), name="y"), inputs=(A,)
    )
    assert found.start is None and [read.tensor for read in found.reads] == ["a"]


def test_what_is_read_in_another_order_is_gathered() -> None:
    sums = product()
    turned = compute((5, 6), lambda i, j: cast(sums[j, i] >> 4, i8), name="y")
    assert made(turned).write.tensor == "y" and made(turned).gather is None
    strided = compute((3, 5), lambda i, j: cast(sums[i * 2, j] >> 4, i8), name="y")
    found = made(strided)
    assert found.gather is not None and found.write.tensor == "sums"
    assert list(found.gather.extents.values()) == [3, 5]


def test_not_all_of_the_sums() -> None:
    """The first four rows of six: the sums are written whole, and gathered."""
    sums = product()
    found = made(compute((4, 5), lambda i, j: cast(sums[i, j] >> 4, i8), name="y"))
    assert found.gather is not None and found.write.tensor == "sums"


def test_what_is_added_lies_where_the_results_do() -> None:
    """Sums in pairs of rows, from the second one on: row 2 a + b of them is row 2 a + b - 1 of what
    is added, and one more on both sides is nobody's."""
    x, w = placeholder((3, 2, 7), i8, name="x"), placeholder((7, 5), i8, name="w")
    c = placeholder((4, 5), i8, name="c")
    k = reduce_axis((0, 7), name="k")
    sums = compute(
        (3, 5, 2),
        lambda a, j, b: sum(cast(x[a, b, k], i32) * cast(w[k, j], i32), (k,)),
        name="s",
    )
    y = compute(
        (4, 5),
        lambda i, j: sums[(i + 1) // 2, j, (i + 1) % 2] + cast(c[i, j], i32),
        name="y",
    )
    found = made(y, inputs=(x, w, c))
    (read,) = found.reads
    a, j, b = (str(form.terms[0][0]) for form in found.write.indices)
    assert read.padded and dict(read.indices[0].terms) == {a: 2, b: 1}
    assert read.indices[0].constant == -1 and dict(read.indices[1].terms) == {j: 1}
    assert found.gather is not None and list(found.gather.extents.values()) == [4, 5]


def test_groups_that_a_reshape_puts_side_by_side() -> None:
    x, w = placeholder((4, 3, 7), i8, name="x"), placeholder((4, 2, 3), i8, name="w")
    k = reduce_axis((0, 3), name="k")
    sums = compute(
        (4, 2, 7),
        lambda g, o, p: sum(cast(x[g, k, p], i32) * cast(w[g, o, k], i32), (k,)),
        name="s",
    )
    found = made(shifted(reshape(sums, (8, 7), name="joined")), inputs=(x, w))
    assert found.gather is None and found.write.tensor == "y"


def several_sums() -> Work:
    c = placeholder((5, 4), i8, name="c")
    return made(product(shifted(product()), c, "again"), inputs=(A, B, c))


def several_results() -> Work:
    sums = product()
    other = compute(sums.shape, lambda *i: cast(sums[i], i8), name="z")
    return made(shifted(sums), other)


def divided() -> Work:
    y = compute((12, 8), lambda i, j: A[i // 2, j] + literal(1, i8), name="y")
    return made(y, inputs=(A,))


def by_data() -> Work:
    at = placeholder((6,), i64, name="at")
    y = compute((6, 8), lambda i, j: A[at[i], j] + literal(1, i8), name="y")
    return made(y, inputs=(A, at))


def indices() -> Work:
    y = compute((6, 8), lambda i, j: cast(A[i, j], i32) + cast(i, i32), name="y")
    return made(y, inputs=(A,))


def twice() -> Work:
    sums = product()
    turned = compute((5, 5), lambda i, j: cast(sums[i, j] + sums[j, i], i8), name="y")
    return made(turned)


def of_any_size() -> Work:
    x = placeholder((var("n"), 8), i8, name="x")
    y = compute((var("n"), 8), lambda i, j: x[i, j] + literal(1, i8), name="y")
    return made(y, inputs=(x,))


def nothing() -> Work:
    x = placeholder((0, 8), i8, name="x")
    y = compute((0, 8), lambda i, j: x[i, j] + literal(1, i8), name="y")
    return made(y, inputs=(x,))


def beside_another_order() -> Work:
    c = placeholder((3, 5), i8, name="c")
    sums = product()
    y = compute((3, 5), lambda i, j: cast(sums[i * 2, j] + cast(c[i, j], i32), i8), name="y")
    return made(y, inputs=(A, B, c))


@pytest.mark.parametrize(
    ("make", "reason"),
    (
        (several_sums, "are sums of their own, and one is computed at a time"),
        (several_results, "it has several results"),
        (divided, "a is accessed with divisions"),
        (by_data, "a is (read where data say|accessed with divisions)"),
        (indices, "y computes with its indices"),
        (twice, "y reads sums at several places"),
        (of_any_size, "the size n is not known"),
        (nothing, "y computes nothing"),
        (beside_another_order, "y combines sums with what lies in another order"),
    ),
)
def test_refusals(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as found:
        make()
    text = str(found.value)
    assert not text.endswith(".") and text[0].islower()
