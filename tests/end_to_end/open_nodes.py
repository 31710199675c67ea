"""ONNX's own node cases with all sizes open: one import must be right wherever its conditions hold.

    python -m tests.end_to_end.open_nodes              every case; a table of how many are open
    python -m tests.end_to_end.open_nodes -k slice -v  some, and why the others are not

Every dimension of every input is a symbol of its own; inputs that say shapes, axes and the like are
constants. The import is compared, in the interpreter, with one for fixed sizes: at the sizes of the
case, and at others that are made from them. Sizes that break a condition are not for this import.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from weft.frontend.onnx.check_model import checked_region
from weft.frontend.onnx.importer import declared_value, import_region
from weft.frontend.onnx.node_context import NeedsHost, NeedsValue
from weft.frontend.onnx.onnx_graph import Region
from weft.frontend.size_symbols import SizeSymbols
from weft.graph.specialize import symbols_of
from weft.ir.errors import WeftError
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph, Value
from weft.ir.size_arithmetic import SizeError, bind, evaluate
from weft.ir.tensor_expr import as_size

PARAMETERS = 8  # integers in a list that says a shape, at most
CHANGES = (0, 1, 2, 5)  # what sizes become, one after the other and all together

Arrays = dict[str, np.ndarray]


class Wrong(AssertionError):
    """The open import gives something else than the fixed one."""


def cases() -> Iterator[tuple[str, onnx.ModelProto, Arrays]]:
    """Name, model and inputs of each node case whose inputs are all tensors."""
    for case in load_model_tests(kind="node"):
        inputs, _ = case.data_sets[0]
        names = [i.name for i in case.model.graph.input]
        arrays = [np.asarray(x) if isinstance(x, np.ndarray | np.generic) else None for x in inputs]
        if len(names) == len(arrays) and all(a is not None and a.dtype != object for a in arrays):
            yield case.name, case.model, dict(zip(names, arrays, strict=True))  # type: ignore[arg-type]


def opened(model: onnx.ModelProto, arrays: Arrays) -> tuple[onnx.ModelProto, Arrays]:
    """``model`` with all sizes of its inputs open, parameters as constants; and other inputs."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    kept: Arrays = {}
    for number, port in enumerate(list(graph.input)):
        array = arrays[port.name]
        few = array.dtype.kind == "i" and array.ndim <= 1 and array.size <= PARAMETERS
        if number and few:
            graph.initializer.append(numpy_helper.from_array(array, port.name))
            graph.input.remove(port)
            continue
        kept[port.name] = array
        shape = port.type.tensor_type.shape
        shape.Clear()
        for d in range(array.ndim):
            shape.dim.add().dim_param = f"{port.name}_{d}"
    for port in graph.output:
        port.type.tensor_type.ClearField("shape")
    return changed, kept


def check(model: onnx.ModelProto, arrays: Arrays) -> tuple[str, str]:
    """("open", ""), or ("closed", why). Raises ``Wrong``."""
    changed, given = opened(model, arrays)
    try:
        region = checked_region(changed, None)
        values = {p.name: declared_value(p) for p in region.inputs}
    except WeftError as error:
        return "invalid", str(error.what)
    sizes = SizeSymbols()
    try:
        graph = import_region(region, values, sizes=sizes)
    except NeedsValue as stop:
        return "closed", f"needs the data of {stop.name}"
    except (NeedsHost, WeftError) as error:
        return "closed", str(error.what)
    verify_graph(graph)
    met = False
    for inputs in (given, *_others(graph, given)):
        met |= _compared(region, graph, inputs)
    return ("open", "") if met else ("never", " and ".join(sizes.conditions()))


def _others(graph: Graph, given: Arrays) -> Iterator[Arrays]:
    """The inputs in other sizes: each symbol in turn, and all of them, changed."""
    shapes = {v.name: v.shape for v in graph.inputs}
    names = symbols_of(graph)
    try:
        declared = [tuple(map(as_size, shape)) for shape in shapes.values()]
        now = bind(declared, [given[n].shape for n in shapes])
    except SizeError:
        return
    for chosen in [*([n] for n in names), [*names]]:
        for size in CHANGES:
            then = {**now, **dict.fromkeys(chosen, size)}
            wanted = {n: tuple(evaluate(as_size(e), then) for e in s) for n, s in shapes.items()}
            if all(min(shape, default=0) >= 0 for shape in wanted.values()):
                yield {n: _resized(given[n], wanted[n]) for n in given}


def _resized(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.resize(array, shape) if array.size else np.ones(shape, array.dtype)


def _compared(region: Region, graph: Graph, inputs: Arrays) -> bool:
    """Whether these sizes are for the open ``graph``; then its results are those of a fixed one."""
    try:
        shapes = [tuple(map(as_size, v.shape)) for v in graph.inputs]
        sizes = bind(shapes, [inputs[v.name].shape for v in graph.inputs])
        if not all(evaluate(a, sizes) for a in graph.assumptions):
            return False
    except SizeError:
        return False
    fixed = {v.name: Value(v.name, inputs[v.name].shape, v.dtype) for v in graph.inputs}
    try:
        known = import_region(region, fixed)
        expected = interpret_graph(known, [inputs[v.name] for v in known.inputs])
    except (NeedsValue, WeftError):
        return True  # nothing to compare with
    found = interpret_graph(graph, [inputs[v.name] for v in graph.inputs])
    for value, a, b in zip(graph.outputs, expected, found, strict=True):
        same = a.shape == b.shape and a.dtype == b.dtype
        if not same or not np.allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1e-5, equal_nan=True
        ):
            at = {n: x.shape for n, x in inputs.items()}
            raise Wrong(f"{value.name} at {at}: {b.dtype}{b.shape}, not {a.dtype}{a.shape}")
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only cases whose name matches this expression")
    parser.add_argument("-v", action="store_true", help="print every case that is not open")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for name, model, arrays in cases():
        if not re.search(options.k, name):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                status, why = check(model, arrays)
        except Exception as error:
            status, why = "WRONG", f"{type(error).__name__}: {error}"
        counts[status] += 1
        if status == "WRONG" or (options.v and status != "open"):
            print(f"{status:8}{name}: {' '.join(why.split())[:300]}", flush=True)
    print(dict(counts))
    return int(counts["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
