import pytest

from weft.frontend.operators.registry import instantiate
from weft.graph.access_pattern import extent, steps_of
from weft.ir.build import compute, placeholder, reduce_axis, scan, scatter, select, sum, var
from weft.ir.scalar_expr import literal
from weft.ir.tensor_expr import Program

A = placeholder((6, 8), name="A")
B = placeholder((8, 5), name="B")
IDS = placeholder((6,), "int64", name="ids")


def step(tensor, *inputs):
    (only,) = steps_of(Program("p", inputs, (tensor,)))
    return only


def hows(read):
    return [index.how for index in read.indices]


def test_indices_are_told_apart():
    r = reduce_axis((0, 3), name="r")

    def body(i, j):
        moved = A[j, i + 1] + A[0, j] + A[IDS[i], j]
        return moved + sum(A[r, i + r], axis=r)

    found = step(compute((5, 5), body, name="C"), A, IDS)
    kinds = {tuple(h.value for h in hows(read)): read.times for read in found.reads}
    assert kinds == {
        ("along", "shifted"): 25,
        ("fixed", "along"): 25,
        ("along",): 25,
        ("data", "along"): 25,
        ("swept", "window"): 75,
    }
    assert next(read.indices[0].axis for read in found.reads if read.tensor is A) == "j"


def test_a_matrix_product_is_a_contraction_by_what_it_reads():
    k = reduce_axis((0, 8), name="k")
    product = step(compute((6, 5), lambda i, j: sum(A[i, k] * B[k, j], axis=k), name="C"), A, B)
    assert product.contraction and product.reduces and product.points == 240
    same = step(compute((6,), lambda i: sum(A[i, k] * A[i, k], axis=k), name="C"), A)
    assert not same.contraction
    plain = step(compute((6, 5), lambda i, j: A[i, j] * B[i, j], name="C"), A, B)
    assert not plain.contraction and plain.is_map


@pytest.mark.parametrize(
    "shape, kernel, group, expected",
    [((1, 8, 9, 9), (8, 8, 3, 3), 1, True), ((1, 8, 9, 9), (8, 1, 3, 3), 8, False)],
)
def test_dense_convolutions_contract_and_depthwise_ones_do_not(shape, kernel, group, expected):
    inputs = [placeholder(shape, name="x"), placeholder(kernel, name="w")]
    found = steps_of(instantiate("conv", inputs, group=group))
    assert any(s.contraction for s in found) == expected


def test_loops_that_carry_a_recurrence_are_not_parallel():
    def body(itself, i, t):
        return (select(t > 0, itself(0, i, t - 1) + A[i, t], A[i, t]),)

    (running,) = scan((6, 8), body, dtypes_=(A.dtype,), along=2, name="S")
    found = step(running, A)
    assert found.parallel == ("i",) and not found.is_map


def test_a_scatter_promises_nothing():
    base = placeholder((8,), name="base")
    result = scatter(base, (6,), lambda i: ((IDS[i],), A[i, 0]), name="s")
    found = step(result, base, IDS, A)
    assert found.parallel == () and not found.is_map
    assert found.reads[0].tensor is base


def test_symbolic_sizes_count_as_something():
    assert extent(var("n")) == 64 and extent(literal(7)) == 7 and extent(3) == 3
