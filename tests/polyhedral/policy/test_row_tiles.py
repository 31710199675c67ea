"""Row tiles: products that hand results on run a tile of rows at a time, which stays in L2."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(7168), Cache(1 << 16)))

CHAIN = """
for i in range({n}):
    for j in range({m}):
        s[i, j] = 0
for i in range({n}):
    for j in range({m}):
        for d in range(4):
            s[i, j] += q[i, d] * k[d, j]
for i in range({n}):
    t[i] = 0
for i in range({n}):
    for j in range({m}):
        t[i] += s[i, j]
for i in range({n}):
    for j in range({m}):
        w[i, j] = s[i, j] - t[i]
for i in range({n}):
    for d in range(4):
        y[i, d] = 0
for i in range({n}):
    for d in range(4):
        for j in range({m}):
            y[i, d] += w[i, j] * v[j, d]
"""


def chain(n: int, m: int, heads: int = 0) -> Scop:
    text, size = CHAIN.format(n=n, m=m), ""
    if heads:
        size = f"{heads} "
        lines = (f"    {line}".replace("[", "[h, ") for line in text.strip().splitlines())
        nests = "\n".join(lines)
        text = nests.replace("    for i", f"for h in range({heads}):\n    for i")
    shapes = (f"{n} {m}", f"{n} {m}", f"{n}")
    s, w, t = (f"tmp {size}{shape}" for shape in shapes)
    q, k, v = (f"in {size}{shape}" for shape in (f"{n} 4", f"4 {m}", f"{m} 4"))
    return read(text, q=q, k=k, v=v, y=f"io {size}{n} 4", s=s, w=w, t=t)


BLOCKS = """
for i in range({n}):
    for b in range(4):
        for c in range(16):
            s[i, b, c] = 0
for i in range({n}):
    for b in range(4):
        for c in range(16):
            for d in range(4):
                s[i, b, c] += q[i, d] * k[d, b, c]
for i in range({n}):
    for b in range(4):
        t[i, b] = 0
for i in range({n}):
    for b in range(4):
        for c in range(16):
            t[i, b] += s[i, b, c]
for i in range({n}):
    for b in range(4):
        for c in range(16):
            w[i, b, c] = s[i, b, c] - t[i, b]
for i in range({n}):
    for b in range(4):
        for d in range(4):
            p[i, b, d] = 0
for i in range({n}):
    for b in range(4):
        for d in range(4):
            for c in range(16):
                p[i, b, d] += w[i, b, c] * v[b, c, d]
for i in range({n}):
    for d in range(4):
        y[i, d] = 0
for i in range({n}):
    for d in range(4):
        for b in range(4):
            y[i, d] += p[i, b, d]
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_too_long_for_a_tile_go_block_by_block(threads: int) -> None:
    n = 37
    temporaries = {"s": f"tmp {n} 4 16", "w": f"tmp {n} 4 16", "t": f"tmp {n} 4"}
    scop = read(
        BLOCKS.format(n=n), q=f"in {n} 4", k="in 4 4 16", v="in 4 16 4", y=f"io {n} 4",
        p=f"tmp {n} 4 4", **temporaries,
    )  # fmt: skip
    made = schedule_loops(scop, MACHINE, threads=threads)
    for tensor in ("s", "w"):
        kept, width = rows_kept(made, tensor)
        assert width == 16 and 1 < kept < n
        assert any(note.startswith(f"{kept} rows at a time") for note in made.notes)
    promise(made, {"N": 1})
    computes(made, {"N": 1})


def rows_kept(made: Scheduled, tensor: str) -> list[int]:
    """The sizes of ``tensor``'s storage."""
    found = made.scop.tensor(tensor)
    return [int(n.value) for n in found.shape[found.contracted :] if isinstance(n, Literal)]


@pytest.mark.long
@pytest.mark.parametrize("n, heads, threads", [(37, 0, 1), (37, 0, 2), (31, 2, 1), (32, 3, 2)])
def test_a_tile_of_rows_is_kept(n: int, heads: int, threads: int) -> None:
    made = schedule_loops(chain(n, 15, heads), MACHINE, threads=threads)
    for tensor in ("s", "w"):
        kept, width = rows_kept(made, tensor)
        assert any(note.startswith(f"{kept} rows at a time") for note in made.notes)
        assert width == 15 and kept < n and 2 * kept * width * 8 <= MACHINE.l2
    promise(made, {"N": 1})
    computes(made, {"N": 1})


@pytest.mark.parametrize(
    "n, m", [(16, 15), (40, 400)], ids=["it stays as it is", "a tile would not"]
)
def test_what_gains_nothing_stays_whole(n: int, m: int) -> None:
    made = schedule_loops(chain(n, m), MACHINE)
    assert rows_kept(made, "s")[:1] == [n]


def test_sums_over_the_rows_stay_outside() -> None:
    text = (
        CHAIN.format(n=37, m=15)
        + """
for j in range(15):
    z[j] = 0
for i in range(37):
    for j in range(15):
        z[j] += w[i, j]
"""
    )
    scop = read(text, q="in 37 4", k="in 4 15", v="in 15 4", y="io 37 4", z="io 15",
                s="tmp 37 15", w="tmp 37 15", t="tmp 37")  # fmt: skip
    made = schedule_loops(scop, MACHINE)
    promise(made, {"N": 1})
    computes(made, {"N": 1})
