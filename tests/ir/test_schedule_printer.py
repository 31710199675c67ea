"""Golden texts of schedules."""

from __future__ import annotations

from tests.polyhedral.scops import Band, Leaf, Mark, Sequence, Var, loop
from weft.ir.schedule_printer import print_schedule

i, x = Var("i"), Var("x")


def test_every_node() -> None:
    tree = Band(
        (loop("i_t", "parallel", conv=i // 8, pool=x // 8),),
        Sequence((
            Band((loop("i_p", conv=i % 8),), Leaf("conv")),
            Mark("register tile", Band((loop("x_p", "vector", pool=x % 8),), Leaf("pool"))),
        )),
    )  # fmt: skip
    assert (
        print_schedule(tree)
        == """\
for i_t = {conv: i // 8, pool: x // 8}    parallel
  sequence
    for i_p = i - 8*(i // 8)
      conv
    mark register tile
      for x_p = x - 8*(x // 8)    vector
        pool
"""
    )


def test_equal_values_are_shown_once() -> None:
    tree = Band((loop("i", a=i + 1, b=1 + i),), Sequence((Leaf("a"), Leaf("b"))))
    assert print_schedule(tree) == "for i = i + 1\n  sequence\n    a\n    b\n"
