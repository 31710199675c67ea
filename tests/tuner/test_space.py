"""What is one step away from a plan."""

from __future__ import annotations

from weft.tuner.space import constants, optional_steps, rescripted, resized, sizes_near

SCRIPT = """\
s = s
s = s.cut("S0", ["24*(j // 24) - k_24 - 1 >= 0"])
s = s.nest(["S0", "S12"], {"t_t": "t // 12", "j": {"S0": "j - 24*(j // 24)", "S12": "24*j"}})
s = s.pack("A", "S0", "j_r", {1: 24}, order=[1, 0])
s = s.stream("C24", 4096, 24)
"""


def test_constants_are_those_of_expressions() -> None:
    assert constants(SCRIPT) == [24, 12, 4096]


def test_a_constant_changes_wherever_it_stands_and_names_do_not() -> None:
    changed = resized(SCRIPT, {24: 16, 12: 24})
    assert (
        changed
        == """\
s = s
s = s.cut("S0", ["16*(j // 16) - k_24 - 1 >= 0"])
s = s.nest(["S0", "S12"], {"t_t": "t // 24", "j": {"S0": "j - 16*(j // 16)", "S12": "16*j"}})
s = s.pack("A", "S0", "j_r", {1: 16}, order=[1, 0])
s = s.stream("C24", 4096, 16)
"""
    )


def test_the_steps_that_build_nests_stay() -> None:
    lines = SCRIPT.splitlines()
    assert [lines[k][:10] for k in optional_steps(SCRIPT)] == ["s = s.pack", "s = s.stre"]


def test_neighbours() -> None:
    found = [plan["K.script"] for plan in rescripted(SCRIPT, "K.script")]
    assert len(found) == len(set(found)) and SCRIPT not in found
    assert len(found) == sum(len(sizes_near(n)) for n in (24, 12, 4096)) + 2


def test_sizes() -> None:
    assert sizes_near(24) == [12, 16, 18, 32, 36, 48]
    assert sizes_near(1) == [2]
    assert all(n >= 1 for n in sizes_near(3))
