"""Positions of an array as a few affine conditions on indices that hold for no others: a triangle,
a band, a box, a truncated corner.

The conditions bound x for each index, and x - y and x + y for each pair; the least such set around
the positions is an octagon (Miné, "The octagon abstract domain", 2006). Whether it contains others
is checked position by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from weft.ir.scalar_affine import Affine

MOST = 1 << 24  # positions that are checked


def octagon(places: np.ndarray) -> tuple[Affine, ...] | None:
    """Forms over the indices "0", "1", … that are all >= 0 exactly where ``places`` is true; None
    if there are none, or too many positions."""
    if places.size > MOST or not places.any():
        return None
    apart = [k for k, size in enumerate(places.shape) if size > 1 and _changes(places, k)]
    along = tuple(k for k in range(places.ndim) if k not in apart)
    flat = places.all(axis=along, keepdims=True)
    found = np.nonzero(flat)
    forms = list(dict.fromkeys(_around({k: found[k] for k in apart})))
    grid = np.ogrid[tuple(slice(size) for size in flat.shape)]
    holds = {form: _at(form, grid) >= 0 for form in forms}
    forms = [form for form in forms if not holds[form].all()]
    if not np.array_equal(_all(flat.shape, [holds[f] for f in forms]), flat):
        return None
    for form in list(forms):
        others = [f for f in forms if f != form]
        if np.array_equal(_all(flat.shape, [holds[f] for f in others]), flat):
            forms = others
    return tuple(forms)


def _changes(places: np.ndarray, axis: int) -> bool:
    first = places.take([0], axis=axis)
    return not bool((places == first).all())


def _around(found: dict[int, np.ndarray]) -> Iterator[Affine]:
    for k, x in found.items():
        yield from _between(Affine(((str(k), 1),)), x)
    for (k, x), (m, y) in combinations(found.items(), 2):
        for sign in (-1, 1):
            yield from _between(Affine(((str(k), 1),)) + Affine(((str(m), sign),)), x + sign * y)


def _between(form: Affine, values: np.ndarray) -> tuple[Affine, Affine]:
    low, high = int(values.min()), int(values.max())
    return form.plus(-low), form.scaled(-1).plus(high)


def _at(form: Affine, grid: Sequence[np.ndarray]) -> np.ndarray:
    total = np.asarray(form.constant)
    for name, coefficient in form.terms:
        assert isinstance(name, str)
        total = total + coefficient * grid[int(name)]
    return total


def _all(shape: tuple[int, ...], conditions: list[np.ndarray]) -> np.ndarray:
    total = np.ones(shape, bool)
    for condition in conditions:
        total &= condition
    return total
