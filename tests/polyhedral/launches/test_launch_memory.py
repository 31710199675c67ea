"""Shared memory is filled before it is read and nobody leaves it: accepted and refused by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

import weft
from tests.polyhedral.proof.test_gpu import (
    ACCEPTED,
    SHARED,
    ZERO,
    A,
    b,
    block,
    c,
    d,
    grid,
    k,
    kernel,
    load,
    n,
    reversed_row,
    store,
)
from weft.api import graph_of
from weft.benchmarks.gpu.rows import product
from weft.driver.compiler import lower_graph
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_ir import Allocate, Barrier, Block, Buffer, For, If, Kernel, Single, Stmt
from weft.ir.scalar_expr import Expr, literal
from weft.polyhedral.launches import launch_memory
from weft.polyhedral.launches.launch_memory import LaunchMemory, check_launch_memory

ALL = literal(256)


def checked(kernel: Kernel, least: int = 257) -> int:
    """The check of ``kernel``, for arrays of so many rows and columns at least."""
    return check_launch_memory(kernel, [n >= least]).asked


def handed_on(
    written: Expr = ALL, read: Expr = ALL, *, ahead: int = 0, guard: Expr | None = None
) -> Kernel:
    """The first ``written`` threads put an element into shared memory, of which ``read`` are read,
    from ``ahead`` on, after a barrier."""
    fill: Stmt = store("s", (c,), load("A", b, c))
    fill = fill if guard is None else If(guard, fill)
    parts = (
        block("c", fill, written),
        Barrier(),
        block("d", store("B", (b, d), load("s", d + ahead)), read),
    )
    return kernel(grid(Allocate(SHARED, Block(parts))))


@pytest.mark.parametrize("name", ACCEPTED)
def test_kernels_that_read_what_they_wrote_are_accepted(name: str) -> None:
    assert checked(kernel(ACCEPTED[name])) >= 0


def test_a_thread_needs_no_barrier_for_its_own() -> None:
    assert checked(kernel(ACCEPTED["a thread keeps its own"])) == 1


@pytest.mark.parametrize("written", [1, 31, 256])
def test_all_that_is_read_may_be_all_that_is_written(written: int) -> None:
    assert checked(handed_on(literal(written), literal(written))) == 1


REFUSED = {
    "one too many": (handed_on(literal(31), literal(32)), "s[31], and no write of it is before"),
    "nobody writes": (handed_on(ZERO, literal(1)), "s[0], and no write of it is before"),
    "no barrier": (kernel(reversed_row(barrier=False)), "and no write of it is before"),
    "a guard": (handed_on(guard=c < n), "and no write of it is before"),
    "read beyond": (handed_on(ahead=1), "touches s[256]"),
    "written beyond": (handed_on(literal(257), literal(1)), "touches s[256]"),
    "read in front": (handed_on(ahead=-1), "touches s[-1]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_element(name: str) -> None:
    made, why = REFUSED[name]
    with pytest.raises(IllegalScheduleError, match="WEFT-E0427") as caught:
        checked(made)
    assert why in caught.value.why and " by thread " in caught.value.why


def test_sizes_of_the_context_count() -> None:
    """The last element of a row is outside of an empty one, which no caller has."""
    last = kernel(grid(Single(store("V", (n - 2,), literal(0.0, A.dtype)))))
    assert checked(last, 2) == 0
    with pytest.raises(IllegalScheduleError, match="WEFT-E0427"):
        checked(last, 1)


def test_of_indices_by_data_nothing_is_claimed() -> None:
    guard = load("A", b, c) > literal(0.0, A.dtype)
    found = check_launch_memory(handed_on(literal(1), guard=guard), [n >= 257])
    why = (("s", "who touches what of it depends on data"),)
    assert found == LaunchMemory(asked=0, unclaimed=why)


def test_a_question_that_is_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_memory, "_FILLED", 1)
    found = check_launch_memory(handed_on(), [n >= 257])
    assert found == LaunchMemory(asked=0, unclaimed=(("s", "the question is too large"),))


def every_second(read: Expr) -> Kernel:
    """Every second element is written, and ``read`` of them."""
    fill = block("c", store("s", (c * 2,), load("A", b, c)), literal(128))
    use = block("d", store("B", (b, d), load("s", read)), literal(128))
    return kernel(grid(Allocate(SHARED, Block((fill, Barrier(), use)))))


def test_what_is_read_need_not_fill_a_box() -> None:
    assert checked(every_second(d * 2)) == 1
    with pytest.raises(IllegalScheduleError, match="WEFT-E0427") as caught:
        checked(every_second(d * 2 + d // 127))
    assert "reads s[255], and no write of it is before" in caught.value.why


def products() -> Iterator[ParameterSet]:
    for layout in ("NN", "NT", "TN", "TT"):
        for size in ((70, 45, 50), (512, 512, 512), (4096, 4096, 4096)):
            marks = [] if layout[0] == "T" and size[0] < 4096 else [pytest.mark.long]
            yield pytest.param(layout, size, marks=marks)


@pytest.mark.parametrize(("layout", "size"), [*products()])
def test_products_by_tensor_cores_are_claimed(layout: str, size: tuple[int, int, int]) -> None:
    options = weft.Options(target="sm_90a", workers=0)
    (code,) = lower_graph(graph_of(product(size, "bfloat16", layout).build()), options).distinct
    assert [kernel.unclaimed for kernel in code.kernels] == [()]


def test_explain_says_what_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_memory, "_FILLED", 1)
    options = weft.Options(target="sm_90a", workers=0, cache=False)
    found = weft.compile(product((70, 45, 50), "bfloat16").build(), options=options).explain()
    told = [line for line in found.splitlines() if line.startswith("  not claimed: ")]
    why = "slots is filled before it is read, because the question is too large"
    assert len(told) == 2 and all(line.endswith(why) for line in told)


def test_loops_of_the_host_bound_what_is_in_them() -> None:
    row = For("k", ZERO, n, "serial", grid(Single(store("V", (k,), literal(0.0, A.dtype)))))
    assert checked(kernel(row), 0) == 0
    beyond = For("k", ZERO, n + 1, "serial", grid(Single(store("V", (k,), literal(0.0, A.dtype)))))
    with pytest.raises(IllegalScheduleError, match="WEFT-E0427"):
        checked(kernel(beyond), 1)


def test_an_element_without_indices_is_inside() -> None:
    one = Buffer("one", A.dtype, (), ())
    assert checked(kernel(grid(Single(store("one", (), load("A", b, b)))), A, one)) == 0
