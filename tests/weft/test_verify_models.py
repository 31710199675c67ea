"""Whole models under full verification: no pass diverges, nothing is left unchecked."""

from __future__ import annotations

import warnings

import pytest

import weft
from tests.weft.small_models import MODELS, seeded_inputs
from weft.driver.options import Options
from weft.ir.errors import WeftWarning


@pytest.mark.long
@pytest.mark.parametrize(("name", "strict"), [("conv_net", True), ("transformer", False)])
def test_a_model_passes(name: str, strict: bool) -> None:
    options = Options(cache=False, workers=0, verify="full", strict=strict)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)
        executable = weft.compile(MODELS[name](), options=options)
    results = executable.run(seeded_inputs(MODELS[name](), 0))
    assert all(abs(array).max() < 100 for array in results.values())
