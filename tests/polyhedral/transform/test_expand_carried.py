"""Values that one turn of a loop leaves to the next: elements of their own, in vectors where
nothing else was in the way, for all sizes around strips and vectors."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, no-untyped-call"

from typing import Any

import pytest

import weft
from tests.polyhedral.transform.in_place import as_python_does, name_of
from weft.driver.schedule_value import Schedule
from weft.ir.errors import IllegalScheduleError


@weft.kernel
def smoothed(steps: int, x: weft.f32["N"]):
    for _ in range(steps):
        left = x[0] if N > 0 else 0.0
        for i in range(1, N - 1):
            here = x[i]
            x[i] = 0.25 * left + 0.5 * here + 0.25 * x[i + 1]
            left = here


@weft.kernel
def downwards(steps: int, x: weft.f64["N"]):
    for _ in range(steps):
        right = 1.5
        for i in range(N - 1, -1, -1):
            here = x[i] * 0.5
            x[i] = here + right
            right = here


@weft.kernel
def two_scalars(x: weft.f64["N"], y: weft.f64["N"]):
    a = 1.0
    b = 2.0
    for i in range(N):
        c = x[i]
        d = y[i]
        x[i] = 0.5 * (c + a) + b
        y[i] = 0.5 * d - a
        a = c
        b = d


@weft.kernel
def every_other(x: weft.f64["N"]):
    last = 0.5
    for i in range(0, N, 2):
        here = x[i]
        x[i] = here * 0.25 + last
        last = here


@weft.kernel
def recurrence(x: weft.f64["N"]):
    """What a turn leaves depends on what it was left."""
    last = 0.0
    for i in range(N):
        last = 0.5 * last + x[i]
        x[i] = last


@weft.kernel
def two_before(x: weft.f64["N"]):
    one = 0.0
    two = 0.0
    for i in range(N):
        here = x[i]
        x[i] = here + 0.5 * two
        two = one
        one = here


@weft.kernel
def now_and_then(x: weft.f64["N"]):
    last = 1.0
    for i in range(N):
        here = x[i]
        x[i] = here + last
        if i % 3 == 0:
            last = here


@weft.kernel
def read_behind(x: weft.f64["N"], y: weft.f64[1]):
    last = 1.0
    for i in range(N):
        here = x[i]
        x[i] = here - last
        last = here
    y[0] = last


@weft.kernel
def of_rows(steps: int, A: weft.f64["M", "N"]):
    for _ in range(steps):
        for j in range(M):
            left = 0.0
            for i in range(N):
                here = A[j, i]
                A[j, i] = 0.5 * (here + left)
                left = here


VECTORS = (smoothed, downwards, two_scalars, every_other)
OTHERS = (recurrence, two_before, now_and_then, read_behind, of_rows)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [*VECTORS, *OTHERS], ids=name_of)
def test_each_turn_reads_what_the_one_before_left(kernel: Any, threads: int) -> None:
    as_python_does(kernel, threads)


@pytest.mark.parametrize("kernel", VECTORS, ids=name_of)
def test_loops_that_only_keep_what_they_overwrite_are_vectors(kernel: Any) -> None:
    made = weft.schedule(kernel).automatic()
    assert "expand_carried" in str(made) and "vector" in made.tree_text()
    assert Schedule.from_script(str(made), kernel).tree_text() == made.tree_text()
    options = weft.Options(threads=1, cache=False)
    plan = weft.compile(kernel, options=options).plan
    names = [d.name for d in plan.decisions if d.name.endswith(".expand")]
    assert names
    no = weft.compile(kernel, plan=dict.fromkeys(names, "no"), options=options)
    assert "expand_carried(" not in no.explain(details=True).partition("decisions")[0]


@pytest.mark.parametrize("kernel", [recurrence, of_rows], ids=name_of)
def test_scalars_stay_where_expansion_gives_no_vectors(kernel: Any) -> None:
    assert "expand_carried" not in str(weft.schedule(kernel).automatic())


def test_what_is_expanded_grows_by_the_loop_alone() -> None:
    made = weft.schedule(smoothed).automatic()
    (left,) = (t for t in made.scheduled.scop.tensors if t.name == "left")
    assert len(left.shape[left.contracted :]) == 1


@pytest.mark.parametrize("kernel, tensor, loop, why", [
    (now_and_then, "last", "i", "was not left by the turn before it"),
    (read_behind, "last", "i", "was not left by the turn before it"),
    (smoothed, "x", "i", "no temporary"),
])  # fmt: skip
def test_other_values_are_refused(kernel: Any, tensor: str, loop: str, why: str) -> None:
    with pytest.raises(IllegalScheduleError, match=why) as error:
        weft.schedule(kernel).expand_carried(tensor, loop)
    assert error.value.code == "WEFT-E0461"
