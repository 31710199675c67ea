"""What lies around tensors on an accelerator: any number, and only where it is padding."""

from __future__ import annotations

import numpy as np
import pytest

from weft.accel.machines.vta import vta
from weft.frontend.operators.pool import max_pool
from weft.ir import dtypes
from weft.ir.build import compute, placeholder, reduce_axis, select, sum
from weft.ir.errors import CompileError
from weft.ir.scalar_expr import cast
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, offload
from weft.offload.simulator import check_stream, simulate
from weft.polyhedral.from_tensor_expr import lower

TARGET = Target.of(vta())


def run(program: Program, data: dict[str, np.ndarray]) -> np.ndarray:
    made = offload(lower(program, "p"), TARGET, {})
    check_stream(made.artifact, TARGET.semantics)
    image = made.artifact.filled(made.prepared(data))
    return made.results(simulate(made.artifact.stream, image, semantics=TARGET.semantics))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad"), [(7, 3, 2, 1), (6, 2, 2, 0), (5, 5, 1, 2), (1, 3, 1, 1)]
)
def test_max_pool_of_negative_numbers(size: int, kernel: int, stride: int, pad: int) -> None:
    """Zeros around the image would win."""
    x = placeholder((1, 20, size, size), dtypes.int8, name="x")
    y = max_pool(x, kernel=(kernel, kernel), strides=(stride, stride), pads=(pad,) * 4)
    data = np.random.default_rng(0).integers(-128, 0, (1, 20, size, size)).astype(np.int8)
    around = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-128)
    windows = np.lib.stride_tricks.sliding_window_view(around, (kernel, kernel), (2, 3))
    wanted = windows[:, :, ::stride, ::stride].max((4, 5))
    np.testing.assert_array_equal(run(Program("p", (x,), (y,)), {"x": data}), wanted)


def test_padding_of_more_than_a_field_holds() -> None:
    """VTA's transfers fill 15 columns at most."""
    size, taps, pad = 8, 37, 18
    x = placeholder((16, size), dtypes.int8, name="x")
    w = placeholder((16, 16, taps), dtypes.int8, name="w")
    at = reduce_axis((0, taps), name="t")
    c = reduce_axis((0, 16), name="c")

    def element(k: object, i: object) -> object:
        inside = (i + at - pad >= 0) & (i + at - pad < size)  # type: ignore[operator]
        value = select(inside, x[c, i + at - pad], 0)  # type: ignore[operator]
        return sum(cast(value, dtypes.int32) * cast(w[k, c, at], dtypes.int32), (c, at))

    y = compute((16, size), element, name="y")
    rng = np.random.default_rng(1)
    data = {
        "x": rng.integers(-128, 128, (16, size)).astype(np.int8),
        "w": rng.integers(-128, 128, (16, 16, taps)).astype(np.int8),
    }
    around = np.pad(data["x"].astype(np.int64), ((0, 0), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(around, taps, 1)
    wanted = np.einsum("cit,kct->ki", windows, data["w"].astype(np.int64))
    np.testing.assert_array_equal(run(Program("p", (x, w), (y,)), data), wanted)


def test_a_mask_is_no_padding() -> None:
    """Reads that a condition leaves out are not outside of the tensor: refused, or exact."""
    n = 16
    x, w = (placeholder((n, n), dtypes.int8, name=name) for name in "xw")
    k = reduce_axis((0, n), name="k")

    def element(i: object, j: object) -> object:
        value = select(k <= i, x[i, k], 0)  # type: ignore[operator]
        return sum(cast(value, dtypes.int32) * cast(w[k, j], dtypes.int32), (k,))

    y = compute((n, n), element, name="y")
    rng = np.random.default_rng(2)
    data = {name: rng.integers(-128, 128, (n, n)).astype(np.int8) for name in "xw"}
    wanted = np.tril(data["x"]).astype(np.int64) @ data["w"].astype(np.int64)
    try:
        found = run(Program("p", (x, w), (y,)), data)
    except CompileError as error:
        assert error.code == "WEFT-E1030"
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("rows", "columns"), [(20, 20), (33, 40), (4, 39), (1, 1)])
@pytest.mark.parametrize("first", [0, 3])
def test_a_part_of_the_sums(rows: int, columns: int, first: int) -> None:
    """What is added has no more elements than the results, the sums have."""
    x, w, c = (
        placeholder(shape, dtypes.int8, name=name)
        for name, shape in (("x", (36, 9)), ("w", (9, 43)), ("c", (rows, columns)))
    )
    k = reduce_axis((0, 9), name="k")
    sums = compute(
        (36, 43),
        lambda i, j: sum(cast(x[i, k], dtypes.int32) * cast(w[k, j], dtypes.int32), (k,)),
        name="sums",
    )
    y = compute(
        (rows, columns),
        lambda i, j: sums[i + first, j] + (cast(c[i, j], dtypes.int32) << 2),
        name="y",
    )
    rng = np.random.default_rng(rows)
    data = {
        name: rng.integers(-128, 128, shape).astype(np.int8)
        for name, shape in (("x", (36, 9)), ("w", (9, 43)), ("c", (rows, columns)))
    }
    wide = {name: array.astype(np.int32) for name, array in data.items()}
    part = (wide["x"] @ wide["w"])[first : first + rows, :columns]
    found = run(Program("p", (x, w, c), (y,)), data)
    np.testing.assert_array_equal(found, part + (wide["c"] << 2))
