"""``weft run`` and ``weft compile`` for an accelerator: what each layer takes, streams as files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import weft
from weft.app.cli_models import Loaded, QuantizedRun, open_quantized, source_of
from weft.driver.options import Options
from weft.host.onnx_shapes import Shapes
from weft.ir.accelerator import Accelerator
from weft.offload.accelerated import Accelerated
from weft.offload.stream_files import write_stream


@dataclass(frozen=True, slots=True)
class AcceleratedRun:
    """``equal``: the results are those of the same integers on the processor."""

    model: str
    program: Accelerated
    equal: bool
    seconds: float

    def data(self) -> dict[str, object]:
        """Everything that the text says, as JSON data."""
        return {
            "model": self.model,
            "stats": self.program.stats,
            "equal": self.equal,
            "seconds": round(self.seconds, 3),
            "layers": [asdict(layer) for layer in self.program.layers],
        }

    def print(self, console: Console) -> None:
        """A table of the layers, and what they come to."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("layer")
        table.add_column("operators")
        for column in ("cycles", "utilisation", "bytes", "instructions"):
            table.add_column(column, justify="right")
        for layer in self.program.layers:
            table.add_row(
                layer.name,
                layer.operators,
                f"{layer.cycles:,}",
                f"{layer.utilisation:.1%}",
                f"{layer.bytes:,}",
                f"{layer.instructions:,}",
            )
        console.print(table)
        if told := self.program.explain():
            console.print(told, markup=False)
        stats = self.program.stats
        console.print(
            f"{self.model} on {stats['accelerator']}: {stats['cycles']:,} cycles in "
            f"{stats['offloaded']} parts, {stats['on the processor']} on the processor; "
            f"simulated in {self.seconds:.1f} s"
        )
        told = "equal to" if self.equal else "DIFFERENT from"
        console.print(f"results are {told} the same integers computed on the processor")


def open_accelerated(
    name: str,
    machine: Accelerator,
    options: Options,
    shapes: Shapes,
    given: Sequence[str],
    seed: int,
    *,
    quantize: bool,
) -> tuple[Loaded, QuantizedRun | None]:
    """The model called ``name`` for ``machine``, in 8-bit integers if it is to be quantised. Raises
    as ``open_quantized`` and ``weft.compile`` do."""
    if quantize:
        return open_quantized(name, options, shapes, given, seed, machine)
    title, source, sample = source_of(name)
    program = weft.compile(source, target=machine, options=options, shapes=shapes)
    return Loaded(title, program, source, sample), None


def run_accelerated(
    loaded: Loaded,
    quantised: QuantizedRun | None,
    given: Mapping[str, Any],
    options: Options,
    shapes: Shapes,
) -> tuple[AcceleratedRun, dict[str, np.ndarray]]:
    """The model once, beside the processor."""
    assert isinstance(loaded.program, Accelerated), "it was made for an accelerator"
    started = time.perf_counter()
    results = loaded.program.run(given)
    seconds = time.perf_counter() - started
    host = replace(options, target="host")
    if quantised is not None:
        reference = weft.compile(quantised.quantized, options=host)
    else:
        reference = weft.compile(loaded.onnx, options=host, shapes=shapes)
    expected = reference.run(given)
    equal = all(np.array_equal(results[k], expected[k], equal_nan=True) for k in results)
    return AcceleratedRun(loaded.name, loaded.program, equal, seconds), results


def write_streams(program: Accelerated, path: Path, base: int) -> list[Path]:
    """The streams of ``program``: at ``path`` where it has one, else one file for each layer beside
    it, NAME.00.LAYER.bin. Each has a manifest and an image, which begins at address ``base``."""
    artifacts = program.relocated(base)
    if len(artifacts) == 1:
        (artifact,) = artifacts.values()
        return list(write_stream(artifact, path))
    written: list[Path] = []
    for number, (layer, artifact) in enumerate(artifacts.items()):
        safe = "".join(c if c.isalnum() else "_" for c in layer)
        written += write_stream(artifact, path.with_suffix(f".{number:02}.{safe}.bin"))
    return written
