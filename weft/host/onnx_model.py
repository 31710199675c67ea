"""An ONNX model as something callable, over any compiler of operator graphs.

    load_model   read → partition (host_partition.py) → compile ahead what has fixed shapes
    run          stages in order: a segment of tensor nodes by compiled code (staging.py), then
                 the host nodes that wait for it (onnx_host.py)

Bodies of If, Loop and Scan are regions like the main graph: partitioned, compiled and memoised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft.host.onnx_control_flow
import weft.host.onnx_sequences
import weft.host.onnx_strings
from weft.frontend.onnx.check_model import checked_region
from weft.frontend.onnx.host_partition import Plan, infer_kinds, is_host, partition
from weft.frontend.onnx.importer import declared_value, is_supported, load_handlers, refuse
from weft.frontend.onnx.node_context import NeedsHost
from weft.frontend.onnx.onnx_graph import OnnxNode, Port, Region
from weft.frontend.onnx.open_model import Source, open_model
from weft.frontend.onnx.schema_functions import expand
from weft.host.onnx_host import Host, HostTable
from weft.host.onnx_shapes import Shapes, checked_inputs, with_shapes
from weft.host.open_sizes import OpenProgram, compile_open
from weft.host.staging import CompileGraph, Executable, Staged
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CallError, CompileError, ModelError, UnsupportedError
from weft.ir.operator_graph import Value
from weft.ir.scalar_affine import Range
from weft.ir.tensor_expr import constant_size

Data = Any  # an array, or on the host a list (a sequence) or None (an empty optional)

HOST: HostTable = {
    **weft.host.onnx_control_flow.OPERATORS,
    **weft.host.onnx_sequences.OPERATORS,
    **weft.host.onnx_strings.OPERATORS,
}


@dataclass(slots=True, eq=False)
class OnnxModel:
    """A model with everything that its calls have compiled so far.

    ``stats``: 'compiled' executables, 'staged' values computed ahead of an import, and 'host', how
    many nodes (control flow, sequences, optionals, strings) the model leaves to the host.
    """

    region: Region
    plan: Plan
    compile_graph: CompileGraph
    stats: Counter[str] = field(default_factory=Counter)
    staged: dict[Region, Staged] = field(default_factory=dict)
    plans: dict[object, Plan] = field(default_factory=dict)
    on_host: dict[OnnxNode, None] = field(default_factory=dict)
    executable: Executable | None = None  # the whole model, where it compiles ahead of any call
    open: OpenProgram | None = None  # the same, for all of its open sizes
    why_closed: str = ""  # why there is none of an open model
    ranges: Mapping[str, Range] = field(default_factory=dict)  # that open sizes are given
    regions: dict[object, Region] = field(default_factory=dict)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Inputs that a call must give, in the model's order."""
        constants = self.region.constants
        return tuple(p.name for p in self.region.inputs if p.name not in constants)

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.region.outputs

    def __call__(self, /, *arrays: Data, **by_name: Data) -> Data:
        """The only output, or a tuple of all, for inputs in the model's order or by name."""
        results = self.outputs(*arrays, **by_name)
        return results[0] if len(results) == 1 else results

    def outputs(self, /, *arrays: Data, **by_name: Data) -> tuple[Data, ...]:
        """All outputs in the model's order."""
        names = self.input_names
        if len(arrays) > len(names):
            what = f"{len(arrays)} inputs for a model with {len(names)}"
            raise CallError("WEFT-E0600", what, hint=f"inputs are {', '.join(names)}")
        given = dict(zip(names, arrays, strict=False))
        for name in by_name:
            if name in given:
                raise CallError("WEFT-E0601", f"input {name!r} is given twice")
        results = self.run(given | by_name)
        return tuple(results[name] for name in self.output_names)

    def run(self, inputs: Mapping[str, Data]) -> dict[str, Data]:
        """The model's outputs by name for ``inputs`` by name.

        Raises ``CallError`` for wrong inputs, ``CompileError`` where data that a shape depends on
        makes the model ill-formed, and ``ExecutionError`` as compiled code does.
        """
        given = checked_inputs(self.region, inputs, self.ranges)
        if self.open is None or set(given) != set(self.open.inputs):
            return self._run_closed(given)
        results = self.open.run(given)
        if not isinstance(results, CallError):
            return dict(results)
        try:
            return self._run_closed(given)
        except CompileError as error:  # these sizes are wrong by ONNX, too
            results.why = str(error.what)
            raise results from error

    def _run_closed(self, given: Mapping[str, Data]) -> dict[str, Data]:
        """The same for checked inputs, by code for their sizes alone."""
        moved: set[OnnxNode] = set()
        while True:
            try:
                results = _Frame(self, self.plan, dict(given)).run()
            except NeedsHost as stop:
                if stop.node in moved:
                    raise
                moved.add(stop.node)
                self.move_to_host(stop.node)
            else:
                break
        owned = {**self.region.constants, **given}  # not the caller's to change, or the caller's
        return {
            name: np.array(value) if isinstance(owned.get(name), np.ndarray) else value
            for name, value in zip(self.region.outputs, results, strict=True)
        }

    def move_to_host(self, node: OnnxNode) -> None:
        """From now on run ``node``, whose definition needs control flow, on the host."""
        if node not in self.on_host:
            self.on_host = {**self.on_host, node: None}
            self.stats["host"] += 1
        self.plans = {}
        self.plan = partition(self.region, on_host=self.on_host)

    def executables(self, region: Region) -> Staged:
        """The executables of a region of tensor nodes."""
        if region not in self.staged:
            self.staged[region] = Staged(region, self.compile_graph, self.stats)
        return self.staged[region]


