"""``automatic()`` of programs of all kinds: a script that rebuilds what ``compile`` runs."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import onnx
import pytest

import weft
from tests.weft.scheduled_kernels import smooth
from weft.benchmarks.polybench.run import SUITE
from weft.driver.schedule_value import Schedule
from weft.ir.dtypes import as_dtype
from weft.ir.errors import IllegalScheduleError

KERNELS = ("gemm", "symm", "2mm", "deriche", "gemver", "atax", "durbin", "trmm", "jacobi-2d",
           "covariance", "doitgen", "trisolv", "floyd-warshall", "seidel-2d")  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("name", "threads"), [*zip(KERNELS, cycle((1, 2)), strict=False)])
def test_its_script_leads_to_the_very_code_that_compile_makes(name: str, threads: int) -> None:
    kernel = SUITE[name].make(as_dtype(SUITE[name].dtype))
    options = weft.Options(threads=threads, cache=False)
    mine = weft.kernel(kernel.function, options=options)
    found = mine.schedule().automatic()
    assert found.tree_text() == mine.lower()["schedule"]
    again = Schedule.from_script(str(found), mine)
    assert again == found and again.tree_text() == found.tree_text()
    assert len(str(found).splitlines()) <= 60
    made = mine.compile(again)
    assert made.source("llvm") == mine.compile().source("llvm")


@pytest.mark.long
@pytest.mark.parametrize("target", ["znver5", "sapphirerapids", "cortex-x2"])
def test_scripts_name_the_instructions_of_the_target(target: str) -> None:
    a, b = (weft.placeholder((64, 64), "int8", name=n) for n in "ab")
    k = weft.reduce_axis((0, 64), name="k")
    wide = weft.compute(
        (64, 64),
        lambda i, j: weft.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), k),
        name="wide",
    )
    options = weft.Options(threads=1, cache=False, target=target)
    start = weft.schedule(wide, options=options)
    found = start.automatic()
    assert "instruction=" in str(found)
    again = Schedule.from_script(str(found), start)
    assert again.scheduled.tree == found.scheduled.tree


@pytest.mark.long
def test_it_computes_what_the_program_does() -> None:
    gemm = SUITE["gemm"]
    kernel = gemm.make(as_dtype("float64"))
    arguments = gemm.inputs(np.dtype("float64"), NI=33, NJ=31, NK=40)
    wanted = gemm.oracle(**{name: np.copy(value) for name, value in arguments.items()})
    kernel.compile(kernel.schedule().automatic())(*arguments.values())
    for name, value in wanted.items():
        np.testing.assert_allclose(arguments[name], value, rtol=1e-12)


def test_clusters_are_planned_for_as_many_threads() -> None:
    x, r = weft.placeholder((4096, 512), name="x"), weft.reduce_axis((0, 512), name="r")
    rows = weft.compute((4096,), lambda i: weft.sum(x[i, r], r), name="rows")
    for threads in (1, 2):
        options = weft.Options(threads=threads, cache=False)
        found = weft.schedule(rows, options=options).automatic()
        assert found.tree_text() == weft.lower(rows, options=options).as_text("schedule")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (("cache_read", "B", "S9", ""), "E0451: the schedule has no statement 'S9'"),
        (("cache_write", "C", "S9", ""), "E0451: the schedule has no statement 'S9'"),
        (("pack", "B", "S9", "", {0: 4}), "E0451: the schedule has no statement 'S9'"),
    ],
    ids=str,
)
def test_copies_outside_of_all_loops_for_statements_that_do_not_exist(
    step: tuple[str, *tuple[object, ...]], why: str
) -> None:
    found = smooth.schedule().why_not(*step)
    assert found is not None and found.splitlines()[0] == f"WEFT-{why}"


@pytest.mark.parametrize("order", [[0, 0], [1, 0], [], [-1]], ids=str)
def test_an_order_that_is_none(order: list[int]) -> None:
    with pytest.raises(IllegalScheduleError, match="E0464") as caught:
        smooth.schedule().contract("B", order=order)
    assert caught.value.why == f"the order {order} does not name each of its 1 dims once"


def test_equal_clusters_of_other_nodes_have_the_schedule_of_the_first() -> None:
    """Their statements come from other nodes, and only one of them is compiled."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        twice (float[8, 8] x) => (float[8, 8] y)
        { a = MatMul(x, x)
          b = Softmax(a)
          c = MatMul(b, b)
          y = Softmax(c) }""")
    options = weft.Options(threads=1, cache=False)
    made = {name: s.automatic() for name, s in weft.schedules(model, options=options).items()}
    again = weft.compile(model, options=options, schedule=made)
    assert again.source("llvm") == weft.compile(model, options=options).source("llvm")
