"""Bounds that keep hostile programs from exhausting the machine, all in one place.

They are checked on Python integers, before anything is allocated or any loop is built.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes import DType
from weft.errors import BudgetError, ExpressionError
from weft.frontend.tensor_expr import Size, constant_size

MAX_TENSOR_BYTES = 2**34
MAX_ELEMENTS = 2**62  # strides and offsets stay inside int64, empty tensors included


def check_tensor(name: str, shape: Sequence[Size], dtype: DType) -> None:
    """Refuse a tensor that no machine should be asked for; symbolic sizes count as 1.

    Raises ``BudgetError`` WEFT-E0290 beyond ``MAX_TENSOR_BYTES`` or ``MAX_ELEMENTS``, and
    ``ExpressionError`` WEFT-E0191 for a negative size.
    """
    elements, nonzero = 1, 1
    for size in shape:
        extent = constant_size(size)
        if extent is None:
            continue
        if extent < 0:
            raise ExpressionError(
                "WEFT-E0191", f"{name} has the negative size {extent}", where=name
            )
        elements *= extent
        nonzero *= max(extent, 1)
    if nonzero > MAX_ELEMENTS or elements * dtype.itemsize > MAX_TENSOR_BYTES:
        raise BudgetError(
            "WEFT-E0290",
            f"{name} would have shape {tuple(shape)} of {dtype}",
            where=name,
            why=f"a single tensor may have at most {MAX_TENSOR_BYTES >> 30} GiB",
            hint="check the sizes, repeats or pads that the program asks for",
        )
