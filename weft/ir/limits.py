"""Bounds that keep hostile programs from exhausting the machine, all in one place.

They are checked on Python integers, before anything is allocated or any loop is built.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.ir.dtypes import DType
from weft.ir.errors import BudgetError, ExpressionError
from weft.ir.tensor_expr import Size, constant_size

MAX_TENSOR_BYTES = 2**34
MAX_ELEMENTS = 2**62  # strides and offsets stay inside int64, empty tensors included
MAX_COMPARISONS = 2**37  # of operators that compare all pairs: about a minute


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


def check_comparisons(name: str, *factors: Size) -> None:
    """Refuse to compare more pairs than ``MAX_COMPARISONS``: the product of ``factors``.

    Symbolic sizes count as 1. Raises ``BudgetError`` WEFT-E0291.
    """
    known = [extent for size in factors if (extent := constant_size(size)) is not None]
    if math.prod(known) > MAX_COMPARISONS:
        raise BudgetError(
            "WEFT-E0291",
            f"{name} would compare {' × '.join(map(str, known))} pairs of elements",
            where=name,
            why=f"it compares all pairs, of which {MAX_COMPARISONS} are the limit",
            hint="select fewer elements, or of a smaller tensor",
        )
