"""The same program gives the same code, and the same code the same bits."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import weft
import weft.driver.object_code
import weft.driver.program_code
import weft.runtime.executable
from tests.weft.small_models import MODELS, seeded_inputs
from weft.benchmarks.polybench.run import SUITE
from weft.codegen.llvm.target import host_target
from weft.driver.compiler import lower_loops, machine_code
from weft.driver.options import Options
from weft.ir.dtypes import as_dtype
from weft.ir.errors import WeftWarning
from weft.runtime.artifact import encode
from weft.runtime.compiled import Compiled
from weft.runtime.executable import Executable

ROOT = Path(__file__).parents[2]
OPTIONS = Options(cache=False, workers=0)
STRICT = Options(cache=False, workers=0, strict=True)
# A product, triangular ones, stencils, and what threads share through temporaries of their own.
# With the number of threads that each is compiled for.
KERNELS = {"gemm": 1, "cholesky": 2, "symm": 2, "jacobi-2d": 1, "fdtd-2d": 2, "atax": 2,
           "correlation": 2}  # fmt: skip


def compiled(name: str, options: Options = OPTIONS) -> Executable:
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)  # nothing is given up
        executable = weft.compile(MODELS[name](), options=options)
    assert isinstance(executable, Executable)
    return executable


def compiled_kernel(name: str, threads: int) -> Compiled:
    """A kernel with LLVM IR for objects: LLVM, which knows no seed, has made these of models."""
    benchmark = SUITE[name]
    options = Options(cache=False, workers=0, threads=threads)
    lowered = lower_loops(benchmark.make(as_dtype(benchmark.dtype)).lowered, options)
    with patch.object(weft.driver.object_code, "to_object", lambda text, target: text.encode()):
        return machine_code(lowered, host_target())


def all_digests() -> dict[str, dict[str, str]]:
    """The digests of every model and of every kernel."""
    models = {name: digests(compiled(name).compiled) for name in MODELS}
    return models | {name: digests(compiled_kernel(name, n)) for name, n in KERNELS.items()}


def digests(made: Compiled) -> dict[str, str]:
    """A hash of every text and every object of ``made``."""
    parts: dict[str, bytes] = {f"object {k}": code for k, code in enumerate(made.objects)}
    parts |= {f"llvm {k}": text.encode() for k, text in enumerate(made.llvm)}
    parts |= {stage: text.encode() for stage, text in made.texts.items()}
    parts |= {f"constant {name}": data.tobytes() for name, data in made.constants}
    parts["explanation"] = made.explain().encode()
    parts["artifact"] = b"".join(bytes(piece) for piece in encode(made))
    return {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}


def in_a_process(seed: int) -> dict[str, dict[str, str]]:
    """All digests, of what a Python compiles whose sets and hashes are ``seed``'s."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    finished = subprocess.run(
        [sys.executable, "-m", "tests.weft.test_reproducible"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    )
    found: dict[str, dict[str, str]] = json.loads(finished.stdout)
    return found


@pytest.mark.long
def test_the_same_code_byte_for_byte_whatever_the_hash_seed() -> None:
    first, second = in_a_process(1), in_a_process(2)
    assert len(first) == len(MODELS) + len(KERNELS)
    for name, parts in first.items():
        assert any(part.startswith("object") for part in parts)
        different = [part for part in parts if parts[part] != second[name].get(part)]
        assert not different and parts.keys() == second[name].keys()


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
def test_artifacts_of_equal_compilations_are_equal(workers: int, tmp_path: Path) -> None:
    """Times differ, and where a program came from; what is saved is the program."""
    options = Options(workers=workers, cache_dir=str(tmp_path / "cache"))
    kernel = SUITE["gemm"].make(as_dtype("float64"))
    sources: dict[str, Callable[[], object]] = {
        "model": MODELS["transformer"],
        "kernel": lambda: kernel,
        "tensors": _scaled,
    }
    for name, source in sources.items():
        saved = []
        for given in (OPTIONS, options, options):
            made = weft.compile(source(), options=given)
            made.save(tmp_path / name)
            saved.append((tmp_path / name).read_bytes())
            weft.load(tmp_path / name).save(tmp_path / name)
            assert (tmp_path / name).read_bytes() == saved[0]
        assert made.stats["from_cache"] and len(set(saved)) == 1


