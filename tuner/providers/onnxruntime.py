"""onnxruntime as a provider: what comes from an ONNX model, on its own processor kernels."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.driver.providers import PROVIDERS, Subgraph
from weft.ir.registry import calling


def onnxruntime(part: Subgraph) -> Callable[..., Any] | None:
    """A session for ``part``; None where there is no ONNX of it, or no onnxruntime."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    model = part.to_onnx()
    if model is None:
        return None
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = part.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not part.alone:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    inputs = [v.name for v in part.graph.inputs]
    outputs = [v.name for v in part.graph.outputs]

    def run(*arrays: np.ndarray) -> Any:
        return session.run(outputs, dict(zip(inputs, arrays, strict=True)))

    return run


PROVIDERS.add("onnxruntime", onnxruntime, calling(0))
