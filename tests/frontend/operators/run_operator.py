"""Calls an operator definition on arrays: verified, then interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.dtypes import as_dtype
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify


def run(op: str, *arrays: Any, **attributes: Any) -> Any:
    """The result of ``op`` on ``arrays`` (None: absent), a tuple where there are several."""
    given = [None if a is None else np.asarray(a) for a in arrays]
    tensors = [
        None if a is None else placeholder(a.shape, as_dtype(a.dtype), name=f"x{n}")
        for n, a in enumerate(given)
    ]
    program = instantiate(op, tensors, **attributes)
    verify(program)
    results = interpret(program, [a for a in given if a is not None])
    for tensor, array in zip(program.outputs, results, strict=True):
        assert tensor.shape == array.shape and tensor.dtype.numpy == array.dtype
    return results[0] if len(results) == 1 else results
