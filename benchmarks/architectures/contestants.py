"""Who runs a PyTorch model at fixed and at open sizes besides Weft: its compiler, onnxruntime."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config
from torch import nn

from weft.benchmarks.architectures.open_sizes import Architecture
from weft.benchmarks.peers.peer import Unfit

Call = Callable[[], Any]
OPSET = 17


def inductor(model: nn.Module, examples: Sequence[tuple[Any, ...]], is_open: bool) -> Call:
    """``model`` by ``torch.compile`` with freezing, cold, having met ``examples``: for the last."""
    torch._dynamo.reset()
    config = {"freezing": True, "force_disable_caches": True, "compile_threads": 1}
    with torch._inductor.config.patch(config):
        compiled = torch.compile(model, dynamic=is_open)
        for given in examples:
            compiled(*given)
    return lambda: compiled(*examples[-1])


def onnxruntime(
    architecture: Architecture,
    model: nn.Module,
    given: tuple[Any, ...],
    is_open: bool,
    threads: int,
) -> Call:
    """``model`` exported to ONNX by tracing, and run on ``given``. Raises ``Unfit``."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        raise Unfit("not installed") from None
    if is_open and True in architecture.open:
        raise Unfit("tracing makes a constant of an integer")
    places = [k for k, value in enumerate(given) if isinstance(value, torch.Tensor)]
    names = [f"x{k}" for k in places]
    traced = architecture.arguments(*architecture.exported) if is_open else given
    axes = {
        f"x{k}": {dim: f"x{k}_{dim}" for dim in architecture.open[k]} for k in places if is_open
    }
    file = io.BytesIO()
    with contextlib.redirect_stdout(io.StringIO()):  # where it prints what it refuses
        torch.onnx.export(
            _OfTensors(model, traced, places).eval(), tuple(traced[k] for k in places), file,
            input_names=names, dynamic_axes=axes, opset_version=OPSET, dynamo=False,
        )  # fmt: skip
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    arrays = {f"x{k}": given[k].numpy() for k in places}
    fed = {port.name: arrays[port.name] for port in session.get_inputs()}
    return lambda: session.run(None, fed)


class _OfTensors(nn.Module):
    """``model`` as a function of those of its arguments that stand at ``places``, tensors."""

    def __init__(self, model: nn.Module, given: Sequence[Any], places: Sequence[int]) -> None:
        super().__init__()
        self.model, self.given, self.places = model, given, places

    def forward(self, *tensors: torch.Tensor) -> Any:
        arguments = list(self.given)
        for place, tensor in zip(self.places, tensors, strict=True):
            arguments[place] = tensor
        return self.model(*arguments)
