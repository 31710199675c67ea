"""What providers give, held to their word: who takes a subgraph, and whether that computes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from weft.driver.providers import WEFT, Layout, Provider, Runner, Subgraph
from weft.ir.errors import ProviderError
from weft.ir.operator_graph import Graph, Value

Arrays = Mapping[str, np.ndarray]


def runner_of(name: str, provider: Provider, part: Subgraph) -> Runner | None:
    """What ``provider`` gives for ``part``; None where it does not take it. Raises
    ``ProviderError``: WEFT-E1510 where it fails, E1513 where it gives something else."""
    where = spot(name, part.graph)
    try:
        made = provider(part)
    except Exception as error:
        raise ProviderError(
            "WEFT-E1510", f"it raises {type(error).__name__}", where=where, why=str(error)
        ) from error
    if made is None:
        return None
    runner = made if isinstance(made, Runner) else Runner(made)
    if not callable(runner.call):
        raise ProviderError(
            "WEFT-E1513",
            f"it gives a {type(runner.call).__name__}",
            where=where,
            hint="a callable on arrays, a weft.Runner, or None",
        )
    for values, layouts in (
        (part.graph.inputs, runner.inputs),
        (part.graph.outputs, runner.outputs),
    ):
        ranks = {v.name: len(v.shape) for v in values}
        for value, layout in layouts.items():
            if sorted(layout) != list(range(ranks.get(value, -1))):
                raise ProviderError(
                    "WEFT-E1513",
                    f"{layout} is no layout of {value!r}",
                    where=where,
                    hint="the axes of an input or output in the order in which they lie in memory",
                )
    return runner


def results_of(name: str, runner: Runner, graph: Graph, given: Sequence[np.ndarray]) -> list[Any]:
    """What ``runner`` makes of ``given``, one for each output of ``graph``. Raises
    ``ProviderError``: WEFT-E1510 where it fails, E1514 for another number of results."""
    where = spot(name, graph)
    try:
        made = runner.call(*given)
    except Exception as error:
        if name == WEFT:  # of what data forbid, an index say: as without providers
            raise
        raise ProviderError(
            "WEFT-E1510", f"it raises {type(error).__name__}", where=where, why=str(error)
        ) from error
    found = list(made) if isinstance(made, tuple | list) else [made]
    if len(found) != len(graph.outputs):
        raise ProviderError(
            "WEFT-E1514", f"it gives {len(found)} results, not {len(graph.outputs)}", where=where
        )
    return found


def check_runner(
    name: str,
    runner: Runner,
    graph: Graph,
    given: Arrays,
    expected: Arrays,
    tolerance: float | None,
) -> None:
    """Whether ``runner`` computes ``graph``: ``expected`` of ``given``, by name.

    Raises ``ProviderError``: as ``results_of``, WEFT-E1514 for another dtype, shape or layout,
    E1515 for other results, E1516 where it writes to what it is given, or gives memory that is not
    its own to give.
    """
    arrays = [
        np.array(laid(given[v.name], runner.inputs.get(v.name)), order="K") for v in graph.inputs
    ]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    with np.errstate(all="ignore"):
        first = results_of(name, runner, graph, arrays)
    where = spot(name, graph)
    for value, found in zip(graph.outputs, first, strict=True):
        if what := misfit(value, found, runner.outputs.get(value.name)):
            raise ProviderError("WEFT-E1514", what, where=where)
        if what := difference(value, found, expected[value.name], tolerance):
            raise ProviderError("WEFT-E1515", what, where=where)
    for value, array, old in zip(graph.inputs, arrays, before, strict=True):
        if not np.array_equal(_bits(array), _bits(old)):
            raise ProviderError("WEFT-E1516", f"it overwrites {value.name!r}", where=where)
    second = results_of(name, runner, graph, arrays)
    for k, value in enumerate(graph.outputs):
        others = [*first[:k], *arrays, *second]
        if any(np.may_share_memory(first[k], other) for other in others):
            raise ProviderError(
                "WEFT-E1516",
                f"{value.name!r} is in memory of another array, or of the next call's",
                where=where,
                hint="give new arrays each time",
            )


def _bits(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(array.tobytes(), np.uint8)


def misfit(value: Value, found: object, layout: Layout | None) -> str:
    """What is wrong with the kind of array that ``found`` is; '' where nothing is."""
    if not isinstance(found, np.ndarray):
        return f"{value.name!r} is a {type(found).__name__}, not an array"
    if found.dtype != value.dtype.numpy or found.shape != value.shape:
        right = f"{value.dtype}{list(value.shape)}"
        return f"{value.name!r} is {found.dtype}{list(found.shape)}, not {right}"
    order = layout or range(found.ndim)
    if not found.transpose(*order).flags.c_contiguous:
        return f"{value.name!r} does not lie in memory as {tuple(order)}"
    return ""


def difference(
    value: Value, found: np.ndarray, expected: np.ndarray, tolerance: float | None
) -> str:
    """How ``found`` differs from ``expected``, '' where it does not: integers at all, floats by
    more than half of their digits, of the largest element; NaN and infinity are to be equal."""
    if not value.dtype.is_float:
        wrong = found != expected
        return f"{value.name!r} differs in {int(wrong.sum())} elements" if wrong.any() else ""
    one, other = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if spoiled := int((~same & ~(finite & np.isfinite(one))).sum()):
        return f"{value.name!r} has {spoiled} elements that are NaN or infinite, or should be"
    scale = float(np.abs(other[finite]).max(initial=0.0))
    gap = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
    allowed = half_of_digits(value) if tolerance is None else tolerance
    if gap > allowed * scale:
        return f"{value.name!r} differs by {gap:.3g} where {scale:.3g} is the largest element"
    return ""


def half_of_digits(value: Value) -> float:
    """√ε of the dtype: 3.5e-4 for float32."""

    return math.sqrt(ml_dtypes.finfo(value.dtype.numpy).eps)


def laid(array: np.ndarray, layout: Layout | None) -> np.ndarray:
    """``array``, or a copy, that lies in memory as ``layout``, None: row-major."""
    if layout is None:
        return np.asarray(array, order="C")
    inverse = np.argsort(layout)
    return np.asarray(array.transpose(layout), order="C").transpose(inverse)


def spot(name: str, graph: Graph) -> str:
    """A provider at a subgraph, for people."""
    first, last = graph.nodes[0].name, graph.nodes[-1].name
    text = f"node {first!r}" if first == last else f"nodes {first!r} to {last!r}"
    return f"provider {name}, {text}"
