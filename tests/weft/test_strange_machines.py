"""Machines unlike each other compute random products and convolutions exactly, by streams that the
checker accepts; what cannot be understood is said with the line that says it."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.weft.strange_machines import MACHINES, banks, outer_product
from weft import CompileError, f32, hardware, i8, i16, i32
from weft.frontend.operators.conv import convolve, kernel_window
from weft.ir.build import compute, maximum, minimum, placeholder, reduce_axis
from weft.ir.build import sum as total
from weft.ir.scalar_expr import cast, literal
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, offload
from weft.offload.simulator import check_stream, simulate
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.keep_order import keep_order

SIZES = [1, 2, 3, 7, 8, 9, 16, 17, 33]
TYPES = {"banks": (f32, f32), "matrix_vector": (i16, i32)}  # of operands and sums
TARGETS = {}


def target(name):
    if name not in TARGETS:
        TARGETS[name] = Target.of(MACHINES[name]())
    return TARGETS[name]


def gemm(pick, narrow, wide):
    m, n, k = (pick.choice(SIZES) for _ in range(3))
    turned = pick.random() < 0.5
    a = placeholder((m, k), narrow, name="x")
    b = placeholder((n, k) if turned else (k, n), narrow, name="w")
    axis = reduce_axis((0, k), name="k")
    sums = compute(
        (m, n),
        lambda i, j: total(
            cast(a[i, axis], wide) * cast(b[j, axis] if turned else b[axis, j], wide), (axis,)
        ),
        name="s",
    )
    return sums, (a, b), lambda x, w: x @ (w.T if turned else w)


def conv(pick, narrow, wide):
    kernel = [pick.choice([1, 1, 2, 3]) for _ in range(2)]
    pads = [pick.randint(0, k - 1) for k in (*kernel, *kernel)]
    dilation, strides = pick.choice([1, 1, 2]), [pick.choice([1, 1, 2, 3]) for _ in range(2)]
    least = [
        max(1, dilation * (k - 1) + 1 - a - b)
        for k, a, b in zip(kernel, pads[:2], pads[2:], strict=True)
    ]
    places = [low + pick.randint(0, 6) for low in least]
    images, inner, outer = pick.choice([1, 2, 8, 9]), pick.choice([1, 3, 8, 17]), pick.choice(SIZES)
    x = placeholder((images, inner, *places), narrow, name="x")
    w = placeholder((outer, inner, *kernel), narrow, name="w")
    window = kernel_window(x, w, strides, pads, (dilation, dilation))

    def expected(x, w):
        x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        h, v = (
            (n - dilation * (k - 1) - 1) // s + 1
            for n, k, s in zip(x.shape[2:], kernel, strides, strict=True)
        )
        return sum(
            np.einsum(
                "nchw,oc->nohw",
                x[:, :, i * dilation :: strides[0], j * dilation :: strides[1]][:, :, :h, :v],
                w[:, :, i, j],
            )
            for i in range(kernel[0])
            for j in range(kernel[1])
        )

    return convolve(x, w, window, 1), (x, w), expected


def case(pick, name):
    """A program, and what it computes of whole numbers."""
    narrow, wide = TYPES.get(name, (i8, i32))
    sums, inputs, expected = pick.choice([gemm, conv])(pick, narrow, wide)
    if name != "rows_of_a_scratchpad" or pick.random() < 0.4:
        return Program("p", inputs, (sums,)), expected
    shift = pick.choice([0, 3, 7])
    y = compute(
        sums.shape,
        lambda *i: cast(minimum(maximum(sums[i] >> shift, literal(-128, wide)), 127), narrow),
        name="y",
    )
    return Program("p", inputs, (y,)), lambda x, w: np.clip(expected(x, w) >> shift, -128, 127)


def compared(one, name, seed):
    pick = random.Random(f"{name} {seed}")
    program, expected = case(pick, name)
    rng = np.random.default_rng(seed)
    most = 9 if name == "banks" else 128
    data = {
        t.name: rng.integers(-most, most, [int(getattr(n, "value", n)) for n in t.shape]).astype(
            t.dtype.numpy
        )
        for t in program.inputs
    }
    constants = {"w": data["w"]} if pick.random() < 0.5 else {}
    made = offload(lower(program, "p"), one, constants, buffers=pick.choice([1, 2, 2]))
    check_stream(made.artifact, one.semantics)
    image = made.artifact.filled(made.prepared(data))
    order = pick.choice(["first", "last", "turns"])
    after = simulate(made.artifact.stream, image, order=order, semantics=one.semantics)
    wanted = expected(*(array.astype(np.int64) for array in data.values()))
    np.testing.assert_array_equal(made.results(after), wanted)


@pytest.mark.long
@pytest.mark.parametrize("name", MACHINES)
def test_exact_and_accepted(name):
    for seed in range(10):
        compared(target(name), name, seed)


@pytest.mark.long
@pytest.mark.parametrize("machine", [outer_product, banks], ids=lambda each: each.__name__)
@pytest.mark.parametrize("most", [1, 2])
def test_counters_that_hold_few_tokens(machine, most):
    made = machine()
    wires = tuple(replace(wire, most=most) for wire in made.wires)
    one = Target.of(replace(made, wires=wires))
    for seed in range(3):
        compared(one, machine.__name__, seed)


def test_elements_of_bytes_that_are_no_power_of_two():
    one = Target.of(outer_product(12))
    for seed in range(4):
        compared(one, "outer_product", seed)


def test_sums_that_keep_their_order():
    a, b = (placeholder((8, 8), f32, name=name) for name in "xw")
    k = reduce_axis((0, 8), name="k")
    sums = compute((8, 8), lambda i, j: total(a[i, k] * b[k, j], (k,)), name="s")
    scop = lower(Program("p", (a, b), (sums,)), "p")
    offload(scop, target("banks"), {})
    with pytest.raises(CompileError, match="keeps the order of its terms"):
        offload(keep_order(scop), target("banks"), {})


def refused(machine):
    a, b = (placeholder((16, 16), i8, name=name) for name in "xw")
    k = reduce_axis((0, 16), name="k")
    sums = compute(
        (16, 16), lambda i, j: total(cast(a[i, k], i32) * cast(b[k, j], i32), (k,)), name="s"
    )
    with pytest.raises(CompileError) as error:
        hardware.compile(sums, machine)
    assert error.value.code == "WEFT-E1030"
    return str(error.value)


def changed(name, semantics, **fields):
    """The outer-product machine with one operation that does something else."""
    machine = outer_product()
    operations = []
    for each in machine.operations:
        if each.name == name:
            own = (*each.encoding.fields, *(hardware.Field(n, w) for n, w in fields.items()))
            each = replace(each, semantics=semantics, encoding=hardware.Encoding(own, 192))
        else:
            each = replace(each, encoding=hardware.Encoding(each.encoding.fields, 192))
        operations.append(each)
    return replace(machine, operations=tuple(operations))


def test_a_field_that_says_whether_to_add():
    def outer(acc, a, b, at, a_at, b_at, keep):
        for p in range(8):
            for q in range(8):
                product = i32(a[a_at, p]) * i32(b[b_at, q])
                acc[at, p, q] = acc[at, p, q] + product if keep > 0 else product

    text = refused(changed("outer", outer, keep=1))
    assert "keep" in text and "two operations" in text and "Field('keep', 1, value=" in text
    assert "test_strange_machines.py" in text


def test_an_address_that_is_no_sum():
    def outer(acc, a, b, at, a_at, b_at):
        for p in range(8):
            for q in range(8):
                acc[at, p, q] += i32(a[a_at // 2, p]) * i32(b[b_at, q])

    text = refused(changed("outer", outer))
    assert "outer: the address in a is no sum of fields" in text
    assert "acc[at, p, q] += i32(a[a_at // 2, p])" in text


def test_copies_that_change():
    def load(sram, dram, sram_base, dram_base, columns):
        for x in range(columns):
            for p in range(8):
                sram[sram_base + x, p] = dram[dram_base + x, 7 - p]

    assert "load_a" in refused(changed("load_a", load))


def test_results_that_nothing_stores():
    def store(acc, dram, sram_base, dram_base, columns):
        for x in range(columns):
            for p in range(8):
                for q in range(8):
                    dram[dram_base + x, p, q] = acc[sram_base + x, p, q] + 1

    text = refused(changed("store", store))
    assert "what becomes of its results" in text and "store: it changes what it copies" in text


@pytest.mark.long
def test_memories_that_are_too_small():
    machine = outer_product()
    small = tuple(replace(m, depth=m.depth and 1) for m in machine.memories)
    wide = Target.of(replace(machine, memories=small))
    compared(wide, "outer_product", 3)  # one element of each is enough


def test_utilisation_and_cycles():
    a, b = (placeholder((64, 64), i8, name=name) for name in "xw")
    k = reduce_axis((0, 64), name="k")
    sums = compute(
        (64, 64), lambda i, j: total(cast(a[i, k], i32) * cast(b[k, j], i32), (k,)), name="s"
    )
    made = hardware.compile(sums, outer_product())
    made.check()
    assert made.utilisation == 64**3 / 64 / made.cycles
    slower = hardware.compile(sums, outer_product(), latency_hiding=False)
    assert slower.cycles > made.cycles
    x = np.arange(64 * 64).reshape(64, 64).astype(np.int8)
    np.testing.assert_array_equal(made(x, w=x), x.astype(int) @ x)
