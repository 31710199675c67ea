"""Score import and operator definitions on onnx's own backend tests, without compiling anything.

    python -m tests.end_to_end.onnx_suite                 everything, a table by operator
    python -m tests.end_to_end.onnx_suite -k softmax -v   some tests, every failure with its message
    python -m tests.end_to_end.onnx_suite --compiled      the same through the whole compiler

Graphs run in the tensor interpreter, each test under a time limit. Data, calls and comparison are
the official runner's.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import random
import re
import signal
import sys
import time
import unittest
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt, Runner

from weft.host.onnx_model import OnnxModel, load_model
from weft.host.staging import CompileGraph
from weft.ir.errors import CallError, UnsupportedError
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.ir.scalar_printer import scalar_text
from weft.ir.size_arithmetic import SizeError, bind, evaluate
from weft.ir.tensor_expr import as_size

STATUSES = ("pass", "wrong", "unsupported", "error", "timeout")


class Interpreted:
    """A graph in the interpreter, in the place of an executable: for sizes that it is for."""

    def __init__(self, graph: Graph) -> None:
        verify_graph(graph)
        self.graph = graph

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = [inputs[v.name] for v in self.graph.inputs]
        declared = [tuple(map(as_size, v.shape)) for v in self.graph.inputs]
        try:
            sizes = bind(declared, [array.shape for array in given])
        except SizeError as error:
            raise CallError("WEFT-E0605", str(error)) from error
        for condition in self.graph.assumptions:
            if not evaluate(condition, sizes):
                raise CallError("WEFT-E0608", scalar_text(condition))
        results = interpret_graph(self.graph, given)
        for value, array in zip(self.graph.outputs, results, strict=True):
            shape = tuple(evaluate(as_size(size), sizes) for size in value.shape)
            assert (array.shape, array.dtype) == (shape, value.dtype.numpy)
        return {v.name: array for v, array in zip(self.graph.outputs, results, strict=True)}


class Rep:
    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def run(self, inputs: list[Any], **kwargs: Any) -> list[Any]:
        Backend.stage = "run"
        names = self.model.input_names
        results = self.model.run(dict(zip(names, inputs, strict=False)))
        Backend.stage = "compare"
        return [results[name] for name in self.model.output_names]


class Backend:
    """The interpreter as an ONNX backend."""

    stage = ""
    compile_graph: CompileGraph = Interpreted

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Rep:
        cls.stage = "import"
        return Rep(load_model(model, cls.compile_graph))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class OutOfTime(BaseException):
    """The test's own time limit: no exception that code under test may handle."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load_tests() -> tuple[dict[str, Any], dict[str, str]]:
    """Test name -> function, and test name -> operator."""
    random.seed(0)
    np.random.seed(0)
    operators = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        items = {
            name.removesuffix("_cpu"): item.func
            for category in Runner(Backend)._test_items.values()
            for name, item in category.items()
            if name.endswith("_cpu")
        }
        for case in load_model_tests(kind="node"):
            base = re.sub(r"_expanded(_ver\d+)?$", "", case.name)
            if base == case.name:
                operators[base] = case.model.graph.node[0].op_type
    return items, {
        name: operators.get(re.sub(r"_expanded(_ver\d+)?$", "", name), "(model)") for name in items
    }


def run_one(function: Any, seconds: int) -> tuple[str, str]:
    """Status and message of one test."""
    Backend.stage = ""
    try:
        with (
            time_limit(seconds),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            function(unittest.TestCase())
        return "pass", ""
    except OutOfTime:
        return "timeout", Backend.stage
    except (UnsupportedError, BackendIsNotSupposedToImplementIt, unittest.SkipTest) as error:
        return "unsupported", " ".join(str(error).split())
    except Exception as error:
        status = "wrong" if Backend.stage == "compare" else "error"
        return status, f"{Backend.stage}: {type(error).__name__}: " + " ".join(str(error).split())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only tests whose name matches this expression")
    parser.add_argument("--op", default="", help="only tests of this operator")
    parser.add_argument("--models", action="store_true", help="also whole models")
    parser.add_argument("--seconds", type=int, default=20, help="time limit per test")
    parser.add_argument("-v", action="store_true", help="print every test that does not pass")
    parser.add_argument("--compiled", action="store_true", help="compile instead of interpreting")
    options = parser.parse_args(arguments)
    if options.compiled:
        compiler = importlib.import_module("weft.driver.compiler")
        Backend.compile_graph = compiler.compile_graph
    items, operators = load_tests()
    table: dict[str, Counter[str]] = defaultdict(Counter)
    start = time.monotonic()
    for name in sorted(items):
        op = operators[name]
        if not re.search(options.k, name) or options.op not in ("", op):
            continue
        if op == "(model)" and not (options.models or options.k):
            continue
        status, message = run_one(items[name], options.seconds)
        table[op][status] += 1
        if options.v and status != "pass":
            print(f"{status:12}{name}: {message[:300]}", flush=True)
    print(f"{'':28}" + "".join(f"{s:>12}" for s in STATUSES))
    total: Counter[str] = Counter()
    for op, counts in sorted(table.items()):
        total += counts
        if options.v or any(counts[s] for s in STATUSES[1:]):
            print(f"{op:28}" + "".join(f"{counts[s] or '':>12}" for s in STATUSES))
    print(f"{'all':28}" + "".join(f"{total[s]:>12}" for s in STATUSES))
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
