"""``weft.quantize``: a model in 8-bit integers, calibrated and compared with itself in float32.

    quantized = weft.quantize("model.onnx", [{"x": image} for image in images])
    print(quantized)                           exponents, layer by layer
    print(quantized.accuracy(others))          beside the model as it was
    program = weft.compile(quantized)

What is quantised, and how, is in ``graph/quantize.py``; here the model runs, to see its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from weft.codegen.objects.native_library import compiled_floats
from weft.driver.compiler import compile_graph
from weft.driver.options import Options, options_or_default
from weft.frontend.onnx.check_model import checked_region
from weft.frontend.onnx.importer import declared_value, import_region
from weft.frontend.onnx.node_context import NeedsHost, NeedsValue
from weft.frontend.onnx.open_model import Source, open_model
from weft.graph.differences import differences
from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.exact_rounding import exact_rounding
from weft.graph.exponents import Scale, scales_of
from weft.graph.fold_constants import FoldBudget, fold_constants
from weft.graph.inline_scalars import inline_scalars
from weft.graph.integer_sums import integer_sums
from weft.graph.quantize import Layer, Quantisation, quantize, values_to_observe
from weft.graph.simplify import simplify
from weft.host.onnx_shapes import Shapes, with_shapes
from weft.ir.errors import CallError, CompileError
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.runtime.executable import Executable

Arrays = Mapping[str, Any]
TITLES = ("layer", "operators", "operands", "weights", "result", "shift", "sums", "rounding")
Inputs = Arrays | Sequence[Arrays]  # by name: one call's, or those of several


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an output of the quantised model compares with the original's, over several calls.

    ``decibels``: power of signal to error; ``cosine`` of the angle between both; ``largest``
    absolute error beside the ``scale``, the largest absolute value. ``top1``: the share of rows
    whose greatest element is the same one; None where rows are no scores.
    """

    name: str
    decibels: float
    cosine: float
    largest: float
    scale: float
    top1: float | None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """``outputs``: one ``Agreement`` for each output in floats, over so many ``calls``; ``str`` is
    a table."""

    outputs: tuple[Agreement, ...]
    calls: int

    def __str__(self) -> str:
        rows = [("output", "signal/error", "cosine", "largest error", "of", "same top-1")]
        for o in self.outputs:
            top1 = "" if o.top1 is None else f"{o.top1:.1%}"
            rows.append(
                (o.name, f"{o.decibels:.1f} dB", f"{o.cosine:.5f}", f"{o.largest:.4g}",
                 f"{o.scale:.4g}", top1)
            )  # fmt: skip
        return f"{_table(rows)}\nover {self.calls} calls, beside the model in floating point"


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """A quantised model, for ``weft.compile``; ``str`` is a table of its layers.

    ``graph`` computes what ``original`` does, with the same inputs and outputs; ``layers`` say what
    became of the operators that are in integers, and why others that sum products are not.
    ``scales``: by name of a value of ``original``, what was seen of it. ``held``: value of
    ``original`` -> (the value of ``graph`` that holds it, the exponent of its scale). ``observer``:
    the original, compiled, with all values that scales were learnt of.
    """

    original: Graph
    graph: Graph
    layers: tuple[Layer, ...]
    scales: Mapping[str, Scale]
    held: Mapping[str, tuple[str, int]]
    observer: Executable

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_only, tuple(getattr(self, part.name) for part in fields(self))

    def __deepcopy__(self, _: object) -> Quantized:
        return self  # which never changes

    def accuracy(self, inputs: Inputs, *, options: Options | None = None) -> Accuracy:
        """The quantised model beside the original on ``inputs``, best other ones than those that it
        was calibrated with: by name, of one call or of several. ``options``: for compiling it.
        Raises ``CallError``: WEFT-E0640 without inputs, and as a call for those that do not fit."""
        program = compile_graph(self.graph, options_or_default(options))
        given = _calls(inputs)
        pairs = [(program.run(arrays), self.observer.run(arrays)) for arrays in given]
        names = [v.name for v in self.original.outputs if v.dtype.is_float]
        found = (_agreement(n, [(one[n], two[n]) for one, two in pairs]) for n in names)
        return Accuracy(tuple(found), len(given))

    def __str__(self) -> str:
        rows = [_row(layer, self.scales.get(layer.name)) for layer in self.layers]
        done = sum(not layer.refused for layer in self.layers)
        words = f"{done} layers in integers; operands, weights and results are int8"
        return f"{_table([TITLES, *rows])}\n{words}"

    def __repr__(self) -> str:
        return f"<weft.Quantized {self.graph.name}, {len(self.layers)} layers>"


