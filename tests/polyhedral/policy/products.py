"""Products of sizes that are known, one operand of which may be a constant."""

from __future__ import annotations

from dataclasses import replace

from tests.polyhedral.transform.integer_programs import read
from weft.ir.scop import Scop


def product(rows: int, lanes: int, steps: int, *, constant: str = "", apart: int = 0) -> Scop:
    """``C += A @ B``, in place; B has rows of ``apart`` elements, of which the first are used."""
    text = f"""
    for i in range({rows}):
        for j in range({lanes}):
            for k in range({steps}):
                C[i, j] += A[i, k] * B[k, j]
    """
    held = f"in {steps} {apart or lanes}"
    scop = read(text, "", A=f"in {rows} {steps}", B=held, C=f"io {rows} {lanes}")
    tensors = (replace(t, role="constant") if t.name == constant else t for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors))
