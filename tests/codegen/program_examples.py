"""Small host programs for the tests of this room, with kernels that compute on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.codegen import loop_ir
from weft.codegen.loop_ir import Block, Kernel
from weft.codegen.program import Arena, Buffer, Constant, Input, Launch, Output, Program
from weft.dtypes import DType, float32
from weft.frontend.scalar_expr import Expr, Literal, Var, literal

n = Var("n")


def formal(name: str, *shape: Expr, dtype: DType = float32, writable: bool = False, **more):
    return loop_ir.Buffer(name, dtype, shape, (literal(1),) * len(shape), writable=writable, **more)


def chain(size: Expr = n) -> Program:
    """y = (x + bias) * 2 through one arena buffer; one size, ``n`` or a constant."""
    parameters = () if isinstance(size, Literal) else ("n",)
    x = Buffer("x", float32, (size,), Input(0))
    y = Buffer("y", float32, (size,), Output(0))
    bias = Buffer("bias", float32, (size,), Constant("b"))
    t = Buffer("t", float32, (size,), Arena(literal(0)))
    add = Kernel(
        "add",
        parameters,
        (formal("a", size), formal("b", size), formal("c", size, writable=True)),
        Block(()),
    )
    double = Kernel(
        "double", parameters, (formal("a", size), formal("b", size, writable=True)), Block(())
    )
    return Program(
        "chain",
        parameters,
        (x,),
        (y,),
        (bias,),
        (x, y, bias, t),
        (size * 4 + 63) // 64 * 64,
        (Launch("add", ("x", "bias", "t")), Launch("double", ("t", "y"))),
        (add, double),
    )


def run_chain_kernel(
    kernel: Kernel, arrays: Sequence[np.ndarray], parameters: Mapping[str, int]
) -> tuple[int, int, int] | None:
    """NumPy's version of the kernels above; ``double`` fails its check on a negative number."""
    match kernel.name:
        case "add":
            np.add(arrays[0], arrays[1], out=arrays[2])
        case "double":
            np.multiply(arrays[0], 2, out=arrays[1])
            if (arrays[0] < 0).any():
                return (1, int(np.argmax(arrays[0] < 0)), 0)
    return None
