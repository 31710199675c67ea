"""Calls an operator definition with symbolic sizes, one program for every size of the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.dtypes import as_dtype
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify


def run_symbolic(op: str, *arrays: Any, sizes: Mapping[int, Mapping[int, str]], **attributes: Any):
    """The results of ``op``, where dimension d of input n is the symbol ``sizes[n][d]``."""
    tensors = [
        placeholder(
            [var(sizes[n][d]) if d in sizes.get(n, {}) else s for d, s in enumerate(a.shape)],
            as_dtype(a.dtype),
            name=f"x{n}",
        )
        for n, a in enumerate(arrays)
    ]
    program = instantiate(op, tensors, **attributes)
    verify(program)
    results = interpret(program, [np.asarray(a) for a in arrays])
    return results[0] if len(results) == 1 else results
