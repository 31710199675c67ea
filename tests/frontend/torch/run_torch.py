"""PyTorch's functions and models through the front end, interpreted or compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import aot_function

from weft.frontend.torch.aot import calling, compile_traced
from weft.frontend.torch.decompositions import decompositions
from weft.frontend.torch.exported import Exported, import_exported
from weft.frontend.torch.importer import import_fx
from weft.host.torch_model import TorchModel, compile_exported
from weft.ir.errors import WeftWarning
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph


def interpreter(graph: Graph) -> Callable[..., Any]:
    """The program that interprets ``graph``."""
    verify_graph(graph)

    def run(*arrays: Any) -> Any:
        found = interpret_graph(graph, arrays)
        for output, given in graph.in_place:
            arrays[given][...] = found[output]
        return found

    return run


def exported(model: torch.nn.Module, args: Sequence[Any]) -> Exported:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return import_exported(torch.export.export(model, tuple(args)))


def interpreted(program: Exported) -> TorchModel:
    return compile_exported(program, interpreter)  # type: ignore[arg-type]


def direct(call: Callable[..., Any], *tensors: torch.Tensor, dynamic: bool = False) -> Any:
    """What ``call`` gives for ``tensors``, traced without Dynamo, with open sizes where
    ``dynamic``, and interpreted."""

    def compiled(module: Any, _: Sequence[Any]) -> Any:
        imported = import_fx(module, "f", aliases=True)
        program = interpreter(imported.graph) if imported.graph.outputs else None
        return calling(imported, program)

    with torch.no_grad():
        function = aot_function(
            call, fw_compiler=compiled, decompositions=decompositions(), dynamic=dynamic
        )
        return function(*tensors)


def traced(call: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """``call`` through ``torch.compile``, every part of it interpreted; what is left to PyTorch is
    an error."""
    torch._dynamo.reset()

    def backend(module: Any, inputs: Sequence[Any]) -> Any:
        return compile_traced(module, inputs, interpreter)

    compiled = torch.compile(call, backend=backend, fullgraph=True, **how)

    def run(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeftWarning)
            return compiled(*args)

    return run
