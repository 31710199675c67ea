"""Random affine programs under random schedules, part 4 of 4: see ``fuzz``."""

import pytest

from tests.properties.fuzz_part import check_part


@pytest.mark.long
def test_pairs() -> None:
    check_part(3)
