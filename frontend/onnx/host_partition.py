"""Region -> plan: which nodes become compiled tensor segments and which ones run on the host.

    Plan  ::= region, stages: Stage…, kinds
    Stage ::= segment: Region (tensor nodes only) or none, then host: OnnxNode…

Control flow, sequences, optionals, strings and maps are host nodes; everything else is a tensor
node. Stages are as few as the data flow allows: a tensor node waits for a host node only where it
depends on it. A *kind* says what a value is: 'tensor', 'string', 'seq(tensor)', 'opt(seq(tensor))'.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from weft.frontend.onnx.onnx_graph import OnnxNode, Port, Region, captured

HOST_OPERATORS = frozenset({
    "Loop", "Scan", "SequenceMap", "SequenceConstruct", "SequenceEmpty", "SequenceInsert",
    "SequenceErase", "SequenceAt", "SequenceLength", "SplitToSequence", "ConcatFromSequence",
    "Optional", "OptionalHasElement", "OptionalGetElement", "StringConcat", "StringSplit",
    "StringNormalizer", "RegexFullMatch",
})  # fmt: skip

Kinds = dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    segment: Region | None
    host: tuple[OnnxNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    region: Region
    stages: tuple[Stage, ...]
    kinds: Mapping[str, str]


def partition(
    region: Region,
    outer: Mapping[str, str] | None = None,
    on_host: Collection[OnnxNode] = (),
) -> Plan:
    """The plan of ``region``.

    ``outer`` has the kinds of what it captures and of untyped inputs; the nodes ``on_host`` go to
    the host whatever they are.
    """
    kinds = infer_kinds(region, outer or {})
    stage_of: dict[str, int] = {}  # value -> first stage at whose segment a tensor node can read it
    host_at: dict[str, int] = {}  # value -> stage whose host nodes can read it
    segments: dict[int, list[OnnxNode]] = {}
    hosts: dict[int, list[OnnxNode]] = {}
    for node in region.nodes:
        if node in on_host or is_host(node, kinds):
            stage = max((host_at.get(name, 0) for name in node.reads), default=0)
            hosts.setdefault(stage, []).append(node)
            ready = (stage + 1, stage)
        else:
            stage = max((stage_of.get(name, 0) for name in node.reads), default=0)
            segments.setdefault(stage, []).append(node)
            ready = (stage, stage)
        for name in node.outputs:
            stage_of[name], host_at[name] = ready
    count = max([*segments, *hosts], default=-1) + 1
    if not hosts:
        return Plan(region, tuple(Stage(region, ()) for _ in range(count)), kinds)
    return Plan(region, _stages(region, segments, hosts, count), kinds)


def is_host(node: OnnxNode, kinds: Mapping[str, str]) -> bool:
    """Whether ``node`` touches anything but tensors, or loops."""
    if node.domain not in ("", "ai.onnx.ml"):
        return False
    if not node.domain and node.op_type in HOST_OPERATORS:
        return True
    touched = (*node.inputs, *node.outputs)
    if any(kinds.get(name, "tensor") != "tensor" for name in touched if name):
        return True
    return any(_contains_host(body, kinds) for body in node.bodies)


def _contains_host(body: Region, outer: Mapping[str, str]) -> bool:
    kinds = infer_kinds(body, outer)
    return any(is_host(node, kinds) for node in body.nodes) or any(
        kinds.get(name, "tensor") != "tensor" for name in body.outputs
    )


def infer_kinds(region: Region, outer: Mapping[str, str]) -> Kinds:
    """The kind of every value that ``region`` can name."""
    kinds: Kinds = dict(outer)
    for port in region.inputs:
        kinds[port.name] = kind_of_port(port, outer)
    for name, data in region.constants.items():
        kinds[name] = "string" if data.dtype == object else "tensor"
    for node in region.nodes:
        for name, kind in zip(node.outputs, _output_kinds(node, kinds), strict=False):
            kinds[name] = kind
    return kinds


def kind_of_port(port: Port, outer: Mapping[str, str]) -> str:
    if port.type is None or port.type.WhichOneof("value") is None:
        return outer.get(port.name, "tensor")
    return kind_of_type(port.type)


def kind_of_type(type_: onnx.TypeProto) -> str:
    """The kind that a declared type stands for."""
    match type_.WhichOneof("value"):
        case "sequence_type":
            return f"seq({kind_of_type(type_.sequence_type.elem_type)})"
        case "optional_type":
            return f"opt({kind_of_type(type_.optional_type.elem_type)})"
        case "map_type":
            return "map"
        case "tensor_type" if type_.tensor_type.elem_type == onnx.TensorProto.STRING:
            return "string"
    return "tensor"


def inside(kind: str) -> str:
    """The kind of a sequence's or optional's element."""
    return kind[4:-1] if kind[:4] in ("seq(", "opt(") else kind


def _output_kinds(node: OnnxNode, kinds: Kinds) -> Iterable[str]:
    first = kinds.get(node.inputs[0], "tensor") if node.inputs else "tensor"
    rule = _RULES.get(node.op_type) if node.domain == "" else _ML_RULES.get(node.op_type)
    if rule is not None:
        return [rule(node, kinds, first)] * len(node.outputs)
    match node.op_type:
        case "If":
            return [k for body in node.bodies[:1] for k in body_kinds(body, kinds)]
        case "Loop":
            return [k for body in node.bodies[:1] for k in loop_kinds(node, body, kinds)[1:]]
    return ["tensor"] * len(node.outputs)


def body_kinds(body: Region, kinds: Mapping[str, str]) -> list[str]:
    inner = infer_kinds(body, kinds)
    return [inner.get(name, "tensor") for name in body.outputs]


def loop_kinds(node: OnnxNode, body: Region, kinds: Mapping[str, str]) -> list[str]:
    """Kinds of the body's outputs; what is carried has the kind of its initial value."""
    carried = {
        port.name: kinds.get(name, "tensor")
        for port, name in zip(body.inputs[2:], node.inputs[2:], strict=False)
    }
    return body_kinds(body, {**kinds, **carried})


