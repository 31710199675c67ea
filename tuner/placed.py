"""A model whose subgraphs several providers run, as ``weft.place`` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.ir.errors import ProviderError
from weft.ir.operator_graph import Value
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import as_size
from weft.runtime.arguments import (
    Out,
    arrange,
    check_apart,
    check_target,
    fitting,
    not_by_name,
    targets_of,
)
from weft.runtime.compiled import ArraySpec
from weft.runtime.pickling import StaysHere
from weft.tuner.pipeline import Pipeline


class Placed(StaysHere):
    """A model in parts, each run by the provider that ``weft.place`` found fastest.

    ``placed(*arrays, **by_name)``, in order or by name, returns the output, or a tuple of them;
    ``out=`` takes arrays for them, as ``Executable`` does. Shapes are those of the inputs that it
    was made with. ``pipeline``: its parts. ``placement`` says who runs what, as
    ``weft.place(…, placement=…)`` takes it again; ``report`` what was measured; ``refusals``: the
    ``ProviderError`` of each provider that failed, with the subgraph that it failed at.

    Raises ``CallError`` for unfit inputs and ``out`` (WEFT-E0600 to E0606), ``ProviderError`` where
    a provider fails at a call after all (WEFT-E1510, E1514).
    """

    __slots__ = ("_inputs", "_outputs", "_pipeline", "_placement", "_refusals", "_report")
    _elsewhere = "weft.place(model, inputs, placement=placed.placement) makes it there"

    def __init__(
        self,
        pipeline: Pipeline,
        placement: Mapping[str, Any],
        report: Mapping[str, Any],
        refusals: tuple[ProviderError, ...],
    ) -> None:
        self._pipeline, self._placement, self._report = pipeline, placement, report
        self._refusals = refusals
        self._inputs = tuple(map(spec_of, pipeline.graph.inputs))
        self._outputs = tuple(map(spec_of, pipeline.graph.outputs))

    def __call__(self, /, *arrays: Any, out: Out = None, **by_name: Any) -> Any:
        results = self._run(arrange(self._inputs, arrays, by_name), out)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, arrays: Mapping[str, Any], *, out: Out = None) -> dict[str, np.ndarray]:
        """The outputs by name, from the inputs by name: ``arrays`` and ``out`` as in a call. Raises
        ``CallError``: WEFT-E0602 for what is no mapping, and as a call does."""
        if not isinstance(arrays, Mapping):
            raise not_by_name(arrays)
        results = self._run(arrange(self._inputs, (), arrays), out)
        return dict(zip(self.output_names, results, strict=True))

    def _run(self, given: list[object], out: Out) -> list[np.ndarray]:
        arrays = [fitting(a, spec) for a, spec in zip(given, self._inputs, strict=True)]
        targets = targets_of(out, self._outputs)
        places: list[tuple[str, np.ndarray]] = []
        for target, spec in zip(targets, self._outputs, strict=True):
            if target is not None:
                shape = tuple(evaluate(n, {}) for n in spec.shape)
                places.append((f"out for {spec.name!r}", check_target(target, spec, shape)))
        check_apart(places, [])
        results = self._pipeline(arrays)
        for k, (target, result) in enumerate(zip(targets, results, strict=True)):
            if target is not None:
                np.copyto(target, result)
                results[k] = target
        return results

    # ---- looking at it ---------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """The parts, in the order in which they run."""
        return self._pipeline

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """Name, dtype and shape of each input, in the order of positional arguments."""
        return self._inputs

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        """Name, dtype and shape of each output, in order."""
        return self._outputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return tuple(spec.name for spec in self._outputs)

    @property
    def providers(self) -> tuple[str, ...]:
        """Who runs each part, in order."""
        return self._pipeline.providers

    @property
    def placement(self) -> Mapping[str, Any]:
        """Who runs what, as JSON can say it: "parts" in order, each with its "provider" and the
        "nodes" that it runs, by the name of their first result."""
        return self._placement

    @property
    def refusals(self) -> tuple[ProviderError, ...]:
        """Why providers do not run what they said they would: a typed error for each subgraph."""
        return self._refusals

    def report(self) -> Mapping[str, Any]:
        """What was measured, as JSON can say it: "whole", milliseconds of each provider that runs
        all of the model; "combination", those of the best one, its "gain" over the best of these
        and the lower limit "low" of that (95%); "taken"; "parts", with milliseconds alone;
        "refused". Empty where a placement was given."""
        return self._report

    def explain(self) -> str:
        """The same as text."""
        return _text(self._report, self._placement)


def spec_of(value: Value) -> ArraySpec:
    return ArraySpec(value.name, value.dtype, tuple(map(as_size, value.shape)))


def _text(report: Mapping[str, Any], placement: Mapping[str, Any]) -> str:
    if not report:
        return "\n".join(_part(part) for part in placement["parts"])
    best = report["taken"]
    lines = [f"taken: {best}", "all of it:"]
    lines += [f"  {name}: {ms:.3f} ms" for name, ms in report["whole"].items()]
    if (found := report["combination"]) is not None:
        proved = "" if found["proved"] else ", not proved to be the best"
        lines.append(
            f"  combination: {found['ms']:.3f} ms, gain {found['gain']:.3f},"
            f" at least {found['low']:.3f}{proved}"
        )
    lines += ["parts:", *(f"  {_part(part)}" for part in report["parts"])]
    if report["refused"]:
        lines += ["refused:", *(f"  {each}" for each in report["refused"])]
    return "\n".join(lines)


def _part(part: Mapping[str, Any]) -> str:
    nodes = part["nodes"]
    which = nodes[0] if len(nodes) == 1 else f"{nodes[0]} … {nodes[-1]} ({len(nodes)} nodes)"
    price = f", {part['ms']:.3f} ms alone" if "ms" in part else ""
    return f"{part['provider']}: {which}{price}"
