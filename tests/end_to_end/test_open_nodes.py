"""A sample of ONNX's node cases with all sizes open, in the interpreter."""

import warnings

import pytest

from tests.end_to_end.open_nodes import cases, check

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CASES = {name: (model, arrays) for name, model, arrays in cases()}
SAMPLE = sorted(CASES)[::29]


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.filterwarnings("ignore")
def test_right_where_its_conditions_hold(name):
    check(*CASES[name])


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("test_slice", "open"),
        ("test_expand_dim_changed", "never"),
        ("test_nonzero_example", "closed"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_a_case_becomes(name, status):
    assert check(*CASES[name])[0] == status
