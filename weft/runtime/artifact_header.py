"""The header of an artifact: typed records for msgpack, to and from ``Compiled``.

Reading is strict: unknown fields, wrong types and positions out of range are exceptions of
``MALFORMED``, never anything else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from weft.codegen.llvm.target import LlvmTarget
from weft.ir.dtypes import as_dtype, bool_, int64
from weft.ir.errors import ExpressionError, PlanError
from weft.ir.plan import Plan
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Select,
    Var,
    apply,
    cast,
    literal,
    select,
    walk,
)
from weft.ir.size_arithmetic import OPERATORS
from weft.runtime.compiled import ArraySpec, Compiled, Guard, InPlace

MAX_TEXT = 1 << 30  # bytes of all texts, unpacked
MALFORMED: tuple[type[Exception], ...] = (
    msgspec.MsgspecError, KeyError, ValueError, IndexError, TypeError, OverflowError,
    ExpressionError, zlib.error, UnicodeError,
)  # fmt: skip


class _Node(msgspec.Struct, array_like=True, frozen=True):
    """One node of an expression; ``args`` are positions of earlier nodes."""

    kind: str
    text: str = ""
    value: int = 0
    args: tuple[int, ...] = ()


_Expr = tuple[_Node, ...]


class _Spec(msgspec.Struct, array_like=True, frozen=True):
    name: str
    dtype: str
    shape: tuple[_Expr, ...]
    alignment: int


class _Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    fma: bool
    half: bool


class _Constant(msgspec.Struct, array_like=True, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    inputs: tuple[_Spec, ...]
    outputs: tuple[_Spec, ...]
    parameters: tuple[str, ...]
    target: _Target
    processor: str
    entry: str
    derived: tuple[tuple[str, _Expr], ...]
    in_place: tuple[tuple[int, int, bool], ...]
    scalars: tuple[int, ...]
    guards: tuple[tuple[_Expr, str], ...]
    checks: tuple[tuple[str, ...], ...]
    stats: dict[str, Any]
    explanation: str
    plan: str
    constants: tuple[_Constant, ...]
    objects: int
    text_bytes: int  # of the last blob, unpacked; 0: it was left out
    blobs: tuple[tuple[int, int], ...]  # offset from the end of the header, bytes


class _Texts(msgspec.Struct, frozen=True):
    llvm: tuple[str, ...]
    stages: dict[str, str]


def pack_texts(compiled: Compiled) -> tuple[bytes, int]:
    """The texts as one compressed blob, and its size unpacked."""
    unpacked = msgspec.msgpack.encode(_Texts(compiled.llvm, dict(compiled.texts)))
    return zlib.compress(unpacked, 1), len(unpacked)


def encode_header(compiled: Compiled, places: Sequence[tuple[int, int]], text_bytes: int) -> bytes:
    """The header of ``compiled`` whose blobs lie at ``places``, relative to the header's end:
    constants, objects, the pool, the certificate, texts."""
    return msgspec.msgpack.encode(_header(compiled, places, text_bytes), enc_hook=_plain)


def decode_header(data: memoryview, body: memoryview) -> Compiled:
    """The program whose header is ``data`` and whose blobs lie in ``body``."""
    header = msgspec.msgpack.decode(data, type=_Header)
    blobs = [body[at : at + size] for at, size in header.blobs]
    if any(len(blob) != size for blob, (_, size) in zip(blobs, header.blobs, strict=True)):
        raise ValueError("a blob lies outside the file")
    return _compiled(header, blobs)


def interface(compiled: Compiled) -> bytes:
    """What the header of ``compiled`` says of how it is called."""
    return encode_header(
        replace(compiled, stats={}, explain=str, weighed=None, estimate=None), (), 0
    )


def _header(compiled: Compiled, places: Sequence[tuple[int, int]], text_bytes: int) -> _Header:
    return _Header(
        name=compiled.name,
        inputs=tuple(map(_spec, compiled.inputs)),
        outputs=tuple(map(_spec, compiled.outputs)),
        parameters=compiled.parameters,
        target=_Target(*(getattr(compiled.target, f) for f in _Target.__struct_fields__)),
        processor=compiled.processor,
        entry=compiled.entry,
        derived=tuple((name, _nodes(e)) for name, e in compiled.derived),
        in_place=tuple((p.output, p.input, p.shared) for p in compiled.in_place),
        scalars=compiled.scalars,
        guards=tuple((_nodes(g.condition), g.text) for g in compiled.guards),
        checks=compiled.checks,
        stats=dict(compiled.stats),
        explanation=compiled.explain(),
        plan=str(compiled.plan),
        constants=tuple(
            _Constant(name, as_dtype(array.dtype).name, array.shape)
            for name, array in compiled.constants
        ),
        objects=len(compiled.objects),
        text_bytes=text_bytes,
        blobs=tuple(places),
    )


def _plain(value: object) -> object:
    """NumPy scalars among the statistics, as Python numbers."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON data")


