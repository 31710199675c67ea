"""A mapping in words: ``row = i, lane = j, a = A, b = B``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.frontend.scalar_expr import Expr
from weft.frontend.scalar_printer import scalar_text
from weft.polyhedral.scop import Statement
from weft.polyhedral.scop_printer import access_text


def mapping_text(
    statement: Statement, dims: Mapping[str, Sequence[str]], operands: Mapping[str, Expr]
) -> str:
    """``dims`` and ``operands`` as ``map_instruction.Assignment`` has them.

    A tensor that the statement reads at several places has its indices with it, as nothing else
    tells the operands apart: ``a = A[i, k], b = A[j, k]``.
    """
    tensors = [read.tensor for read in statement.reads]
    names = {
        number: access_text(read) if tensors.count(read.tensor) > 1 else read.tensor
        for number, read in enumerate(statement.reads)
    }
    loops = [f"{own} = {', '.join(chosen)}" for own, chosen in dims.items()]
    # The elements of a statement's reads are no indices of a load, so it prints empty brackets.
    shown = [
        f"{own} = {scalar_text(expr, lambda number: names[int(str(number))]).replace('[]', '')}"
        for own, expr in operands.items()
    ]
    return ", ".join([*loops, *shown])