def _scaled() -> weft.Tensor:
    A = weft.placeholder((weft.var("n"), 8), name="A")
    return weft.compute((weft.var("n"), 8), lambda i, j: weft.exp(A[i, j]) * 2, name="B")


# ---- results ------------------------------------------------------------------------------------


def bits(results: dict[str, np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in results.values()]


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is shared out, on more threads than there may be processors."""
    monkeypatch.setattr(weft.runtime.executable, "available_threads", lambda: 4)
    shared = functools.partial(weft.driver.program_code.emit_program, grain=1)
    monkeypatch.setattr(weft.driver.program_code, "emit_program", shared)


@pytest.mark.long
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("name", MODELS)
def test_runs_agree_bit_for_bit(name: str) -> None:
    """Many runs: a race would show sooner or later."""
    made = compiled(name)
    inputs = seeded_inputs(MODELS[name](), 3)
    wanted = bits(Executable(made.compiled, threads=1).run(inputs))
    for threads in (1, 2, 4):
        run = Executable(made.compiled, threads=threads)
        for _ in range(150):
            assert bits(run.run(inputs)) == wanted


@pytest.mark.long
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("name", MODELS)
def test_strict_results_are_the_same_on_any_number_of_threads(name: str) -> None:
    made = compiled(name, STRICT)
    assert made.stats["serial_fallbacks"] == 0
    inputs = seeded_inputs(MODELS[name](), 5)
    results = [bits(Executable(made.compiled, threads=n).run(inputs)) for n in (1, 2, 3, 4)]
    assert results.count(results[0]) == 4


def sums(rows: int, length: int) -> weft.Tensor:
    x = weft.placeholder((rows, length), name="x")
    k = weft.reduce_axis((0, length), name="k")
    return weft.compute((rows,), lambda i: weft.sum(x[i, k], axis=k), name="sums")


def in_order(terms: np.ndarray) -> np.ndarray:
    """float32 sums along the last dimension, one term after the other, from 0."""
    total = np.zeros(terms.shape[:-1], np.float32)
    for k in range(terms.shape[-1]):
        total = total + terms[..., k]
    return total


@pytest.mark.parametrize("length", [1, 2, 17, 1009])
def test_strict_sums_keep_their_order(length: int) -> None:
    x = np.random.default_rng(0).standard_normal((13, length), np.float32)
    strict = weft.compile(sums(13, length), options=STRICT)
    assert strict(x).tobytes() == in_order(x).tobytes()


def test_sums_are_reordered_unless_strict() -> None:
    x = np.random.default_rng(0).standard_normal((13, 1009), np.float32)
    assert weft.compile(sums(13, 1009), options=OPTIONS)(x).tobytes() != in_order(x).tobytes()


@pytest.mark.parametrize("shape", [(5, 3, 7), (33, 129, 31), (64, 512, 48)])
def test_strict_products_of_matrices_keep_their_order(shape: tuple[int, int, int]) -> None:
    """Factors that are powers of two: products are exact, fused or not."""
    m, length, n = shape
    a, b = weft.placeholder((m, length), name="a"), weft.placeholder((n, length), name="b")
    k = weft.reduce_axis((0, length), name="k")
    c = weft.compute((m, n), lambda i, j: weft.sum(a[i, k] * b[j, k], axis=k), name="c")
    random = np.random.default_rng(1)
    left = random.standard_normal((m, length), np.float32)
    right = np.exp2(random.integers(-3, 4, (n, length))).astype(np.float32)
    wanted = in_order(left[:, None, :] * right[None, :, :])
    made = weft.compile(c, options=STRICT)
    assert made.stats["serial_fallbacks"] == 0
    for threads in (1, 2):
        assert Executable(made.compiled, threads=threads)(left, right).tobytes() == wanted.tobytes()


if __name__ == "__main__":
    print(json.dumps(all_digests()))
