"""Two vectors at a time: each element is what it is alone, whatever the length and the operands."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, check
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target
from weft.ir import dtypes
from weft.ir.build import exp, monoid
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Allocate, Block, Buffer, For, Kernel, Stmt, Store, Update
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

F32, F64 = dtypes.float32, dtypes.float64
v, n = Var("v"), Var("n")
SIZES = (0, 1, 15, 16, 31, 32, 33, 47, 64, 131)


def kernel(body: Stmt, dtype: DType = F32) -> Kernel:
    """Over x and y of n + 2 elements, and z of one."""
    sizes = (n + 2,), (literal(1),)
    rows = (Buffer("x", dtype, *sizes, writable=False), Buffer("y", dtype, *sizes))
    one = Buffer("z", dtype, (literal(1),), (literal(1),))
    loop = For("v", literal(0), n, "vector", body)
    return Kernel("k", ("n",), (*rows, one), loop)


def x(at: Expr = v, dtype: DType = F32) -> Expr:
    return Load("x", (at,), dtype)


def arrays(size: int, dtype: type) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    values: np.ndarray = rng.normal(size=size + 2).astype(dtype)
    values[:: max(1, size // 3)] = [np.nan, -np.inf, 200.0, 0.0][size % 4]
    return {"x": values, "y": np.zeros(size + 2, dtype), "z": np.zeros(1, dtype)}


def wide(made: Kernel) -> bool:
    """Whether vectors of twice the processor's lanes come about."""
    lanes = 2 * host_target().vector_bytes // made.buffers[0].dtype.itemsize
    type_ = "float" if made.buffers[0].dtype == F32 else "double"
    return f"store <{lanes} x {type_}>" in emit_kernel(made, host_target()).text


@pytest.mark.parametrize("dtype", [F32, F64])
def test_exponentials_and_their_sum(dtype: DType) -> None:
    power = exp(x(dtype=dtype) - Load("z", (literal(0),), dtype))
    total = Update((("s", ()),), monoid("add", dtype), (power,))
    most = Update((("m", ()),), monoid("max", dtype), (x(dtype=dtype),))
    loop = kernel(Block((Store("y", (v,), power), total, most)), dtype)
    s, m = (Buffer(name, dtype, (), (), "register") for name in "sm")
    start = (Store("s", (), literal(0, dtype)), Store("m", (), literal(-np.inf, dtype)))
    end = Store("z", (literal(0),), apply("add", Load("s", (), dtype), Load("m", (), dtype)))
    body = Allocate(s, Allocate(m, Block((*start, loop.body, end))))
    made = Kernel("k", loop.parameters, loop.buffers, body)
    assert wide(made)
    for size in SIZES:
        given = arrays(size, dtype.numpy.type)
        with np.errstate(all="ignore"):
            expected = np.exp(given["x"][:size].astype(np.float64))
            found = Compiled(made)({"n": size}, given)[0]
            sums = expected.sum() + given["x"][:size].max(initial=-np.inf)
        rtol = 1e-6 if dtype == F32 else 1e-14
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(found["y"][:size], expected.astype(dtype.numpy), rtol=rtol)
        np.testing.assert_array_equal(found["y"][size:], 0)
        np.testing.assert_allclose(found["z"][0], dtype.numpy.type(sums), rtol=100 * rtol)


@pytest.mark.parametrize(
    "value",
    [
        exp(x(v * 2 // 2 + 1)) * x(literal(1)), exp(x(n - 1 - v)), exp(x(v // 2)),
        exp(x()) * x(v + 1) * x(v + 2), apply("tanh", x()) * apply("erf", x()),
    ],
)  # fmt: skip
def test_other_ways_to_load(value: Expr) -> None:
    for size in (0, 33, 131):
        check(kernel(Store("y", (v,), value)), {"n": size}, arrays(size, np.float32), rtol=2e-6)


def test_cheap_turns_go_one_by_one() -> None:
    assert not wide(kernel(Store("y", (v,), x() * 2)))
    assert not wide(kernel(Store("y", (v,), exp(x(v // 2)))))
