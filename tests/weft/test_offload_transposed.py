"""Transposed convolutions on an accelerator, with what is added to them: another tensor, which lies
as the results do, while sums come phase by phase, and more of them than there are results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.accel.targets import SMALL, target
from weft.accel.execution_order import ORDERS
from weft.accel.machines.vta import Config, vta
from weft.frontend.operators.conv_transpose import conv_transpose
from weft.ir.build import compute, maximum, minimum, placeholder
from weft.ir.dtypes import i8, i32
from weft.ir.scalar_expr import Expr, cast, literal
from weft.ir.tensor_expr import Program, Tensor, constant_size
from weft.offload.accelerated import Accelerated
from weft.offload.offload import offload
from weft.offload.simulator import check_stream, simulate
from weft.polyhedral.from_tensor_expr import lower

Arrays = dict[str, np.ndarray]
# Channels, filters, groups, sizes, kernel, strides, pads before and after, output padding.
CASES = (
    (16, 16, 1, (5, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),  # twice as large
    (5, 17, 1, (4, 3), (4, 1), (3, 1), (3, 0, 2, 0), (0, 0)),  # phases without a tap
    (16, 8, 1, (3, 5), (2, 2), (2, 3), (0, 0, 0, 1), (1, 2)),  # gaps that no tap reaches
    (9, 16, 1, (1, 1), (5, 3), (3, 2), (1, 0, 2, 2), (0, 1)),  # of one element
    (20, 20, 20, (6, 3), (3, 2), (2, 2), (1, 0, 0, 1), (0, 0)),  # depthwise
    (12, 6, 3, (5, 4), (3, 4), (1, 3), (0, 1, 2, 0), (0, 2)),  # groups of four and two
    (8, 16, 1, (11,), (4,), (2,), (1, 2), (1,)),
)


def wanted(case: Any, x: np.ndarray, w: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Every element of x spread over the results, and what lies outside cut off."""
    channels, filters, groups, sizes, kernel, strides, pads, extra = case
    rank, inner, outer = len(sizes), channels // groups, filters // groups
    ends = [s * (n - 1) + k + e for s, n, k, e in zip(strides, sizes, kernel, extra, strict=True)]
    sums = np.zeros((x.shape[0], filters, *ends), np.int64)
    for c in range(channels):
        g = c // inner
        for tap in np.ndindex(*kernel):
            spread = tuple(
                slice(t, t + s * n, s) for t, s, n in zip(tap, strides, sizes, strict=True)
            )
            for k in range(outer):
                own = x[:, c].astype(np.int64) * int(w[(c, k, *tap)])
                at = (slice(None), g * outer + k, *spread)
                padded = np.zeros(sums[at].shape, np.int64)
                padded[tuple(slice(0, n) for n in own.shape)] = own
                sums[at] += padded
    cut = tuple(slice(b, e - a) for b, e, a in zip(pads[:rank], ends, pads[rank:], strict=True))
    exact = sums[(slice(None), slice(None), *cut)]
    return np.clip((exact >> 5) + (other.astype(np.int64) << 1), -100, 127).astype(np.int8)


def added(case: Any) -> tuple[tuple[Tensor, ...], Tensor, Arrays]:
    """Inputs, result and data of ((sums >> 5) + (other << 1)), clipped."""
    channels, filters, groups, sizes, kernel, strides, pads, extra = case
    x = placeholder((2, channels, *sizes), i8, name="x")
    w = placeholder((channels, filters // groups, *kernel), i8, name="w")
    wide = [compute(t.shape, lambda *i, t=t: cast(t[i], i32), name=f"{t.name}_wide")
            for t in (x, w)]  # fmt: skip
    sums = conv_transpose(*wide, strides=strides, pads=pads, output_padding=extra, group=groups)
    other = placeholder(sums.shape, i8, name="other")

    def body(*i: Any) -> Expr:
        value = (sums[i] >> 5) + (cast(other[i], i32) << 1)
        return cast(minimum(maximum(value, literal(-100, i32)), literal(127, i32)), i8)

    numbers = np.random.default_rng(len(sizes))
    data = {}
    for tensor in (x, w, other):
        shape = [constant_size(n) or 0 for n in tensor.shape]
        data[tensor.name] = numbers.integers(-128, 128, shape).astype(np.int8)
    return (x, w, other), compute(sums.shape, body, name="y"), data


@pytest.mark.long
@pytest.mark.parametrize("config", (None, SMALL), ids=("default", "small"))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_another_tensor_is_added(case: Any, config: Config | None) -> None:
    inputs, result, data = added(case)
    machine = target(config)
    made = offload(lower(Program("p", inputs, (result,)), "p"), machine, {"w": data["w"]})
    check_stream(made.artifact, machine.semantics)
    image = made.artifact.filled(made.prepared(data))
    for order in ORDERS:
        found = made.results(
            simulate(made.artifact.stream, image, order=order, semantics=machine.semantics)
        )
        np.testing.assert_array_equal(found, wanted(case, **data))


@pytest.mark.long
def test_in_a_graph() -> None:
    """All of it is one part of the accelerator."""
    _, result, data = added(CASES[0])
    made = weft.compile(result, target=vta())
    assert isinstance(made, Accelerated) and len(made.offloads) == 1
    (found,) = made.run(data).values()
    np.testing.assert_array_equal(found, wanted(CASES[0], **data))
