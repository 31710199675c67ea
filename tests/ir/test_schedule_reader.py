"""Schedule trees from text."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, matmul
from tests.polyhedral.transform.test_tensorize import tiled
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_reader import read_schedule
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.skew import reverse, skew
from weft.polyhedral.transform.tensorize import tensorize
from weft.polyhedral.transform.tile import tile


def examples() -> dict[str, Scheduled]:
    stencil = initial(PROGRAMS["stencil"]())
    return {name: initial(make()) for name, make in PROGRAMS.items()} | {
        "tiles": tile(initial(matmul()), {"i": 4, "j": 8}),
        "registers": tensorize(tiled(), ["k"], ["i_S1_p"], "j_S1_p"),
        "time tiles": tile(skew(fuse(stencil, "i", "i_2", shift=1), "i", "t", 2), {"t": 4, "i": 8}),
        "kinds": set_kinds(reverse(initial(matmul()), "j"), {"i": "parallel", "k": "vector"}),
    }


@pytest.mark.parametrize("name", examples())
def test_what_is_printed_is_read(name: str) -> None:
    text = print_schedule(examples()[name].tree)
    assert print_schedule(read_schedule(text)) == text
    indented = "\n" + "".join(f"    {line}\n\n" for line in text.splitlines())
    assert print_schedule(read_schedule(indented)) == text


@pytest.mark.parametrize("more", ["", ", ahead=24", ", shared=True", ", ahead=24, shared=True"])
def test_what_tiles_ask_for_is_read(more: str) -> None:
    text = f"mark RegisterTile(rows=(8,), lanes=48{more})\n  S"
    assert print_schedule(read_schedule(text)).strip() == text


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "line 1: ", "there is no loop and no statement"),
        ("for i = i", "line 1: for i = i", "nothing is inside"),
        ("for i = i\nS", "line 2: S", "it is not indented by two more than what it is in"),
        ("for i = i\n    S", "line 2: S", "it is not indented by two more than what it is in"),
        ("S\nT", "line 2: T", "it is not inside anything"),
        ("for i\n  S", "line 1: for i", "expected: for name = value"),
        ("for i = i +\n  S", "line 1: for i = i +", "'i +' is no expression"),
        ("for i = i    fast\n  S", "line 1: for i = i    fast", "'i    fast' is no expression"),
        ("for i = {S i}\n  S", "line 1: for i = {S i}",
         "'{S i}' does not give each statement its value"),
        ("mark Fast(3)\n  S", "line 1: mark Fast(3)",
         "no such mark is known: RegisterTile(rows=(8,), lanes=24)"),
        ("mark RegisterTile(rows=(8,), lanes=48, shared=2)\n  S",
         "line 1: mark RegisterTile(rows=(8,), lanes=48, shared=2)",
         "no such mark is known: RegisterTile(rows=(8,), lanes=24)"),
        ("mark RegisterTile(rows=(8,), lanes=48, instruction='vpdpbusd')\n  S",
         "line 1: mark RegisterTile(rows=(8,), lanes=48, instruction='vpdpbusd')",
         "tiles that an instruction computes are automatic()'s to choose"),
    ],
)  # fmt: skip
def test_what_is_no_tree(text: str, where: str, why: str) -> None:
    with pytest.raises(IllegalScheduleError, match="E0478") as caught:
        read_schedule(text)
    assert (caught.value.where, caught.value.why) == (where, why)


def test_deep_trees_are_refused() -> None:
    text = "\n".join("  " * k + f"for i{k} = 0" for k in range(3000)) + "\n" + "  " * 3000 + "S"
    with pytest.raises(IllegalScheduleError, match="E0478"):
        read_schedule(text)
