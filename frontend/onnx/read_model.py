"""ModelProto -> Region: decode everything once and inline model-local functions.

Function calls are inlined with fresh names, ``caller/inner``; how many nodes that makes is counted
before the first one is copied, so that exponential nesting ends in an error and not in a hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx

from weft.frontend.onnx.context import find_handler
from weft.frontend.onnx.onnx_graph import OnnxNode, Port, Region, captured
from weft.frontend.onnx.tensors import ExternalData, sparse_to_array, tensor_to_array
from weft.ir.errors import BudgetError, ModelError

MAX_NODES = 50_000
MAX_DEPTH = 64  # of function calls, and of subgraphs
MAX_SPARSE = 2**26  # elements of a sparse tensor made dense

Key = tuple[str, str, str]  # domain, name, overload


@dataclass(frozen=True, slots=True)
class _Scope:
    """How the names, attributes and opsets of the graph or function at hand are to be read."""

    opsets: Mapping[str, int]
    prefix: str = ""
    names: Mapping[str, str] | None = None  # formal -> actual; None outside functions
    attributes: Mapping[str, object] = field(default_factory=dict)
    depth: int = 0

    def name(self, name: str) -> str:
        text(name)
        if self.names is None or not name:
            return name
        return self.names.get(name, self.prefix + name)


def read_model(model: onnx.ModelProto, folder: Path | None = None) -> Region:
    """The main graph of ``model``; ``folder`` is where its external data lies.

    Raises ``ModelError``, ``BudgetError`` or ``UnsupportedError``.
    """
    functions = {_key(f): f for f in model.functions}
    reader = _Reader(functions, ExternalData(folder))
    total = expanded_size(model.graph.node, functions)
    if total > MAX_NODES:
        raise BudgetError(
            "WEFT-E0210",
            f"the model has {_approximately(total)} nodes once its functions are inlined",
            why=f"at most {MAX_NODES} are accepted",
        )
    opsets = opset_versions(model.opset_import) or {"": 1}
    return reader.region(model.graph, _Scope(opsets))


def inlined(call: OnnxNode, function: onnx.FunctionProto) -> Iterator[OnnxNode]:
    """The nodes of one function, which calls no model-local functions, in the place of ``call``."""
    return _Reader({}, ExternalData(None)).inlined(call, function, 0)


def opset_versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Domain -> version; the standard domain is the empty string."""
    return {_domain(i.domain): i.version for i in imports}


def expanded_size(
    nodes: Sequence[onnx.NodeProto], functions: Mapping[Key, onnx.FunctionProto]
) -> int:
    """Number of nodes, subgraphs included, after all functions are inlined, by arithmetic alone.

    Raises ``ModelError`` where a function calls itself and ``BudgetError`` beyond ``MAX_DEPTH``.
    """
    sizes: dict[Key, int] = {}
    open_: dict[Key, None] = {}
    called: dict[Key, tuple[Key | None, ...]] = {
        key: tuple(_calls(f.node, functions)) for key, f in functions.items()
    }
    stack: list[tuple[Key, bool]] = [(key, False) for key in reversed(list(functions))]
    while stack:
        key, expanded = stack.pop()
        if expanded:
            sizes[key] = sum(1 if k is None else sizes[k] for k in called[key])
            del open_[key]
        elif key in open_:
            raise ModelError("WEFT-E0211", f"function {key[1]!r} calls itself")
        elif key not in sizes:
            open_[key] = None
            if len(open_) > MAX_DEPTH:
                raise BudgetError("WEFT-E0212", f"functions are nested deeper than {MAX_DEPTH}")
            stack.append((key, True))
            inner = dict.fromkeys(k for k in called[key] if k is not None and k not in sizes)
            stack.extend((k, False) for k in inner)
    return sum(1 if k is None else sizes[k] for k in _calls(nodes, functions))


def _calls(
    nodes: Iterable[onnx.NodeProto], functions: Mapping[Key, onnx.FunctionProto]
) -> Iterator[Key | None]:
    """For each node, subgraphs included, the function that it calls or None."""
    stack = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        key = (_domain(node.domain), node.op_type, node.overload)
        yield key if key in functions else None
        bodies = [a.g for a in node.attribute if a.HasField("g")]
        bodies += [g for a in node.attribute for g in a.graphs]
        stack.extend(iter(body.node) for body in bodies)
        if len(stack) > MAX_DEPTH:
            raise BudgetError("WEFT-E0212", f"subgraphs are nested deeper than {MAX_DEPTH}")


def _approximately(count: int) -> str:
    return str(count) if count < 10**9 else f"about 10^{len(str(count)) - 1}"


def text(name: str) -> str:
    """``name`` itself; protobuf hands out bytes where a file holds no valid UTF-8."""
    if isinstance(name, str):
        return name
    raise ModelError("WEFT-E0216", f"the name {name!r} is not UTF-8")


def _key(function: onnx.FunctionProto) -> Key:
    return (_domain(function.domain), text(function.name), function.overload)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else text(domain)


