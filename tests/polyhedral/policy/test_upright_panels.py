"""Operands of upright register tiles come from panels where many tiles read them."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes
from weft.polyhedral.analysis.tile_domain import marked_tiles
from weft.polyhedral.machine import Cache, Machine
from weft.polyhedral.policy import upright_panels
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.scop import Scop

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))


def batch(rows: int, columns: int, steps: int, lanes: int, right: str = "k, n, z") -> Scop:
    sizes = {"z": lanes, "m": rows, "n": columns, "k": steps}
    text = f"""
    for m in range({rows}):
        for n in range({columns}):
            for z in range({lanes}):
                C[m, n, z] = 0
                for k in range({steps}):
                    C[m, n, z] += A[m, k, z] * B[{right}]
    """
    shape = " ".join(str(sizes[d]) for d in right.split(", "))
    a, c = f"in {rows} {steps} {lanes}", f"out {rows} {columns} {lanes}"
    return read(text, "", A=a, B=f"in {shape}", C=c)


def copied(scop: Scop) -> dict[str, str]:
    """The scopes of copies, by the tensors that they are of, of a schedule that is right."""
    scheduled = schedule_loops(scop, WIDE)
    (tile,) = marked_tiles(scheduled.tree).values()
    assert len(tile.payload.rows) == 2
    computes(scheduled, {})
    found = [t for t in scheduled.scop.tensors if t.role == "temp"]
    return {t.name.removesuffix("_packed"): t.scope for t in found}


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upright_panels, "MOVED", 1.0)


@pytest.mark.parametrize(
    ("scop", "scopes"),
    [
        (batch(16, 16, 2, 8), {"A": "local", "B": "global"}),
        (batch(16, 16, 1, 17), {"A": "local", "B": "local"}),  # in each vector of lanes
        (batch(16, 16, 2, 8, "n, k, z"), {"A": "local", "B": "global"}),
        (batch(5, 21, 2, 8), {"A": "global"}),  # few tiles read B again
        (batch(5, 5, 2, 8), {}),
    ],
)
def test_what_many_tiles_read_is_copied(scop: Scop, scopes: dict[str, str]) -> None:
    assert copied(scop) == scopes


def test_what_no_cache_holds_is_not_copied() -> None:
    smaller = Machine("small", 64, 32, (Cache(1 << 15), Cache(1 << 17)))
    scheduled = schedule_loops(batch(50, 50, 400, 16), smaller)
    assert not [t for t in scheduled.scop.tensors if t.role == "temp"]
