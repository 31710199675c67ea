"""ONNX -> operator graph: one pass over the nodes, one handler per operator.

    check_model.py     reads the protobuf, inlines functions, checks it        -> Region
    import_region      calls the handler of each node in order                 -> Graph
    schema_functions   stands in for a missing handler with ONNX's own definition

Values that handlers need at import (shapes, axes) are folded on the way. One that is not constant
stops import with ``NeedsValue``, which carries the graph that computes it; the caller runs that
and imports again with the value known (``weft/host/onnx_model.py``).
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import onnx

import weft.frontend.onnx as handlers
from weft.frontend.graph_builder import GraphBuilder, frozen
from weft.frontend.onnx.check_model import checked_region
from weft.frontend.onnx.context import HANDLERS, Handler, find_handler
from weft.frontend.onnx.host_partition import is_host
from weft.frontend.onnx.node_context import (
    Counted,
    CountUnknown,
    ImportContext,
    NeedsHost,
    NeedsValue,
    ValueUnknown,
)
from weft.frontend.onnx.onnx_graph import OnnxNode, Port, Region, all_nodes
from weft.frontend.onnx.read_model import text
from weft.frontend.onnx.schema_functions import depends_on_types, expand
from weft.frontend.onnx.tensors import checked_shape, dtype_of
from weft.frontend.operators.arguments import replaced
from weft.frontend.operators.sizes import SizesDiffer
from weft.frontend.size_symbols import SizeSymbols
from weft.ir.errors import CompileError, ExpressionError, ModelError, UnsupportedError, WeftWarning
from weft.ir.interrupts import uninterrupted
from weft.ir.operator_graph import Graph, Value
from weft.ir.scalar_expr import Var, variable_list
from weft.ir.tensor_expr import Size, as_size, constant_size

Shapes = Mapping[str, tuple[int, ...]]
Known = Mapping[str, np.ndarray]


def import_model(
    model: onnx.ModelProto,
    folder: Path | None = None,
    *,
    shapes: Shapes | None = None,
    known: Known | None = None,
) -> Graph:
    """The operator graph of ``model``, whose external data lie in ``folder``.

    ``shapes`` gives concrete shapes of inputs; other sizes are what the model declares, a
    ``dim_param`` or an unnamed size becoming a symbol, of which the graph assumes what its nodes
    take for granted. ``known`` binds values to data. Raises
    ``ModelError``, ``BudgetError`` or ``UnsupportedError``, and ``NeedsValue`` where a shape or an
    attribute depends on data that ``known`` does not have.
    """
    load_handlers()
    region = checked_region(model, folder)
    inputs = {
        port.name: declared_value(port, (shapes or {}).get(port.name))
        for port in region.inputs
        if port.name not in region.constants or port.name in (shapes or {})
    }
    return import_region(region, inputs, known=known)


def import_region(
    region: Region,
    inputs: Mapping[str, Value | np.ndarray],
    *,
    known: Known | None = None,
    sizes: SizeSymbols | None = None,
    counted: dict[str, Counted] | None = None,
) -> Graph:
    """The graph of ``region``, all of tensors; ``inputs`` are values, or arrays for constants.

    ``inputs`` covers the region's inputs and captures. ``sizes``: what is known of their open
    sizes, to which the import adds. ``counted``: where it is given, outputs of the last node whose
    sizes depend on data have their greatest possible ones, and it is filled with how much of them
    counts, by name; these scalars follow the region's outputs. Raises as ``import_model`` does.
    """
    load_handlers()
    check_supported(all_nodes(region))
    graph = _imported(region, inputs, known or {}, sizes, counted)
    for value, type_ in zip(graph.outputs, region.output_types, strict=False):
        if counted and value.name in counted:
            axis = counted[value.name].axis
            value = replace(value, shape=replaced(value.shape, axis, Var("count")))
        check_declared(value, type_, partial(_depends_on_sizes, region, inputs, graph))
    return graph


class _Unified(Exception):
    """Two open sizes are one from now on."""


class _Anew(Exception):
    """Sizes became one, and what was imported before does not know it."""


def _imported(
    region: Region,
    inputs: Mapping[str, Value | np.ndarray],
    known: Known,
    sizes: SizeSymbols | None = None,
    counted: dict[str, Counted] | None = None,
) -> Graph:
    """The graph of ``region``, whatever it declares of its outputs: anew where sizes turn out to be
    one, as what came before may depend on them."""
    symbols = SizeSymbols() if sizes is None else sizes
    shapes = (v.shape for v in inputs.values() if isinstance(v, Value))
    for name in (n for shape in shapes for size in shape for n in variable_list(as_size(size))):
        if name not in symbols.ranges:
            symbols.open(name)
    while True:
        try:
            return _imported_once(region, inputs, known, symbols, counted)
        except _Anew:
            continue


def _imported_once(
    region: Region,
    inputs: Mapping[str, Value | np.ndarray],
    known: Known,
    sizes: SizeSymbols,
    counted: dict[str, Counted] | None,
) -> Graph:
    builder = GraphBuilder({name: frozen(data) for name, data in known.items()}, sizes=sizes)
    builder.reserve(_names(region))
    scope: dict[str, Value | None] = {}
    given: list[Value] = []
    for name, value in inputs.items():
        if isinstance(value, Value):
            shape = [sizes.normal(size) for size in value.shape]
            scope[name] = builder.input(name, shape, value.dtype)
            given.append(scope[name])  # type: ignore[arg-type]
        else:
            scope[name] = builder.initializer(name, value)
    run = _Import(builder, given, region, None if counted is None else {})
    outputs = run.region(region, scope)
    if run.stale:
        raise _Anew
    if run.unsupported:
        raise _all_unsupported(run.unsupported)
    named = run.named_outputs(region.outputs, outputs)
    if counted is not None and run.deferred:
        counted.update(
            (value.name, run.deferred[name])
            for name, value in zip(region.outputs, named, strict=True)
            if name in run.deferred
        )
        named += dict.fromkeys(found.count for found in counted.values())
    graph = builder.graph(region.name, given, named)
    told = (n for v in graph.inputs for s in v.shape for n in variable_list(as_size(s)))
    return replace(graph, assumptions=sizes.assumed(told))


def _depends_on_sizes(
    region: Region, inputs: Mapping[str, Value | np.ndarray], graph: Graph
) -> bool:
    """Whether outputs of ``region`` may have other ranks than in ``graph``, for inputs of other
    sizes or data: Squeeze drops what has size 1, If takes either branch."""
    if any(map(is_branch, all_nodes(region))):
        return True
    sizes: tuple[Callable[[Size], Size], ...] = (lambda size: Var(f"size {size}"), lambda _: 1)
    try:
        others = [_imported(region, _resized(inputs, other), {}).outputs for other in sizes]
    except (CompileError, NeedsValue):
        return True
    ranks = [[len(v.shape) for v in outputs] for outputs in (graph.outputs, *others)]
    return any(other != ranks[0] for other in ranks)


def _resized(
    inputs: Mapping[str, Value | np.ndarray], other: Callable[[Size], Size]
) -> dict[str, Value | np.ndarray]:
    return {
        name: replace(v, shape=tuple(map(other, v.shape))) if isinstance(v, Value) else v
        for name, v in inputs.items()
    }


def load_handlers(again: bool = False) -> None:
    """All handlers: those of this package, whose modules are imported in sorted order, and those of
    installed packages; ``again``: of those that were installed since, too."""
    load_own_handlers()
    HANDLERS.load(again)


@cache
def load_own_handlers() -> None:
    """Weft's own handlers."""
    with uninterrupted():
        for module in sorted(m.name for m in pkgutil.iter_modules(handlers.__path__)):
            importlib.import_module(f"{handlers.__name__}.{module}")


