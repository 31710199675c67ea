import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run


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
    expected = np.zeros((2, 5), np.float32)
    for r, g in np.ndindex(2, 5):
        expected[r, g] = count(x[r].tolist(), grams[g].tolist(), most_skipped)
    np.testing.assert_array_equal(run("ngram_counts", x, grams, skips=most_skipped), expected)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_vectors(binary, weighted):
    counts = np.array([[0, 3, 1, 2], [1, 0, 0, 0]], np.float32)
    places, weights = np.array([4, 0, 0, 2]), np.array([2.0, 0.5, 4.0, 1.0, 3.0], np.float32)
    expected = np.zeros((2, 5), np.float32)
    for r, g in np.ndindex(2, 4):
        expected[r, places[g]] += counts[r, g]
    expected = np.minimum(expected, 1) if binary else expected
    expected = expected * weights if weighted else expected
    given = weights if weighted else None
    result = run("ngram_vectors", counts, places, given, width=5, binary=binary)
    np.testing.assert_array_equal(result, expected)
