"""Random data for a graph, what it gives on that, and how far other results may be from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from weft.ir.dtypes import DType, as_dtype
from weft.ir.errors import ExecutionError
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.operator_graph import Graph
from weft.verify.shrink import shape_of, symbol_values

Arrays = Sequence[np.ndarray]

ROUNDINGS = 64  # of the largest value: what reordered sums and other functions may differ by
GROWTH = 8  # times the error that the working precision itself makes


@dataclass(frozen=True, slots=True)
class Expected:
    """Results in the program's own precision, and for each how far off another may be."""

    names: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    bounds: tuple[np.ndarray, ...]  # for each element; infinite where it says nothing

    def difference(self, results: Arrays) -> str:
        """The first element of ``results``, of any shapes, that is too far off; '' if none is."""
        for name, value, bound, result in zip(
            self.names, self.values, self.bounds, results, strict=True
        ):
            found = _difference(name, value, bound, result)
            if found:
                return found
        return ""


def _difference(name: str, value: np.ndarray, bound: np.ndarray, result: np.ndarray) -> str:
    if result.dtype != value.dtype or result.size != value.size:
        return f"{name} is {result.dtype}{list(result.shape)}, not {value.dtype}{list(value.shape)}"
    result = result.reshape(value.shape)
    with np.errstate(invalid="ignore"):
        want, have = value.astype(np.float64), result.astype(np.float64)
        near = (np.abs(want - have) <= bound) & (bound > 0)
        near |= (value == result) | (np.isnan(want) & np.isnan(have))
    wrong = np.argwhere(~(near | np.isinf(bound)))
    if not len(wrong):
        return ""
    at = tuple(int(i) for i in wrong[0])
    within = f" (within {bound[at]:.3g})" if bound[at] else ""
    return (
        f"{name}{list(at)} is {result[at]}, not {value[at]}{within};"
        f" {len(wrong)} of {value.size} elements differ"
    )


def expected(names: Sequence[str], values: Arrays, precise: Arrays) -> Expected:
    """``values`` with bounds from ``precise``, the same computed in float64."""
    return Expected(tuple(names), tuple(values), tuple(map(_bound, values, precise)))


def _bound(value: np.ndarray, precise: np.ndarray) -> np.ndarray:
    if not value.size:
        return np.zeros(value.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        one, two = value.astype(np.float64), precise.astype(np.float64)
        agree = np.isfinite(one) & np.isfinite(two)
        same = agree | (one == two) | (np.isnan(one) & np.isnan(two))
        own = float(np.abs(one - two)[agree].max(initial=0.0))
        size = float(np.abs(two)[agree].max(initial=0.0))
        step = float(ml_dtypes.finfo(value.dtype).eps) if as_dtype(value.dtype).is_float else 0.0
    return np.where(same, GROWTH * own + ROUNDINGS * step * size, np.inf)


def run_graph(graph: Graph, inputs: Arrays) -> Expected:
    """What ``graph`` gives: its interpreter's results, and float64's for the bounds."""
    values = interpret_graph(graph, inputs)
    precise = interpret_graph(graph, inputs, precise=True)
    return expected([v.name for v in graph.outputs], values, precise)


# ---- data ---------------------------------------------------------------------------------------


def tried(graph: Graph, run: Callable[[Graph, Arrays], Expected]) -> tuple[Graph, Arrays, Expected]:
    """``graph`` with constants, inputs and results that make sense together.

    Integers may be indices, so that wide ones are tried first, then ones that index anything;
    floats may have to be positive. Raises ``ExecutionError`` where nothing works.
    """
    attempts = list(_attempts(graph))
    for number, (with_data, inputs) in enumerate(attempts):
        try:
            found = run(with_data, inputs)
        except ExecutionError:
            if number == len(attempts) - 1:
                raise
            continue
        if number == len(attempts) - 1 or not _meaningless(found):
            return with_data, inputs, found
    raise AssertionError("there is always a last attempt")


def _meaningless(found: Expected) -> bool:
    floats = [v for v in found.values if as_dtype(v.dtype).is_float and v.size]
    return any(np.isnan(v.astype(np.float64)).mean() > 0.5 for v in floats)


def _attempts(graph: Graph) -> Iterator[tuple[Graph, Arrays]]:
    symbols = symbol_values(graph)
    for highest, positive in ((100, False), (100, True), (1, False), (1, True), (0, True)):
        random = np.random.default_rng(0)
        inputs = [
            _array(random, shape_of(v.shape, symbols), v.dtype.numpy, highest, positive)
            for v in graph.inputs
        ]
        constants = {
            name: data if highest == 100 or data.dtype.kind not in "iu" else _capped(data, highest)
            for name, data in graph.constants.items()
        }
        yield replace(graph, constants=constants), inputs


def _array(
    random: np.random.Generator, shape: tuple[int, ...], numpy: np.dtype, highest: int, above: bool
) -> np.ndarray:
    dtype = as_dtype(numpy)
    if dtype.is_float:
        values = random.uniform(0.25, 2.0, shape) if above else random.normal(0.0, 1.0, shape)
        return np.asarray(values, np.float32).astype(numpy)
    top = int(min(highest, dtype.highest))
    low = 0 if highest <= 1 or dtype.kind != "int" else int(max(-top, dtype.lowest))
    return random.integers(low, top, shape, np.int64, endpoint=True).astype(numpy)


def _capped(data: np.ndarray, highest: int) -> np.ndarray:
    return read_only(np.clip(data, 0, highest).astype(data.dtype))


def read_only(data: np.ndarray) -> np.ndarray:
    """A copy of ``data`` as constants of graphs are."""
    copy = np.array(data)
    copy.flags.writeable = False
    return copy


def garbage(size: int, dtype: DType) -> np.ndarray:
    """Memory that nothing was written to."""
    value = np.nan if dtype.is_float else 1
    return np.full(size, value, np.float32).astype(dtype.numpy)