def is_supported(node: OnnxNode) -> bool:
    """Whether a tensor node has a handler or a definition by operators that are supported."""
    if find_handler(node.domain, node.op_type, node.opset) is not None or is_branch(node):
        return True
    if depends_on_types(node):
        return True  # its definition is known, and checked, at import
    body = expand(node, ())
    return body is not None and all(is_host(n, {}) or is_supported(n) for n in body)


def check_supported(nodes: Iterable[OnnxNode]) -> None:
    """Raise one ``UnsupportedError`` that lists every operator that Weft cannot import."""
    missing = [node for node in nodes if not is_supported(node)]
    if missing:
        load_handlers(again=True)
    refuse(node for node in missing if not is_supported(node))


def refuse(nodes: Iterable[OnnxNode]) -> None:
    """Raise one ``UnsupportedError`` that lists ``nodes``, if there are any."""
    missing: dict[str, list[OnnxNode]] = {}
    for node in nodes:
        kind = f"{node.domain or 'ai.onnx'}.{node.op_type} (opset {node.opset})"
        missing.setdefault(kind, []).append(node)
    if missing:
        first = next(iter(missing.values()))[0]
        raise UnsupportedError(
            "WEFT-E0200",
            "operators that Weft does not import: " + ", ".join(missing),
            where="; ".join(node.where for found in missing.values() for node in found[:3]),
            hint=the_door(first),
        )


