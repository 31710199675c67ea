"""The models suite: the embedded three, ONNX files, larger models that are built on the spot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference
from onnx.reference import ReferenceEvaluator

import weft
from weft.benchmarks import apart, model_builders, transformer_models
from weft.benchmarks.call_overhead import PythonLoop
from weft.benchmarks.case import Case, Planned, aligned
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.pytorch import Compiled, Eager
from weft.cli_models import Loaded, make_inputs
from weft.frontend.zoo.registry import MODELS
from weft.options import Options

QUICK_PEERS: tuple[Peer, ...] = (OnnxRuntime(), Eager())
PEERS: tuple[Peer, ...] = (*QUICK_PEERS, Compiled())  # whose compiler takes minutes
TOLERANCE = 1e-3
SAVING = 9.0  # where all were convolutions of 3 by 3, a multiplication for each element
BUILDERS = (*model_builders.MODELS, *transformer_models.ARCHITECTURES)


def cases(
    threads: int, *, quick: bool, files: Sequence[Path] = (), built: Sequence[str] = ()
) -> Iterator[Planned]:
    """``files`` and some of ``BUILDERS``, or the embedded models where neither is given."""
    for name in [] if files or built else MODELS:
        yield Planned(name, partial(_embedded, name, threads, quick=quick))
    for name in built:
        build = _embedded if name in model_builders.MODELS else _exported
        yield Planned(name, partial(build, name, threads, quick=quick))
    for file in files:
        yield Planned(file.stem, partial(_file, file, threads, quick=quick))


def loop_of(program: Any, inputs: Mapping[str, np.ndarray]) -> PythonLoop:
    """Calls as users make them, by name, with fresh results."""
    return PythonLoop(lambda: program.run(inputs))


def _embedded(name: str, threads: int, *, quick: bool) -> Case:
    zoo = {**MODELS, **model_builders.MODELS}[name]
    return case(name, zoo.build(), zoo.seeded_inputs(0), threads, quick=quick)


def _exported(name: str, threads: int, *, quick: bool) -> Case:
    inputs = transformer_models.seeded_inputs(name, 0)
    return case(name, transformer_models.build(name), inputs, threads, quick=quick)


def _file(path: Path, threads: int, *, quick: bool) -> Case:
    """Open sizes are 1; inputs are random."""
    program = weft.compile(path, options=Options.from_environment())
    inputs = make_inputs(Loaded(path.stem, program, path), (), 0)
    return case(path.stem, onnx.load(path), inputs, threads, quick=quick)


def case(
    name: str,
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    *,
    quick: bool,
) -> Case:
    """``model`` on ``inputs``; what it costs to compile and to run apart, where there is time."""
    given = {port: aligned(array) for port, array in inputs.items()}
    return Case(
        name,
        "models",
        model,
        given,
        lambda: expected(model, given, threads),
        TOLERANCE,
        operations(model),
        saving=SAVING,
        facts=lambda: {} if quick or _is_open(model) else apart.costs(model, inputs, threads),
    )


def _is_open(model: onnx.ModelProto) -> bool:
    """Whether shapes of inputs are open: then nothing can be saved."""
    sizes = [s for port in model.graph.input for s in port.type.tensor_type.shape.dim]
    return any(not size.HasField("dim_value") for size in sizes)


def expected(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], threads: int
) -> list[np.ndarray]:
    """What onnxruntime computes; where it is not installed, onnx's own reference."""
    try:
        import onnxruntime
    except ImportError:
        found = ReferenceEvaluator(model).run(None, dict(inputs))
        return [np.asarray(array) for array in found]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(inputs)))


def operations(model: onnx.ModelProto) -> float:
    """Multiplications and additions of products and convolutions whose shapes are known."""
    graph = shape_inference.infer_shapes(model).graph
    shapes = {t.name: tuple(t.dims) for t in graph.initializer}
    for port in (*graph.value_info, *graph.input, *graph.output):
        shapes[port.name] = tuple(s.dim_value for s in port.type.tensor_type.shape.dim)
    total = 0.0
    for node in graph.node:
        if node.op_type not in ("Conv", "MatMul", "Gemm"):
            continue
        result, left, right = (shapes.get(n, ()) for n in (node.output[0], *node.input[:2]))
        if node.op_type == "Conv":
            inner = math.prod(right[1:])
        else:
            flipped = any(a.name == "transA" and a.i for a in node.attribute)
            inner = left[-2 if flipped else -1] if left else 0
        total += 2.0 * math.prod(result) * inner
    return total
