"""Compile random ONNX models and compare them with onnxruntime, or onnx.reference.

    python -m tests.end_to_end.fuzz_models --n 5000 --seed 0
    python -m tests.end_to_end.fuzz_models --nodes 1 --operators GridSample Resize
    python -m tests.end_to_end.fuzz_models --only 17 --threads 2 --save /tmp
    python -m tests.end_to_end.fuzz_models --n 1000 --open      all sizes of inputs are open

Prints every wrong answer, crash, refusal, slow compilation and warning in a line, with the seed
that brings it back and the smallest part of the model that fails alike. ``--save`` keeps that part.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx

import weft
from tests.end_to_end.onnx_suite import OutOfTime, time_limit
from tests.end_to_end.random_models import RandomModel, Refused, without
from tests.end_to_end.random_nodes import NODES, random_model
from tests.end_to_end.random_oracle import noise
from tests.end_to_end.random_types import is_float, rounding

SECONDS, HANGING = 20, 90  # of processor time; of any time
CHUNK = 50  # models to one process


def check(case: RandomModel, threads: int, opened: bool = False) -> None:
    """Raises whatever is wrong: ``AssertionError``, ``WeftWarning`` or ``WeftError``. The model may
    be ``opened`` first."""
    model = with_open_sizes(case.model) if opened else case.model
    options = weft.Options(threads=threads, workers=0, cache=False, texts=False)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", weft.WeftWarning)
        program = weft.compile(model, options=options)
        for _ in range(2):  # what a call leaves behind must not disturb the next
            compare(case, program.run(case.inputs))
    for warning in seen:
        if isinstance(warning.message, weft.WeftWarning):
            raise warning.message


def with_open_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with all sizes of its inputs open, each by itself."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for port in changed.graph.input:
        for d, dim in enumerate(port.type.tensor_type.shape.dim):
            dim.dim_param = f"{port.name}_{d}"
    for port in changed.graph.output:
        port.type.tensor_type.ClearField("shape")
    return changed


def compare(case: RandomModel, got: dict[str, np.ndarray]) -> None:
    """Each output is what is expected, up to what rounding inputs of its nodes may change."""
    spread: dict[str, np.ndarray] = {}
    for name, expected in case.expected.items():
        actual = got[name]
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), (
            f"{name}: {actual.dtype}{list(actual.shape)}"
            f" instead of {expected.dtype}{list(expected.shape)}"
        )
        if not differ(actual, expected, 0.0).any():
            continue
        spread = spread or noise(case.model, case.inputs, case.expected)
        wrong = differ(actual, expected, 20 * spread[name])
        assert not wrong.any(), (
            f"{name}: {wrong.sum()} of {wrong.size} differ;"
            f" first at {np.argwhere(wrong)[0].tolist()}:"
            f" {actual[wrong][0]!s} instead of {expected[wrong][0]!s}"
        )


def differ(actual: np.ndarray, expected: np.ndarray, room: np.ndarray | float) -> np.ndarray:
    """Where two arrays differ by more than ``room`` and some roundings. NaN is NaN."""
    if expected.dtype == object:
        return np.asarray(actual != expected)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    if is_float(expected.dtype):
        unit = rounding(expected.dtype)
        room = room + unit * (200 if unit < 1e-6 else 4) * (np.abs(b) + 0.05)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= room
    same = (actual == expected) | (np.isnan(a) & np.isnan(b))
    return ~np.asarray(same | near & np.isfinite(a) & np.isfinite(b) | (room == np.inf))


def outcome(case: RandomModel, threads: int, opened: bool = False) -> tuple[str, str]:
    """Status and message of a model."""
    started = time.process_time()
    try:
        with time_limit(HANGING):
            check(case, threads, opened)
    except OutOfTime as error:
        if any("onnx/reference" in f.filename for f in traceback.extract_tb(error.__traceback__)):
            return "no model", "the oracle, asked how far rounding reaches, takes too long"
        return "hangs", traceback.format_exc(limit=-6)
    except AssertionError as error:
        return "wrong", str(error)
    except weft.WeftWarning as error:
        return "warning", str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "crash", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    seconds = time.process_time() - started
    return "slow" if seconds > SECONDS else "good", f"{seconds:.1f} s: {case.summary}"


def smaller(case: RandomModel, fails: Callable[[RandomModel], bool]) -> RandomModel:
    """``case`` with few nodes, as long as it ``fails``."""
    step = max(1, len(case.model.graph.node) // 2)
    while True:
        k, found = 0, False
        while k < len(case.model.graph.node) and len(case.model.graph.node) > step:
            try:
                candidate = without(case, set(range(k, k + step)))
            except Exception:  # it has no output
                candidate = None
            if candidate is not None and candidate.expected and fails(candidate):
                case, found = candidate, True
            else:
                k += step
        if step == 1 and not found:
            return case
        step = max(1, step // 2)


def isolated(function: Callable[[], Iterator[object]], seconds: float) -> Iterator[object]:
    """What ``function`` yields in a process of its own; at last how that ended, if badly."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            for value in function():
                os.write(writer, json.dumps(value).encode() + b"\n")
        except Exception:
            os.write(writer, json.dumps(["error", traceback.format_exc(limit=-6)]).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as lines:
        buffer = b""
        while True:
            ready, _, _ = select.select([lines], [], [], seconds)
            if not ready:
                os.kill(child, signal.SIGKILL)
            part = lines.read(1 << 16)
            *whole, buffer = (buffer + part).split(b"\n")
            yield from map(json.loads, whole)
            if not part:
                break
    _, status = os.waitpid(child, 0)
    if status:
        yield ["dies", f"by signal {status & 127}"]


def one(seed: int, options: argparse.Namespace) -> Iterator[object]:
    """What happens to the model of ``seed``: first that it is made, then how it went."""
    try:
        case = random_model(seed, options.nodes, options.operators)
    except Refused as error:
        yield ["no model", str(error)]
        return
    yield ["made", ""]
    yield list(outcome(case, options.threads, options.open))


def several(seeds: Sequence[int], options: argparse.Namespace) -> Iterator[object]:
    for seed in seeds:
        yield from one(seed, options)


def run(seeds: Sequence[int], options: argparse.Namespace) -> Iterator[tuple[int, str, str]]:
    """Seed, status and message of each model; a process serves for ``CHUNK`` of them."""
    waiting = list(seeds)
    while waiting:
        chunk, made = waiting[:CHUNK], False
        done = 0
        for report in isolated(partial(several, chunk, options), 3 * HANGING):
            status, message = report
            if status == "made":
                made = True
                continue
            if status == "dies" and not made:
                status, message = "no model", f"the oracle dies {message}"
            yield chunk[done], status, message
            done, made = done + 1, False
        waiting = waiting[max(done, 1) :]


def shown(seed: int, kind: tuple[str, str], options: argparse.Namespace) -> Iterator[str]:
    """The part of the model of ``seed`` that still fails alike, as text."""

    def fails(case: RandomModel) -> bool:
        result = partial(outcome, case, options.threads, options.open)
        found = list(isolated(lambda: iter([result()]), 2 * HANGING))
        return bool(found) and words(*found[-1]) == words(*kind)

    case = smaller(random_model(seed, options.nodes, options.operators), fails)
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        (options.save / f"random{seed}.onnx").write_bytes(case.model.SerializeToString())
        np.savez(options.save / f"random{seed}.npz", **case.inputs)
    text = onnx.printer.to_text(case.model.graph)
    known = [f"{n}={np.array2string(a, threshold=8)}" for n, a in case.inputs.items()]
    yield " ".join(f"{text} with {'; '.join(known)}".split())[:1500]


def words(status: str, message: str) -> str:
    """What failures have in common that have one cause."""
    return " ".join([status, *message.split()[:2]]) if status == "crash" else status


def tally(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100, help="models")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    parser.add_argument("--only", type=int, nargs="*", help="these seeds")
    parser.add_argument("--nodes", type=int, default=NODES, help="of a model")
    parser.add_argument("--operators", nargs="*", help="no blocks, but only these; none: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--open", action="store_true", help="all sizes of inputs are open")
    parser.add_argument("--save", type=Path, help="folder for what fails")
    parser.add_argument("-v", action="store_true", help="print good ones too")
    options = parser.parse_args(arguments)
    seeds = options.only or range(options.seed, options.seed + options.n)
    counts: Counter[str] = Counter()
    for seed, status, message in run(seeds, options):
        counts[status] += 1
        if status not in ("good", "no model", "slow"):
            part = list(isolated(partial(shown, seed, (status, message), options), 10 * HANGING))
            message = f"{message} || {part[-1]}"
        if status != "good" or options.v:
            print(f"seed {seed}: {status}: {' '.join(message.split())}", flush=True)
        if counts.total() % 250 == 0:
            print(f"up to seed {seed}: {tally(counts)}", flush=True)
    print(tally(counts))
    return int(counts["good"] < sum(counts.values()))


if __name__ == "__main__":
    sys.exit(main())
