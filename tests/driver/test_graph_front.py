"""Which passes over the operator graph a machine and options ask for."""

from __future__ import annotations

import pytest

from weft.driver.graph_front import graph_stages
from weft.driver.options import Options
from weft.driver.targets import target_for


@pytest.mark.parametrize(
    "target, strict, expected",
    [
        ("znver5", False, True),
        ("znver5", True, False),  # the order of additions is the model's
        ("x86-64-v3", False, False),  # integers are multiplied more slowly than floats
    ],
)
def test_sums_of_integers_want_dot_products(target: str, strict: bool, expected: bool) -> None:
    options = Options(target=target, strict=strict)
    stages = dict(graph_stages(options, target_for(options).machine))
    assert ("integers" in stages) == expected
