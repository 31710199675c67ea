"""How tests of validation ask: what is refused and why, and plain orders."""

from __future__ import annotations

import pytest

from tests.polyhedral.scops import Sequence, Var, nest
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Scop
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.initial import initial


def refused(original: Scop, transformed: Scop, tree: Tree, code: str = "WEFT-E0440") -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        validate(original, transformed, tree)
    assert caught.value.code == code
    return str(caught.value)


def in_order(of: Scop) -> Tree:
    return initial(of).tree


def ordered(of: Scop, names: str) -> Tree:
    """The statements one after the other, each in the order of its dims."""
    return Sequence(tuple(
        nest(name, *(Var(d) for d in of.statement(name).dims)) for name in names.split()
    ))  # fmt: skip
