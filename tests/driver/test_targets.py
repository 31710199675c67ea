# ruff: noqa: F821  (sizes are names of the signature)
"""Code for processors that are not this one: what runs here runs right, what does not says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.weft.small_models import conv_net
from weft.codegen.architectures import X86_64
from weft.codegen.llvm.target import lacking
from weft.codegen.machines.named import target_named
from weft.codegen.target import KIB, Cpu
from weft.driver.compiler import lower_graph, lower_loops
from weft.driver.options import Options
from weft.driver.targets import target_for, thread_count
from weft.frontend.onnx.importer import import_model
from weft.frontend.onnx.open_model import open_model
from weft.graph.from_program import from_program
from weft.ir.errors import ArtifactError, CallError, CompileError
from weft.ir.machine import Cache
from weft.ir.program_interpreter import interpret_program

RUNNABLE = [
    name for name in ("x86-64", "x86-64-v3", "x86-64-v4") if not lacking(target_named(name).llvm)
]
here = pytest.mark.skipif("x86-64-v3" not in RUNNABLE, reason="no AVX2 here")
RANDOM = np.random.default_rng(0)


def product(dtype: weft.DType = weft.float32, *, sizes: Sequence[Any] = (13, 31, 37)) -> Any:
    m, k, n = sizes
    a = weft.placeholder((m, k), dtype, name="a")
    b = weft.placeholder((k, n), dtype, name="b")
    j = weft.reduce_axis((0, k), name="j")
    return weft.compute((m, n), lambda i, o: weft.sum(a[i, j] * b[j, o], j), name="y")


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    return [RANDOM.standard_normal(shape).astype(dtype) for shape in shapes]


@weft.kernel
def solve(L: weft.f64[N, N], X: weft.f64[N, M]):
    for i in range(N):
        for j in range(i):
            for k in range(M):
                X[i, k] -= L[i, j] * X[j, k]
        for k in range(M):
            X[i, k] /= L[i, i]


@weft.kernel
def doubled(x: weft.f64[N]):
    for i in range(N):
        x[i] = 2.0 * x[i]


@pytest.mark.long
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(("dtype", "bound"), [(weft.float32, 1e-5), (weft.float64, 1e-14)])
def test_products_for_other_processors_are_right(
    target: str, dtype: weft.DType, bound: float
) -> None:
    run = weft.compile(product(dtype, sizes=[weft.var(n) for n in "mkn"]), target=target)
    for size in (1, 2, 23, 47, 48, 49, 101):
        a, b = arrays((size, size + 1), (size + 1, size + 2), dtype="float64")
        found = run(a.astype(dtype.numpy), b.astype(dtype.numpy))
        assert np.all(np.abs(found - a @ b) <= bound * (np.abs(a) @ np.abs(b)))


@pytest.mark.long
@pytest.mark.parametrize("target", RUNNABLE)
def test_loop_kernels_for_other_processors_are_right(target: str) -> None:
    run = solve.compile(options=Options(target=target))
    for size in (0, 1, 5, 64, 97):
        lower = np.tril(RANDOM.uniform(0.1, 1, (size, size))) + size * np.eye(size)
        x = RANDOM.standard_normal((size, 7))
        np.testing.assert_allclose(run(lower, lower @ x), x, rtol=1e-10, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("target", RUNNABLE)
def test_models_for_other_processors_are_right(target: str) -> None:
    x = arrays((1, 3, 13, 13))[0]
    expected = weft.compile(conv_net())(x)
    np.testing.assert_allclose(weft.compile(conv_net(), target=target)(x), expected, rtol=1e-4)


@here
def test_code_has_no_wider_vectors_and_spills_nothing_in_its_tiles() -> None:
    program = product(sizes=(96, 96, 96))
    for target, register in (("x86-64", "xmm"), ("x86-64-v3", "ymm")):
        code = weft.compile(program, target=target).source("asm")
        assert register in code and "zmm" not in code
        assert target == "x86-64-v3" or "ymm" not in code
    assert re.search(r"vfmadd\w+ps\s.*ymm", code)
    kept = {int(n) for n in re.findall(r"%ymm(\d+)", code)}
    assert len(kept) > 12  # twelve accumulators and their operands
    assert not re.search(r"vmovups\s+%ymm\d+, -?\d+\(%rsp\)", code)


@pytest.mark.long
@pytest.mark.parametrize("name", ["x86-64-v3", "znver5", "aarch64"])
def test_what_schedulers_and_emitters_see(name: str) -> None:
    options = Options(target=name, threads=1)
    target = target_named(name)
    assert target_for(options) == target
    graph = from_program(weft.program(product()))
    assert lower_graph(graph, options).machine == target.machine
    assert lower_loops(solve.lowered, options).machine == target.machine
    found = weft.compile(product(), target=name, options=Options(threads=1))
    assert found.compiled.target == target.llvm


@pytest.mark.long
@pytest.mark.parametrize("name", ["x86-64-v3", "sapphirerapids", "aarch64"])
def test_weights_are_packed_here_and_lie_as_the_target_wants(name: str) -> None:
    options = Options(target=name, threads=1, cache=False)
    compiled = weft.compile(conv_net(), options=options).compiled
    lowered = lower_graph(import_model(open_model(conv_net())[0]), options)
    prepare = lowered.assembly.prepare
    assert prepare is not None
    made = interpret_program(prepare, [], dict(lowered.source.constants))
    constants = dict(compiled.constants)
    compared = 0
    for buffer, expected in zip(prepare.outputs, made, strict=True):
        if buffer.name in constants:
            found = constants[buffer.name]
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            compared += 1
    assert compared


FOREIGN = next(
    name for name in ("aarch64", "x86-64-v3") if lacking(target_named(name).llvm)
)  # no processor is both


def test_what_cannot_run_here_is_compiled_and_saved_but_not_called(tmp_path: Path) -> None:
    run = weft.compile(product(), target=FOREIGN)
    a, b = arrays((13, 31), (31, 37))
    for call in (run, run.bind):
        with pytest.raises(CallError, match=r"WEFT-E0613: .* for another processor"):
            call(a, b)
    with pytest.raises(CallError, match="WEFT-E0613"):
        run.run({"a": a, "b": b})
    with pytest.raises(CallError, match="WEFT-E0601"):
        run(a)  # its own rules come first
    assert run.source("asm") and "schedule, checked" in run.explain()
    run.save(tmp_path / "a.weft")
    with pytest.raises(ArtifactError, match=r"WEFT-E0705.*another processor"):
        weft.load(tmp_path / "a.weft")


def test_foreign_code_comes_from_the_cache_too(tmp_path: Path) -> None:
    options = Options(target=FOREIGN, cache_dir=str(tmp_path))
    first, second = (weft.compile(product(), options=options) for _ in range(2))
    assert "from_cache" not in first.stats and second.stats["from_cache"]
    assert second.compiled.objects == first.compiled.objects
    mine = weft.compile(product(), options=Options(cache_dir=str(tmp_path)))
    assert "from_cache" not in mine.stats
    doubled.compile(options=options)
    assert "from_cache" not in doubled.compile(options=Options(cache_dir=str(tmp_path))).stats


def test_full_verification_of_what_cannot_run_here_says_what_it_leaves_out() -> None:
    options = Options(target=FOREIGN, verify="full")
    with pytest.warns(weft.WeftWarning, match=r"not run as a whole: .* lacks "):
        weft.compile(product(sizes=(3, 4, 5)), options=options)


_RECORDS = """
from weft.codegen.machines.host import host
from weft.codegen.machines.named import target_named
print(repr([host(), target_named("znver5"), target_named("aarch64")]))
"""


@pytest.mark.long
def test_records_read_the_same_in_every_process() -> None:
    """They are part of the key under which a program is found again."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", _RECORDS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "4")  # sets of the same two words in different orders
    }
    assert len(texts) == 1 and b"vpdpbusd" in texts.pop()


