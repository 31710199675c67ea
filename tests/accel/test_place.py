"""Where tensors lie, and other constants in their places."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.accel.targets import target
from weft.accel.place import Offloaded
from weft.ir.build import compute, maximum, minimum, placeholder, reduce_axis
from weft.ir.build import sum as sum_over
from weft.ir.dtypes import i8, i32
from weft.ir.errors import StreamError
from weft.ir.scalar_expr import cast, literal
from weft.ir.tensor_expr import Program
from weft.offload.offload import offload
from weft.offload.simulator import simulate
from weft.polyhedral.from_tensor_expr import lower

M, N, K = 7, 33, 20
Arrays = dict[str, np.ndarray]


def made(constants: Arrays, wide: bool = False) -> Offloaded:
    x, w = placeholder((M, K), i8, name="x"), placeholder((N, K), i8, name="w")
    bias = placeholder((N,), i32, name="bias")
    k = reduce_axis((0, K), name="k")
    sums = compute(
        (M, N), lambda i, j: sum_over(cast(x[i, k], i32) * cast(w[j, k], i32), (k,)), name="s"
    )
    low, high = literal(-128, i32), literal(127, i32)
    y = compute(
        (M, N),
        lambda i, j: sums[i, j] + bias[j] if wide else cast(
            maximum(minimum((sums[i, j] + bias[j]) >> 7, high), low), i8),
        name="y",
    )  # fmt: skip
    return offload(lower(Program("dense", (x, w, bias), (y,)), "dense"), target(), constants)


def data(seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    return {
        "x": random.integers(-128, 128, (M, K)).astype(np.int8),
        "w": random.integers(-128, 128, (N, K)).astype(np.int8),
        "bias": random.integers(-(2**20), 2**20, (N,)).astype(np.int32),
    }


def results(found: Offloaded, given: Arrays) -> np.ndarray:
    image = found.artifact.filled(found.prepared(given))
    return found.results(simulate(found.artifact.stream, image, semantics=target().semantics))


def expected(given: Arrays, wide: bool = False) -> np.ndarray:
    sums = given["x"].astype(np.int32) @ given["w"].astype(np.int32).T + given["bias"]
    return sums if wide else np.clip(sums >> 7, -128, 127).astype(np.int8)


@pytest.mark.parametrize("names", ((), ("w",), ("w", "bias"), ("x", "w", "bias")))
def test_other_constants(names: tuple[str, ...]) -> None:
    one, other = data(1), data(2)
    first = made({name: one[name] for name in names})
    again = first.with_constants({name: other[name] for name in names})
    np.testing.assert_array_equal(results(first, one), expected(one))
    np.testing.assert_array_equal(results(again, other), expected(other))
    np.testing.assert_array_equal(results(first, one), expected(one))  # it is as it was
    direct = made({name: other[name] for name in names})
    np.testing.assert_array_equal(direct.artifact.image, again.artifact.image)
    assert direct.artifact.stream == again.artifact.stream == first.artifact.stream
    inputs = {t.name for t in first.artifact.tensors if t.role == "input"}
    assert len(inputs) == 3 - len(names)


def test_wide_results_in_parts() -> None:
    """int32 leaves the machine eight bits at a time."""
    given = data(3)
    found = made({"w": given["w"]}, wide=True)
    assert found.planes == 4 and results(found, given).dtype == np.int32
    np.testing.assert_array_equal(results(found, given), expected(given, wide=True))


def test_tensors_lie_side_by_side() -> None:
    given = data(4)
    found = made({"w": given["w"]})
    places = sorted((t.address, t.address + t.nbytes) for t in found.artifact.tensors)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
    assert places[-1][1] <= len(found.artifact.image)
    assert {t.role for t in found.artifact.tensors} == {"input", "constant", "output"}


def test_bytes_that_are_moved() -> None:
    """At least each tensor once, blocks filled up."""
    found = made({})
    assert found.bytes >= sum(t.nbytes for t in found.artifact.tensors)


def test_inputs_of_another_shape() -> None:
    found = made({})
    with pytest.raises(StreamError, match="WEFT-E1020"):
        found.artifact.filled(found.prepared({**data(1), "x": np.zeros((M, K + 1), np.int8)}))
