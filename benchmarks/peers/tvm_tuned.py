"""TVM on the case's own model, tuned by its MetaSchedule."""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.benchmarks.case import Case
from weft.benchmarks.peers.peer import Prepared, Unfit
from weft.codegen.llvm.target import host_target


@dataclass(frozen=True, slots=True)
class Tvm:
    """``trials``: candidates that its tuner measures for each model. Untuned code is no peer: it
    is naive loops. (apache-tvm 0.27.0.post1 needs apache-tvm-ffi 0.1.14.post0: with newer ones
    its tuner crashes.)"""

    trials: int
    name: str = "tvm"

    def prepare(self, case: Case, threads: int) -> Prepared:
        try:
            tvm: Any = importlib.import_module("tvm")
            frontend: Any = importlib.import_module("tvm.relax.frontend.onnx")
        except ImportError:
            raise Unfit("not installed") from None
        try:
            return self._tuned(tvm, frontend, case, threads)
        except Exception as error:  # of many types, all its own affair
            raise Unfit(" ".join(str(error).split())[:160]) from None

    def _tuned(self, tvm: Any, frontend: Any, case: Case, threads: int) -> Prepared:
        target = tvm.target.Target(
            {"kind": "llvm", "mcpu": host_target().cpu, "num-cores": threads}
        )
        module = frontend.from_onnx(case.model, keep_params_in_input=False)
        with tempfile.TemporaryDirectory() as folder, target:
            pipeline = tvm.relax.get_pipeline(
                "static_shape_tuning", target=target, total_trials=self.trials, work_dir=folder
            )
            code = tvm.compile(pipeline(module), target)
        machine = tvm.relax.VirtualMachine(code, tvm.cpu())
        run = machine["main"]
        given = [tvm.runtime.tensor(array) for array in case.inputs.values()]
        held: list[Any] = [None]

        def call() -> None:
            held[0] = run(*given)

        def results() -> list[np.ndarray]:
            found = held[0] if isinstance(held[0], (list, tuple)) else [held[0]]
            return [tensor.numpy() for tensor in found]

        return Prepared(call, results)
