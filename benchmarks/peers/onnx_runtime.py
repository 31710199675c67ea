"""onnxruntime on the case's own model, its inputs and outputs bound to memory beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.benchmarks.case import Case, aligned, outputs_of
from weft.benchmarks.peers.peer import Prepared, Unfit


@dataclass(frozen=True, slots=True)
class OnnxRuntime:
    """As users set it up, but for one pool of as many threads as Weft has."""

    name: str = "onnxruntime"

    def prepare(self, case: Case, threads: int) -> Prepared:
        try:
            import onnxruntime
        except ImportError:
            raise Unfit("not installed") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        model = case.model.SerializeToString()
        try:
            session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
            return _bound(session, case)
        except Exception as error:  # of many types, all its own affair
            raise Unfit(" ".join(str(error).split())[:160]) from None


def _bound(session: Any, case: Case) -> Prepared:
    binding = session.io_binding()
    for name, array in case.inputs.items():
        binding.bind_cpu_input(name, array)
    names = [port.name for port in case.model.graph.output]
    places = [aligned(np.zeros(shape, dtype)) for shape, dtype in outputs_of(case.model)]
    for name, place in zip(names, places, strict=True):
        binding.bind_output(name, "cpu", 0, place.dtype.type, place.shape, place.ctypes.data)

    def call() -> None:
        session.run_with_iobinding(binding)

    call()  # refuses here what it refuses
    return Prepared(call, lambda: places)
