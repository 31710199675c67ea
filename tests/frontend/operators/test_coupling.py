import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run


def coupled(r):
    """The p on the simplex with the least p'Qp, by solving the optimality conditions."""
    k = len(r)
    q = -r.T * r
    np.fill_diagonal(q, [sum(r[j, i] ** 2 for j in range(k) if j != i) for i in range(k)])
    system = np.block([[q, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    return np.linalg.solve(system, [0.0] * k + [1.0])[:k]


@pytest.mark.long
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities_minimise_the_coupling_error(classes):
    rng = np.random.default_rng(classes)
    pairs = list(itertools.combinations(range(classes), 2))
    scores = rng.standard_normal((7, len(pairs)))
    slopes, offsets = -1 - rng.random(len(pairs)), rng.standard_normal(len(pairs)) / 4
    pair_of = np.zeros((classes, classes), np.int64)
    for number, pair in enumerate(pairs):
        pair_of[pair] = number
    result = run("couple_duels", scores, slopes, offsets, pair_of)
    np.testing.assert_allclose(result.sum(1), 1)
    for n in range(7):
        r = np.zeros((classes, classes))
        for p, (i, j) in enumerate(pairs):
            r[i, j] = 1 / (1 + np.exp(scores[n, p] * slopes[p] + offsets[p]))
            r[j, i] = 1 - r[i, j]
        # The iteration stops at an error of 0.005 over the number of classes.
        np.testing.assert_allclose(result[n], coupled(r), atol=0.01)


def test_hopeless_duels_stay_finite():
    scores = np.array([[1e9], [-1e9], [0.0]], np.float32)
    one = np.ones(1, np.float32)
    result = run("couple_duels", scores, -one, 0 * one, np.array([[0, 0], [0, 0]]))
    np.testing.assert_allclose(result, [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-5)
