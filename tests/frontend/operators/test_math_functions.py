import math

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.activations import FUNCTIONS

X = np.array([-np.inf, -3.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 2.0, 50.0, np.inf, np.nan])
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
         "acosh": "arccosh", "atanh": "arctanh"}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_numpy_where_it_is_undefined_too(name):
    reference = np.vectorize(math.erf) if name == "erf" else getattr(np, NUMPY.get(name, name))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(name, X), reference(X), rtol=1e-13)