def quantized(graph: Graph, inputs: Inputs, options: Options | None = None) -> Quantized:
    """``graph`` quantised, its scales from the values that it computes on ``inputs``.

    Raises ``CallError``: WEFT-E0640 where there are no inputs, E0641 where one is not finite or
    all are 0, and what an executable raises for inputs that do not fit.
    """
    chosen = options_or_default(options)
    verify_graph(graph)
    original = prepared(graph, chosen)
    calls = _calls(inputs)
    _check_finite(original, calls)
    observer = compile_graph(_observed(original), chosen)
    scales = observe(original, observer, calls)
    made: Quantisation = quantize(original, scales)
    verify_graph(made.graph)
    return Quantized(original, made.graph, made.layers, scales, made.held, observer)


def model_graph(source: Source, shapes: Shapes | None = None) -> Graph:
    """The operator graph of the ONNX model ``source``, all of which is tensors of known shapes.

    Raises ``CompileError``, WEFT-E0022 where shapes depend on data or parts run on the host.
    """
    proto, folder = open_model(source)
    region, _ = with_shapes(checked_region(proto, folder), shapes or {})
    ports = [port for port in region.inputs if port.name not in region.constants]
    try:
        return import_region(region, {port.name: declared_value(port) for port in ports})
    except (NeedsHost, NeedsValue) as stop:
        raise CompileError(
            "WEFT-E0022",
            f"{region.name!r} is no one graph of tensors of known shapes",
            why=str(stop) or "a shape depends on data, or parts run on the host",
            hint="give its sizes: shapes={'x': (1, 3, 224, 224)}; or cut it into models",
        ) from None


def prepared(graph: Graph, options: Options) -> Graph:
    """``graph`` with constants folded, weights of few bits too, and copies gone."""
    with compiled_floats(strict=options.strict):
        folded = fold_constants(graph, FoldBudget(bytes=options.fold_bytes, growth=8))
    return eliminate_dead(simplify(inline_scalars(folded)))


def integers_of(graph: Graph, options: Options) -> Graph:
    """``graph``, of a model that says itself what is quantised (QLinearConv, QuantizeLinear and the
    like), with its sums in int32 as nodes of their own, and with shifts where scales are powers of
    two and that is exactly the same."""
    return exact_rounding(differences(prepared(integer_sums(graph), options)))


def _observed(graph: Graph) -> Graph:
    """``graph`` with the values whose scales are asked for as further outputs."""
    there = {v.name for v in (*graph.inputs, *graph.outputs)}
    further = tuple(v for v in values_to_observe(graph) if v.name not in there)
    return replace(graph, outputs=(*graph.outputs, *further))


def observe(graph: Graph, observer: Executable, calls: Sequence[Arrays]) -> dict[str, Scale]:
    """The scales of the values of ``graph`` that ``observer`` computes in ``calls``, but for those
    that are not finite. Runs twice: for magnitudes, then for errors."""
    names = [v.name for v in values_to_observe(graph)]
    peaks = dict.fromkeys(names, 0.0)
    for values in _runs(observer, calls):
        for name in names:
            peaks[name] = float(np.maximum(peaks[name], np.abs(values[name]).max(initial=0)))
    finite = [name for name in names if np.isfinite(peaks[name])]
    return scales_of({name: peaks[name] for name in finite}, _runs(observer, calls))


