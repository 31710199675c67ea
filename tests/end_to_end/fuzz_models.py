"""Compile random ONNX models and compare them with onnxruntime.

    python -m tests.end_to_end.fuzz_models --n 300 --seed 0
    python -m tests.end_to_end.fuzz_models --n 1 --seed 17 --threads 2 --save /tmp

Prints every wrong answer, crash, slow compilation and warning with the seed that brings it back.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import weft
from tests.end_to_end.onnx_suite import OutOfTime, time_limit
from tests.end_to_end.random_models import F32, RandomModel, Refused, run_onnxruntime
from tests.end_to_end.random_nodes import random_model

RTOL, ATOL = 1e-3, 1e-4
SECONDS, HANGING = 20, 90  # of processor time; of any time


def check(case: RandomModel, threads: int) -> None:
    """Raises whatever is wrong: ``AssertionError``, ``WeftWarning`` or ``WeftError``."""
    options = weft.Options(threads=threads, workers=0, cache=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", weft.WeftWarning)
        program = weft.compile(case.model, options=options)
        for _ in range(2):  # what a call leaves behind must not disturb the next
            compare(case, program.run(case.inputs))


def compare(case: RandomModel, got: dict[str, np.ndarray]) -> None:
    for name, expected in case.expected.items():
        actual = got[name]
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), name
        exact = expected.dtype.kind not in "f"
        if exact and np.array_equal(actual, expected):
            continue
        rtol, atol = (1e-2, 1e-2) if _is_coarse(case) else (RTOL, ATOL)
        room = np.full(expected.shape, 0.0 if exact else atol)
        if not np.allclose(actual, expected, rtol, room):
            room = room + 20 * _noise(case)[name]
        difference = np.abs(actual.astype(float) - expected)
        wrong = ~(difference <= room + rtol * np.abs(expected.astype(float)) * (not exact))
        wrong &= ~(np.isnan(actual) & np.isnan(expected))
        assert not wrong.any(), (
            f"{name}: {wrong.sum()} of {wrong.size} differ, by up to {difference.max():.3g};"
            f" first at {np.argwhere(wrong)[0].tolist()}:"
            f" {actual[wrong][0]} instead of {expected[wrong][0]}"
        )


def _is_coarse(case: RandomModel) -> bool:
    """Whether float16 takes part: where intermediate results are rounded is not prescribed."""
    return any(
        a.type == 1 or a.i == 10 for n in case.model.graph.node if n.op_type == "Cast"
        for a in n.attribute if a.name == "to"
    )  # fmt: skip


def _noise(case: RandomModel) -> dict[str, np.ndarray]:
    """How far the results move where the inputs do by a rounding error or two."""
    moved = {name: np.zeros(a.shape) for name, a in case.expected.items()}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        inputs = {
            n: (a * (1 + 3e-7 * rng.standard_normal(a.shape))).astype(F32) if a.dtype == F32 else a
            for n, a in case.inputs.items()
        }
        results = run_onnxruntime(case.model, inputs)
        for name, array in zip(case.expected, results, strict=True):
            change = np.abs(array.astype(float) - case.expected[name].astype(float))
            moved[name] = np.maximum(moved[name], change)
    return moved


def one(seed: int, threads: int, save: Path | None) -> tuple[str, str]:
    """Status and message of the model of ``seed``."""
    try:
        case = random_model(seed)
    except Refused as error:
        return "no model", str(error)
    if save:
        (save / f"random{seed}.onnx").write_bytes(case.model.SerializeToString())
    started = time.process_time()
    try:
        with time_limit(HANGING):
            check(case, threads)
    except OutOfTime:
        return "hangs", f"{traceback.format_exc(limit=-12)}\n  {case.summary}"
    except AssertionError as error:
        return "wrong", f"{error}\n  {case.summary}"
    except weft.WeftWarning as error:
        return "warning", f"{error}\n  {case.summary}"
    except Exception:
        return "crash", f"{traceback.format_exc(limit=-8)}\n  {case.summary}"
    seconds = time.process_time() - started
    return "slow" if seconds > SECONDS else "good", f"{seconds:.1f} s: {case.summary}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100, help="models")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", type=Path, help="folder for the models")
    parser.add_argument("-v", action="store_true", help="print good ones too")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.n):
        status, message = one(seed, options.threads, options.save)
        counts[status] += 1
        if status != "good" or options.v:
            print(f"seed {seed}: {status}: {message}", flush=True)
    print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    return int(counts["good"] < options.n)


if __name__ == "__main__":
    sys.exit(main())