def _spec(spec: ArraySpec) -> _Spec:
    return _Spec(spec.name, spec.dtype.name, tuple(map(_nodes, spec.shape)), spec.alignment)


def _nodes(expr: Expr) -> _Expr:
    position: dict[int, int] = {}
    nodes: list[_Node] = []
    for node in walk(expr):
        args = tuple(position[id(child)] for child in node.children)
        match node:
            case Literal(value, dtype):
                nodes.append(_Node("bool" if dtype == bool_ else "int", value=int(value)))
            case Var(name):
                nodes.append(_Node("var", name))
            case Apply(op):
                nodes.append(_Node("apply", op, args=args))
            case Select():
                nodes.append(_Node("select", args=args))
            case Cast(_, dtype):
                nodes.append(_Node("cast", dtype.name, args=args))
            case _:
                raise TypeError(f"{type(node).__name__} in a size")
        position[id(node)] = len(nodes) - 1
    return tuple(nodes)


def _compiled(header: _Header, blobs: list[memoryview]) -> Compiled:
    count = len(header.constants)
    if len(blobs) != count + header.objects + 3:
        raise ValueError("the number of blobs is wrong")
    constants = tuple(
        (c.name, _constant(c, blob)) for c, blob in zip(header.constants, blobs, strict=False)
    )
    texts = _unpack(blobs[-1], header.text_bytes)
    return Compiled(
        name=header.name,
        inputs=tuple(map(_array_spec, header.inputs)),
        outputs=tuple(map(_array_spec, header.outputs)),
        parameters=header.parameters,
        target=LlvmTarget(*(getattr(header.target, f) for f in _Target.__struct_fields__)),
        processor=header.processor,
        entry=header.entry,
        objects=tuple(bytes(blob) for blob in blobs[count:-3]),
        pool=bytes(blobs[-3]),
        certificate=bytes(blobs[-2]),
        constants=constants,
        derived=tuple((name, _expr(nodes)) for name, nodes in header.derived),
        in_place=tuple(
            InPlace(_below(o, len(header.outputs)), _below(i, len(header.inputs)), shared)
            for o, i, shared in header.in_place
        ),
        scalars=tuple(_below(k, len(header.inputs)) for k in header.scalars),
        guards=tuple(Guard(_expr(nodes), text) for nodes, text in header.guards),
        checks=header.checks,
        llvm=texts.llvm,
        texts=texts.stages,
        stats=header.stats,
        explain=lambda: header.explanation,
        plan=_plan(header.plan),
    )


def _plan(text: str) -> Plan:
    try:
        return Plan.read(text)
    except PlanError as error:
        raise ValueError(error.what) from None


def _below(index: int, limit: int) -> int:
    if not 0 <= index < limit:
        raise IndexError(f"{index} of {limit}")
    return index


def _constant(constant: _Constant, blob: memoryview) -> np.ndarray:
    dtype = as_dtype(constant.dtype).numpy
    return np.frombuffer(blob, np.uint8).view(dtype).reshape(constant.shape)


def _unpack(blob: memoryview, size: int) -> _Texts:
    if size == 0:
        return _Texts((), {})
    if size > MAX_TEXT:
        raise ValueError("the texts are too long")
    data = zlib.decompressobj().decompress(blob, size)
    return msgspec.msgpack.decode(data, type=_Texts)


def _array_spec(spec: _Spec) -> ArraySpec:
    return ArraySpec(
        spec.name, as_dtype(spec.dtype), tuple(map(_expr, spec.shape)), max(1, spec.alignment)
    )


def _expr(nodes: _Expr) -> Expr:
    made: list[Expr] = []
    build: dict[str, Callable[[_Node, list[Expr]], Expr]] = {
        "int": lambda n, a: literal(n.value, int64),
        "bool": lambda n, a: literal(bool(n.value), bool_),
        "var": lambda n, a: Var(n.text),
        "apply": lambda n, a: apply(n.text if n.text in OPERATORS else "", *a),
        "select": lambda n, a: select(*a),
        "cast": lambda n, a: cast(a[0], as_dtype(n.text)),
    }
    for node in nodes:
        args = [made[_below(position, len(made))] for position in node.args]
        made.append(build[node.kind](node, args))
    return made[-1]