def load_model(
    model: Source,
    compile_graph: CompileGraph,
    shapes: Shapes | None = None,
    *,
    once: bool = False,
) -> OnnxModel:
    """``model`` ready to be called; ``shapes`` gives those of inputs by name.

    What has fixed shapes and needs no host is compiled here; if ``once``, open sizes, too, where
    one program serves them all. The rest is compiled when it is called. Raises ``CompileError``;
    all unsupported operators are listed at once.
    """
    load_handlers()
    proto, folder = open_model(model)
    region, ranges = with_shapes(checked_region(proto, folder), shapes or {})
    nodes = list(_placed(region, {}))
    if not all(_is_possible(node, on_host) for node, on_host in nodes):
        load_handlers(again=True)
    refuse(node for node, on_host in nodes if not _is_possible(node, on_host))
    result = OnnxModel(region, partition(region), compile_graph, ranges=ranges)
    result.stats["host"] = sum(on_host or node.op_type == "If" for node, on_host in nodes)
    _compile_ahead(result, once)
    return result


def _placed(region: Region, outer: Mapping[str, str]) -> Iterator[tuple[OnnxNode, bool]]:
    """Every node, bodies included, and whether it runs on the host."""
    kinds = infer_kinds(region, outer)
    for node in region.nodes:
        yield node, is_host(node, kinds)
        for body in node.bodies:
            yield from _placed(body, kinds)


def _is_possible(node: OnnxNode, on_host: bool) -> bool:
    return (node.domain, node.op_type) in HOST if on_host else is_supported(node)


def _compile_ahead(model: OnnxModel, once: bool) -> None:
    """Compile a model of one segment whose inputs all have declared sizes, or ``once`` for all
    sizes that it leaves open."""
    stages = model.plan.stages
    if len(stages) != 1 or stages[0].host or stages[0].segment is None:
        model.why_closed = "parts of it run on the host"
        return
    ports = [p for p in model.region.inputs if p.name not in model.region.constants]
    try:
        values = {port.name: declared_value(port) for port in ports}
    except UnsupportedError as error:
        if error.code == "WEFT-E0208":  # no rank: the call has one
            model.why_closed = error.what
            return
        raise
    is_open = any(constant_size(s) is None for v in values.values() for s in v.shape)
    if is_open and not once:
        return
    try:
        if is_open:
            _compile_once(model, stages[0].segment, values)
        else:
            step = model.executables(stages[0].segment).step(values, {}, {})
            model.executable = None if step is None else step.whole
    except NeedsHost as stop:
        model.move_to_host(stop.node)
        model.why_closed = stop.what


def _compile_once(model: OnnxModel, segment: Region, values: Mapping[str, Value]) -> None:
    found = compile_open(segment, values, model.ranges, model.compile_graph)
    if isinstance(found, str):
        model.why_closed = found
    else:
        model.open, model.executable = found, found.executable
        model.stats["compiled"] += 1


