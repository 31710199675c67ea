"""The quantiser suite: embedded models in the three formats of onnxruntime's own quantiser.

Floats between products are rounded in another order by everybody, which tips an integer here and
there: answers are compared with onnxruntime's unoptimised one as floats are, by a wide tolerance.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from weft.benchmarks.case import Case, Planned, aligned
from weft.benchmarks.models import expected
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.frontend.zoo.registry import MODELS

PEERS: tuple[Peer, ...] = (OnnxRuntime(),)
FORMATS = ("QDQ", "QOperator", "dynamic")
NETWORKS = ("resnet18", "minilm")
CALIBRATED = 2  # inputs
TOLERANCE = 0.2  # of the largest element; onnxruntime's own two answers differ by 0.13


def cases(threads: int, quick: bool) -> Iterator[Planned]:
    """Each network in each format.

    Raises ``ImportError`` where onnxruntime is not installed.
    """
    import onnxruntime.quantization  # noqa: F401

    for name in NETWORKS[1:] if quick else NETWORKS:
        for how in FORMATS:
            yield Planned(f"{name} {how}", partial(case, name, how, threads))


def case(name: str, how: str, threads: int) -> Case:
    """The embedded model called ``name``, in the format ``how``."""
    zoo = MODELS[name]
    model = quantised(zoo.build(), how, [zoo.seeded_inputs(k) for k in range(CALIBRATED)])
    inputs = {port: aligned(array) for port, array in zoo.seeded_inputs(CALIBRATED).items()}
    return Case(
        f"{name} {how}", how, model, inputs, lambda: expected(model, inputs, threads), TOLERANCE,
        limit="",
    )  # fmt: skip


def quantised(
    model: onnx.ModelProto, how: str, samples: list[dict[str, np.ndarray]]
) -> onnx.ModelProto:
    """``model`` by onnxruntime's quantiser, with its defaults; ``how``: one of ``FORMATS``."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
        """``samples`` once."""

        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Any:
            return next(self.left, None)

    with tempfile.TemporaryDirectory() as folder:
        before, after = (str(Path(folder) / n) for n in ("before.onnx", "after.onnx"))
        onnx.save(model, before)
        if how == "dynamic":
            quantization.quantize_dynamic(before, after)
        else:
            quant_pre_process(before, before)
            quantization.quantize_static(
                before, after, Samples(), quant_format=quantization.QuantFormat[how]
            )
        return onnx.load(after)
