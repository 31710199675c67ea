"""Costs of time-iterated programs: which form wins where; threads at work, by enumeration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil

import pytest

from weft.ir.machine import Cache, Machine
from weft.polyhedral.policy.time_costs import (
    DIAMONDS,
    PLAIN,
    SHARE,
    SHARED,
    TILES,
    TYPICAL_STEPS,
    Form,
    Iterated,
    cycles,
    forms,
    limit,
)

CACHES = (Cache(32 << 10), Cache(1 << 20), Cache(32 << 20))
MACHINE = Machine("m", vector_bytes=64, vector_registers=32, caches=CACHES)


def plane(side: int) -> Iterated:
    """Two arrays of doubles, two statements, as Jacobi's iteration has them."""
    return Iterated((side,), 2 * side * 8, 2, 2, True, 3.0, 2 * side * side / 8 * 5)


def line(length: int) -> Iterated:
    return Iterated((length,), 16, 2, 2, False, 3.0, 2 * length / 8 * 5)


def space(side: int) -> Iterated:
    return Iterated((side, side), 2 * side * 8, 2, 2, True, 3.0, 2 * side**3 / 8 * 12)


def best(x: Iterated, threads: int = 1) -> Form:
    return forms(x, MACHINE, threads, shared=True)[0]


@pytest.mark.parametrize("x", [plane(100), line(500), space(25)])
def test_arrays_in_a_cache_are_swept(x: Iterated) -> None:
    assert best(x).name == SHARED
    assert PLAIN in [form.name for form in forms(x, MACHINE, 1, shared=False)]


@pytest.mark.parametrize("x", [plane(4000), line(4_000_000), space(300)])
def test_arrays_in_memory_are_tiled(x: Iterated) -> None:
    form = best(x)
    assert form.name == TILES and form.steps >= 4
    sweep = cycles(Form(SHARED), x, MACHINE, 1)
    assert form.cycles < sweep * 0.6


def test_planes_too_large_for_a_cache_are_tiled_in_columns_as_well() -> None:
    form = best(space(158))
    assert form.columns
    assert form.width**2 * 158 * 8 <= CACHES[1].size  # what one step leaves to the next


@pytest.mark.parametrize("x", [plane(4000), line(4_000_000)])
def test_sweeps_are_cheaper_up_to_the_limit_and_tiles_beyond(x: Iterated) -> None:
    form = best(x)
    most = limit(form, x, MACHINE, 1, shared=True)
    assert most in [int(cache.size * SHARE) for cache in CACHES]
    for size in (most // 3, most, 2 * most, 30 * most):
        small = plane(int((size / 16) ** 0.5)) if x.vectors else line(size // 16)
        cheaper = cycles(Form(SHARED), small, MACHINE, 1) < cycles(form, small, MACHINE, 1)
        assert cheaper == (size <= most)


def test_many_threads_take_diamonds_and_one_takes_none() -> None:
    assert best(plane(4000), threads=64).name == DIAMONDS
    assert all(form.name != DIAMONDS for form in forms(plane(4000), MACHINE, 1, shared=True))


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize("steps", [8, 32])
def test_threads_that_have_work_are_counted_by_front(threads: int, steps: int) -> None:
    """The closed form against tiles put into fronts one by one."""
    x = replace(plane(1000), passes=0.0)
    form = Form(TILES, steps, steps * x.slope)
    fronts: Counter[int] = Counter()
    for high in range(ceil(TYPICAL_STEPS / steps)):
        for wide in range(ceil(1000 / form.width) + 1):  # tiles lean by one for each step up
            fronts[high + (high + wide)] += 1
    turns = sum(ceil(tiles / threads) for tiles in fronts.values())
    free = replace(MACHINE, caches=(Cache(1 << 40),))  # everything is there already
    one = cycles(form, x, free, 1)
    many = cycles(form, x, free, threads)
    meetings = MACHINE.barrier * MACHINE.frequency * len(fronts) / TYPICAL_STEPS
    assert many - meetings == pytest.approx(one * turns / sum(fronts.values()), rel=0.02)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("steps", [8, 12, 40, 64])
def test_a_last_row_of_tiles_takes_a_turn_however_low_it_is(threads: int, steps: int) -> None:
    """40 time steps: the closed form against fronts of tiles, each as long as a whole one."""
    x = replace(plane(1000), passes=0.0, steps=40)
    form = Form(TILES, steps, steps * x.slope)
    tiles = ceil(1000 / form.width) + 1
    fronts = Counter(2 * high + wide for high in range(ceil(40 / steps)) for wide in range(tiles))
    turns = sum(ceil(count / threads) for count in fronts.values())
    free = replace(MACHINE, caches=(Cache(1 << 40),), barrier=0.0)
    whole = cycles(form, x, free, 1) * steps / tiles  # cycles of a whole tile
    assert cycles(form, x, free, threads) * 40 == pytest.approx(turns * whole, rel=0.02)


@pytest.mark.parametrize(("known", "steps"), [(40, 10), (36, 12), (13, 7), (5, 5)])
def test_known_time_steps_are_shared_out_evenly(known: int, steps: int) -> None:
    """Tiles of up to 12 steps fit: 40 are four times 10, not three times 12 and 4."""
    known_steps = {form.steps for form in forms(_few(known), MACHINE, 2, shared=True)}
    assert 12 in {form.steps for form in forms(_few(None), MACHINE, 2, shared=True)}
    assert steps in known_steps


def _few(steps: int | None) -> Iterated:
    return replace(plane(2000), steps=steps)


def test_a_form_says_what_it_is() -> None:
    assert str(Form(TILES, 8, 16, True, 2.5e6)) == (
        "tiles of 8 steps by 16 rows by 16 columns (2.5M cycles a step)"
    )
    assert str(Form(PLAIN, cycles=1e6)) == "sweeps (1M cycles a step)"
