import numpy as np

from weft.ir.build import (
    compute,
    placeholder,
    reduce_axis,
    reshape,
    scan,
    scatter,
    select,
    sum,
    var,
)
from weft.ir.tensor_axes import fresh_axes
from weft.ir.tensor_expr import Program
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify

rng = np.random.default_rng(0)


def test_no_collision_changes_nothing():
    x = placeholder((var("m"), 3), name="x")
    program = Program("p", (x,), (compute(x.shape, lambda i, j: x[i, j] * 2, name="y"),))
    assert fresh_axes(program) is program


def test_every_kind_of_operation_is_renamed():
    """Axes are called as the symbols are, and one already has the name that another would get."""
    k, i = var("k"), var("i")
    x = placeholder((k, i), "float64", name="x")
    axis = reduce_axis((0, i), name="i")
    rows = compute((k,), lambda k: sum(x[k, axis], axis) + k.astype("float64"), name="rows")
    (running,) = scan(
        (k,),
        lambda itself, k: (select(k > 0, itself(0, k - 1) + rows[k], rows[0]),),
        dtypes_=[rows.dtype],
        name="running",
    )
    back = scatter(running, (k,), lambda k: ((var("k") - 1 - k,), running[k]), name="back")
    twice = compute((i, k), lambda i_, i: back[i] * x[i, i_], name="twice")
    flat = reshape(twice, (i * k,), name="flat")
    program = fresh_axes(Program("p", (x,), (flat, rows)))
    verify(program)
    data = rng.standard_normal((4, 3))
    expected = data.sum(1) + np.arange(4)
    got = interpret(program, [data])
    np.testing.assert_allclose(got[1], expected, atol=1e-12)
    np.testing.assert_allclose(got[0], (np.cumsum(expected)[::-1] * data.T).ravel(), atol=1e-12)
    (twice,) = program.outputs[0].operation.reads
    assert [a.name for a in twice.operation.axes] == ["i_", "i__"]
