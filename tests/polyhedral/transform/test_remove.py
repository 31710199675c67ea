"""Statements that leave a tree."""

from __future__ import annotations

from tests.polyhedral.transform.machine_code import _outline
from tests.polyhedral.transform.test_insert import tree
from weft.ir.schedule_tree import Band, walk
from weft.polyhedral.transform.edit import remove


def test_loops_of_nobody_go_too() -> None:
    assert _outline(remove(tree(), {"T"})) == "i { S; U }; V0 { V }"
    assert _outline(remove(tree(), {"S", "U", "V"})) == "i { j k { T } }"
    assert _outline(remove(tree(), {"S", "T", "U"})) == "V0 { V }"


def test_no_value_is_left() -> None:
    bands = [node for node in walk(remove(tree(), {"S"})) if isinstance(node, Band)]
    assert all("S" not in loop.at for band in bands for loop in band.loops)
