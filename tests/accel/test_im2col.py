"""Merged reduction loops: arrays beside enumeration, convolutions beside integers in NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.accel.dot_machine import dot_machine
from tests.accel.each_way import Arrays, check_each_way
from tests.accel.targets import SMALL, target
from weft.accel.im2col import im2col
from weft.accel.machines.vta import Config
from weft.accel.mapping import Mapping
from weft.accel.timing import timing
from weft.accel.work import Columns, Work, work
from weft.frontend.operators.conv import convolve, kernel_window
from weft.ir import build
from weft.ir.build import maximum, minimum, placeholder, reduce_axis, select
from weft.ir.dtypes import i8, i32
from weft.ir.scalar_affine import Affine, variable
from weft.ir.scalar_expr import Expr, cast, literal
from weft.ir.tensor_expr import Program, constant_size
from weft.offload.offload import Target, offload, prepared
from weft.polyhedral.from_tensor_expr import lower

CONFIGS = (Config(), SMALL, Config(log_block=5, log_wgt_buff_size=19))


@pytest.mark.parametrize("outside", (0, -7))
def test_columns(outside: int) -> None:
    """Of windows that leave the array on both sides."""
    array = np.arange(1, 3 * 5 + 1, dtype=np.int8).reshape(3, 5)
    at = variable("i").scaled(2) + variable("s") + Affine((), -1)
    made = Columns({"c": 3, "s": 4, "i": 3}, 0, 2, (variable("c"), at), outside)
    found = made.of(array)
    assert found.shape == made.made == (12, 3) and found.dtype == np.int8
    for c, s, i in np.ndindex(3, 4, 3):
        place = 2 * i + s - 1
        want = array[c, place] if 0 <= place < 5 else outside
        assert found[4 * c + s, i] == want


def test_columns_of_what_does_not_move() -> None:
    """An element is repeated along dims that no index has."""
    array = np.arange(4, dtype=np.int8)
    made = Columns({"k": 4, "r": 3, "s": 2}, 1, 2, (variable("k"),), 0)
    np.testing.assert_array_equal(made.of(array), np.repeat(array, 6).reshape(4, 6))


def sums(
    channels: int,
    filters: int,
    size: int,
    kernel: int,
    stride: int,
    pad: int | None = None,
    images: int = 1,
) -> Program:
    pad = kernel // 2 if pad is None else pad
    x = placeholder((images, channels, size, size), i8, name="x")
    w = placeholder((filters, channels, kernel, kernel), i8, name="w")
    bias = placeholder((filters,), i32, name="bias")
    window = kernel_window(x, w, (stride, stride), (pad,) * 4, None)
    found = convolve(x, w, window, 1)
    low, high = literal(-128, i32), literal(127, i32)

    def body(*i: Any) -> Expr:
        return cast(minimum(maximum((found[i] + bias[i[1]]) >> 6, low), high), i8)

    return Program("p", (x, w, bias), (build.compute(found.shape, body, name="y"),))


def data_of(program: Program) -> Arrays:
    random = np.random.default_rng(7)
    found = {}
    for tensor in program.inputs:
        shape = [constant_size(size) or 0 for size in tensor.shape]
        low, high = (-128, 128) if tensor.dtype == i8 else (-9999, 9999)
        found[tensor.name] = random.integers(low, high, shape).astype(tensor.dtype.numpy)
    return found


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int, outside: int = 0, pad: int | None = None
) -> np.ndarray:
    """Sums in int64; half of the kernel lies around ``x``, or ``pad``."""
    kernel = w.shape[2]
    pad = kernel // 2 if pad is None else pad
    around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    padded = np.pad(x.astype(np.int64), around, constant_values=outside)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    found: np.ndarray = np.einsum(
        "nchwrs,ocrs->nohw", windows[:, :, ::stride, ::stride], w.astype(np.int64)
    )
    return found


def work_of(program: Program) -> Work:
    return work(prepared(lower(program, "p")))


def merged_in(mapping: Mapping) -> bool:
    return any(isinstance(view.made, Columns) for view in mapping.operands)


def test_choices_take_fewer_iterations() -> None:
    """7 × 7 taps of 3 channels, 16 terms at once: 147 are 10 blocks, rows or columns of the kernel
    7 · 2, taps of each channel 3 · 4."""
    whole = work_of(sums(3, 16, 9, 7, 2))
    found = [each.extents for each in im2col(whole, 16, 49)]
    shown = [(e["merged"], [d for d in ("c", "r", "s") if d in e]) for e in found]
    assert shown == [(147, []), (49, ["c"]), (21, ["s"]), (21, ["r"])]
    assert len(list(im2col(whole, 16, 14))) == 2
    assert not list(im2col(whole, 16, 10))
    assert not list(im2col(work_of(sums(32, 16, 9, 3, 1)), 16, 18)), "blocks are full"


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("channels", "filters", "size", "kernel", "stride"),
    [
        pytest.param(3, 20, 11, 7, 2, marks=pytest.mark.long),
        (1, 1, 1, 3, 1),
        (5, 33, 6, 3, 1),
        (20, 16, 5, 3, 2),
        (2, 7, 7, 5, 3),
    ],
)
def test_convolutions_of_few_channels(
    channels: int, filters: int, size: int, kernel: int, stride: int, config: Config
) -> None:
    program = sums(channels, filters, size, kernel, stride)
    data = data_of(program)
    want = (convolved(data["x"], data["w"], stride) + data["bias"][:, None, None]) >> 6
    want = np.clip(want, -128, 127).astype(np.int8)
    every = check_each_way(program, data, config, want)
    assert any(map(merged_in, every)) or channels == 20
    assert len({way.write.layout for way in every}) == 1


NASTY = list(product((1, 3, 15, 16, 17), (1, 3, 5, 7), (1, 2, 3), (0, 1, 3)))


def check_nasty(picked: list[tuple[int, int, int, int]], config: Config) -> None:
    """Convolutions by (channels, kernel, stride, pad), of two images and 17 filters."""
    for channels, kernel, stride, pad in picked:
        size = max(1, kernel - 2 * pad) + stride
        program = sums(channels, 17, size, kernel, stride, pad, 2)
        data = data_of(program)
        whole = convolved(data["x"], data["w"], stride, pad=pad) + data["bias"][:, None, None]
        check_each_way(program, data, config, np.clip(whole >> 6, -128, 127).astype(np.int8))


@pytest.mark.parametrize("config", CONFIGS)
def test_nasty_convolutions(config: Config) -> None:
    check_nasty(NASTY[CONFIGS.index(config) :: 59], config)


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS)
def test_more_nasty_convolutions(config: Config) -> None:
    check_nasty(NASTY[CONFIGS.index(config) :: 23], config)


@pytest.mark.parametrize("channels", (1, 3, 5))
def test_another_machine(channels: int) -> None:
    """Of dot products of 4 terms; sums are stored as they are."""
    x = placeholder((2, channels, 5, 7), i8, name="x")
    w = placeholder((6, channels, 3, 3), i8, name="w")
    found = convolve(x, w, kernel_window(x, w, None, (1,) * 4, None), 1)
    data = data_of(Program("p", (x, w), (found,)))
    want = convolved(data["x"], data["w"], 1).astype(np.int32)
    every = check_each_way(Program("p", (x, w), (found,)), data, Target.of(dot_machine()), want)
    assert any(map(merged_in, every))


def test_two_arrays_made_from_one_tensor() -> None:
    """They have the same sizes, layout and memory, and are not the same."""
    x = placeholder((5, 5, 5), i8, name="x")
    c, s = (reduce_axis((0, 5), name=name) for name in "cs")

    def body(i: Any, j: Any) -> Any:
        return build.sum(cast(x[i, c, s], i32) * cast(x[j, s, c], i32), (c, s))

    program = Program("p", (x,), (build.compute((5, 5), body, name="y"),))
    data = data_of(program)
    wide = data["x"].astype(np.int32)
    want = np.einsum("ics,jsc->ij", wide, wide)
    every = check_each_way(program, data, Target.of(dot_machine()), want)
    assert any(map(merged_in, every))


@pytest.mark.parametrize("taken", ("k", "c", "s"))
def test_loops_that_have_its_names(taken: str) -> None:
    """One of the user's loops is called like the merged one, another like an axis."""
    names = {name: "merged" if name == taken else name for name in ("c", "s")}
    c, s = (reduce_axis((0, 3), name=name) for name in names.values())
    axis_1 = reduce_axis((0, 2), name="axis_1")
    x, w = placeholder((2, 3, 6), i8, name="x"), placeholder((5, 2, 3, 3), i8, name="w")

    def element(k: Any, i: Any) -> Any:
        terms = cast(x[axis_1, c, i + s], i32) * cast(w[k, axis_1, c, s], i32)
        return build.sum(terms, (axis_1, c, s))

    body = (lambda merged, i: element(merged, i)) if taken == "k" else element
    program = Program("p", (x, w), (build.compute((5, 4), body, name="y"),))
    data = data_of(program)
    windows = np.lib.stride_tricks.sliding_window_view(data["x"].astype(np.int32), 3, 2)
    want = np.einsum("acis,kacs->ki", windows, data["w"].astype(np.int32))
    ways = check_each_way(program, data, Config(), want)
    assert sum(map(merged_in, ways)) == 4


