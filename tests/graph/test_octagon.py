"""The conditions hold for the places that they were found for, and for no others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from weft.graph.octagon import octagon


def places(forms, shape) -> np.ndarray:
    found = np.zeros(shape, bool)
    for at in product(*map(range, shape)):
        values = {str(k): i for k, i in enumerate(at)}
        found[at] = all(form.value(values) >= 0 for form in forms)
    return found


ROWS, COLUMNS = np.ogrid[:7, :9]


@pytest.mark.parametrize(
    ("inside", "count"),
    [
        (COLUMNS <= ROWS, 1),
        (COLUMNS <= ROWS + 2, 1),
        (COLUMNS > ROWS, 1),
        (abs(COLUMNS - ROWS) <= 2, 2),
        ((COLUMNS <= ROWS) & (COLUMNS < 5), 2),
        (COLUMNS + ROWS >= 6, 1),
        (COLUMNS + 0 * ROWS < 5, 1),
        (np.broadcast_to((COLUMNS <= ROWS)[None, None], (2, 3, 7, 9)), 1),
    ],
)
def test_triangles_bands_and_boxes(inside: np.ndarray, count: int) -> None:
    forms = octagon(inside)
    assert forms is not None and len(forms) == count
    np.testing.assert_array_equal(places(forms, inside.shape), inside)


@pytest.mark.parametrize(
    "inside",
    [
        (ROWS + COLUMNS) % 2 == 0,  # holes
        COLUMNS <= 2 * ROWS,  # steeper
        (COLUMNS < 2) | (COLUMNS > 6) | (ROWS < 0),  # two parts
        np.zeros((3, 4), bool),
    ],
)
def test_what_is_none(inside: np.ndarray) -> None:
    assert octagon(np.asarray(inside)) is None


def test_random_places() -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
        inside = rng.random(shape) < rng.choice([0.3, 0.9])
        forms = octagon(inside)
        if forms is not None:
            found += 1
            np.testing.assert_array_equal(places(forms, shape), inside)
    assert found > 20
