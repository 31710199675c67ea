"""``weft.compile`` and ``weft.lower``: one door for tensor expressions and ONNX models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from weft.compiler import compile_graph, lower_graph
from weft.errors import ExpressionError, WeftError
from weft.executable import Executable
from weft.frontend.onnx.read_model import open_model
from weft.frontend.tensor_expr import Program, Tensor, operations
from weft.frontend.tensor_verifier import verify_program
from weft.graph.from_program import from_program
from weft.graph.operator_graph import Graph
from weft.onnx_model import OnnxModel, load_model
from weft.options import Options

Source = Any  # Tensor(s), a Program, an ONNX path, bytes or ModelProto


def compile(
    source: Source, *, target: str | None = None, options: Options | None = None
) -> Executable | OnnxModel:
    """``source`` as something callable.

    ``source`` is a tensor or a sequence of tensors (the outputs; inputs are their placeholders in
    order of creation), a ``Program``, or an ONNX model: a path, bytes or a ``ModelProto``. An ONNX
    model whose shapes are known compiles to one ``Executable``; another compiles for the shapes and
    data of each call and remembers them. Raises ``CompileError``.
    """
    chosen = options or Options.from_environment()
    graph = _tensor_graph(source)
    if graph is not None:
        return compile_graph(graph, target=target, options=chosen)
    model = load_model(_onnx(source), lambda g: compile_graph(g, target=target, options=chosen))
    return model


def lower(
    source: Source, stage: str, *, target: str | None = None, options: Options | None = None
) -> str:
    """The text of ``source`` after the named stage; ``CallError`` lists the stages."""
    graph = _tensor_graph(source)
    if graph is None:
        model = load_model(_onnx(source), lambda g: lower_graph(g, target=target, options=options))
        return model.as_text(stage)
    return lower_graph(graph, target=target, options=options).as_text(stage)


def program(outputs: Tensor | Sequence[Tensor], *, name: str = "program") -> Program:
    """The program that computes ``outputs`` from their placeholders, in order of creation."""
    many = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    probe = Program(name, (), many)
    found = {t: None for op in operations(probe) for t in op.reads if t.operation is None}
    found.update({t: None for t in many if t.operation is None})
    return Program(name, tuple(sorted(found, key=lambda t: t.serial)), many)
