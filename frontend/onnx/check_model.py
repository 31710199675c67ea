"""What a model must satisfy before anything is built from it.

    checked_region(model)   versions, sizes → read_model → names, order, attributes → Region

Models come from strangers. Every rule here is checked on counts and names alone, in time linear in
the model, and every violation names the node. What depends on shapes is checked during import.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import defs

from weft.frontend.onnx.onnx_graph import OnnxNode, Region
from weft.frontend.onnx.read_model import read_model
from weft.ir.errors import ModelError, UnsupportedError

_NEWEST_OPSET = defs.onnx_opset_version()
_MOST = 2**31 - 1  # of a version in any domain


def checked_region(model: onnx.ModelProto, folder: Path | None = None) -> Region:
    """The main graph of ``model``, well-formed; ``folder`` is where its external data lies.

    Raises ``ModelError``, ``BudgetError`` or ``UnsupportedError`` (WEFT-E02xx).
    """
    check_versions(model)
    region = read_model(model, folder)
    check_region(region)
    return region


def check_versions(model: onnx.ModelProto) -> None:
    """Refuse IR and opset versions that the installed onnx does not know."""
    if not model.HasField("graph"):
        raise ModelError("WEFT-E0240", "the model has no graph")
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise UnsupportedError(
            "WEFT-E0241",
            f"IR version {model.ir_version}",
            why=f"the installed onnx knows 1 to {onnx.IR_VERSION}",
            hint="upgrade onnx, or export the model for an older version",
        )
    for imports in (model.opset_import, *(f.opset_import for f in model.functions)):
        seen: set[str] = set()
        for entry in imports:
            domain = "" if entry.domain == "ai.onnx" else entry.domain
            if domain in seen:
                raise ModelError("WEFT-E0242", f"domain {domain!r} is imported twice")
            seen.add(domain)
            if entry.version < 1:
                raise ModelError("WEFT-E0242", f"opset {entry.version} of domain {domain!r}")
            newest = _MOST if domain else _NEWEST_OPSET
            if entry.version > newest:
                raise UnsupportedError(
                    "WEFT-E0243",
                    f"opset {entry.version} of domain {domain!r}",
                    why=f"the installed onnx knows opsets up to {newest}",
                )
    keys = [(f.domain, f.name, f.overload) for f in model.functions]
    if len(set(keys)) != len(keys):
        raise ModelError("WEFT-E0244", "two functions have the same name")


def check_region(region: Region, outer: tuple[set[str], ...] = ()) -> None:
    """Names defined once and before they are read; nodes as their operators' schemas say."""
    defined: set[str] = set(region.constants)
    inputs: set[str] = set()
    for port in region.inputs:
        if not port.name or port.name in inputs:
            raise ModelError(
                "WEFT-E0245", f"two inputs are called {port.name!r}", where=f"graph {region.name!r}"
            )
        inputs.add(port.name)
    defined |= inputs
    scope = (*outer, defined)
    for node in region.nodes:
        for name in node.inputs:
            if name and not any(name in names for names in scope):
                raise _undefined(name, node.where, region)
        check_node(node)
        for body in node.bodies:
            check_region(body, scope)
        for name in filter(None, node.outputs):
            if name in defined:
                raise ModelError("WEFT-E0246", f"{name!r} is defined twice", where=node.where)
            defined.add(name)
    for name in region.outputs:
        if not any(name in names for names in scope):
            raise _undefined(name, f"outputs of graph {region.name!r}", region)


def _undefined(name: str, where: str, region: Region) -> ModelError:
    later = any(name in node.outputs for node in region.nodes)
    return ModelError(
        "WEFT-E0222",
        f"{name!r} is read before it is defined" if later else f"nothing defines {name!r}",
        where=where,
        why="nodes must be in topological order, without cycles" if later else "",
    )


@dataclass(frozen=True, slots=True)
class _Signature:
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: Mapping[str, tuple[str, bool]]  # name -> type, required


def check_node(node: OnnxNode) -> None:
    """Counts of inputs and outputs, and attributes, against the operator's schema."""
    if not node.op_type:
        raise ModelError("WEFT-E0247", "a node without an operator", where=node.where)
    if node.opset < 1:
        raise ModelError(
            "WEFT-E0248", f"the model does not import domain {node.domain!r}", where=node.where
        )
    signature = _signature(node.domain, node.op_type, node.opset)
    if signature is None:
        return
    for what, names, (least, most) in (
        ("inputs", node.inputs, signature.inputs),
        ("outputs", node.outputs, signature.outputs),
    ):
        if not least <= len(names) <= most:
            raise ModelError(
                "WEFT-E0249",
                f"{len(names)} {what}, {node.op_type} takes {least} to {most}",
                where=node.where,
            )
    _check_attributes(node, signature)


def _check_attributes(node: OnnxNode, signature: _Signature) -> None:
    for name, value in node.attributes.items():
        if name not in signature.attributes:
            raise ModelError(
                "WEFT-E0250",
                f"{node.op_type} has no attribute {name!r} in opset {node.opset}",
                where=node.where,
                hint="it has " + (", ".join(sorted(signature.attributes)) or "none"),
            )
        kind = signature.attributes[name][0]
        if not _fits(value, kind):
            raise ModelError(
                "WEFT-E0251", f"attribute {name!r} must be of type {kind}", where=node.where
            )
    for name, (_, required) in signature.attributes.items():
        if required and name not in node.attributes:
            raise ModelError("WEFT-E0252", f"attribute {name!r} is missing", where=node.where)


def _fits(value: object, kind: str) -> bool:
    match kind:
        case "INT":
            return isinstance(value, int)
        case "FLOAT":
            return isinstance(value, float)
        case "STRING":
            return isinstance(value, str)
        case "TENSOR" | "SPARSE_TENSOR":
            return isinstance(value, np.ndarray)
        case "GRAPH":
            return isinstance(value, Region)
        case "INTS" | "FLOATS" | "STRINGS" | "TENSORS" | "GRAPHS" | "SPARSE_TENSORS":
            return isinstance(value, list) and all(_fits(v, kind[:-1]) for v in value)
    return isinstance(value, onnx.TypeProto)


@functools.lru_cache(maxsize=4096)
def _signature(domain: str, op_type: str, opset: int) -> _Signature | None:
    try:
        schema = defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    attributes = {n: (a.type.name, bool(a.required)) for n, a in schema.attributes.items()}
    return _Signature(
        (schema.min_input, schema.max_input), (schema.min_output, schema.max_output), attributes
    )
