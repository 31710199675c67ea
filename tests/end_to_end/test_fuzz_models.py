"""A few random ONNX models against onnxruntime; ``fuzz_models`` runs many."""

import warnings

import pytest

try:
    import onnxruntime  # noqa: F401
except ImportError:
    warnings.warn("random models are NOT compared: onnxruntime is missing", stacklevel=1)
    pytest.skip("onnxruntime is not installed: pip install 'weft[peers]'", allow_module_level=True)

from tests.end_to_end.fuzz_models import check, compare
from tests.end_to_end.random_nodes import random_model


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_random_model(seed):
    check(random_model(seed), threads=1 + seed % 2)


def test_the_same_seed_gives_the_same_model():
    first, second = random_model(3), random_model(3)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert all((first.inputs[n] == second.inputs[n]).all() for n in first.inputs)


def test_a_wrong_answer_is_noticed():
    case = random_model(1)
    got = {name: array.copy() for name, array in case.expected.items()}
    compare(case, got)
    name = next(n for n, array in got.items() if array.dtype.kind == "f")
    got[name].flat[-1] += 0.5
    with pytest.raises(AssertionError, match=name):
        compare(case, got)
