"""``weft.compile`` and ``weft.lower``: one door for tensor expressions and ONNX models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from weft.compiler import lower_graph
from weft.errors import CallError, CompileError, ExpressionError
from weft.executable import Executable
from weft.frontend.onnx.importer import import_model
from weft.frontend.onnx.open_model import open_model
from weft.frontend.scalar_expr import Var, walk
from weft.frontend.tensor_expr import Program, Tensor, as_size, operations, size_symbols
from weft.frontend.tensor_verifier import verify
from weft.graph.from_program import from_program
from weft.graph.operator_graph import Graph
from weft.model import Model, compile_model
from weft.onnx_shapes import Shapes
from weft.options import Options
from weft.verify_full import compile_and_verify

TARGETS = ("host",)

Source = Any  # Tensor(s), a Program, an ONNX path, bytes or ModelProto


def compile(
    source: Source,
    *,
    target: str | None = None,
    options: Options | None = None,
    in_place: Mapping[str, str] | None = None,
    shapes: Shapes | None = None,
) -> Executable | Model:
    """``source`` as something callable.

    ``source`` is a tensor or a sequence of tensors (the outputs; inputs are the placeholders that
    they need, in the order in which those were created), a ``Program``, or an ONNX model: a path,
    bytes or a ``ModelProto``. An ONNX model of fixed shapes gives one ``Executable``; another a
    ``Model``, which compiles for the shapes and data of its calls and remembers them.

    ``target``: "host" (also None), this processor. ``options``: by default what the environment
    says (``Options.from_environment``). ``in_place``: output name -> name of the input that the
    call overwrites with it. ``shapes``: input name -> shape, where an ONNX model leaves sizes
    open. Raises ``CompileError``.
    """
    chosen = _chosen(target, options)
    if _is_onnx(source):
        if in_place:
            raise CompileError("WEFT-E0012", "in_place is for tensor expressions, not ONNX models")
        return compile_model(source, chosen, shapes)
    if shapes:
        raise CompileError("WEFT-E0013", "shapes is for ONNX models, not tensor expressions")
    return compile_and_verify(_graph(source, in_place), chosen)


class Stages:
    """The texts of one compilation, stage by stage; ``str`` gives that of the stage asked for."""

    def __init__(self, texts: Mapping[str, str], stage: str | None) -> None:
        self._texts = dict(texts)
        self._stage = stage or next(reversed(self._texts), "")
        self.as_text(self._stage)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that there are, in order."""
        return tuple(self._texts)

    def as_text(self, stage: str | None = None) -> str:
        """The program after ``stage``; ``CallError`` lists the stages there are."""
        wanted = stage or self._stage
        if wanted not in self._texts:
            raise CallError(
                "WEFT-E0609",
                f"there is no stage {wanted!r}",
                hint=f"stages: {', '.join(self._texts)}",
            )
        return self._texts[wanted]

    def __str__(self) -> str:
        return self.as_text()


def lower(
    source: Source,
    stage: str | None = None,
    *,
    target: str | None = None,
    options: Options | None = None,
) -> Stages:
    """``source`` lowered as far as the host program, without machine code.

    ``print(weft.lower(x, "scop"))`` shows one stage, ``weft.lower(x).stages`` lists them. Takes
    what ``compile`` takes; open sizes of an ONNX model become symbols.
    """
    chosen = replace(_chosen(target, options), texts=True)
    graph = import_model(open_model(source)[0]) if _is_onnx(source) else _graph(source, None)
    return Stages(lower_graph(graph, chosen).passes.texts, stage)


def program(outputs: Tensor | Sequence[Tensor], *, name: str = "program") -> Program:
    """The program that computes ``outputs`` from their placeholders, in order of creation."""
    many = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    if not many or not all(isinstance(t, Tensor) for t in many):
        raise _no_source(outputs, "without a tensor" if not many else "of more than tensors")
    read = [t for operation in operations(Program(name, (), many)) for t in operation.reads]
    inputs = dict.fromkeys(t for t in (*many, *read) if t.operation is None)
    return Program(name, tuple(sorted(inputs, key=lambda t: t.serial)), many)


def _chosen(target: str | None, options: Options | None) -> Options:
    if target is not None and target not in TARGETS:
        raise CompileError(
            "WEFT-E0002",
            f"there is no target {target!r}",
            hint=f"targets: {', '.join(TARGETS)} (this processor)",
        )
    if options is not None and not isinstance(options, Options):
        raise CompileError(
            "WEFT-E0003",
            f"options is a {type(options).__name__}, not weft.Options",
            hint="weft.Options(threads=1), say",
        )
    return options or Options.from_environment()


def _is_onnx(source: Source) -> bool:
    return isinstance(source, onnx.ModelProto | bytes | str | os.PathLike)


def _graph(source: Source, in_place: Mapping[str, str] | None) -> Graph:
    """``source``, tensors or a ``Program``, as a verified operator graph."""
    if isinstance(source, Program):
        whole = source
    elif isinstance(source, Tensor):
        whole = program(source, name=source.name)
    elif isinstance(source, Sequence):
        whole = program(source)
    else:
        raise _no_source(source)
    _check_names("placeholders", whole.inputs)
    _check_names("outputs", whole.outputs)
    _check_sizes(whole)
    if in_place:
        whole = replace(whole, in_place=_pairs(whole, in_place))
    verify(whole)
    return from_program(whole)


def _no_source(source: object, what: str = "") -> CompileError:
    return CompileError(
        "WEFT-E0010",
        f"{type(source).__name__} {what}".strip() + " cannot be compiled",
        hint="pass a Tensor, a sequence of Tensors, a Program, or an ONNX path, bytes or model",
    )


def _check_names(what: str, tensors: Sequence[Tensor]) -> None:
    """Calls are made by name, so names must tell tensors apart."""
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise ExpressionError(
                "WEFT-E0011", f"two {what} are named {tensor.name!r}", hint="give each its own name"
            )
        seen.add(tensor.name)


def _check_sizes(whole: Program) -> None:
    """A call learns sizes from its arguments' shapes, so every size of a result must be there."""
    known = size_symbols(whole)
    for tensor in whole.outputs:
        for size in tensor.shape:
            for node in walk(as_size(size)):
                if isinstance(node, Var) and node.name not in known:
                    raise ExpressionError(
                        "WEFT-E0014",
                        f"no input has the size {node.name!r} in its shape",
                        where=f"shape of {tensor.name}",
                        hint="pass a placeholder that has it, or use a number",
                    )


def _pairs(whole: Program, in_place: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """(output, input) numbers of the declared pairs of names."""
    if not isinstance(in_place, Mapping):
        raise ExpressionError(
            "WEFT-E0012", f"in_place is a {type(in_place).__name__}", hint='{"output": "input"}'
        )
    outputs, inputs = ([t.name for t in side] for side in (whole.outputs, whole.inputs))
    pairs: list[tuple[int, int]] = []
    for output, given in in_place.items():
        for name, names, what in ((output, outputs, "output"), (given, inputs, "input")):
            if name not in names:
                raise ExpressionError(
                    "WEFT-E0012",
                    f"in_place: there is no {what} {name!r}",
                    hint=f"{what}s: {', '.join(names)}",
                )
        pairs.append((outputs.index(output), inputs.index(given)))
    if len({given for _, given in pairs}) < len(pairs):
        raise ExpressionError("WEFT-E0012", "in_place: two outputs in the memory of one input")
    return tuple(pairs)
