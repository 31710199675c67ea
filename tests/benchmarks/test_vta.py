"""What the benchmark says of ResNet-18 on VTA."""

import pytest

from weft.benchmarks.vta import whole_rows


@pytest.mark.long
def test_the_whole_model() -> None:
    """Its cycles, the first layer and residual adds included; results are NumPy's integers."""
    (row,) = whole_rows(("default",))
    assert row["right"] is True
    assert row["cycles"] <= 8_900_000
