"""Random affine programs under random schedules, part 1 of 4: see ``fuzz``."""

from tests.properties.fuzz_part import check_part


def test_pairs() -> None:
    check_part(0)