def _same(node: OnnxNode, kinds: Kinds, first: str) -> str:
    return first


def _strings_or_tensor(node: OnnxNode, kinds: Kinds, first: str) -> str:
    """Data movement gives strings for strings; a sequence's length or shape is a tensor."""
    return "string" if first == "string" else "tensor"


def _cast(node: OnnxNode, kinds: Kinds, first: str) -> str:
    return "string" if node.attributes.get("to") == onnx.TensorProto.STRING else "tensor"


def _constant(node: OnnxNode, kinds: Kinds, first: str) -> str:
    attributes = node.attributes
    text = "value_string" in attributes or "value_strings" in attributes
    value = attributes.get("value")
    return "string" if text or is_text(value) else "tensor"


def _optional(node: OnnxNode, kinds: Kinds, first: str) -> str:
    declared = node.attributes.get("type")
    if isinstance(declared, onnx.TypeProto) and not node.inputs:
        return f"opt({kind_of_type(declared)})"
    return f"opt({first})"


def _where(node: OnnxNode, kinds: Kinds, first: str) -> str:
    return kinds.get(node.inputs[1], "tensor") if len(node.inputs) > 1 else "tensor"


def _cast_like(node: OnnxNode, kinds: Kinds, first: str) -> str:
    return _where(node, kinds, first)


def _label_encoder(node: OnnxNode, kinds: Kinds, first: str) -> str:
    attributes = node.attributes
    tensor = attributes.get("values_tensor")
    if "values_strings" in attributes or is_text(tensor):
        return "string"
    if "classes_strings" in attributes:
        return "tensor" if first == "string" else "string"
    return "tensor"


Rule = Callable[[OnnxNode, Kinds, str], str]

_DATA_MOVEMENT = (
    "Reshape", "Concat", "Gather", "GatherElements", "GatherND", "Squeeze", "Unsqueeze", "Flatten",
    "Transpose", "Slice", "Expand", "Tile", "Split", "Unique", "Compress",
)  # fmt: skip

_RULES: dict[str, Rule] = {
    "Identity": _same,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": _constant,
    "Where": _where,
    "SequenceConstruct": lambda node, kinds, first: f"seq({first})",
    "SequenceEmpty": lambda node, kinds, first: "seq(tensor)",
    "SequenceInsert": _same,
    "SequenceErase": _same,
    "SequenceAt": lambda node, kinds, first: inside(first),
    "SequenceMap": lambda node, kinds, first: "seq(tensor)",
    "SplitToSequence": lambda node, kinds, first: f"seq({first})",
    "ConcatFromSequence": lambda node, kinds, first: inside(first),
    "Optional": _optional,
    "OptionalGetElement": lambda node, kinds, first: (
        inside(first) if first.startswith("opt(") else first
    ),
    "StringConcat": lambda node, kinds, first: "string",
    "StringNormalizer": lambda node, kinds, first: "string",
    **dict.fromkeys(_DATA_MOVEMENT, _strings_or_tensor),
}

_ML_RULES: dict[str, Rule] = {"LabelEncoder": _label_encoder}


def is_text(value: object) -> bool:
    """Whether ``value`` is an array of strings."""
    return isinstance(value, np.ndarray) and value.dtype.hasobject


def _stages(
    region: Region,
    segments: Mapping[int, list[OnnxNode]],
    hosts: Mapping[int, list[OnnxNode]],
    count: int,
) -> tuple[Stage, ...]:
    """Segments as regions of their own: inputs are what they capture, outputs what others read."""
    readers: dict[str, set[tuple[str, int]]] = {}
    for kind, table in (("segment", segments), ("host", hosts)):
        for stage, nodes in table.items():
            for node in nodes:
                for name in node.reads:
                    readers.setdefault(name, set()).add((kind, stage))
    results = set(region.outputs)
    stages = []
    for stage in range(count):
        tensor_nodes = tuple(segments.get(stage, ()))
        segment = None
        if tensor_nodes:
            own = {("segment", stage)}
            outputs = tuple(
                name
                for node in tensor_nodes
                for name in node.outputs
                if name and (name in results or readers.get(name, own) - own)
            )
            defined = {name for node in tensor_nodes for name in node.outputs}
            reads = dict.fromkeys(
                n for node in tensor_nodes for n in node.reads if n not in defined
            )
            title = f"{region.name}.{stage}"
            segment = Region(title, (), outputs, tensor_nodes, {}, tuple(reads))
        stages.append(Stage(segment, tuple(hosts.get(stage, ()))))
    return tuple(stages)


# ---- Region -> two regions, one after the other: where import needs data that is expensive to
# compute.
#
# What stands before the cut is then computed once, and its results are inputs of what follows.


def cut_region(region: Region, index: int) -> tuple[Region, Region]:
    """The nodes before ``index`` and those from it on; each reads its inputs as captures.

    The first gives what the second or the region's outputs need of it, the second what it defines
    of the region's outputs.
    """
    before, after = region.nodes[:index], region.nodes[index:]
    needed = {name for node in after for name in node.reads} | set(region.outputs)
    parts = []
    for title, nodes in (("before", before), ("after", after)):
        names = [name for node in nodes for name in node.outputs if name in needed]
        outputs = tuple(n for n in names if nodes is before or n in region.outputs)
        reads = captured((), {}, nodes, ())
        parts.append(Region(f"{region.name}.{title}", (), outputs, nodes, {}, reads))
    return parts[0], parts[1]
