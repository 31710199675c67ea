"""What comes before and after sums runs in the order of their register tile where that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import literal
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))
SLOW = Machine("slow", 16, 16, (Cache(1 << 13), Cache(40000, bandwidth=1.0, ways=64)))


def product(filters: int, pixels: int, after: str, steps: int = 17, x: str = "p, c") -> Scop:
    """A product whose filters, being fewer, are the cheaper ones to copy into panels."""
    size = {"p": pixels, "c": steps}
    shape = " ".join(str(size[d]) for d in x.split(", "))
    text = f"""
    for f in range({filters}):
        for p in range({pixels}):
            S[f, p] = 0
            for c in range({steps}):
                S[f, p] += W[f, c] * X[{x}]
            Y[f, p] = {after}
    """
    return read(text, "", W=f"in {filters} {steps}", X=f"in {shape}", B=f"in {filters}",
                Z=f"in {filters} {2 * pixels}", S=f"tmp {filters} {pixels}",
                Y=f"out {filters} {pixels}")  # fmt: skip


def test_results_across_the_lanes_are_turned_in_registers() -> None:
    made = schedule_loops(product(24, 41, "S[f, p] + B[f] * Z[f, p]"), WIDE)
    assert outline(made) == (
        "W_packed_0 W_packed_1 W_packed_2!vector { copy_W_packed }; "
        "p_r { p!unrolled f!vector { S0 }; c p_p f_p { S1 }; p_2!unrolled f_2!vector { S2 } }"
    )
    sums = made.tensor("S")
    assert sums.shape[sums.contracted :] == (literal(7), literal(24))
    computes(made, {})  # the last tile has 6 rows


@pytest.mark.parametrize("after", ["S[f, p] + Z[f, 2 * p]", "S[f, p] * B[f] " + "* B[f] " * 70])
def test_what_does_not_fit_the_tile_stays_as_it_was(after: str) -> None:
    made = schedule_loops(product(24, 8, after), WIDE)
    assert "f_2!unrolled" not in outline(made) and "p_2!unrolled" not in outline(made)
    computes(made, {})


# Of 100 filters, more of them come in tiles of their own.
@pytest.mark.long
@pytest.mark.parametrize(("filters", "pixels"), [(40, 7), (40, 9), (40, 11), (100, 9)])
def test_sums_that_come_in_parts_lie_as_tiles_do(filters: int, pixels: int) -> None:
    scop = product(filters, pixels, "S[f, p] + B[f] * Z[f, p]", steps=300, x="c, p")
    tensors = (replace(t, role="constant") if t.name == "W" else t for t in scop.tensors)
    made = schedule_loops(replace(scop, tensors=tuple(tensors)), SLOW)
    assert "c_t f_r p_r" in outline(made) and "p_4!unrolled f_4!vector { S2 }" in outline(made)
    sums = made.tensor("S")
    assert sums.shape[sums.contracted :][0] == literal(pixels)
    computes(made, {})
