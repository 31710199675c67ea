"""What streams compute, against an interpreter of the published text, in all orders of service."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.accel.random_streams import pipelined, random_artifact
from tests.accel.vta_oracle import interpret
from weft.accel.artifact import Artifact, Layout, Placed
from weft.accel.execution_order import ORDERS, Order
from weft.accel.machines.vta import Config, vta
from weft.ir.accelerator import Accelerator, Cost, Memory, Operation, Queue
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import i8, i32
from weft.ir.errors import CompileError, StreamError
from weft.ir.instruction_stream import Issue, Stream
from weft.offload.accelerators import Semantics
from weft.offload.simulator import Simulator, check_stream, run_artifact, simulate

CONFIGS = {
    "default": Config(),
    "batch 2, block 8": Config(log_batch=1, log_block=3, log_wgt_buff_size=14),
}
EVERY: tuple[Order, ...] = (*ORDERS, 5)


@cache
def semantics(name: str) -> Semantics:
    return Semantics(vta(CONFIGS[name]))


def interpreted(name: str, artifact: Artifact) -> np.ndarray:
    code = artifact.stream.encode()
    return interpret(CONFIGS[name], code, artifact.image, null_page=False)


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGS)
def test_two_halves_of_each_memory(name: str) -> None:
    artifact = pipelined(CONFIGS[name], 5, rows=5)
    check_stream(artifact, semantics(name))
    expected = interpreted(name, artifact)
    assert (expected != artifact.image).any()
    for order in EVERY:
        found = simulate(artifact.stream, artifact.image, order=order, semantics=semantics(name))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGS)
def test_what_the_checker_lets_through_means_one_thing(name: str) -> None:
    """Random streams with few tokens or many: if the checker accepts one, all orders agree with
    each other, with poisoned memories and without, and with the interpreter."""
    accepted = refused = differing = 0
    for seed in range(24):
        artifact = random_artifact(CONFIGS[name], seed, 8, (1.0, 0.7, 0.4)[seed % 3])
        expected = interpreted(name, artifact)
        found = [
            simulate(artifact.stream, artifact.image, order=order, poison=order != "turns",
                     semantics=semantics(name))
            for order in EVERY
        ]  # fmt: skip
        same = all((each == expected).all() for each in found)
        try:
            check_stream(artifact, semantics(name))
            accepted += 1
            assert same
        except StreamError as error:
            assert error.code == "WEFT-E1041"
            assert seed % 3, "with all tokens there is nothing to refuse"
            refused += 1
            differing += not same
    assert min(accepted, refused, differing) >= 2


def test_memories_begin_with_noise() -> None:
    """What was never written is seen in the results."""
    store = Stream(vta(), (Issue("store", {"x_size": 9, "y_size": 1}), Issue("finish", {})))
    image = np.zeros(1 << 12, np.uint8)
    assert simulate(store, image).any()
    assert not simulate(store, image, poison=False).any()


def test_inputs_and_outputs() -> None:
    stream = Stream(vta(), (
        Issue("load_acc", {"x_size": 2, "y_size": 1}),
        Issue("load_uop", {"x_size": 1, "y_size": 1, "dram_base": 32}),
        Issue("add_imm", {"uop_end": 1, "iter_out": 2, "iter_in": 1, "dst_factor_out": 1,
                          "src_factor_out": 1, "imm": 100, "push_next": 1}),
        Issue("store", {"x_size": 2, "y_size": 1, "dram_base": 12, "pop_prev": 1, "push_prev": 1}),
        Issue("finish", {"pop_next": 1}),
    ))  # fmt: skip
    artifact = Artifact(stream, np.zeros(256, np.uint8), (
        Placed("x", "input", i32, Layout((1, 20), ((1, 16),)), 0),
        Placed("y", "output", i8, Layout((1, 20), ((1, 16),)), 192),
    ))  # fmt: skip
    x = np.arange(20, dtype=np.int32)[None] * 9
    found = run_artifact(artifact, {"x": x})
    np.testing.assert_array_equal(found["y"], (x + 100).astype(np.int8))  # wraps


ROW = {"y_size": 1, "x_size": 2}
ONE = {"iter_out": 1, "iter_in": 1}
OUT_OF_BOUNDS = [
    ("load_inp", {**ROW, "sram_base": 2047}, "writes inp[2047] to inp[2048]"),
    ("load_inp", {**ROW, "dram_base": 255}, "reads dram_inp[255] to dram_inp[256]"),
    ("load_inp", {**ROW, "dram_base": 1 << 31}, "reads dram_inp"),
    ("load_inp", {"x_size": 65535, "y_size": 65535}, "4,294,836,225 turns"),
    ("load_inp", {"x_size": 9, "y_size": 255}, "writes inp[0] to inp[2294]"),
    ("store", {"sram_base": 2040, "x_size": 9, "y_size": 1}, "reads out[2040] to out[2048]"),
    ("store", {"dram_base": 250, "x_size": 3, "y_size": 3, "x_stride": 4}, "writes dram_out[250]"),
    ("gemm", {**ONE, "uop_bgn": 8191, "uop_end": 8193}, "reads uop[8191] to uop[8192]"),
    ("gemm", {**ONE, "uop_end": 1, "iter_out": 9, "dst_factor_out": 2047}, "acc"),
    ("gemm", {"uop_end": 8192, "iter_out": 16383, "iter_in": 16383}, "turns"),
]


@pytest.mark.parametrize(("operation", "fields", "message"), OUT_OF_BOUNDS)
def test_accesses_that_leave_their_memory(
    operation: str, fields: dict[str, int], message: str
) -> None:
    stream = Stream(vta(), (Issue("finish", {}), Issue(operation, fields)))
    image = np.zeros(1 << 12, np.uint8)
    with pytest.raises(StreamError, match="WEFT-E1040") as caught:
        simulate(stream, image, poison=False, semantics=semantics("default"))
    assert f"instruction 1 ({operation}): " in str(caught.value) and message in str(caught.value)


def test_micro_operations_that_are_out_of_bounds() -> None:
    """Are found before anything is written."""
    image = np.full(1 << 12, 255, np.uint8)  # wgt 1023, src 2047, dst 2047
    machine = Simulator(semantics("default"), image, poison=False)
    machine.run(0, Issue("load_uop", {"x_size": 1, "y_size": 1}))
    fields = {"uop_end": 1, "iter_out": 2, "iter_in": 1}
    machine.run(1, Issue("gemm", fields))
    before = machine.memories["acc"].copy()
    for operand, memory in (("dst", "acc"), ("src", "inp"), ("wgt", "wgt")):
        with pytest.raises(StreamError, match=rf"{memory}\[\d+\] to {memory}\[\d+\]"):
            machine.run(2, Issue("gemm", {**fields, f"{operand}_factor_out": 1}))
    np.testing.assert_array_equal(machine.memories["acc"], before)


def test_an_image_of_something_else() -> None:
    with pytest.raises(StreamError, match="WEFT-E1021"):
        simulate(Stream(vta(), ()), np.zeros(4, np.int8))


def test_nothing_to_do() -> None:
    for size in (0, 1, 3):
        image = np.arange(size, dtype=np.uint8)
        found = simulate(Stream(vta(), ()), image, semantics=semantics("default"))
        np.testing.assert_array_equal(found, image)


# ---- machines unlike VTA -------------------------------------------------------------------------


def added(dst, src, to, at, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        dst[to + i] = src[at + i] + 1


def moved(dst, src, to, at, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        dst[to + i] = src[at + i]


def triangle(vec, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        for j in range(i + 1):
            vec[i * (i + 1) // 2 + j] = i


def stepped(vec, count):  # type: ignore[no-untyped-def]
    assert count >= 2
    for i in range(1, count, 3):
        vec[i] = 7


def machine(function: object, **memories: str) -> Accelerator:
    names = {"dst": "vec", "src": "vec", **memories}
    arguments = function.__code__.co_varnames  # type: ignore[attr-defined]
    used = {n: m for n, m in names.items() if n in arguments}
    encoding = Encoding(tuple(Field(n, 10) for n in ("to", "at", "count")), 32, 32)
    return Accelerator(
        "small",
        (Memory("vec", i8, (), 32), Memory("main", i8, (), None)),
        (Queue("only", 4),),
        (),
        (Operation("go", "only", encoding, lambda f: Cost(1), function, used),),  # type: ignore[arg-type]
    )


def after(made: Accelerator, image: np.ndarray, **fields: int) -> Simulator:
    found = Simulator(Semantics(made), image, poison=False)
    found.memories["vec"][:] = np.arange(32)
    found.run(0, Issue("go", fields))
    return found


def test_what_is_written_by_one_argument_and_read_by_another() -> None:
    """The one sees what was there before."""
    found = after(machine(added), np.zeros(8, np.uint8), to=1, at=0, count=9)
    assert found.memories["vec"].tolist() == [0, *range(1, 10), *range(10, 32)]
    image = np.arange(20, dtype=np.uint8)
    copied = after(machine(moved, dst="main", src="main"), image, to=3, at=0, count=9)
    assert copied.image.tolist() == [0, 1, 2, *range(9), *range(12, 20)]


def test_triangular_loops_and_steps() -> None:
    found = after(machine(triangle), np.zeros(8, np.uint8), count=3)
    assert found.memories["vec"].tolist() == [0, 1, 1, 2, 2, 2, *range(6, 32)]
    with pytest.raises(StreamError, match=r"writes vec\[0\] to vec\[35\]"):
        after(machine(triangle), np.zeros(8, np.uint8), count=8)
    strided = after(machine(stepped), np.zeros(8, np.uint8), count=8)
    assert [n for n, v in enumerate(strided.memories["vec"]) if v != n] == [1, 4]
    with pytest.raises(StreamError, match=r"WEFT-E1040.*stepped has no meaning"):
        after(machine(stepped), np.zeros(8, np.uint8), count=1)


def twice(vec, table, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        vec[table[table[i]]] = 0


def both(dst, src, to, at, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        dst[to + i] = 1
        src[at + i] = 2


def endless(vec, count):  # type: ignore[no-untyped-def]
    while True:
        vec[count] = 0


@pytest.mark.parametrize(("function", "message"), [
    (twice, "WEFT-E1031: an address depends on"), (both, "WEFT-E1031: go writes to one memory"),
    (endless, "WEFT-E016"),
])  # fmt: skip
def test_semantics_that_are_not_understood(function: object, message: str) -> None:
    made = machine(function, table="vec", vec="vec")
    with pytest.raises(CompileError, match=message) as caught:
        Semantics(made).analysed  # noqa: B018
    assert "test_simulator.py" in caught.value.where
