"""Integer convolutions with bias, shift and clip, as accelerators compute them."""

from __future__ import annotations

from weft.accel.mapping import Mapping
from weft.frontend.operators.conv import convolve, kernel_window
from weft.ir import dtypes
from weft.ir.accelerator import Accelerator
from weft.ir.build import compute, maximum, minimum, placeholder
from weft.ir.scalar_expr import cast, literal
from weft.ir.scop import Scop
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, ways
from weft.polyhedral.from_tensor_expr import lower


def convolution(
    channels: int, size: int, outputs: int, kernel: int, stride: int = 1, pad: int = 0
) -> Scop:
    """Of images of ``size`` by ``size``."""
    x = placeholder((1, channels, size, size), dtypes.int8, name="x")
    w = placeholder((outputs, channels, kernel, kernel), dtypes.int8, name="w")
    bias = placeholder((outputs,), dtypes.int32, name="bias")
    window = kernel_window(x, w, (stride, stride), (pad,) * 4, None)
    sums = convolve(x, w, window, 1)

    def finished(*i):  # type: ignore[no-untyped-def]
        shifted = (sums[i] + bias[i[1]]) >> 8
        low, high = literal(0, dtypes.int32), literal(127, dtypes.int32)
        return cast(minimum(maximum(shifted, low), high), dtypes.int8)

    y = compute(sums.shape, finished, name="y")
    return lower(Program("convolution", (x, w, bias), (y,)), "convolution")


def on(machine: Accelerator, scop: Scop) -> tuple[Target, Mapping]:
    target = Target.of(machine)
    return target, ways(scop, target)[0]
