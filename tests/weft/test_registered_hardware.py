"""Processors, instructions and accelerators by registered names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.weft.registered import forgotten
from tests.weft.strange_machines import outer_product
from weft.accel.machines.named import machine_named
from weft.driver.options import Options
from weft.driver.targets import listed, target_for
from weft.ir.errors import CompileError

CPU = weft.Cpu(
    name="door-cpu",
    architecture=weft.X86_64,
    llvm="x86-64-v3",
    caches=(weft.Cache(16 << 10), weft.Cache(128 << 10)),
    cores=2,
)


@weft.instruction(name="door-adds")
def adds(acc: weft.i32[8], a: weft.i32[8]):
    for lane in range(8):
        acc[lane] += a[lane]


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    with forgotten():
        weft.register(CPU)
        weft.register(adds)
        yield


def test_a_processor_by_its_name(tmp_path: Path) -> None:
    target = target_for(Options(target="door-cpu"))
    assert (target.name, target.cores, target.llvm.cpu) == ("door-cpu", 2, "x86-64-v3")
    assert target.machine.caches == CPU.caches
    assert "door-cpu" in [row.target.name for row in listed(Options(cache_dir=str(tmp_path)))]
    x = weft.placeholder((300,), "float32", name="x")
    y = weft.compute((300,), lambda i: x[i] + 1, name="y")
    assert weft.compile(y, target="door-cpu").compiled.target.cpu == "x86-64-v3"


def test_a_name_stands_for_its_record_of_the_moment(tmp_path: Path) -> None:
    """The record itself is part of the key."""
    x = weft.placeholder((40, 40), "float32", name="x")
    k = weft.reduce_axis((0, 40), name="k")
    y = weft.compute((40, 40), lambda i, j: weft.sum(x[i, k] * x[k, j], (k,)), name="y")
    for size, cached in ((16, False), (64, False), (16, True)):
        caches = (weft.Cache(size << 10), weft.Cache(1 << 20))
        record = weft.Cpu(name="other", architecture=weft.X86_64, llvm="x86-64-v3", caches=caches)
        weft.register(record, "door-changes", replace=True)
        run = weft.compile(y, target="door-changes", options=Options(cache_dir=str(tmp_path)))
        assert run.stats.get("from_cache", False) == cached


def test_an_instruction_by_its_name() -> None:
    named = target_for(Options(instructions=("door-adds",)))
    assert named.machine.extensions[0] is adds
    assert named == target_for(Options(instructions=(adds,)))
    with pytest.raises(CompileError, match="E0009") as caught:
        target_for(Options(instructions=("door-add",)))
    assert caught.value.hint.startswith("did you mean door-adds? registered: ")
    with pytest.raises(CompileError, match="E0001: option instructions is ") as caught:
        Options(instructions=adds)
    assert caught.value.what.endswith("…, not a tuple of instructions: instructions=(x,)")
    assert len(caught.value.what) < 200


def test_an_accelerator_by_its_name() -> None:
    machine = outer_product()
    weft.register(machine, "door-npu")
    a, b = (weft.placeholder((16, 16), weft.i8, name=n) for n in "ab")
    k = weft.reduce_axis((0, 16), name="k")
    sums = weft.compute(
        (16, 16), lambda i, j: weft.sum(weft.i32(a[i, k]) * weft.i32(b[k, j]), (k,)), name="sums"
    )
    small = weft.compute(
        (16, 16),
        lambda i, j: weft.i8(weft.minimum(weft.maximum(sums[i, j] >> 7, -128), 127)),
        name="y",
    )
    run = weft.compile(small, target="door-npu")
    assert run.machine is machine
    with pytest.raises(CompileError, match="E1023"):
        machine_named("door-npu", {"rows": 8})
    x, y = (np.random.default_rng(n).integers(-128, 128, (16, 16)).astype(np.int8) for n in (0, 1))
    np.testing.assert_array_equal(run(x, y), np.clip((x.astype(int) @ y) >> 7, -128, 127))


@pytest.mark.parametrize(
    ("record", "name", "code"),
    [
        (3, None, "E0006"),
        (CPU, "host", "E0006"),
        (CPU, "znver5", "E0005"),
        (outer_product(), "vta", "E0005"),
    ],
)
def test_what_cannot_be_registered(record: object, name: str | None, code: str) -> None:
    with pytest.raises(CompileError, match=code):
        weft.register(record, name)  # type: ignore[arg-type]
