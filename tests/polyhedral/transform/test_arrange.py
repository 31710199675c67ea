"""All loops anew, from text."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, matmul, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.transform.arrange import arrange
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.tile import tile

BY_HAND = """
sequence
  for a = i    parallel
    for b = j
      S0
  for c = k // 4
    for d = i
      for e = k - 4*(k // 4)
        for f = j    vector
          S1
"""


def test_golden() -> None:
    now = arrange(initial(matmul()), BY_HAND)
    assert outline(now) == "a!parallel b { S0 }; c d e f!vector { S1 }"
    assert str(now.steps[0]) == f'arrange("""{BY_HAND}""")'
    computes(now)


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_it_is(program: str) -> None:
    start = initial(PROGRAMS[program]())
    assert arrange(start, print_schedule(start.tree)).tree == start.tree


def test_a_tiling() -> None:
    now = tile(initial(matmul()), {"i": 4, "j": 8})
    text = print_schedule(now.tree)
    assert print_schedule(arrange(initial(matmul()), text).tree) == text
    computes(arrange(initial(matmul()), text))


def test_an_illegal_order_is_refused() -> None:
    text = BY_HAND.replace("sequence\n", "").splitlines()
    swapped = "\n".join(["sequence", *text[4:], *text[1:4]])
    assert "WEFT-E0420" in refusal(arrange(initial(matmul()), swapped))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("for i = x\n  S0", "E0410"),
        ("sequence\n  for i = x\n    S0\n  S1", "E0412"),
        ("sequence\n  for i = i\n    for i = j\n      S0\n  S1", "E0411"),
        ("sequence\n  for i = i\n    S0\n  S1", "E0413"),
        (
            "for i = {S0: i}\n  for j = j\n    sequence\n      S0\n      for k = k\n        S1",
            "E0412",
        ),
        ("nonsense here", "E0410"),
        ("for", "E0410"),
    ],
)
def test_errors(text: str, code: str) -> None:
    with pytest.raises(IllegalScheduleError, match=code):
        arrange(initial(matmul()), text)
