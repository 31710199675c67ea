"""``weft run --quantize``: a model calibrated with random inputs, its accuracy on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import weft
from weft.accel.accelerator import Accelerator
from weft.cli_models import Loaded, Shapes, inputs_for, source_of
from weft.errors import CallError
from weft.options import Options
from weft.quantization import Accuracy, Quantized, model_graph

CALIBRATED, COMPARED = 4, 8  # calls


@dataclass(frozen=True, slots=True)
class QuantizedRun:
    """A model that was quantised, and how accurate it is."""

    quantized: Quantized
    accuracy: Accuracy

    def data(self) -> dict[str, object]:
        """All of it as JSON data."""
        outputs = [asdict(output) for output in self.accuracy.outputs]
        for output in outputs:  # JSON has no infinity
            output["decibels"] = None if output["largest"] == 0 else output["decibels"]
        layers = [asdict(layer) for layer in self.quantized.layers]
        return {"layers": layers, "calls": self.accuracy.calls, "accuracy": outputs}

    def __str__(self) -> str:
        return f"{self.quantized}\n\n{self.accuracy}\n"


def open_quantized(
    name: str,
    options: Options,
    shapes: Shapes,
    given: Sequence[str],
    seed: int,
    machine: Accelerator | None = None,
) -> tuple[Loaded, QuantizedRun]:
    """The model called ``name`` in 8-bit integers, for the ``machine`` if there is one.

    Inputs ``given`` on the command line are the same in all calls; others are random, from the
    seeds after ``seed``. Raises as ``weft.quantize`` does, WEFT-E0809 for a compiled artifact.
    """
    if Path(name).suffix == ".weft":
        raise CallError(
            "WEFT-E0809",
            f"{name!r} is compiled already",
            why="quantisation needs the operators",
            hint="--quantize takes a model of Weft's own or an .onnx file",
        )
    title, source, sample = source_of(name)
    declared = {value.name: value for value in model_graph(source, shapes).inputs}
    seeds = range(seed + 1, seed + 1 + CALIBRATED + COMPARED)
    calls = [inputs_for(declared, sample, given, s) for s in seeds]
    made = weft.quantize(source, calls[:CALIBRATED], options=options, shapes=shapes)
    accuracy = made.accuracy(calls[CALIBRATED:], options=options)
    loaded = Loaded(title, weft.compile(made, target=machine, options=options), None, sample)
    return loaded, QuantizedRun(made, accuracy)
