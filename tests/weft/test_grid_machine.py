"""A machine without micro-operations, in variants: additions alone, weights that go through the
scratchpad, drains whose shift is a parameter, beside NumPy; and what is said where one does not
fit."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import pytest

import weft
from tests.weft.grid_machine import ADDITIONS, grid_machine, without
from weft import CompileError, i8, i32
from weft import hardware as hw

NUMBERS = np.random.default_rng(0)


def array(*shape, dtype=np.int8, most=128):
    return NUMBERS.integers(-most, most, shape).astype(dtype)


def clipped(value):
    return i8(weft.minimum(weft.maximum(value, -128), 127))


def same(made, expected, *arrays):
    made.check()
    for order in ("first", "last"):
        np.testing.assert_array_equal(made(*arrays, order=order), np.clip(expected, -128, 127))


# ---- elementwise, alone --------------------------------------------------------------------------


def elementwise(machine, body, count, shape, known=()):
    names = "abc"[:count]
    tensors = [weft.placeholder(shape, i8, name=name) for name in names]
    y = weft.compute(
        shape, lambda *i: clipped(body(*(i32(tensor[i]) for tensor in tensors))), name="y"
    )
    data = [array(*shape) for _ in tensors]
    constants = {names[k]: data[k] for k in known}
    made = hw.compile(y, machine, constants=constants)
    expected = body(*(each.astype(int) for each in data))
    same(made, expected, *(each for k, each in enumerate(data) if k not in known))


@pytest.mark.long
@pytest.mark.parametrize("shape", [(37,), (5, 9), (1, 6, 3, 5), (3, 50, 41)], ids=str)
@pytest.mark.parametrize("add", ADDITIONS)
def test_an_addition_alone(add, shape):
    elementwise(grid_machine(add), lambda a, b: a + b, 2, shape)


@pytest.mark.parametrize("add", [each for each in ADDITIONS if "saturated" not in each])
def test_additions_of_more_than_that(add):
    machine = grid_machine(add)
    elementwise(machine, lambda a: a + a, 1, (6, 11))
    elementwise(machine, lambda a, b, c: (a + (b + c)) >> 2, 3, (6, 11))
    elementwise(machine, lambda a, b: a + b + b, 2, (6, 11))
    elementwise(machine, lambda a: a + 5, 1, (6, 11))
    elementwise(machine, lambda a, b: a + b, 2, (6, 11), known=(1,))


@pytest.mark.parametrize("add", ["saturated", "saturated, onto", "onto"])
def test_additions_that_saturate_one_after_the_other(add):
    shape = (6, 11)
    a, b, c = (weft.placeholder(shape, i8, name=name) for name in "abc")
    y = weft.compute(
        shape, lambda *i: clipped(i32(clipped(i32(a[i]) + i32(b[i]))) + i32(c[i])), name="y"
    )
    data = [array(*shape) for _ in "abc"]
    wide = [each.astype(int) for each in data]
    made = hw.compile(y, grid_machine(add))
    same(made, np.clip(wide[0] + wide[1], -128, 127) + wide[2], *data)


# ---- sums ----------------------------------------------------------------------------------------


def product(machine, after, expected, m=10, k=9, n=7, **constants):
    """``after`` of the sums and of scalars."""
    x, w = weft.placeholder((m, k), i8, name="x"), weft.placeholder((k, n), i8, name="w")
    scalars = {name: weft.placeholder(v.shape, i32, name=name) for name, v in constants.items()}
    axis = weft.reduce_axis((0, k), name="k")
    sums = weft.compute(
        (m, n), lambda i, j: weft.sum(i32(x[i, axis]) * i32(w[axis, j]), (axis,)), name="sums"
    )
    y = weft.compute((m, n), lambda *i: clipped(after(sums[i], i[1], **scalars)), name="y")
    data, weights = array(m, k), array(k, n)
    made = hw.compile(y, machine, constants={"w": weights, **constants})
    same(made, expected(data.astype(int) @ weights), data)


@pytest.mark.parametrize("sizes", [(10, 9, 7), (70, 65, 50), (1, 4, 4), (3, 1, 17)], ids=str)
def test_weights_through_the_scratchpad(sizes):
    m, k, n = sizes
    machine = grid_machine(staged=True)
    product(machine, lambda s, j: s >> 7, lambda s: s >> 7, m, k, n)


def test_weights_through_the_scratchpad_that_are_no_constants():
    x, w = weft.placeholder((9, 6), i8, name="x"), weft.placeholder((6, 10), i8, name="w")
    k = weft.reduce_axis((0, 6), name="k")
    sums = weft.compute((9, 10), lambda i, j: weft.sum(i32(x[i, k]) * i32(w[k, j]), (k,)), name="s")
    y = weft.compute((9, 10), lambda *i: clipped(sums[i] >> 5), name="y")
    data, weights = array(9, 6), array(6, 10)
    made = hw.compile(y, grid_machine(staged=True))
    same(made, data.astype(int) @ weights >> 5, data, weights)


@pytest.mark.parametrize("staged", [False, True])
def test_a_convolution_and_a_residual(staged):
    x, w = (
        weft.placeholder((2, 5, 7, 7), i8, name="x"),
        weft.placeholder((6, 5, 3, 3), i8, name="w"),
    )
    r = weft.placeholder((2, 6, 5, 5), i8, name="r")
    c, p, q = (weft.reduce_axis((0, n), name=name) for n, name in ((5, "c"), (3, "p"), (3, "q")))
    sums = weft.compute(
        (2, 6, 5, 5),
        lambda n, o, h, v: weft.sum(i32(x[n, c, h + p, v + q]) * i32(w[o, c, p, q]), (c, p, q)),
        name="sums",
    )
    y = weft.compute(sums.shape, lambda *i: clipped((sums[i] + i32(r[i])) >> 4), name="y")
    data, weights, rest = array(2, 5, 7, 7), array(6, 5, 3, 3), array(2, 6, 5, 5)
    windows = np.lib.stride_tricks.sliding_window_view(data.astype(int), (3, 3), axis=(2, 3))
    exact = np.einsum("nchwpq,ocpq->nohw", windows, weights)
    made = hw.compile(y, grid_machine(staged=staged), constants={"w": weights})
    same(made, (exact + rest) >> 4, data, rest)


@pytest.mark.parametrize("shift", [1, 2, 7, 20, 31])
def test_shifts_that_an_instruction_writes_otherwise(shift):
    half = 1 << (shift - 1)
    product(grid_machine(drain="shifted"), lambda s, j: s >> shift, lambda s: s >> shift)
    product(grid_machine(drain="shifted more"), lambda s, j: s >> shift, lambda s: s >> shift)
    product(
        grid_machine("none", drain="rounded"), lambda s, j: (s + half) >> shift,
        lambda s: (s + half) >> shift,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("drain", ["shifted", "shifted more"])
def test_a_shift_that_is_a_parameter(drain, shape):
    shift, bias = np.full(shape, 6, np.int32), array(7, dtype=np.int32, most=5000)
    product(
        grid_machine(drain=drain), lambda s, j, shift, b: (s + b[j]) >> shift[(0,) * len(shape)],
        lambda s: (s + bias) >> 6, shift=shift, b=bias,
    )  # fmt: skip


# ---- what is said --------------------------------------------------------------------------------


def refused(machine, after=lambda s, j: s >> 5, **constants):
    with pytest.raises(CompileError) as error:
        product(machine, after, lambda s: s, **constants)
    assert error.value.code == "WEFT-E1030" and error.value.what == "grid cannot compute y"
    assert "_add" not in error.value.why and "operand0" not in error.value.why
    return error.value.why


RESULTS = "nothing does what becomes of its results: y is "
Y = f"{RESULTS}int8(min(max(sums >> 5, -128), 127)), where multiply leaves sums in acc"
DRAIN = r"leaves int8(min(max(acc >> shift, -128), 127)) in spad"


def test_a_number_that_no_field_holds():
    why = refused(grid_machine(), lambda s, j: s >> 40)
    assert f"{DRAIN}: it has shift (shift from 0 to 31) where 40 stands" in why
    assert "shifted (" in why and "grid_machine.py:" in why


def test_a_shift_for_each_channel():
    why = refused(grid_machine(), lambda s, j, by: s >> by[j], by=np.arange(7, dtype=np.int32))
    assert "it has shift (shift from 0 to 31) where by stands, which is no number" in why


def test_a_step_that_nothing_does():
    assert refused(without(grid_machine("none"), "shifted")).startswith(Y)
    why = refused(grid_machine(), lambda s, j: (s + 3) * 3 >> 5)
    assert "; sums + 3 can be computed, what follows cannot" in why
    assert f"{DRAIN}: it has acc >> shift (shift from 0 to 31) where" not in why


def test_a_sum_that_nothing_adds_up():
    why = refused(without(grid_machine(), "multiply"))
    assert why.startswith("sums is a sum of int32(x) * int32(w) in int32; add_bias (")
    assert "makes a sum of bias in int32; onto (" in why


def test_memories_that_nothing_loads_fills_or_stores():
    assert refused(without(grid_machine(), "load_weights")) == (
        "multiply takes w from grid: nothing loads grid, nor copies what is loaded into it"
    )
    assert "sums begins with 0 in acc: nothing fills" in refused(without(grid_machine(), "clear"))
    assert refused(without(grid_machine(), "store")) == f"{Y}; nothing copies it to main memory"
