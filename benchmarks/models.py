"""The models suite: the embedded three, ONNX files, larger models that are built on the spot."""

from __future__ import annotations

import importlib
import io
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference
from onnx.reference import ReferenceEvaluator

import weft
from weft.app.cli_models import Loaded, make_inputs
from weft.benchmarks import model_builders
from weft.benchmarks.call_overhead import PythonLoop
from weft.benchmarks.case import Case, Planned, aligned
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.pytorch import Compiled, Eager
from weft.driver.options import Options
from weft.frontend.zoo.registry import MODELS

QUICK_PEERS: tuple[Peer, ...] = (OnnxRuntime(), Eager())
PEERS: tuple[Peer, ...] = (*QUICK_PEERS, Compiled())  # whose compiler takes minutes
TOLERANCE = 1e-3
SAVING = 9.0  # where all were convolutions of 3 by 3, a multiplication for each element


@dataclass(frozen=True, slots=True)
class Architecture:
    """``model`` and ``config`` are classes of transformers; ``inputs``: name -> shape, integers
    below 1000 where the name ends with "_ids", ones where with "_mask", else normal numbers."""

    model: str
    config: str
    inputs: Mapping[str, Sequence[int]]
    settings: Mapping[str, Any] = field(default_factory=dict)


_TEXT = {"input_ids": (1, 128), "attention_mask": (1, 128)}
_IMAGE = {"pixel_values": (1, 3, 224, 224)}
ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture("BertModel", "BertConfig", _TEXT),
    "distilbert": Architecture("DistilBertModel", "DistilBertConfig", _TEXT),
    "gpt2": Architecture("GPT2Model", "GPT2Config", _TEXT, {"use_cache": False}),
    "vit": Architecture("ViTModel", "ViTConfig", _IMAGE),
}

BUILDERS = (*model_builders.MODELS, *ARCHITECTURES)


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
    inputs = seeded_inputs(name, 0)
    return case(name, build(name), inputs, threads, quick=quick)


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
        facts=lambda: {} if quick or _is_open(model) else costs(model, inputs, threads),
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


# ---- What a model costs in a process of its own: compiling it, and the memory that running takes.


# VmHWM, for ru_maxrss counts what the parent had before exec.
_PEAK = r"""
import re
from pathlib import Path
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""
_COMPILE = """
import sys, time
import weft
start = time.perf_counter()
options = weft.Options(cache_dir=sys.argv[2], threads=int(sys.argv[3]))
program = weft.compile(sys.argv[1], options=options)
print(time.perf_counter() - start)
print(program.stats["arena_bytes"], program.stats["intermediate_bytes"])
program.save(sys.argv[4])
"""
_RUN_WEFT = """
import sys
import numpy as np
import weft
program = weft.load(sys.argv[1], threads=int(sys.argv[3]))
with np.load(sys.argv[2]) as inputs:
    program.run(dict(inputs))
"""
_RUN_ONNXRUNTIME = """
import sys
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
with np.load(sys.argv[2]) as inputs:
    session.run(None, dict(inputs))
"""


def costs(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], threads: int
) -> dict[str, float]:
    """Seconds of compiling ``model`` of fixed shapes without and with a cache; bytes of its arena
    and of all intermediates; the peak memory of compiling, of running what was saved, and of
    onnxruntime running the model, in MiB."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, data, saved = (str(folder / n) for n in ("m.onnx", "inputs.npz", "m.weft"))
        onnx.save(model, source)
        np.savez(data, **dict(inputs))  # type: ignore[arg-type]
        for key in ("compile_s", "compile_cached_s"):
            numbers = _python(_COMPILE, source, str(folder / "cache"), str(threads), saved)
            seconds, arena, intermediate, peak = numbers
            found[key] = round(seconds, 2)
            found.setdefault("compile_peak_mib", int(peak) // 1024)
            found["arena_bytes"], found["intermediate_bytes"] = int(arena), int(intermediate)
        found["run_peak_mib"] = int(_python(_RUN_WEFT, saved, data, str(threads))[0]) // 1024
        try:
            peer = _python(_RUN_ONNXRUNTIME, source, data, str(threads))
            found["onnxruntime_run_peak_mib"] = int(peer[0]) // 1024
        except subprocess.CalledProcessError as error:  # not installed, or it refuses the model
            why = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"onnxruntime's memory is not measured: {why}", file=sys.stderr)
    return found


def _python(code: str, *arguments: str) -> list[float]:
    """The numbers that ``code`` prints, and the peak memory of its process in KiB."""
    command = [sys.executable, "-c", code + _PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


# ---- Real architectures with random weights, off the configuration classes of `transformers`.
#
# Needs torch and transformers; nothing is downloaded.


OPSET = 17


def seeded_inputs(name: str, seed: int) -> dict[str, np.ndarray]:
    """One set of inputs of the architecture called ``name``."""
    random = np.random.default_rng(seed)

    def array(port: str, shape: Sequence[int]) -> np.ndarray:
        if port.endswith("_ids"):
            return random.integers(0, 1000, shape)
        if port.endswith("_mask"):
            return np.ones(shape, np.int64)
        return random.standard_normal(shape, np.float32)

    return {port: array(port, shape) for port, shape in ARCHITECTURES[name].inputs.items()}


def build(name: str) -> onnx.ModelProto:
    """The architecture called ``name`` as an ONNX model of fixed shapes whose output is "y".

    Raises ``ImportError`` without torch and transformers.
    """
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    config = getattr(transformers, architecture.config)(**architecture.settings)
    config._attn_implementation = "eager"  # as products and a softmax
    inner = getattr(transformers, architecture.model)(config).eval()
    inputs = seeded_inputs(name, 0)

    class First(torch.nn.Module):  # type: ignore[misc]
        """The first of the model's outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *given: Any) -> Any:
            return self.inner(**dict(zip(inputs, given, strict=True)), return_dict=False)[0]

    file = io.BytesIO()
    given = tuple(torch.from_numpy(array) for array in inputs.values())
    torch.onnx.export(
        First(), given, file, input_names=list(inputs), output_names=["y"],
        opset_version=OPSET, dynamo=False,
    )  # fmt: skip
    return onnx.load_from_string(file.getvalue())
