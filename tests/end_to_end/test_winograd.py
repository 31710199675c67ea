"""Convolutions by fewer multiplications, as users meet them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.graph.correlations import convolution, data
from weft.ir.tensor_interpreter import interpret

OFF = weft.Options(cache=False, threads=1, workers=0, winograd="off")
ON = weft.Options(cache=False, threads=1, workers=0)


def nhwc(batch: int, size: int, channels: int, filters: int) -> weft.Tensor:
    """A convolution in a user's own words: pixels before channels, channels before filters."""
    picture = weft.placeholder((batch, size, size, channels), name="picture")
    stencil = weft.placeholder((3, 3, channels, filters), name="stencil")
    dy, dx = weft.reduce_axis((0, 3), name="dy"), weft.reduce_axis((0, 3), name="dx")
    q = weft.reduce_axis((0, channels), name="q")

    def body(b, v, u, o):
        y, x = v + dy - 1, u + dx - 1
        inside = (y >= 0) & (y < size) & (x >= 0) & (x < size)
        pixel = weft.select(inside, picture[b, y, x, q], 0.0)
        return weft.maximum(weft.sum(pixel * stencil[dy, dx, q, o], (dy, q, dx)), 0.0)

    return weft.compute((batch, size, size, filters), body, name="blurred")


@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 2])
def test_a_user_s_own_convolution_in_another_layout(batch: int) -> None:
    y = nhwc(batch, 19, 24, 24)
    compiled = weft.compile(y, options=ON)
    assert "along v" in compiled.explain() and "times fewer multiplications" in compiled.explain()
    random = np.random.default_rng(0)
    picture = random.uniform(-1, 1, (batch, 19, 19, 24)).astype(np.float32)
    stencil = random.uniform(-1, 1, (3, 3, 24, 24)).astype(np.float32)
    program = weft.Program("own", tuple(y.operation.reads), (y,))
    wide = [a.astype(np.float64) for a in (picture, stencil)]
    expected = interpret(program, wide, precise=True)[0]
    direct = np.abs(weft.compile(y, options=OFF)(picture, stencil) - expected).max()
    error = np.abs(compiled(picture, stencil) - expected).max()
    assert error < 8 * max(direct, 24 * 9 * 2.0**-24)


@pytest.mark.long
@pytest.mark.parametrize("layout", ["chw", "hwc", "wch"])
@pytest.mark.parametrize("taps", [(3, 3), (1, 5), (2, 4)])
def test_layouts_and_kernels_compiled(layout: str, taps: tuple[int, int]) -> None:
    program = convolution(1, 40, 30, 23, 21, taps, layout=layout)
    inputs = data(program)
    result = weft.compile(program, options=ON)(*inputs)
    expected = interpret(program, [a.astype(np.float64) for a in inputs], precise=True)[0]
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-4)


def test_the_switch_and_strict_turn_it_off() -> None:
    program = convolution(1, 32, 32, 20, 20, pads=(1, 1))
    assert "times fewer" in weft.compile(program, options=ON).explain()
    strict = weft.Options(cache=False, threads=1, workers=0, strict=True)
    for options in (OFF, strict):
        assert "times fewer" not in weft.compile(program, options=options).explain()


def test_memory_bounds_what_it_adds() -> None:
    program = convolution(1, 32, 32, 30, 30)
    inputs = data(program)
    none = weft.Options(cache=False, threads=1, workers=0, memory=0)
    compiled = [weft.compile(program, options=options) for options in (OFF, none, ON)]
    off, within, on = (c.stats["arena_bytes"] for c in compiled)
    assert off == within < on
    direct, same, derived = (c(*inputs) for c in compiled)
    np.testing.assert_array_equal(same, direct)
    np.testing.assert_allclose(derived, direct, rtol=0, atol=1e-4)


def test_options_that_change_the_code_are_part_of_the_key() -> None:
    keys = {weft.Options(**o).key for o in ({}, {"winograd": "off"}, {"memory": 0}, {"memory": 9})}
    assert len(keys) == 4


def test_full_verification_sees_the_derived_form() -> None:
    x, w = weft.placeholder((64, 90), name="x"), weft.placeholder((64, 64, 3), name="w")
    c, k = weft.reduce_axis((0, 64), name="c"), weft.reduce_axis((0, 3), name="k")
    y = weft.compute((88, 64), lambda i, o: weft.sum(x[c, i + k] * w[o, c, k], (c, k)), name="y")
    options = weft.Options(cache=False, threads=1, workers=0, verify="full")
    assert "times fewer" in weft.compile(y, options=options).explain()
