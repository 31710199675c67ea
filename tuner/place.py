"""``weft.place``: each part of a model by the provider that runs it fastest, measured.

    placed = weft.place("model.onnx", {"x": x}, threads=2)
    print(placed.explain())
    placed(x)

``combine.py`` decides who runs what, ``placement.py`` by prices alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from weft.api import Source, graph_of
from weft.codegen.objects.native_library import compiled_floats
from weft.driver.graph_front import fusion_limits
from weft.driver.options import Options, options_or_default
from weft.driver.passes import Passes
from weft.driver.providers import WEFT, Provider, providers_of
from weft.driver.targets import target_for, thread_count
from weft.driver.user_passes import with_user_passes
from weft.frontend.onnx.open_model import open_model
from weft.frontend.torch.exported import is_exported
from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.fold_constants import FoldBudget, fold_constants
from weft.ir.errors import CompileError, PlanError, ProviderError, short
from weft.ir.tensor_expr import constant_size
from weft.loop_kernel import Kernel
from weft.runtime.arguments import arrange, fitting, not_by_name
from weft.runtime.executable import Executable
from weft.tuner.combine import Combination, Final
from weft.tuner.pipeline import Pipeline
from weft.tuner.placed import Placed, spec_of
from weft.tuner.prices import Plan, Run, Setting, pipeline_of
from weft.tuner.providers.numpy import numpy
from weft.tuner.providers.onnxruntime import onnxruntime
from weft.tuner.subgraphs import Units, names, units_of, with_data
from weft.verify.verify_full import compile_and_verify

PROVIDERS = (WEFT, onnxruntime.__name__, numpy.__name__)
VERSION = 1


def place(
    model: Source,
    inputs: Mapping[str, Any],
    *,
    providers: Sequence[Provider | str] = PROVIDERS,
    threads: int | None = None,
    options: Options | None = None,
    placement: Mapping[str, Any] | None = None,
    seconds: float = 30.0,
    patience: float = 60.0,
    tolerance: float | None = None,
) -> Placed:
    """``model`` with each part run by whoever runs it fastest on these ``inputs``, by name.

    ::

        placed = weft.place("model.onnx", {"x": x}, providers=("weft", "onnxruntime"), threads=2)
        print(placed.explain())
        placed(x)

    ``model``: tensors, a ``Program`` or an ONNX model, with the shapes of ``inputs``.
    ``providers``: functions, or names of registered ones (``weft.provider``), which Weft is always
    among. ``threads`` of a call, for all of them; ``options`` for what Weft compiles. Measuring
    takes about ``seconds``, compiling apart. Providers are tried in processes of their own: one
    that crashes, says nothing for ``patience`` seconds, fails, or differs from Weft by more than
    ``tolerance`` of the largest element (None: half of the dtype's digits) is refused, and
    ``Placed.refusals`` says why. A combination is taken only if it is measured to be faster than
    each provider alone.

    ``placement``: what ``Placed.placement`` was, of this model; then nothing is measured or tried.

    Raises ``CompileError`` as ``compile`` does, WEFT-E1500 for what has no parts to place, E1501
    for a provider that there is not; ``PlanError`` (WEFT-E1502) for a ``placement`` that does not
    fit; ``ProviderError`` (WEFT-E1503, E1510, E1513) where a provider does not run its part of one;
    ``CallError`` for unfit inputs.
    """
    chosen = replace(options_or_default(options), threads=threads) if threads else options
    chosen = options_or_default(chosen)
    known = providers_of(providers)
    if not isinstance(inputs, Mapping):
        raise not_by_name(inputs)
    units = _units(model, inputs, chosen)
    compiled: dict[Run, Executable] = {}

    def weft(run: Run) -> Executable:
        if run not in compiled:
            compiled[run] = compile_and_verify(units.subgraph(run), replace(chosen, passes=()))
        return compiled[run]

    setting = Setting(units, known, weft, {}, thread_count(chosen), tolerance, patience)
    if placement is not None:
        plan = _read(placement, units, known)
        return Placed(_built(setting, plan), _written(plan, units), {}, ())
    setting = replace(setting, values=_values(units, inputs, chosen))
    search = Combination(setting, seconds)
    return _placed(search, search.best())


def _units(model: Source, inputs: Mapping[str, Any], options: Options) -> Units:
    """``model`` in units, at the shapes of ``inputs``."""
    if isinstance(model, Kernel) or is_exported(model):
        raise CompileError(
            "WEFT-E1500",
            f"a {type(model).__name__} is not placed",
            hint="tensors, a Program, or an ONNX model",
        )
    proto = None
    if isinstance(model, onnx.ModelProto | bytes | str | os.PathLike):
        proto = with_data(*open_model(model))
        graph = graph_of(model, {name: np.shape(array) for name, array in inputs.items()})
    else:
        graph = graph_of(model)
    graph = with_user_passes(graph, Passes(options, graph.name))
    open_sizes = [v for v in graph.inputs if any(constant_size(n) is None for n in v.shape)]
    if graph.in_place or open_sizes:
        raise CompileError(
            "WEFT-E1500",
            f"{graph.name!r} has {'inputs that it overwrites' if graph.in_place else 'open sizes'}",
            hint="placeholders of sizes that are numbers, and no in_place",
        )
    with compiled_floats(strict=options.strict):
        folded = fold_constants(graph, FoldBudget(bytes=options.fold_bytes))
    if not folded.nodes:
        raise CompileError("WEFT-E1500", f"{graph.name!r} computes nothing")
    return units_of(eliminate_dead(folded), fusion_limits(target_for(options).machine), proto)


def _values(units: Units, inputs: Mapping[str, Any], options: Options) -> dict[str, np.ndarray]:
    """All that units pass on, as Weft computes it from ``inputs``."""
    specs = [spec_of(v) for v in units.graph.inputs]
    given = {
        spec.name: fitting(value, spec)
        for spec, value in zip(specs, arrange(specs, (), inputs), strict=True)
    }
    passed = {v.name: v for v in (*units.graph.outputs, *units.passed)}
    everything = replace(units.graph, outputs=tuple(passed.values()))
    run = compile_and_verify(everything, replace(options, passes=()))
    return {**units.graph.constants, **given, **run.run(given)}


# ---- placements ----------------------------------------------------------------------------------


def _placed(search: Combination, final: Final) -> Placed:
    """What was found, built in this process; where that fails after all, by Weft."""
    setting, plan, taken = search.setting, final.plan, final.taken
    try:
        pipeline = _built(setting, plan)
    except ProviderError as error:
        search.refused.append(error)
        plan, taken = [(search.all, WEFT)], WEFT
        pipeline = _built(setting, plan)
    written = _written(plan, setting.units)
    return Placed(pipeline, written, _report(search, final, plan, taken), tuple(search.refused))


def _built(setting: Setting, plan: Plan) -> Pipeline:
    graph = setting.units.graph
    made = pipeline_of(setting, graph, plan)
    if made is None:
        taken = [name for _, name in plan if name != WEFT]
        raise ProviderError(
            "WEFT-E1503",
            "a provider does not take its part of the placement",
            where=f"providers {', '.join(dict.fromkeys(taken))}",
            hint="weft.place(model, inputs) without a placement finds one that runs here",
        )
    return made


def _report(search: Combination, final: Final, plan: Plan, taken: str) -> dict[str, Any]:
    parts = []
    for part, (run, name) in zip(_written(plan, search.setting.units)["parts"], plan, strict=True):
        price = search.price(run, name)
        parts.append({**part, **({} if price is None else {"ms": price.seconds * 1e3})})
    combination = None
    if final.combination is not None:
        combination = {
            "ms": final.combination * 1e3,
            "gain": final.gain,
            "low": final.low,
            "proved": final.proved,
        }
    return {
        "taken": taken,
        "whole": {name: seconds * 1e3 for name, seconds in final.singles.items()},
        "combination": combination,
        "parts": parts,
        "refused": [f"{e.code}: {e.where}: {e.what}" for e in search.refused],
    }


def _written(plan: Plan, units: Units) -> dict[str, Any]:
    """``plan`` as JSON can say it."""
    return {
        "version": VERSION,
        "parts": [
            {"provider": name, "nodes": [n for u in sorted(run) for n in names(units.nodes[u])]}
            for run, name in plan
        ],
    }


def _read(placement: Mapping[str, Any], units: Units, known: Mapping[str, Provider]) -> Plan:
    """What ``_written`` wrote. Raises ``PlanError`` (WEFT-E1502)."""
    homes = {name: u for u, nodes in enumerate(units.nodes) for name in names(nodes)}
    plan: list[tuple[Run, str]] = []
    for name, given in _parts(placement):
        if name != WEFT and name not in known:
            raise _unfit(f"nobody of providers is called {name!r}")
        if strange := [n for n in given if n not in homes]:
            raise _unfit(f"the model has no node {strange[0]!r}")
        run = frozenset(homes[n] for n in given)
        if sorted(given) != sorted(n for u in run for n in names(units.nodes[u])):
            raise _unfit(f"{name} has some nodes of a unit, and not all", short(given))
        plan.append((run, name))
    counts = [sum(u in run for run, _ in plan) for u in range(len(units.nodes))]
    if any(count != 1 for count in counts):
        wrong = next(u for u, count in enumerate(counts) if count != 1)
        raise _unfit(f"node {names(units.nodes[wrong])[0]!r} is in {counts[wrong]} parts")
    there = {v.name for v in units.graph.inputs}
    for run, name in plan:
        graph = units.subgraph(run)
        if missing := [v.name for v in graph.inputs if v.name not in there]:
            raise _unfit(f"{missing[0]!r} is computed after {name} reads it")
        there |= {v.name for v in graph.outputs}
    return plan


def _parts(placement: object) -> list[tuple[str, list[str]]]:
    match placement:
        case {"version": int(version), "parts": [*parts]} if version == VERSION:
            pass
        case _:
            raise _unfit(f"it has no parts of version {VERSION}", short(placement))
    found = []
    for part in parts:
        match part:
            case {"provider": str(name), "nodes": [*given]} if given and all(
                isinstance(n, str) for n in given
            ):
                found.append((name, [str(n) for n in given]))
            case _:
                raise _unfit("a part has no provider or no nodes", short(part))
    return found


def _unfit(what: str, why: str = "") -> PlanError:
    return PlanError(
        "WEFT-E1502",
        f"the placement does not fit: {what}",
        why=why,
        hint="Placed.placement of the same model, sizes and target, or none: it is found anew",
    )
