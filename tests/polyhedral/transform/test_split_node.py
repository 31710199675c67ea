"""Reads in statements of their own: the same values, in vectors where only anti dependences were in
the way, for all sizes around strips and vectors."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, no-untyped-call"

from typing import Any

import pytest

import weft
from tests.polyhedral.transform.in_place import as_python_does, name_of
from weft.driver.schedule_value import Schedule
from weft.ir.errors import IllegalScheduleError


@weft.kernel
def ahead(x: weft.f32["N"]):
    for i in range(N - 3):
        x[i] = 0.5 * x[i] + 0.25 * x[i + 3]


@weft.kernel
def upwind(steps: int, x: weft.f64["N"]):
    for _ in range(steps):
        for i in range(N - 1, 0, -1):
            x[i] -= 0.5 * (x[i] - x[i - 1])


@weft.kernel
def two_arrays(x: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N - 2):
        x[i] = y[i + 1] * 0.5 + y[i + 2]
        y[i] = x[i + 1] * 0.5 + y[i]


@weft.kernel
def two_reads_of_rows(A: weft.f64["M", "N"]):
    for i in range(M - 1):
        for j in range(N - 2):
            A[i, j] = 0.25 * (A[i, j + 1] + A[i, j + 2]) + 0.5 * A[i + 1, j]


@weft.kernel
def every_other(x: weft.f64["N"]):
    for i in range(0, N - 4, 2):
        x[i] = x[i + 2] * 0.5 + x[i + 4]


@weft.kernel
def of_strides(x: weft.i64["N"], y: weft.i64["N"]):
    for i in range(N // 2):
        y[i] = y[i + 1] + x[2 * i] if i + 1 < N else x[2 * i]


@weft.kernel
def both_ways(x: weft.f64["N"]):
    for i in range(1, N - 1):
        x[i] = 0.25 * (x[i - 1] + x[i + 1]) + 0.5 * x[i]


@weft.kernel
def by_data(at: weft.i32["N"], x: weft.f64["N"]):
    for i in range(N):
        x[i] = 0.5 * x[at[i]] + 1.0


@weft.kernel
def old_and_new(x: weft.f64["N"]):
    """Element N // 2 is read before it is overwritten, and after."""
    for i in range(N):
        x[i] = 0.5 * x[N // 2] + 0.25 * x[i]


VECTORS = (ahead, upwind, two_arrays, two_reads_of_rows, every_other)
OTHERS = (of_strides, both_ways, by_data, old_and_new)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [*VECTORS, *OTHERS], ids=name_of)
def test_what_is_overwritten_has_been_read(kernel: Any, threads: int) -> None:
    as_python_does(kernel, threads)


@pytest.mark.parametrize("kernel", VECTORS, ids=name_of)
def test_loops_that_overwrite_what_they_read_are_vectors(kernel: Any) -> None:
    options = weft.Options(threads=1, cache=False, target="x86-64-v4")  # strides fill its vectors
    made = weft.schedule(kernel, options=options).automatic()
    assert "split_node" in str(made) and "vector" in made.tree_text()
    again = Schedule.from_script(str(made), weft.schedule(kernel, options=options))
    assert again.tree_text() == made.tree_text()
    plan = weft.compile(kernel, options=options).plan
    names = [d.name for d in plan.decisions if ".split_" in d.name]
    assert names
    no = weft.compile(kernel, plan=dict.fromkeys(names, "no"), options=options)
    assert "split_node(" not in no.explain(details=True).partition("decisions")[0]


@pytest.mark.parametrize("kernel", [both_ways, by_data, old_and_new], ids=name_of)
def test_loops_that_read_what_they_wrote_are_left_alone(kernel: Any) -> None:
    assert "split_node" not in str(weft.schedule(kernel).automatic())


def test_what_is_read_beforehand_needs_one_strip_of_memory() -> None:
    made = weft.schedule(ahead).automatic()
    (temporary,) = (t for t in made.scheduled.scop.tensors if t.role == "temp")
    sizes = temporary.shape[temporary.contracted :]
    assert [type(n).__name__ for n in sizes] == ["Literal"]


@pytest.mark.parametrize("kernel, operand, why", [
    (ahead, 7, "it has 2 reads"), (by_data, 1, "data or a condition"),
])  # fmt: skip
def test_what_cannot_be_read_beforehand_is_refused(kernel: Any, operand: int, why: str) -> None:
    with pytest.raises(IllegalScheduleError, match=why) as error:
        weft.schedule(kernel).split_node("S0", operand)
    assert error.value.code == "WEFT-E0465"
    with pytest.raises(IllegalScheduleError) as error:
        weft.schedule(kernel).split_node("S9", 0)
    assert error.value.code == "WEFT-E0451"
