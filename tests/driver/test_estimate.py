"""``estimate`` is what ``explain`` prints, in seconds; its bound is no opinion."""

# ruff: noqa: F821, UP037
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index"

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.driver.targets import target_for
from weft.ir.errors import CallError
from weft.ir.units import time_text

TARGET = "x86-64-v3"
OPTIONS = weft.Options(threads=1, cache=False, workers=0, target=TARGET)


@weft.kernel
def product(A: weft.f64["N", "K"], B: weft.f64["K", "M"], C: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def test_a_kernel_at_sizes() -> None:
    run = weft.compile(product, options=OPTIONS)
    whole = run.estimate()  # 1000 of each
    assert 0 < whole.bound <= whole.seconds
    assert whole == run.estimate({"N": 1000, "K": 1000, "M": 1000})
    machine = target_for(OPTIONS).machine
    lanes = machine.vector_bytes // 8
    least = 1e9 / (lanes * machine.peaks.fma * machine.peaks.frequency)
    assert whole.bound == pytest.approx(least, rel=0.01)
    half = run.estimate({"N": 500, "M": 500})
    assert half.bound == pytest.approx(whole.bound / 4, rel=0.01)
    assert run.estimate({"N": 0}).bound == 0.0


@pytest.mark.parametrize("sizes", [{"Q": 3}, {"N": -1}, {"N": 1.5}, {"N": True}])
def test_sizes_that_are_none(sizes: dict[str, int]) -> None:
    with pytest.raises(CallError, match="WEFT-E0609"):
        weft.compile(product, options=OPTIONS).estimate(sizes)


def test_a_model_is_the_sum_of_its_clusters() -> None:
    a = weft.placeholder((200, 200), name="a")
    k = weft.reduce_axis((0, 200), name="k")
    once = weft.compute((200, 200), lambda i, j: weft.sum(a[i, k] * a[k, j], k), name="once")
    twice = weft.compute((200, 200), lambda i, j: weft.sum(once[i, k] * once[k, j], k), name="y")
    run = weft.compile(twice, options=OPTIONS)
    assert run.stats["clusters"] == 2
    found = run.estimate()
    assert 0 < found.bound < found.seconds
    said = f"estimated {time_text(found.seconds)} on one thread; no less than"
    assert f"{said} {time_text(found.bound)}\n" in run.explain()
    with pytest.raises(CallError, match=r"of loop kernels alone"):
        run.estimate({"N": 3})


def test_what_the_cache_and_artifacts_know(tmp_path: Path) -> None:
    options = weft.Options(threads=1, cache_dir=str(tmp_path / "cache"), target=TARGET)
    made, again = (weft.compile(product, options=options) for _ in range(2))
    assert again.stats["from_cache"] and again.estimate() == made.estimate()
    made.save(tmp_path / "product.weft")
    x = weft.placeholder((4,), name="x")
    y = weft.compute((4,), lambda i: x[i] + 1, name="y")
    for run in (weft.load(tmp_path / "product.weft"), weft.compile(y, options=options)):
        with pytest.raises(CallError, match=r"E0609.*were not kept\n.*cache=False"):
            run.estimate()
