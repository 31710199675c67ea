"""NumPy's matrix product, whose BLAS is OpenBLAS (its threads and core type: environment.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.benchmarks.case import Case, aligned, outputs_of
from weft.benchmarks.peers.peer import Prepared, Unfit
from weft.benchmarks.products import operands


@dataclass(frozen=True, slots=True)
class NumPyBlas:
    """Single products of floats, operands transposed in place; a BLAS cannot prepack."""

    name: str = "openblas"

    def prepare(self, case: Case, threads: int) -> Prepared:
        found = operands(case)
        if found is None:
            raise Unfit("no single product")
        a, b = found
        if a.dtype not in (np.float32, np.float64):
            raise Unfit(f"NumPy has no BLAS for {a.dtype}")
        ((shape, dtype),) = outputs_of(case.model)
        place = aligned(np.zeros(shape, dtype))

        def call() -> None:
            np.matmul(a, b, out=place)

        return Prepared(call, lambda: [place])