def test_at_most_four_merges() -> None:
    """Of five loops there are 26."""
    dims = [reduce_axis((0, 2), name=name) for name in "abcde"]
    x, w = placeholder((2,) * 6, i8, name="x"), placeholder((2,) * 6, i8, name="w")

    def body(i: Any, j: Any) -> Any:
        return build.sum(cast(x[(i, *dims)], i32) * cast(w[(j, *dims)], i32), tuple(dims))

    program = Program("p", (x, w), (build.compute((2, 2), body, name="y"),))
    data = data_of(program)
    wide = (data[name].astype(np.int32).reshape(2, 32) for name in "xw")
    ways = check_each_way(program, data, Config(), np.einsum("ia,ja->ij", *wide))
    assert sum(map(merged_in, ways)) == 4


@pytest.mark.parametrize("known", ((), ("w",), ("x",)))
def test_any_operand_may_be_known(known: tuple[str, ...]) -> None:
    program = sums(3, 16, 5, 3, 1)
    data = data_of(program)
    want = (convolved(data["x"], data["w"], 1) + data["bias"][:, None, None]) >> 6
    want = np.clip(want, -128, 127).astype(np.int8)
    assert any(map(merged_in, check_each_way(program, data, Config(), want, known)))


def test_other_numbers_around() -> None:
    """Padding with 9, and no zeros."""
    x, w = placeholder((1, 3, 6, 6), i8, name="x"), placeholder((16, 3, 3, 3), i8, name="w")
    c, r, s = (reduce_axis((0, 3), name=name) for name in "crs")

    def body(n: Any, k: Any, i: Any, j: Any) -> Any:
        h, v = i + r - 1, j + s - 1
        inside = (h >= 0) & (h < 6) & (v >= 0) & (v < 6)
        value = select(inside, x[n, c, h, v], literal(9, i8))
        return build.sum(cast(value, i32) * cast(w[k, c, r, s], i32), (c, r, s))

    program = Program("p", (x, w), (build.compute((1, 16, 6, 6), body, name="y"),))
    data = data_of(program)
    want = convolved(data["x"], data["w"], 1, 9).astype(np.int32)
    assert any(map(merged_in, check_each_way(program, data, Config(), want)))


def test_its_input_again_after_it() -> None:
    """The same tensor in two layouts: its columns, and as it is."""
    x = placeholder((1, 8, 5, 5), i8, name="x")
    w = placeholder((8, 8, 3, 3), i8, name="w")
    found = convolve(x, w, kernel_window(x, w, None, (1,) * 4, None), 1)
    low, high = literal(-128, i32), literal(127, i32)

    def body(*i: Any) -> Expr:
        return cast(minimum(maximum((found[i] >> 8) + cast(x[i], i32), low), high), i8)

    program = Program("p", (x, w), (build.compute(found.shape, body, name="y"),))
    data = data_of(program)
    want = np.clip((convolved(data["x"], data["w"], 1) >> 8) + data["x"], -128, 127)
    every = check_each_way(program, data, Config(), want.astype(np.int8))
    assert any(map(merged_in, every))


def test_the_cheaper_way_is_taken() -> None:
    """A first layer of 3 channels takes less than half of what it would with these alone."""
    scop = lower(sums(3, 64, 56, 7, 2), "p")
    made = offload(scop, target(), {})
    assert merged_in(made.tiling.mapped)
    alone = 4 * 7 * 7 * 28 * 28
    assert timing(made.artifact.stream).cycles < alone / 2
