"""Mutate valid ONNX models and see that Weft answers with a result or a typed error, always.

    python -m tests.errors.fuzz_onnx --n 5000 --seed 7
    python -m tests.errors.fuzz_onnx --n 500 --compiled

Mutations are byte flips of the file and edits of protobuf fields. The models are onnx's own node
tests. Mutants run in forked children under limits of memory and time; a child that dies names the
mutant that killed it, which ``--only INDEX`` runs again in this process.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from tests.end_to_end.onnx_suite import Interpreted
from weft.host.onnx_model import load_model
from weft.host.staging import CompileGraph
from weft.ir.errors import InternalError, WeftError

BATCH = 100
SECONDS = 5  # for import and interpretation of one mutant
COMPILE_SECONDS = 60
MEMORY = 1 << 30
compilers: list[CompileGraph] = [Interpreted]  # the last one is used
ODD_INTEGERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**40, 255)
ODD_STRINGS = ("", "x", "y", "\0", "\n", '"', "#include", "ai.onnx", "Add", "If", "e\u0301")


def corpus() -> list[tuple[str, onnx.ModelProto, list[Any]]]:
    """(name, model, inputs) of onnx's node tests, deterministic."""
    random.seed(0)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = sorted(load_model_tests(kind="node"), key=lambda case: case.name)
    return [(c.name, c.model, list(c.data_sets[0][0])) for c in cases]


def mutant(model: onnx.ModelProto, rng: random.Random) -> bytes | onnx.ModelProto:
    """A damaged copy of ``model``: as bytes, or as a message."""
    if rng.random() < 0.3:
        data = bytearray(model.SerializeToString())
        for _ in range(rng.choice((1, 1, 2, 5, 20))):
            match rng.randrange(3):
                case 0:
                    data[rng.randrange(len(data))] = rng.randrange(256)
                case 1:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                case 2:
                    del data[rng.randrange(len(data)) :][: rng.randrange(1, 9)]
        return bytes(data)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _edit(rng.choice(list(_messages(copy))), rng)
    return copy


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for child in value if field.is_repeated else [value]:
            yield from _messages(child)


def _edit(message: Any, rng: random.Random) -> None:
    """Change one field of ``message``, present or not."""
    field = rng.choice(message.DESCRIPTOR.fields)
    if field.message_type is not None:
        _edit_message(message, field, rng)
        return
    current = getattr(message, field.name)
    value = _odd(field, rng)
    if not field.is_repeated:
        setattr(message, field.name, value)
    elif current and rng.random() < 0.8:
        index = rng.randrange(len(current))
        match rng.randrange(3):
            case 0:
                current[index] = value
            case 1:
                del current[index]
            case 2:
                current.append(current[index])
    else:
        current.append(value)


def _edit_message(message: Any, field: Any, rng: random.Random) -> None:
    if not field.is_repeated:
        message.ClearField(field.name)
        return
    items = getattr(message, field.name)
    if not items:
        items.add()
        return
    index = rng.randrange(len(items))
    match rng.randrange(3):
        case 0:
            del items[index]
        case 1:
            items.add().CopyFrom(items[index])
        case 2:
            order = list(items)
            rng.shuffle(order)
            del items[:]
            items.extend(order)


def _odd(field: Any, rng: random.Random) -> Any:
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -1.0, float("inf"), float("nan"), 1e30))
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice(list(field.enum_type.values_by_number))
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(ODD_STRINGS)
        return text.encode() if field.type == field.TYPE_BYTES else text
    value = rng.choice(ODD_INTEGERS)
    if field.cpp_type == field.CPPTYPE_INT32:
        return value if -(2**31) <= value < 2**31 else 5
    if field.cpp_type == field.CPPTYPE_UINT64:
        return abs(value)
    return value


def verdict(model: bytes | onnx.ModelProto, inputs: list[Any]) -> str:
    """'fine', a WEFT code, or 'BUG …' for anything that a user must not see."""
    try:
        loaded = load_model(model, compilers[-1])
        loaded.run(dict(zip(loaded.input_names, inputs, strict=False)))
    except InternalError as error:
        return f"BUG {error}"
    except WeftError as error:
        return error.code
    except Exception as error:
        return f"BUG {type(error).__name__}: {error}"
    return "fine"


def run(n: int, seed: int, only: int | None = None) -> tuple[Counter[str], list[str]]:
    """How often each verdict came, and a line per bug."""
    models = corpus()
    counts: Counter[str] = Counter()
    bugs: list[str] = []
    if only is not None:
        name, changed, inputs = _mutant(models, seed, only)
        print(name)
        counts[verdict(changed, inputs)] += 1
        return counts, bugs
    start = 0
    while start < n:
        last = min(n, start + BATCH)
        answers, death = _batch(models, seed, start, last)
        for index, answer in answers:
            counts[answer.split(":")[0][:60]] += 1
            if answer.startswith("BUG"):
                bugs.append(f"{index} {_mutant(models, seed, index)[0]}: {answer}")
        start += len(answers)
        if death:
            counts[death] += 1
            bugs.append(f"{start} {_mutant(models, seed, start)[0]}: {death}")
            start += 1
    return counts, bugs


def _mutant(models: list[Any], seed: int, index: int) -> tuple[str, bytes | onnx.ModelProto, Any]:
    rng = random.Random(f"{seed}/{index}")
    name, model, inputs = models[rng.randrange(len(models))]
    return name, mutant(model, rng), inputs


def _batch(
    models: list[Any], seed: int, start: int, last: int
) -> tuple[list[tuple[int, str]], str]:
    """Verdicts of the mutants up to ``last`` or the first death of the child, and how it died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _limit()
        seconds = SECONDS if compilers[-1] is Interpreted else COMPILE_SECONDS
        with os.fdopen(write, "w", errors="backslashreplace") as pipe:
            for index in range(start, last):
                _, changed, inputs = _mutant(models, seed, index)
                signal.setitimer(signal.ITIMER_REAL, seconds)  # ends the child
                answer = " ".join(verdict(changed, inputs).split())[:300]
                signal.setitimer(signal.ITIMER_REAL, 0)
                print(index, answer, file=pipe, flush=True)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, errors="replace") as pipe:
        lines = [line.rstrip("\n").split(" ", 1) for line in pipe]
    _, status = os.waitpid(child, 0)
    death = f"BUG killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
    return [(int(index), answer) for index, answer in lines], death


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true", help="compile instead of interpreting")
    parser.add_argument("--only", type=int, help="run one mutant in this process")
    options = parser.parse_args()
    if options.compiled:
        compilers.append(importlib.import_module("weft.driver.compiler").compile_graph)
    counts, bugs = run(options.n, options.seed, options.only)
    for answer, count in counts.most_common():
        print(f"{count:8} {answer}")
    print(*bugs, sep="\n")
    return bool(bugs)


if __name__ == "__main__":
    sys.exit(main())
