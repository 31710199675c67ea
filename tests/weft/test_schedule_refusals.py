"""Steps that a schedule refuses: illegal ones, names that do not exist, junk."""

from __future__ import annotations

import re
from inspect import signature

import numpy as np
import pytest

import weft
from tests.weft.scheduled_kernels import line, line_in, lu, matmul, smooth
from weft.driver.schedule_value import TRANSFORMATIONS
from weft.ir.errors import IllegalScheduleError


def test_an_illegal_step() -> None:
    update = "A[i, j] -= A[i, k] * A[k, j]"
    first = line(update)
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().parallel("i")
    assert str(caught.value) == (
        'WEFT-E0421: parallel("i"): the schedule violates the flow dependence of S0 on S2\n'
        f"  where: S2 (scheduled_kernels.py:{first + 4}: {update}), "
        f"S0 (scheduled_kernels.py:{first}: {update})\n"
        "  why: S2[i=1, j_2=2, k_2=0] writes A[1, 2] before S0[i=3, j=2, k=1] reads it for N=4, "
        "but parallel loop i may run both at the same time\n"
        '  try: parallel("j_2")'
    )


def test_tensor_expressions_say_their_lines_too() -> None:
    x, r = weft.placeholder((8, 9), name="x"), weft.reduce_axis((0, 9), name="r")
    source = 'rows = weft.compute((8,), lambda i: weft.sum(x[i, r], r), name="rows")'
    rows = weft.compute((8,), lambda i: weft.sum(x[i, r], r), name="rows")
    with pytest.raises(IllegalScheduleError) as caught:
        weft.schedule(rows).parallel("r")
    number = line_in(__file__, source)
    where = f"(compute 'rows', test_schedule_refusals.py:{number}: {source})"
    assert where in caught.value.where


def test_a_copy_that_comes_too_early() -> None:
    """Of B, some elements are made between the copy and the read."""
    s = smooth.schedule().fuse("i", "i_2", shift=1).split("i", 8)
    with pytest.raises(IllegalScheduleError) as caught:
        s.cache_read("B", "S1", "i_t")
    made, read = "B[i] = A[i - 1] + A[i] + A[i + 1]", "C[i] = B[i - 1] + B[i] + B[i + 1]"
    text = str(caught.value).splitlines()
    assert text[0] == (
        'WEFT-E0440: cache_read("B", "S1", "i_t"): what S1 reads of B_tile is not what it was '
        "before the transformations"
    )
    first = line('def smooth(A: weft.i64["N"], C: weft.i64["N"]):')
    assert text[1] == (
        f"  where: S1 (scheduled_kernels.py:{first + 5}: {read}), "
        f"S0 (scheduled_kernels.py:{first + 3}: {made})"
    )
    assert re.fullmatch(
        r"  why: S1\[i_2=\d+\] reads B_tile\[\d+, \d+\]: it sees B\[(\d+)\], "
        r"but should see S0\[i=\1\] for N=\d+",
        text[2],
    )


def test_names_that_do_not_exist() -> None:
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().split("x", 4)
    assert str(caught.value) == (
        "WEFT-E0450: no loop is named 'x'\n  try: loops: i, j, k, j_2, k_2"
    )
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().shift("S9", "i", 1)
    assert str(caught.value) == (
        "WEFT-E0451: the schedule has no statement 'S9'\n  try: statements: S0, S1, S2"
    )


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (("split", "i_22", 4), "did you mean i_2? loops: i, i_2"),
        (("cut", "S2", ["i < 3"]), "statements: S0, S1"),
        (("expand", "Bs", ["i"]), "did you mean B? tensors: A, C, B"),
        (("contract", "x"), "tensors: A, C, B"),
        (("double_buffer", "x"), "tensors: A, C, B"),
        (("promote", "x", ["i"]), "tensors: A, C, B"),
        (("cache_read", "x", "S1", "i_2"), "tensors: A, C, B"),
        (("cache_write", "x", "S1", "i_2"), "tensors: A, C, B"),
        (("cache_read", "B", "S0", "i_2"), "statements inside: S1"),
    ],
    ids=str,
)
def test_names_that_are_like_it(step: tuple[str, *tuple[object, ...]], hint: str) -> None:
    why = smooth.schedule().why_not(*step)
    assert why is not None and why.endswith(f"  try: {hint}")


def test_loops_of_a_buffer_are_changed_later() -> None:
    """The buffer belongs to the loops together that the one it was made in has become."""
    s = smooth.schedule().split("i_2", 4).cache_read("B", "S1", "i_2_t")
    for t in (s.split("i_2_t", 2), s.reverse("i_2_t").parallel("i_2_t"), s.unroll("i_2_t", 3)):
        a, wanted, got = np.arange(30), np.zeros(30, "int64"), np.zeros(30, "int64")
        smooth.python(a, wanted)
        t.compile()(a, got)
        np.testing.assert_array_equal(got, wanted)


def test_copies_are_cut_and_partial_results_stay_when_others_become_private() -> None:
    s = smooth.schedule().split("i_2", 4).cache_read("B", "S1", "i_2_t")
    assert "copy_B_tile_edge" in s.cut("copy_B_tile", ["B_tile_0 < 2"]).statements
    s = matmul.schedule().rfactor("S1", "k")
    assert s.privatize().show() == s.show()


def test_loops_that_are_apart() -> None:
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().reorder(["k", "j"])
    assert str(caught.value).splitlines()[:2] == [
        "WEFT-E0450: the loops k, j are not directly inside each other",
        "  why: statements stand between them: S1",
    ]


@pytest.mark.parametrize(
    "junk", [None, 3, -1, True, 2.5, "", "S0", [], [3], {3: 3}, object(), b"i"]
)
@pytest.mark.parametrize("method", TRANSFORMATIONS)
def test_junk_is_refused(method: str, junk: object) -> None:
    """Whatever stands in an argument's place: it works, or the error is one of ours."""
    step = getattr(smooth.schedule(), method)
    parameters = [p for p in signature(step).parameters.values() if p.default is p.empty]
    for place in range(max(1, len(parameters))):
        arguments = ["i"] * place + [junk] + ["i"] * (len(parameters) - place - 1)
        try:
            step(*arguments)
        except IllegalScheduleError as error:
            assert error.code.startswith("WEFT-E04")
        except TypeError as error:
            assert "argument" in str(error), "Python's own, about how many there are"


def test_the_type_of_an_argument() -> None:
    for step, text in (
        (lambda s: s.tile([32, 32]), "tile: sizes is [32, 32]\n  try: sizes: Mapping[str, int]"),
        (lambda s: s.reorder("ji"), "reorder: order is 'ji'\n  try: order: Sequence[str]"),
        (lambda s: s.unroll("i", True), "unroll: factor is True\n  try: factor: int | None"),
        (lambda s: s.set_kinds({"i": "fast"}), "set_kinds: kinds is {'i': 'fast'}"),
    ):
        with pytest.raises(IllegalScheduleError) as caught:
            step(matmul.schedule())
        assert str(caught.value).startswith(f"WEFT-E0460: {text}")