@dataclass(slots=True)
class _Frame:
    """One run of a region: its values, over those of the regions around it."""

    model: OnnxModel
    plan: Plan
    values: dict[str, Data]
    outer: _Frame | None = None

    def run(self) -> list[Data]:
        """The region's outputs."""
        for stage in self.plan.stages:
            if stage.segment is not None:
                region = stage.segment
                names = [*(port.name for port in region.inputs), *region.captures]
                given = {name: self.value(name) for name in names if name not in region.constants}
                given |= {n: v for n, v in self.values.items() if n in region.constants}
                fixed = {name: v for name, v in given.items() if self._is_constant(name)}
                results = self.run_tensors(region, given, fixed)
                self.values.update(zip(region.outputs, results, strict=True))
            for node in stage.host:
                inputs = [self.value(name) if name else None for name in node.inputs]
                if node in self.model.on_host:
                    outputs = self._function(node, inputs)
                else:
                    outputs = HOST[node.domain, node.op_type](Host(node, inputs, self))
                self.values.update(zip(node.outputs, outputs, strict=False))
        return [self.value(name) for name in self.plan.region.outputs]

    def value(self, name: str) -> Data:
        for frame in self._frames():
            if name in frame.values:
                return frame.values[name]
            if name in frame.plan.region.constants:
                return frame.plan.region.constants[name]
        raise ModelError("WEFT-E0222", f"{name!r} is read before anything defines it")

    def _is_constant(self, name: str) -> bool:
        """Whether the model itself holds the data of ``name``."""
        for frame in self._frames():
            if name in frame.values:
                return False
            if name in frame.plan.region.constants:
                return True
        return False

    def _frames(self) -> Iterator[_Frame]:
        frame: _Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer

    def run_tensors(
        self,
        region: Region,
        inputs: Mapping[str, Data],
        constants: Mapping[str, np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """The outputs of a region of tensor nodes, by compiled code; ``constants`` never change."""
        fixed = constants or {}
        for name, value in inputs.items():
            if not isinstance(value, np.ndarray) or value.dtype == np.dtype(object):
                raise ModelError("WEFT-E0233", f"{name!r} is not a tensor", where=region.name)
        arrays = {n: v for n, v in inputs.items() if n not in fixed}
        return self.model.executables(region).run(arrays, fixed)

    def run_body(self, body: Region, inputs: Sequence[Data]) -> list[Data]:
        """The outputs of a body for its inputs in order; it also sees this frame's values."""
        values = {port.name: value for port, value in zip(body.inputs, inputs, strict=True)}
        kinds = {name: _kind(value) for name, value in values.items()}
        key = (body, self.plan, tuple(kinds.items()))
        if key not in self.model.plans:
            self.model.plans[key] = partition(body, self._kinds() | kinds, self.model.on_host)
        return _Frame(self.model, self.model.plans[key], values, self).run()

    def _function(self, node: OnnxNode, inputs: Sequence[Data]) -> Sequence[Data]:
        """The outputs of a node that its standard definition computes, control flow included."""
        types = [
            None if a is None else Value(n, a.shape, as_dtype(a.dtype))
            for n, a in zip(node.inputs, inputs, strict=True)
        ]
        names = tuple(dict.fromkeys(filter(None, node.inputs)))

        def make() -> Region:
            nodes = tuple(expand(node, types) or ())
            return Region(node.name, tuple(map(Port, names)), node.outputs, nodes, {})

        body = self.region_of((node, *types), make)
        given = dict(zip(node.inputs, inputs, strict=True))
        return self.run_body(body, [given[name] for name in names])

    def region_of(self, key: object, make: Callable[[], Region]) -> Region:
        if key not in self.model.regions:
            self.model.regions[key] = make()
        return self.model.regions[key]

    def _kinds(self) -> dict[str, str]:
        """Kinds of what a body may capture."""
        kinds: dict[str, str] = {}
        for frame in reversed(list(self._frames())):
            kinds |= frame.plan.kinds
        return kinds


def _kind(value: Data) -> str:
    if isinstance(value, list):
        return f"seq({_kind(value[0]) if value else 'tensor'})"
    if value is None:
        return "opt(tensor)"
    return "string" if np.asarray(value).dtype == np.dtype(object) else "tensor"
