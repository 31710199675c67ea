"""Programs as files for a machine with a GPU, where Weft is not.

DIR/run.py            the launcher: checks and measures every row (``launcher.py``)
DIR/manifest.json     rows: inputs and their seeds, results, launches with their arguments,
                      tolerances, the same in PyTorch's words
DIR/sm_90a/NAME.cu    the text of a row's kernels, and
DIR/sm_90a/NAME.cubin what NVIDIA's compiler makes of it
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import msgspec

import weft
from weft.api import graph_of
from weft.benchmarks.gpu import launcher
from weft.benchmarks.gpu.rows import GpuRow
from weft.codegen.cuda.launch_calls import LaunchCall, launch_calls
from weft.codegen.cuda.nvrtc import Cubin, cubin_job, nvrtc_library
from weft.codegen.cuda.print_program import print_program
from weft.driver.compiler import lower_graph
from weft.driver.targets import gpu_named
from weft.ir.dtypes import as_dtype
from weft.ir.errors import WeftError, WeftWarning
from weft.ir.program import Buffer
from weft.ir.size_arithmetic import evaluate
from weft.workers.worker_pool import WorkerPool

ARCHITECTURES = ("sm_80", "sm_90a")
SECONDS = 300.0  # for one text; a hang costs its own row

Assemble = Callable[[Sequence[tuple[str, str]]], Sequence[Cubin]]
"""Code for each (text, architecture). Raises ``WeftError``."""


@dataclass(frozen=True, slots=True)
class Made:
    """A row for one architecture: its ``text``, what its host launches, arrays, bytes of
    the ``arena``, and what Weft warned of."""

    row: GpuRow
    architecture: str
    text: str
    launches: tuple[LaunchCall, ...]
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    arena: int
    notes: str

    @property
    def file(self) -> str:
        """Of its text and code, but for the ending."""
        return f"{self.architecture}/{re.sub(r'[^A-Za-z0-9]+', '_', self.row.name)}"


def write_bundle(
    folder: Path, rows: Iterable[GpuRow], architectures: Sequence[str], assemble: Assemble
) -> Iterator[dict[str, Any]]:
    """Write ``rows`` to ``folder``, with the code that ``assemble`` makes; what became of each, as
    it is known. A row that Weft or ``assemble`` refuses for an architecture is left out, and told.
    """
    entries: list[dict[str, Any]] = []
    for row in rows:
        try:
            made = [_made(row, architecture) for architecture in architectures]
            codes = assemble([(one.text, one.architecture) for one in made])
        except WeftError as error:
            yield {"name": row.name, "right": False, "note": f"{error.code}: {error.what}"}
            continue
        entries.append(_entry(made[0]))
        for one, code in zip(made, codes, strict=True):
            entries[-1]["code"][one.architecture] = _written(folder, one, code)
            yield _told(one, code)
    manifest = {
        "version": launcher.VERSION,
        "weft": weft.__version__,
        "architectures": list(architectures),
        "rows": entries,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    (folder / "run.py").write_text(Path(launcher.__file__).read_text())


@contextmanager
def assembler() -> Iterator[Assemble]:
    """NVIDIA's compiler, in worker processes: what it refuses is raised. Raises ``CompileError``
    (WEFT-E0509) where it is not installed."""
    nvrtc_library()
    with WorkerPool(os.cpu_count() or 1) as pool:

        def assemble(texts: Sequence[tuple[str, str]]) -> list[Cubin]:
            jobs = [cubin_job(text, architecture) for text, architecture in texts]
            answers = pool.run("cubin", jobs, timeout=SECONDS)
            return [msgspec.msgpack.decode(_code(answer), type=Cubin) for answer in answers]

        yield assemble


def _code(answer: bytes | WeftError) -> bytes:
    if isinstance(answer, WeftError):
        raise answer
    return answer


def _made(row: GpuRow, architecture: str) -> Made:
    gpu = gpu_named(architecture)
    assert gpu is not None, "an architecture is a GPU's"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", WeftWarning)
        options = weft.Options(target=architecture, workers=0)
        lowered = lower_graph(graph_of(row.build()), options)
    program = lowered.program
    text = print_program(program, gpu, lowered.sources)
    inputs = (
        {**_spec(buffer, name), "seed": seed, "scale": row.scales.get(name, 1.0)}
        for seed, (buffer, name) in enumerate(
            zip(program.inputs, lowered.source.inputs, strict=True)
        )
    )
    outputs = map(_spec, program.outputs, lowered.source.outputs)
    return Made(
        row,
        architecture,
        text,
        launch_calls(program, gpu, {}),
        tuple(inputs),
        tuple(outputs),
        evaluate(program.arena, {}),
        "; ".join(str(warning.message).splitlines()[0] for warning in told),
    )


def _spec(buffer: Buffer, name: str) -> dict[str, Any]:
    shape = [evaluate(size, {}) for size in buffer.shape]
    return {"name": name, "dtype": buffer.dtype.name, "shape": shape}


def _entry(made: Made) -> dict[str, Any]:
    """A row of the manifest, without its code."""
    row = made.row
    kept = ("name", "group", "torch", "operands", "rounding", "tolerance", "limit", "operations")
    arrays = (*made.inputs, *made.outputs)
    return {
        **{name: getattr(row, name) for name in (*kept, "small")},
        "bytes": sum(_bytes(spec) for spec in arrays),
        "inputs": made.inputs,
        "outputs": made.outputs,
        "arena": made.arena,
        "code": {},
    }


def _bytes(spec: Mapping[str, Any]) -> int:
    return int(prod(spec["shape"])) * as_dtype(spec["dtype"]).itemsize


def _written(folder: Path, made: Made, code: Cubin) -> dict[str, Any]:
    """What the manifest has about the files of ``made``, which are written."""
    (folder / made.architecture).mkdir(parents=True, exist_ok=True)
    (folder / f"{made.file}.cu").write_text(made.text)
    (folder / f"{made.file}.cubin").write_bytes(code.code)
    return {
        "file": f"{made.file}.cubin",
        "sha256": hashlib.sha256(code.code).hexdigest(),
        "launches": [asdict(call) for call in made.launches],
        "kernels": msgspec.to_builtins(code.kernels),
    }


def _told(made: Made, code: Cubin) -> dict[str, Any]:
    """A row for people: what the code is, and what it took to make."""
    uses = code.kernels
    return {
        "name": made.row.name,
        "for": made.architecture,
        "kernels": len(uses),
        "registers": max((use.registers for use in uses), default=0),
        "spilled": sum(use.spilled for use in uses),
        "tensor cores": "yes" if "  mma_m16n8k" in made.text.split("#endif\n\n", 1)[1] else "",
        "s a kernel": round(code.seconds / max(1, len(uses)), 2),
        "note": made.notes,
    }
