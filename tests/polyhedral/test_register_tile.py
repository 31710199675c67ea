"""Register tiles that may stand, but that there is no code for."""

from __future__ import annotations

import pytest

from tests.polyhedral.proof.test_register_tile import TILE, i, j, k, scop_of, tree_of
from weft.ir.errors import IllegalScheduleError
from weft.ir.scop import Scop
from weft.polyhedral.proof.register_tile import check_register_tiles
from weft.polyhedral.register_tile import check_closed_form


def refusal(scop: Scop) -> str:
    check_register_tiles(scop, tree_of(TILE))
    with pytest.raises(IllegalScheduleError) as caught:
        check_closed_form(scop, tree_of(TILE))
    assert caught.value.code == "WEFT-E0424"
    return caught.value.why


def test_accepted() -> None:
    check_closed_form(scop_of(), tree_of(TILE))


def test_holes() -> None:
    assert "leave holes" in refusal(scop_of(cut=(i - 3 * (k // 3),)))


def test_elements_that_do_not_move_linearly() -> None:
    why = refusal(scop_of(write=(i + i // 2, j), cut=(5 - i,)))
    assert why == "the element of C that is updated does not move linearly"
