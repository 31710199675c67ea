import itertools

import numpy as np
import pytest
from run_operator import run


def count(row, gram, most_skipped):
    n = len(gram)
    distances = range(1, 2 if n == 1 else most_skipped + 2)
    return sum(
        [row[p + d * k] if p + d * (n - 1) < len(row) else None for k in range(n)] == gram
        for p, d in itertools.product(range(len(row)), distances)
    )


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("most_skipped", [0, 1, 4])
@pytest.mark.parametrize("items", [0, 1, 2, 13])
def test_counts(n, most_skipped, items):
    rng = np.random.default_rng(n)
    x, grams = rng.integers(0, 3, (2, items)), rng.integers(0, 3, (5, n))
    columns, base = np.array([4, 0, 0, 6, 1]), rng.integers(0, 9, (2, 7))
    expected = base.copy()
    for r, g in np.ndindex(2, 5):
        expected[r, columns[g]] += count(x[r].tolist(), grams[g].tolist(), most_skipped)
    result = run("count_ngrams", x, base, grams, columns, most_skipped=most_skipped)
    np.testing.assert_array_equal(result, expected)


def test_weights():
    counts, weights = np.array([[0, 3, 1]]), np.array([2.0, 0.5, 4.0], np.float32)
    for as_flags, expected in ((False, [[0, 1.5, 4]]), (True, [[0, 0.5, 4]])):
        np.testing.assert_array_equal(
            run("weight_counts", counts, weights, as_flags=as_flags), np.array(expected, np.float32)
        )
