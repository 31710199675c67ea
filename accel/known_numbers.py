"""Tensors of one number that is known are that number.

y[i] = s[i] >> shift[]   with shift = 7   →   y[i] = s[i] >> 7

Then a field of an instruction may hold it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weft.frontend.scalar_expr import Expr, Load, literal, rewrite
from weft.polyhedral.scop import Body, Scop, Statement


def known_numbers(scop: Scop, constants: Mapping[str, np.ndarray[Any, Any]]) -> Scop:
    """``scop`` with the numbers among ``constants``, by names of its tensors, in their places."""
    numbers = {
        name: array.reshape(-1)[0].item() for name, array in constants.items() if array.size == 1
    }
    if not numbers:
        return scop
    return replace(scop, statements=tuple(_replaced(s, numbers) for s in scop.statements))


def _replaced(statement: Statement, numbers: Mapping[str, Any]) -> Statement:
    kept = [n for n, read in enumerate(statement.reads) if read.tensor not in numbers]
    if len(kept) == len(statement.reads):
        return statement
    moved: dict[Hashable, int] = {n: k for k, n in enumerate(kept)}

    def change(node: Expr) -> Expr | None:
        match node:
            case Load(source=int() as n, indices=indices):
                if n in moved:
                    return Load(moved[n], indices, node.dtype)
                return literal(numbers[statement.reads[n].tensor], node.dtype)
        return None

    body = statement.body
    return replace(
        statement,
        reads=tuple(statement.reads[n] for n in kept),
        body=Body(
            tuple((name, rewrite(each, change)) for name, each in body.lets),
            tuple(rewrite(each, change) for each in body.results),
        ),
    )