@here
def test_an_artifact_of_older_code_runs_here(tmp_path: Path) -> None:
    weft.compile(product(), target="x86-64-v3").save(tmp_path / "a.weft")
    a, b = arrays((13, 31), (31, 37))
    np.testing.assert_allclose(weft.load(tmp_path / "a.weft")(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_unknown_targets_are_refused_before_anything_is_compiled() -> None:
    for options in (
        Options(target="znver55"),
        Options.from_environment({"WEFT_TARGET": "znver55"}),
    ):
        for action in (weft.compile, weft.lower, weft.schedules):
            with pytest.raises(CompileError, match=r"WEFT-E0002.*'znver55'"):
                action(product(), options=options)
        with pytest.raises(CompileError, match=r"WEFT-E0002.*'znver55'"):
            solve.compile(options=options)
    with pytest.raises(CompileError, match="WEFT-E0001: option target"):
        Options(target=3)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="WEFT-E0002"):
        weft.compile(product(), target="x" * 10)


def test_the_argument_counts_more_than_the_options() -> None:
    found = weft.compile(product(), target="aarch64", options=Options(target="x86-64"))
    assert found.compiled.target == target_named("aarch64").llvm


def test_a_record_of_ones_own_is_a_target() -> None:
    """As a name is: by argument, in options, for kernels and for what is only lowered."""
    record = Cpu(
        name="mine",
        architecture=X86_64,
        llvm="x86-64-v3",
        caches=(Cache(16 * KIB), Cache(96 * KIB)),
        cores=3,
        rates={"frequency": 1.5e9},
    )
    A = weft.placeholder((9, 40), name="A")
    k = weft.reduce_axis((0, 40), name="k")
    B = weft.compute((9, 9), lambda i, j: weft.sum(A[i, k] * A[j, k], axis=k), name="B")
    options = Options(cache=False, workers=0, target=record)
    a = np.random.default_rng(0).normal(size=(9, 40)).astype(np.float32)
    plain = Options(cache=False, workers=0)
    programs = [weft.compile(B, options=options), weft.compile(B, target=record, options=plain)]
    for program in programs:
        if not lacking(program.compiled.target):
            np.testing.assert_allclose(program(a), a @ a.T, rtol=1e-5, atol=1e-5)
        assert program.compiled.target.cpu == "x86-64-v3"
    assert programs[0].compiled.objects == programs[1].compiled.objects
    target = target_for(options)
    assert (target.name, target.cores, target.machine.frequency) == ("mine", 3, 1.5e9)
    assert target.machine.caches == record.caches and thread_count(options) == 3
    assert str(weft.lower(B, "scop", target=record)) == str(weft.lower(B, "scop"))
    assert hash(options) == hash(replace(options))
    with pytest.raises(CompileError, match="WEFT-E0001: option target is 3, not the name"):
        Options(target=3)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="WEFT-E0023"):
        weft.compile(B, target=replace(record, llvm="z80"))


def test_records_that_differ_are_apart_in_the_cache(tmp_path: Path) -> None:
    """What a record says decides about tiles."""
    A = weft.placeholder((64, 64), name="A")
    B = weft.compute((64, 64), lambda i, j: A[j, i], name="B")
    options = Options(cache_dir=str(tmp_path), workers=0)
    slow = Cpu(name="mine", architecture=X86_64, llvm="x86-64-v3", rates={"frequency": 1e9})
    fast = replace(slow, rates={"frequency": 5e9})
    for record, kept in ((slow, False), (slow, True), (fast, False), (fast, True)):
        made = weft.compile(B, options=options, target=record)
        assert bool(made.stats.get("from_cache")) is kept
