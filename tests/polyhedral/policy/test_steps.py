"""Steps of a recurrence: products share tiles with what reads them, threads meet once in each."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))

SUM = """
    for b in range({batch}):
        for h in range({hidden}):
            {s}[t, b, h] = 0
    for b in range({batch}):
        for h in range({hidden}):
            for k in range({hidden}):
                {s}[t, b, h] += y[t, b, k] * {w}[{at}]
"""
END = """
    for b in range({batch}):
        for h in range({hidden}):
            y[t + 1, b, h] = x[t, b, h] + p[t, b, h] * 2 - q[t, b, h]
"""


def step(batch: int, hidden: int, at: str, steps: int = 2) -> Scop:
    """Two products of the state and weights, and what makes the next state of both."""
    sums = "".join(SUM.replace("{s}", s).replace("{w}", w) for s, w in ("pu", "qv"))
    text = "for t in range({steps}):" + sums + END
    sizes = f"{steps} {batch} {hidden}"
    return read(
        text.format(steps=steps, batch=batch, hidden=hidden, at=at),
        x=f"in {sizes}", y=f"io {steps + 1} {batch} {hidden}", p=f"tmp {sizes}", q=f"tmp {sizes}",
        u=f"in {hidden} {hidden}", v=f"in {hidden} {hidden}",
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_a_step_share_tiles_with_what_reads_them(threads: int) -> None:
    made = schedule_loops(step(4, 48, "k, h"), MACHINE, threads=threads)
    kind = "!parallel" if threads > 1 else ""
    assert outline(made) == (
        f"t h_r{kind} {{ b h!vector {{ S0 }}; k b_p h_p {{ S1 }}; b_2 h_2!vector {{ S2 }}; "
        "k_2 b_p_2 h_p_2 { S3 }; b_3 h_3!vector { S4 } }"
    )
    promise(made, {"N": 1})


def test_weights_are_packed_once_for_all_steps() -> None:
    made = schedule_loops(step(4, 80, "h, k"), MACHINE)
    packed, steps = outline(made).split("; t ")
    assert packed.count("copy_") == 2 and "copy_" not in steps
    promise(made, {"N": 1})


@pytest.mark.long
@pytest.mark.parametrize("batch, hidden, at", [(3, 17, "h, k"), (19, 37, "k, h"), (1, 1, "h, k")])
@pytest.mark.parametrize("threads", [1, 2])
def test_steps_compute_what_they_say(batch: int, hidden: int, at: str, threads: int) -> None:
    made = schedule_loops(step(batch, hidden, at), MACHINE, threads=threads)
    computes(made, {"N": 1})


def test_products_that_nothing_reads_together_stay_apart() -> None:
    ends = (
        """
    for b in range(4):
        for h in range(48):
            y[t + 1, b, h] = p[t, b, h] * 2
""",
        """
    for b in range(4):
        for h in range(48):
            z[t, b, h] = q[t, b, h] - 1
""",
    )
    sums = [SUM.format(s=s, w=w, at="k, h", batch=4, hidden=48) for s, w in ("pu", "qv")]
    text = "for t in range(2):" + sums[0] + ends[0] + sums[1] + ends[1]
    scop = read(
        text, y="io 3 4 48", z="io 2 4 48", p="tmp 2 4 48", q="tmp 2 4 48", u="in 48 48",
        v="in 48 48",
    )  # fmt: skip
    made = schedule_loops(scop, MACHINE)
    assert outline(made).count(" h_r") == 2
    promise(made, {"N": 1})


# ---- One row of a step: sums along rows of weights.

ROW = """
for t in range(3):
    for h in range({hidden}):
        p[t, h] = 0
    for h in range({hidden}):
        for k in range({hidden}):
            p[t, h] += y[t, k] * u[h, k]
    for h in range({hidden}):
        y[t + 1, h] = {end}
"""
LONG = "x[t, h] + " + " * ".join(["p[t, h]"] * 13)


def row(hidden: int, end: str) -> Scop:
    return read(
        ROW.format(hidden=hidden, end=end), x=f"in 3 {hidden}", y=f"io 4 {hidden}",
        p=f"tmp 3 {hidden}", u=f"in {hidden} {hidden}",
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_long_arithmetic_after_sums_runs_in_vectors(threads: int) -> None:
    made = schedule_loops(row(80, LONG), MACHINE, threads=threads)
    kind = "!parallel" if threads > 1 else ""
    assert outline(made) == (
        f"t h_t{kind} {{ h!vector {{ S0 }}; h_2 k!vector {{ S1 }}; h_3!vector {{ S2 }} }}"
    )
    promise(made, {"N": 1})


@pytest.mark.parametrize("hidden", [1, 7, 17, 65])
def test_vectors_after_sums_compute_what_they_say(hidden: int) -> None:
    computes(schedule_loops(row(hidden, LONG), MACHINE, threads=2), {"N": 1})


def test_short_arithmetic_after_sums_stays_beside_them() -> None:
    made = schedule_loops(row(80, "x[t, h] + p[t, h]"), MACHINE)
    assert "h_t" not in outline(made)


# ---- What is around a recurrence.


def test_a_product_over_all_steps_stays_outside_of_them() -> None:
    """Even on one thread, where rows of one step would be in a cache."""
    text = """
    for t in range(8):
        for b in range(4):
            for h in range(48):
                for k in range(48):
                    g[t, b, h] += x[t, b, k] * u[k, h]
    for t in range(8):
        for b in range(4):
            for h in range(48):
                y[t + 1, b, h] = y[t, b, h] * 3 + g[t, b, h]
    """
    scop = read(text, x="in 8 4 48", u="in 48 48", y="io 9 4 48", g="tmp 8 4 48")
    made = schedule_loops(scop, MACHINE)
    first, _ = outline(made).split("; ")
    assert "S0" in first and "S1" not in first
    promise(made, {"N": 1})


def test_independent_recurrences_too_few_for_a_strip_share_no_loop() -> None:
    """They would be on one thread; the rows of each step are on both."""
    made = schedule_loops(step(4, 256, "k, h", steps=3), MACHINE, threads=2)
    assert "b_t" not in outline(made) and "h_r!parallel" in outline(made)