def the_door(node: OnnxNode) -> str:
    """What to do where nothing imports ``node``."""
    key = f'"{node.domain}", "{node.op_type}", since={node.opset}'
    return f"@weft.onnx_handler({key}) registers a function that does: docs/extending.md"


def is_branch(node: OnnxNode) -> bool:
    return not node.domain and node.op_type == "If"


def declared_value(port: Port, shape: tuple[int, ...] | None = None) -> Value:
    """The value that the model declares, with symbols for open sizes, or with ``shape``."""
    where = f"input {port.name!r}"
    if port.type is None or not port.type.HasField("tensor_type"):
        raise UnsupportedError("WEFT-E0202", "an input that is not a tensor", where=where)
    tensor = port.type.tensor_type
    dtype = dtype_of(tensor.elem_type, where)
    if shape is not None:
        return Value(port.name, checked_shape(shape, where), dtype)
    if not tensor.HasField("shape"):
        raise UnsupportedError(
            "WEFT-E0208", "an input without a rank", where=where, hint="pass its shape"
        )
    sizes: list[Size] = []
    for d, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value"):
            sizes.append(checked_shape([dim.dim_value], where)[0])
        else:
            sizes.append(Var(size_name(port.name, d, dim)))
    return Value(port.name, tuple(sizes), dtype)


