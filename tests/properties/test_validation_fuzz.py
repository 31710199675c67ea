"""Random halos and buffers: whatever validation accepts computes the same terms."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.properties.brute_force import all_parameters
from tests.properties.random_tilings import random_chain, random_tiling
from tests.properties.symbolic import Symbolic
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.proof.validation import validate

PAIRS = 60
_PARTS = 3


def verdicts(seed: int) -> tuple[bool, bool, str]:
    """(accepted, the outputs are the same terms for all sizes, the error's text)."""
    random = Random(seed)
    original, widths = random_chain(random)
    transformed, tree = random_tiling(random, original, widths)
    symbolic = Symbolic()
    same = all(
        symbolic.run(original, original, parameters)
        == symbolic.run(transformed, original, parameters, tree)
        for parameters in all_parameters(original)
    )
    try:
        validate(original, transformed, tree)
    except IllegalScheduleError as error:
        return False, same, str(error)
    return True, same, ""


@pytest.mark.parametrize("part", range(_PARTS))
def test_what_is_accepted_computes_the_same(part: int) -> None:
    kinds: Counter[tuple[bool, bool]] = Counter()
    for seed in range(part, PAIRS, _PARTS):
        accepted, same, text = verdicts(seed)
        kinds[accepted, same] += 1
        assert same or not accepted, f"seed {seed} is accepted, but computes something else"
        assert accepted or not same or "WEFT-E044" in text, f"seed {seed}: {text}"
    assert kinds[True, True] > 5 and kinds[False, False] > 5, kinds