@dataclass(slots=True)
class _Reader:
    functions: Mapping[Key, onnx.FunctionProto]
    external: ExternalData

    def region(self, graph: onnx.GraphProto, scope: _Scope) -> Region:
        if scope.depth > MAX_DEPTH:
            raise BudgetError("WEFT-E0212", f"subgraphs are nested deeper than {MAX_DEPTH}")
        constants: dict[str, np.ndarray] = {}
        for tensor in graph.initializer:
            self._define(constants, scope.name(tensor.name), self.tensor(tensor))
        for sparse in graph.sparse_initializer:
            self._define(constants, scope.name(sparse.values.name), self.sparse(sparse))
        inputs = tuple(
            Port(scope.name(v.name), v.type if v.HasField("type") else None) for v in graph.input
        )
        outputs = tuple(scope.name(v.name) for v in graph.output)
        types = tuple(v.type if v.HasField("type") else None for v in graph.output)
        nodes = tuple(self.nodes(graph.node, scope))
        captures = captured(inputs, constants, nodes, outputs)
        return Region(text(graph.name), inputs, outputs, nodes, constants, captures, types)

    def tensor(self, proto: onnx.TensorProto, where: str = "") -> np.ndarray:
        return tensor_to_array(proto, where, self.external)

    def sparse(self, proto: onnx.SparseTensorProto, where: str = "") -> np.ndarray:
        return sparse_to_array(proto, MAX_SPARSE, where, self.external)

    def _define(self, constants: dict[str, np.ndarray], name: str, data: np.ndarray) -> None:
        if not name or name in constants:
            raise ModelError("WEFT-E0246", f"initializer {name!r} is defined twice or unnamed")
        constants[name] = data

    def nodes(self, protos: Iterable[onnx.NodeProto], scope: _Scope) -> Iterator[OnnxNode]:
        for index, proto in enumerate(protos):
            node = self.node(proto, index, scope)
            function = self.functions.get((node.domain, node.op_type, proto.overload))
            if function is None or find_handler(node.domain, node.op_type, node.opset):
                yield node
            else:
                yield from self.inlined(node, function, scope.depth)

    def node(self, proto: onnx.NodeProto, index: int, scope: _Scope) -> OnnxNode:
        domain = _domain(proto.domain)
        name = scope.prefix + text(proto.name or f"{text(proto.op_type)}_{index}")
        where = f"node {name!r} ({proto.op_type})"
        attributes: dict[str, object] = {}
        for attribute in proto.attribute:
            if text(attribute.name) in attributes:
                what = f"attribute {attribute.name!r} is given twice"
                raise ModelError("WEFT-E0214", what, where=where)
            value = self.attribute(attribute, scope, where)
            if value is not None:
                attributes[attribute.name] = value
        return OnnxNode(
            name,
            proto.op_type,
            domain,
            scope.opsets.get(domain, 0),
            tuple(scope.name(n) for n in proto.input),
            tuple(scope.name(n) for n in proto.output),
            attributes,
            where,
            scope.opsets,
            proto
            if scope.names is None and any(a.HasField("g") for a in proto.attribute)
            else None,
        )

    def inlined(
        self, call: OnnxNode, function: onnx.FunctionProto, depth: int
    ) -> Iterator[OnnxNode]:
        """The nodes of ``function`` in the place of ``call``."""
        prefix = f"{next(filter(None, call.outputs), call.name)}#/"
        actual = (*call.inputs, *[""] * (len(function.input) - len(call.inputs)))
        names = dict(zip(function.input, actual, strict=False))
        for formal, result in zip(function.output, call.outputs, strict=False):
            if result and formal in names:  # an input handed through, or one result twice
                yield identity_node(names[formal], result, call)
            elif result:
                names[formal] = result
        opsets = {**call.opsets, **opset_versions(function.opset_import)}
        scope = _Scope(opsets, prefix, names, depth=depth + 1)
        defaults = {
            text(a.name): self.attribute(a, scope, call.where) for a in function.attribute_proto
        }
        given = {k: v for k, v in defaults.items() if v is not None} | dict(call.attributes)
        yield from self.nodes(function.node, replace(scope, attributes=given))

    def attribute(self, proto: onnx.AttributeProto, scope: _Scope, where: str) -> object | None:
        """The attribute as Python data; None for a reference to an absent one."""
        if proto.ref_attr_name:
            return scope.attributes.get(proto.ref_attr_name)
        kind = onnx.AttributeProto.AttributeType
        match proto.type or _guess_type(proto):
            case kind.FLOAT:
                return float(proto.f)
            case kind.INT:
                return int(proto.i)
            case kind.STRING:
                return bytes(proto.s).decode("utf-8", "replace")
            case kind.TENSOR:
                return self.tensor(proto.t, where)
            case kind.SPARSE_TENSOR:
                return self.sparse(proto.sparse_tensor, where)
            case kind.GRAPH:
                return self.region(proto.g, replace(scope, depth=scope.depth + 1))
            case kind.FLOATS:
                return [float(f) for f in proto.floats]
            case kind.INTS:
                return [int(i) for i in proto.ints]
            case kind.STRINGS:
                return [s.decode("utf-8", "replace") for s in proto.strings]
            case kind.TENSORS:
                return [self.tensor(t, where) for t in proto.tensors]
            case kind.TYPE_PROTO:
                declared: object = proto.tp
                return declared
            case kind.TYPE_PROTOS:
                return list(proto.type_protos)
        raise ModelError(
            "WEFT-E0213",
            f"attribute {proto.name!r} has no type that ONNX operators use",
            where=where,
        )


def identity_node(source: str, result: str, around: OnnxNode) -> OnnxNode:
    """A standard Identity, for names that a function or branch hands through."""
    opset = around.opsets.get("", 13)
    return OnnxNode(around.name, "Identity", "", opset, (source,), (result,), {}, around.where)


def _guess_type(proto: onnx.AttributeProto) -> int:
    """Models of IR version 1 leave the type out."""
    kinds = onnx.AttributeProto.AttributeType
    for name, kind in (("f", kinds.FLOAT), ("i", kinds.INT), ("s", kinds.STRING)):
        if proto.HasField(name):
            return int(kind)
    for name, kind in (("t", kinds.TENSOR), ("g", kinds.GRAPH)):
        if proto.HasField(name):
            return int(kind)
    for name, kind in (("floats", kinds.FLOATS), ("ints", kinds.INTS), ("strings", kinds.STRINGS)):
        if len(getattr(proto, name)):
            return int(kind)
    return 0
