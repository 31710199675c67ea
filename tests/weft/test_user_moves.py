"""Moves that users bring are steps of schedules like Weft's own: recorded, replayed, proved."""

# ruff: noqa: F821, UP037  (sizes of a signature are names in the function's body)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.weft.registered import forgotten
from weft.ir.errors import CompileError, IllegalScheduleError
from weft.ir.schedule_tree import Band, Leaf, Loop


@weft.kernel
def sweep(A: weft.f64["T", "N"]):
    for t in range(1, T):
        for i in range(1, N - 1):
            A[t, i] = A[t - 1, i - 1] + A[t - 1, i] + A[t - 1, i + 1]


@weft.kernel
def prefix(A: weft.f64["N"]):
    for i in range(1, N):
        A[i] += A[i - 1]


@pytest.fixture(autouse=True)
def moves() -> Iterator[None]:
    with forgotten():
        weft.move(skewed_tiles)
        weft.move(backwards)
        yield


def skewed_tiles(s: weft.Schedule, outer: str, inner: str, size: int = 8) -> weft.Schedule:
    return s.skew(inner, outer).tile({outer: size, inner: size})


def backwards(s, loop):  # a tree, and no types
    if loop not in s.loops:
        raise weft.IllegalScheduleError("EXAMPLE-1", f"there is no loop {loop}")
    assert isinstance(s.tree, Band)
    return replace(s.tree, loops=tuple(turned(x) if x.name == loop else x for x in s.tree.loops))


def turned(loop: Loop) -> Loop:
    return replace(loop, at={name: -value for name, value in loop.at.items()})


def test_a_move_is_one_step() -> None:
    s = sweep.schedule().skewed_tiles("t", "i", size=4).unroll("i_p")
    assert [step.name for step in s.steps] == ["skewed_tiles", "unroll"]
    assert str(s).splitlines()[1] == 's = s.skewed_tiles("t", "i", 4)'
    assert sweep.schedule().replay(str(s)) == s
    assert s.loops == ("t_t", "i_t", "t_p", "i_p")
    by_hand = sweep.schedule().skew("i", "t").tile({"t": 4, "i": 4}).unroll("i_p")
    assert by_hand.tree == s.tree
    a = np.random.default_rng(0).random((9, 23))
    b = a.copy()
    s.compile()(a)
    sweep.python(b)
    np.testing.assert_allclose(a, b, rtol=1e-13)


def test_a_tree_is_proved() -> None:
    s = sweep.schedule()
    assert s.backwards("i").loops == s.loops
    with pytest.raises(IllegalScheduleError, match="E0420"):
        s.backwards("t")
    assert "E0420" in str(s.why_not("backwards", "t")) and s.why_not("backwards", "i") is None
    with pytest.raises(IllegalScheduleError, match="E0420"):
        prefix.schedule().backwards("i")
    weft.move("leaf")(lambda s: Leaf(next(iter(s.statements))))
    with pytest.raises(IllegalScheduleError, match="E0413"):  # all instances at once
        s.leaf()
    with pytest.raises(IllegalScheduleError, match="EXAMPLE-1"):  # what the move itself refuses
        prefix.schedule().backwards("j")


def test_a_schedule_of_another_program_and_other_things() -> None:
    other = prefix.schedule()
    for number, wrong in enumerate((lambda s: other, lambda s: 3, lambda s: None)):
        weft.move(f"wrong{number}")(wrong)
        with pytest.raises(IllegalScheduleError, match="E0455"):
            getattr(sweep.schedule(), f"wrong{number}")()


def test_nothing_changed_is_no_step() -> None:
    weft.move("stays")(lambda s: s)
    s = sweep.schedule().skewed_tiles("t", "i")
    assert s.stays() is s


def test_arguments() -> None:
    with pytest.raises(IllegalScheduleError, match="E0460"):
        sweep.schedule().skewed_tiles("t", 3)
    with pytest.raises(TypeError) as caught:
        sweep.schedule().skewed_tiles("t")
    assert str(caught.value) == (
        "skewed_tiles: missing a required argument: 'inner'; "
        "it takes skewed_tiles(outer, inner, size=8)"
    )

    def typed(s, size):
        return s.tile({"t": size})

    typed.__annotations__ = {"size": int}  # as modules have it that do not postpone them
    weft.move(typed)
    with pytest.raises(IllegalScheduleError, match="E0460") as caught:
        sweep.schedule().typed("4")
    assert caught.value.hint == "size: int"


def test_integers_of_numpy_are_integers() -> None:
    four = np.int64(4)
    s = sweep.schedule().tile({"t": four}).skewed_tiles("t_p", "i", size=four)
    assert s == sweep.schedule().tile({"t": 4}).skewed_tiles("t_p", "i", size=4)
    assert sweep.schedule().replay(str(s)) == s


def test_a_move_is_part_of_the_key(tmp_path: Path) -> None:
    """By the schedule that it gives."""
    options = weft.Options(cache_dir=str(tmp_path))
    for size, cached in ((4, False), (8, False), (4, True)):
        weft.move("door_tiles", replace=True)(
            lambda s, size=size: s.skew("i", "t").tile({"t": size, "i": size})
        )
        run = sweep.schedule().door_tiles().compile(options)
        assert run.stats.get("from_cache", False) == cached


@pytest.mark.parametrize(
    ("name", "function", "code"),
    [
        ("tile", skewed_tiles, "E0005"),
        ("compile", skewed_tiles, "E0005"),
        ("scheduled", skewed_tiles, "E0005"),
        ("class", skewed_tiles, "E0006"),
        ("a move", skewed_tiles, "E0006"),
        ("_hidden", skewed_tiles, "E0006"),
        ("three", 3, "E0006"),
    ],
)
def test_what_is_no_move(name: str, function: object, code: str) -> None:
    with pytest.raises(CompileError, match=code):
        weft.move(name, replace=True)(function)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("titel", "tile"), ("backward", "backwards"), ("automatik", "automatic")],
)
def test_there_is_no_such_method(wrong: str, near: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(sweep.schedule(), wrong)
    told = f"a schedule has no attribute or transformation {wrong!r}; did you mean {near}"
    assert str(caught.value).startswith(told)
    assert not hasattr(sweep.schedule(), "qqqq")


def test_an_error_inside_a_move_names_it() -> None:
    @weft.move
    def blocks(s: weft.Schedule, size: int) -> weft.Schedule:
        return s.tile({"t": size})

    @weft.move
    def outer(s: weft.Schedule, *, size: int) -> weft.Schedule:
        return s.blocks(size)

    for action, where in (
        (lambda s: s.blocks(0), "in blocks(0)"),
        (lambda s: s.outer(size=0), "in blocks(0), in outer(size=0)"),
    ):
        with pytest.raises(IllegalScheduleError, match="E0458") as caught:
            action(sweep.schedule())
        assert caught.value.where == where