def size_name(port: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> str:
    """What an open size of an input is called: as the model does, or by its place."""
    return text(dim.dim_param) or f"{port}_{axis}"


def check_declared(
    value: Value, type_: onnx.TypeProto | None, depends_on_sizes: Callable[[], bool]
) -> None:
    """Compare an output with what the model says of it. Other sizes are only a warning; so is
    another rank where it ``depends_on_sizes``."""
    if type_ is None or not type_.HasField("tensor_type"):
        return
    declared, where = type_.tensor_type, f"output {value.name!r}"
    if declared.elem_type and dtype_of(declared.elem_type, where) != value.dtype:
        what = f"declared as {dtype_of(declared.elem_type)}, it is {value.dtype}"
        raise ModelError("WEFT-E0224", what, where=where)
    if not declared.HasField("shape"):
        return
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    same_rank = len(sizes) == len(value.shape)
    if not same_rank and not depends_on_sizes():
        what = f"declared with {len(sizes)} dimensions, it has {len(value.shape)}"
        raise ModelError("WEFT-E0224", what, where=where)
    pairs = zip(sizes, map(constant_size, value.shape), strict=False)
    if not same_rank or any(a is not None and b is not None and a != b for a, b in pairs):
        what = f"{where} is declared with sizes {sizes}, it has {list(value.shape)}"
        warnings.warn(what, WeftWarning, stacklevel=2)


def _names(region: Region) -> Iterator[str]:
    yield from (port.name for port in region.inputs)
    yield from region.constants
    yield from region.outputs
    for node in all_nodes(region):
        yield from node.outputs


def _all_unsupported(found: Sequence[UnsupportedError]) -> UnsupportedError:
    if len(found) == 1:
        return found[0]
    return UnsupportedError(
        found[0].code,
        "; ".join(dict.fromkeys(error.what for error in found)),
        where="; ".join(dict.fromkeys(error.where for error in found if error.where)),
        hint="; ".join(dict.fromkeys(error.hint for error in found if error.hint)),
    )


@contextlib.contextmanager
def _explained(node: OnnxNode) -> Iterator[None]:
    """Errors inside name the node; what an operator's definition refuses is the model's fault."""
    try:
        yield
    except ExpressionError as error:
        raise ModelError(
            error.code, error.what, where=node.where, why=error.why, hint=error.hint
        ) from error
    except CompileError as error:
        if not error.where.startswith("node "):
            error.where = node.where
        raise
    except (ValueUnknown, NeedsValue, _Anew):
        raise
    except Exception as error:
        line = _line_outside(error)
        raise ModelError(
            "WEFT-E0221",
            "the node cannot be imported as it stands",
            where=f"{node.where}, {line}" if line else node.where,
            why=f"{type(error).__name__}: {error}",
            hint="a handler refuses a node by raising node.malformed(…) or node.unsupported(…)"
            if line
            else "onnx.checker.check_model says whether the model is valid; if so, report this",
        ) from error


def _line_outside(error: Exception) -> str:
    """file:line of the last call that led to ``error`` and is not in Weft's own folder; or ''."""
    own = str(Path(handlers.__file__).parents[2])
    calls = traceback.extract_tb(error.__traceback__)
    outside = [f"{c.filename}:{c.lineno}" for c in calls if not c.filename.startswith(own)]
    return outside[-1] if outside else ""


Scope = dict[str, Value | None]  # None: a value of a node that is unsupported


@dataclass(slots=True)
class _Import:
    builder: GraphBuilder
    inputs: Sequence[Value]
    whole: Region
    deferred: dict[str, Counted] | None = None  # by the region's names; None: nothing may be
    position: int = 0  # of the node of the whole region that is being imported
    unsupported: list[UnsupportedError] = field(default_factory=list)
    stale: bool = False  # sizes became one: what follows only finds others that do

    def region(self, region: Region, scope: Scope) -> list[Value | None]:
        """Import the nodes of ``region``; the values of its outputs."""
        for name, data in region.constants.items():
            if name in scope:
                continue
            if data.dtype == object:
                self.unsupported.append(UnsupportedError("WEFT-E0202", "strings", where=name))
                scope[name] = None
            else:
                scope[name] = self.builder.initializer(name, data)
        for index, node in enumerate(region.nodes):
            if region is self.whole:
                self.position = index
            self.node(node, scope)
        return [self._lookup(name, scope, f"output of {region.name!r}") for name in region.outputs]

    def node(self, node: OnnxNode, scope: Scope) -> None:
        while True:
            try:
                return self._node(node, scope)
            except _Unified:
                self.stale = True  # once more, and on, to find others
            except Exception as error:
                if self.stale:  # may be because of what came before
                    raise _Anew from error
                raise

    def _node(self, node: OnnxNode, scope: Scope) -> None:
        values = [self._lookup(n, scope, node.where) if n else None for n in node.inputs]
        if any(n and v is None for n, v in zip(node.inputs, values, strict=True)):
            scope.update(dict.fromkeys(node.outputs))
            return
        if self.stale:
            values = [None if v is None else self._with_equal_sizes(v) for v in values]
        handler = find_handler(node.domain, node.op_type, node.opset)
        try:
            with _explained(node):
                if is_branch(node):
                    self._branch(node, values, scope)
                elif handler is None:
                    self._function(node, values, scope)
                else:
                    self._handled(node, handler, values, scope)
        except NeedsHost:
            raise NeedsHost(node) from None
        except UnsupportedError as error:
            self.unsupported.append(error)
            scope.update(dict.fromkeys(node.outputs))
        except ModelError as error:
            cause = error.__cause__
            if isinstance(cause, SizesDiffer) and self.builder.sizes.unify(*cause.sizes):
                raise _Unified from error
            raise
        except ValueUnknown as unknown:
            if self.unsupported:
                raise _all_unsupported(self.unsupported) from None
            wanted = self.builder.graph(self.whole.name, self.inputs, (unknown.value,))
            counted = isinstance(unknown, CountUnknown) and node is self.whole.nodes[self.position]
            raise NeedsValue(unknown.value.name, wanted, self.position, counted) from None

    def _with_equal_sizes(self, value: Value) -> Value:
        return replace(value, shape=tuple(map(self.builder.sizes.normal, value.shape)))

    def _handled(
        self, node: OnnxNode, handler: Handler, values: list[Value | None], scope: Scope
    ) -> None:
        start = len(self.builder.nodes)
        context = ImportContext(node, self.builder, values)
        context.may_defer = self.deferred is not None and node is self.whole.nodes[-1]
        results = handler(context)
        if context.never_asked and not str(handler.__module__).startswith("weft."):
            what = f"{node.where}: its handler never asks for {', '.join(context.never_asked)}"
            warnings.warn(what, WeftWarning, stacklevel=2)
        many = [results] if isinstance(results, Value) else list(results)
        for output, value in zip(node.outputs, many, strict=False):
            if self.deferred is not None and value is not None and value.name in context.deferred:
                self.deferred[output] = context.deferred[value.name]
        self._bind(node, many, start, scope)

    def _bind(self, node: OnnxNode, results: list[Value | None], start: int, scope: Scope) -> None:
        """Give the results the names of the node's outputs, where this node made them."""
        made = {v.name for n in self.builder.nodes[start:] for v in n.outputs}
        names: dict[str, str] = {}
        for index, output in enumerate(node.outputs):
            if not output:
                continue
            value = results[index] if index < len(results) else None
            if value is None:
                reason = f"output {index} is not computed"
                raise UnsupportedError("WEFT-E0201", reason, where=node.where)
            if value.name in made and value.name not in names:
                names[value.name] = self.builder.final_name(output)
            scope[output] = value
        for output in filter(None, node.outputs):
            value = scope[output]
            if value is not None and value.name in names:
                scope[output] = Value(names[value.name], value.shape, value.dtype)
        self.builder.rename(start, names)

    def _function(self, node: OnnxNode, values: list[Value | None], scope: Scope) -> None:
        body = expand(node, values)
        if body is None:
            reason = f"{node.op_type} has neither a handler nor a definition that fits"
            raise UnsupportedError("WEFT-E0200", reason, where=node.where, hint=the_door(node))
        if any(is_host(part, {}) for part in body):
            raise NeedsHost(node)
        inner: Scope = {name: scope[name] for name in node.inputs if name}
        for part in body:
            self.node(part, inner)
        for output in filter(None, node.outputs):
            scope[output] = self._lookup(output, inner, node.where)

    def _branch(self, node: OnnxNode, values: list[Value | None], scope: Scope) -> None:
        """If: the branch that its condition chooses."""
        context = ImportContext(node, self.builder, values)
        taken = bool(context.static(context.input(0)).reshape(-1)[:1].any())
        body = context.required("then_branch" if taken else "else_branch")
        inner = {name: value for name, value in scope.items() if name not in body.constants}
        results = self.region(body, inner)
        for output, value in zip(node.outputs, results, strict=False):
            if output:
                scope[output] = value

    def _lookup(self, name: str, scope: Scope, where: str) -> Value | None:
        if name not in scope:
            raise ModelError(
                "WEFT-E0222",
                f"{name!r} is read before anything defines it",
                where=where,
                why="nodes must come in topological order, without cycles",
            )
        return scope[name]

    def named_outputs(self, names: Sequence[str], values: Sequence[Value | None]) -> list[Value]:
        """Outputs under the model's names; one that is an input or a constant is copied."""
        builder = self.builder
        wanted = set(names)
        aside = {
            v.name: builder.fresh(f"{v.name}.constant")
            for v in values
            if v is not None and v.name in wanted and v.name in builder.data
        }
        builder.rename(0, aside)
        builder.final.difference_update(aside)
        made = {v.name for node in builder.nodes for v in node.outputs}
        found: list[Value] = []
        for name, value in zip(names, values, strict=True):
            if value is None:
                raise _all_unsupported(self.unsupported)
            value = Value(aside.get(value.name, value.name), value.shape, value.dtype)
            own = value.name == name and name in made and value not in found
            found.append(value if own else builder.copy(value, name, f"output {name!r}"))
        return found
