"""Folds over tuples of arrays: what a ``Monoid`` means, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.frontend.scalar_expr import Apply
from weft.frontend.scalar_interpreter import Array, evaluate
from weft.frontend.tensor_expr import Monoid

_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def combine(
    monoid: Monoid, left: Sequence[Any], right: Sequence[Any], *, precise: bool = False
) -> tuple[Array, ...]:
    """``monoid`` applied elementwise to two tuples of arrays."""
    variables = {v.name: a for v, a in zip(monoid.left, left, strict=True)}
    variables |= {v.name: a for v, a in zip(monoid.right, right, strict=True)}
    return tuple(evaluate(one, variables, precise=precise) for one in monoid.combined)


def fold(
    monoid: Monoid, start: Sequence[Array], parts: Sequence[Array], *, precise: bool = False
) -> tuple[Array, ...]:
    """Fold ``parts`` along their last dimension, after ``start``, keeping the order.

    An associative monoid folds neighbours in pairs, another one element after the other.
    """
    ufunc = _ufunc(monoid)
    native = monoid.dtypes[0].numpy.isbuiltin == 1 and monoid.dtypes[0].compute is monoid.dtypes[0]
    if ufunc is not None and (native or (precise and monoid.dtypes[0].is_float)):
        with np.errstate(all="ignore"):
            folded = ufunc.reduce(parts[0], axis=-1, dtype=parts[0].dtype)
        return combine(monoid, start, (folded,), precise=precise)
    if "associative" not in monoid.laws:
        for k in range(parts[0].shape[-1]):
            start = combine(monoid, start, [part[..., k] for part in parts], precise=precise)
        return tuple(start)
    while (n := max(part.shape[-1] for part in parts)) > 1:
        even = n - n % 2
        paired = combine(
            monoid,
            [part[..., 0:even:2] for part in parts],
            [part[..., 1:even:2] for part in parts],
            precise=precise,
        )
        rest = [part[..., even:] for part in parts]
        parts = [_append(p, r, even // 2) for p, r in zip(paired, rest, strict=True)]
    return combine(monoid, start, [part[..., 0] for part in parts], precise=precise)


def _append(paired: Array, rest: Array, count: int) -> Array:
    """``paired``, as long as it should be, and the odd one out."""
    lead = np.broadcast_shapes(paired.shape[:-1], rest.shape[:-1])
    paired = np.broadcast_to(paired, (*lead, count))
    return np.concatenate([paired, np.broadcast_to(rest, (*lead, rest.shape[-1]))], axis=-1)


def _ufunc(monoid: Monoid) -> np.ufunc | None:
    match monoid.combined:
        case (Apply(op, (left, right)),) if (left, right) == (monoid.left[0], monoid.right[0]):
            return _UFUNCS.get(op)
    return None