def _read_only(original: Graph, graph: Graph, *rest: Any) -> Quantized:
    """A quantised model from its parts as pickle has them: constants that can be written."""
    for array in (*original.constants.values(), *graph.constants.values()):
        array.setflags(write=False)
    return Quantized(original, graph, *rest)


def _runs(observer: Executable, calls: Sequence[Arrays]) -> Iterator[dict[str, np.ndarray]]:
    for arrays in calls:
        given = {name: np.asarray(array) for name, array in arrays.items()}
        yield given | observer.run(arrays)


def _calls(inputs: Inputs) -> list[Arrays]:
    calls = [inputs] if isinstance(inputs, Mapping) else inputs
    good = isinstance(calls, Sequence) and all(isinstance(one, Mapping) for one in calls)
    if not good or not calls:
        raise CallError(
            "WEFT-E0640",
            "there are no inputs to calibrate with" if good else "calibration inputs are malformed",
            why="ranges of values are learnt by running the model",
            hint='a few typical inputs: [{"x": array}, {"x": another}]',
        )
    return list(calls)


def _check_finite(graph: Graph, calls: Sequence[Arrays]) -> None:
    """Refuse floats of which nothing, or nothing of use, can be learnt."""
    for value in graph.inputs:
        given = [np.asarray(one[value.name]) for one in calls if value.name in one]
        if not value.dtype.is_float or not all(a.dtype == value.dtype.numpy for a in given):
            continue  # a call says what is wrong
        if not all(np.isfinite(array).all() for array in given):
            raise CallError(
                "WEFT-E0641",
                f"calibration input {value.name!r} has values that are not finite",
                why="a range that holds infinity or NaN has no scale",
                hint="leave such inputs out, or replace the values",
            )
        if given and not any(array.any() for array in given):
            raise CallError(
                "WEFT-E0641",
                f"calibration input {value.name!r} is 0 everywhere",
                why="nothing is learnt about the range of any value",
                hint="calibrate with inputs like those that the model will get",
            )


def _agreement(name: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Agreement:
    found, wanted = (
        np.concatenate([np.asarray(side, np.float64).reshape(-1) for side in sides])
        for sides in zip(*pairs, strict=True)
    )
    error = found - wanted
    signal, noise = float(np.vdot(wanted, wanted)), float(np.vdot(error, error))
    norms = float(np.sqrt(np.vdot(found, found) * signal))
    ratio = signal / noise if noise else float("inf")
    return Agreement(
        name,
        10 * float(np.log10(ratio)) if ratio else float("-inf"),
        float(np.vdot(found, wanted)) / norms if norms else float(not error.any()),
        float(np.abs(error).max(initial=0.0)),
        float(np.abs(wanted).max(initial=0.0)),
        _top1(pairs),
    )


def _top1(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    shape = pairs[0][1].shape
    if len(shape) not in (1, 2) or shape[-1] < 2 or 0 in shape:
        return None
    same = [np.argmax(one, -1) == np.argmax(two, -1) for one, two in pairs]
    return float(np.mean(same))


def _row(layer: Layer, scale: Scale | None) -> tuple[str, ...]:
    if layer.refused:
        return (layer.name, layer.op, f"in floating point: {layer.refused}")
    rounding = "" if scale is None or not layer.shift else f"{scale.decibels:.1f} dB"
    return (
        layer.name,
        layer.op,
        " ".join(f"2^{e}" for e in layer.inputs),
        " ".join(f"2^{e}" for e in layer.weights),
        f"2^{layer.result}",
        str(layer.shift),
        f"{layer.sums.bit_length() + 1} bits" if layer.sums else "",
        rounding,
    )


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """``rows``, the first of them titles, in columns; a short row ends in text of any length."""
    full = max(map(len, rows))
    whole = [row for row in rows if len(row) == full]
    widths = [max(len(row[k]) for row in whole) for k in range(full)]
    lines = []
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
