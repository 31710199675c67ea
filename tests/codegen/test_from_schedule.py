"""Kernels from schedules compute what the tensor interpreter says: in the initial order and in the
scheduler's, interpreted and compiled, before and after the kernel's own passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen import programs as p
from tests.codegen.kernel_runner import Compiled, assert_same
from tests.polyhedral.transform.integer_programs import read
from tests.properties import executions
from weft.codegen.from_schedule import build_kernel
from weft.codegen.llvm.target import host_target
from weft.codegen.machines.host import host_machine
from weft.codegen.optimise_kernel import optimise_kernel
from weft.driver.cluster_code import nests
from weft.frontend.operators.registry import instantiate
from weft.ir.loop_interpreter import interpret as interpret_kernel
from weft.ir.loop_ir import Kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.machine import Machine
from weft.ir.tensor_expr import Program
from weft.ir.tensor_interpreter import interpret
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.double_buffer import double_buffer
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.skew import skew
from weft.polyhedral.transform.tile import tile

PROGRAMS: dict[str, Callable[[], Program]] = {
    "gemm 1": lambda: p.gemm(1, 1, 1),
    "gemm small": lambda: p.gemm(5, 7, 3),
    "gemm tiles and rest": lambda: p.gemm(29, 67, 5),
    "gemm whole tiles": lambda: p.gemm(28, 64, 4),
    "gemm without reduction": lambda: p.gemm(3, 4, 0),
    "softmax": lambda: p.softmax(3, 37),
    "conv": lambda: p.conv(7),
    "conv stride": lambda: p.conv(9, stride=2),
    "depthwise": lambda: p.conv(8, group=4),
    "argmax": lambda: p.argmax(5, 19),
    "gather": lambda: p.gather(6),
    "shifted": lambda: p.shifted(40),
    "triangle": lambda: p.triangle(21),
    "running sum": lambda: p.running_sum(5, 18),
    "histogram": lambda: p.histogram(20, 2),
    "transpose": lambda: p.transpose_add(17, 19),
    "pool": lambda: p.pool(9, 2),
    "pool overlapping": lambda: p.pool(7, 1),
    "half": lambda: p.half(35),
    "layer norm": lambda: instantiate(
        "layer_norm", (p.tensor("x", 4, 33), p.tensor("g", 33), p.tensor("b", 33))
    ),
}


def run(kernel: Kernel, scop: object, arrays: list[np.ndarray], compiled: bool) -> list[np.ndarray]:
    parameters, buffers = p.memory_of(scop, kernel, arrays)  # type: ignore[arg-type]
    if compiled:
        buffers, status = Compiled(kernel, host_target(), contract=True)(parameters, buffers)
    else:
        status = interpret_kernel(kernel, parameters, buffers)
    assert status.code == 0
    return p.outputs_of(scop, buffers)  # type: ignore[arg-type]


def compare(program: Program, machine: Machine | None, sizes: dict[str, int] | None = None) -> None:
    arrays = p.arrays_for(program, sizes=sizes)
    expected = interpret(program, arrays)
    scop, kernel = p.kernel_of(program, machine)
    small = sum(a.size for a in expected) < 400
    for version in (kernel, optimise_kernel(kernel)):
        verify_kernel(version)
        for compiled in (True, False) if small else (True,):
            for value, reference in zip(
                run(version, scop, arrays, compiled), expected, strict=True
            ):
                exact = reference.dtype.kind != "f"
                assert_close(value, reference.ravel(), exact)


def assert_close(value: np.ndarray, reference: np.ndarray, exact: bool) -> None:
    if exact:
        assert_same(value, reference, 0.0)
    else:
        np.testing.assert_allclose(value, reference, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_the_initial_order(name: str) -> None:
    compare(PROGRAMS[name](), None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_the_order_of_the_scheduler(name: str) -> None:
    compare(PROGRAMS[name](), host_machine())


@pytest.mark.long
@pytest.mark.parametrize("m, n, k", [(0, 3, 2), (1, 1, 0), (13, 32, 4), (30, 70, 3), (14, 65, 2)])
def test_symbolic_sizes(m: int, n: int, k: int) -> None:
    from weft.ir import build as w

    program = p.gemm(w.var("m"), w.var("n"), w.var("k"))
    compare(program, host_machine(), {"m": m, "n": n, "k": k})


def test_what_no_instance_touches_is_no_buffer() -> None:
    """A nest without turns reads ``A`` before anything is written there: it takes no ``A``."""
    scop = read(
        """
        for i in range(3, 3):
            B[i] = A[i]
        for j in range(N):
            A[j] = 7
            B[j] = A[j]
        """, A="tmp N", B="io N",
    )  # fmt: skip
    first, second = (build_kernel(n.scop, n.tree, "k") for n in nests(initial(scop), "k"))
    assert [b.name for b in first.buffers] == ["B"]
    assert [b.name for b in second.buffers] == ["A", "B"]
    values = np.zeros(5, np.int64)
    made = executions.compiled(initial(scop))
    found = executions.run_native(made, scop, {"N": 5}, {"B": values}, at_end=True)
    assert (found["B"] == 7).all()


@pytest.mark.parametrize("size", [1, 4, 9, 13])
def test_a_buffer_lives_as_long_as_a_copy_that_runs_ahead(size: int) -> None:
    """Within a skewed tile, the tile's number is a function of both loops, and follows one."""
    scop = read("for i in range(N):\n B[i] = A[i] * 2", A="in N", B="io N")
    tiled = skew(tile(initial(scop), {"i": 4}), "i_p", "i_t")
    ahead = double_buffer(cache_read(tiled, "A", "S0", "i_p"), "A_tile")
    kernel = build_kernel(ahead.scop, ahead.tree, "k")
    verify_kernel(kernel)
    a, b = np.arange(size) + 5, np.zeros(size, np.int64)
    status = interpret_kernel(kernel, {"N": size}, {"A": a, "B": b})
    assert not status.code
    assert (b == 2 * a).all()
