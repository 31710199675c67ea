import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir import dtypes


def test_a_seed_gives_the_numbers_of_numpy():
    result = run("random_uniform", None, shape=(3, 400), dtype=dtypes.float64, seed=42)
    np.testing.assert_array_equal(result, np.random.RandomState(42).random_sample((3, 400)))


@pytest.mark.parametrize("seed", [None, 3])
def test_uniform_numbers_fill_their_range_evenly(seed):
    x = run("random_uniform", None, shape=(2_000,), low=-2.0, high=4.0, seed=seed)
    assert x.dtype == np.float32 and x.min() >= -2 and x.max() < 4
    counts, _ = np.histogram(x, bins=10, range=(-2, 4))
    assert (abs(counts - 200) < 5 * np.sqrt(180)).all()


def test_normal_numbers_have_their_moments():
    x = run("random_normal", np.zeros((100, 100)), mean=3.0, scale=2.0, dtype=dtypes.float64)
    assert abs(x.mean() - 3) < 0.1 and abs(x.std() - 2) < 0.1
    assert abs(np.mean(((x - 3) / 2) ** 4) - 3) < 0.3
    assert abs(np.corrcoef(x[:, :-1].ravel(), x[:, 1:].ravel())[0, 1]) < 0.05


def test_streams_differ_and_repeat():
    first, again, other = (
        run("random_uniform", None, shape=(50,), dtype=dtypes.float64, stream=s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.intersect1d(first, other).size


def test_bernoulli_and_multinomial_follow_their_probabilities():
    p = np.full((10_000,), 0.3)
    assert abs(run("bernoulli", p, dtype=dtypes.int32).mean() - 0.3) < 0.03
    weights = np.log(np.array([[1.0, 2.0, 5.0], [8.0, 0.0, 0.0]], np.float32) + 1e-30)
    drawn = run("multinomial", weights, samples=5000, dtype=dtypes.int64)
    np.testing.assert_allclose(np.bincount(drawn[0]) / 5000, [1 / 8, 2 / 8, 5 / 8], atol=0.03)
    assert (drawn[1] == 0).all()


def test_dropout_scales_what_it_keeps():
    x = np.ones((20, 50), np.float32)
    y, mask = run("dropout", x, ratio=0.75, seed=5)
    np.testing.assert_array_equal(y, np.where(mask, 4.0, 0.0))
    np.testing.assert_array_equal(mask, np.random.RandomState(5).uniform(size=x.shape) >= 0.75)
