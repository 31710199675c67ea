"""Producers computed in the iterations that need them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.harness import conv_pool
from tests.polyhedral.transform.harness import promise as promise_tensors
from tests.polyhedral.transform.integer_programs import every, promise, read, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Constraint, Scop
from weft.polyhedral.transform.compute_at import compute_at
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.share import share
from weft.polyhedral.transform.tile import tile


def blur() -> Scop:
    """Two passes of a 3×3 filter."""
    return read(
        """
        for i in range(N):
            for j in range(M - 2):
                T[i, j] = A[i, j] + 2 * A[i, j + 1] + A[i, j + 2]
        for i in range(N - 2):
            for j in range(M - 2):
                B[i, j] = T[i, j] + 2 * T[i + 1, j] + T[i + 2, j]
        """, "N M", A="in N M", B="io N M", T="tmp N M",
    )  # fmt: skip


def sums() -> Scop:
    """A reduction per row, used by the row."""
    return read(
        """
        for i in range(N):
            s[i] = 0
        for i in range(N):
            for k in range(i + 1):
                s[i] += A[i, k]
        for i in range(N):
            for j in range(N):
                B[i, j] = A[i, j] * s[i]
        """, "N", A="in N N", B="out N N", s="tmp N",
    )  # fmt: skip


def stored(now: Scheduled, name: str) -> list[object]:
    t = now.scop.tensor(name)
    return [int(s.value) if isinstance(s, Literal) else None for s in t.shape[t.contracted :]]


def tiled() -> Scheduled:
    return tile(initial(blur()), {"i_2": 4, "j_2": 4})


@pytest.mark.parametrize(
    ("loop", "sizes"),
    [("i_2_t", [6, None]), ("j_2_t", [6, 4]), ("i_2_p", [3, 4]), ("j_2_p", [3])],
)
def test_halo(loop: str, sizes: list[object]) -> None:
    """What a tile needs, three rows at the least; recomputed in the next."""
    now = compute_at(tiled(), "S0", loop)
    assert stored(now, "T") == sizes
    promise(now, *every(blur(), (0, 1, 2, 3, 7)))


def test_machine_code() -> None:
    now = compute_at(tiled(), "S0", "j_2_t")
    assert outline(now).startswith("i_2_t j_2_t { i_S0 j_S0 { S0 }; i_2_p j_2_p { S1 } }")
    computes(now, *every(blur(), (3, 9)))
    computes(set_kinds(now, {"i_2_t": "parallel"}), {"N": 7, "M": 9})


def test_a_reduction_with_its_beginning() -> None:
    now = compute_at(initial(sums()), "S1", "i_3")
    assert stored(now, "s") == []
    computes(now, *every(sums(), (0, 1, 5)))
    computes(compute_at(tile(initial(sums()), {"i_3": 4}), "S0", "i_3_t"), {"N": 0}, {"N": 9})


@pytest.mark.parametrize(("height", "width"), [(7, 6), (8, 8), (1, 5), (5, 4)])
def test_a_reduction_with_a_halo_in_two_dims(height: int, width: int) -> None:
    of = conv_pool(height, width)
    start = share(initial(of), _shared("Y_max_init", "Y_max"), ["Y_max_init", "Y_max"])
    now = compute_at(tile(start, {"p": 4, "q": 4}), "T_add", "q_t")
    assert stored(now, "T") == [min(5, height + 1), min(5, width + 1)]
    promise_tensors(of, now)


def _shared(*statements: str) -> dict[str, dict[str, str]]:
    loops = {"Y_max_init": ("i_3", "j_3"), "Y_max": ("i_4", "j_4")}
    return {new: {s: loops[s][k] for s in statements} for k, new in enumerate(("p", "q"))}


def test_chain() -> None:
    scop = read(
        """
        for i in range(N):
            U[i] = A[i] * 3
        for i in range(1, N - 1):
            V[i] = U[i - 1] + U[i + 1]
        for i in range(2, N - 2):
            B[i] = V[i - 1] + V[i + 1]
        """, "N", A="in N", B="io N", U="tmp N", V="tmp N",
    )  # fmt: skip
    now = compute_at(tile(initial(scop), {"i_3": 4}), "S1", "i_3_t")
    now = compute_at(now, "S0", "i_3_t")
    assert (stored(now, "V"), stored(now, "U")) == ([6], [8])
    promise(now, *every(scop, (0, 1, 4, 5, 9)))


def test_in_a_time_loop() -> None:
    scop = read(
        """
        for t in range(T):
            for i in range(N):
                row[t, i] = A[i] * 2
            for i in range(1, N):
                A[i] = row[t, i - 1] + row[t, i]
        """, "T N", A="io N", row="tmp T N",
    )  # fmt: skip
    now = tile(initial(scop), {"i_2": 4})
    assert "E0440" in refusal(compute_at(now, "S0", "i_2_t"))  # A has changed before the next tile
    promise(compute_at(now, "S0", "t"), *every(scop, (0, 1, 6)))


def test_inside_already() -> None:
    """A scalar that each iteration uses anew is made in the iteration that reads it."""
    scop = read(
        """
        for i in range(N):
            s[0] = 0
            for k in range(i):
                s[0] += A[i, k]
            for j in range(N):
                B[i, j] = A[i, j] * s[0]
        """, "N", A="in N N", B="out N N", s="tmp 1",
    )  # fmt: skip
    for start, loop in ((initial(scop), "i"), (tile(initial(scop), {"i": 4}), "i_p")):
        now = compute_at(start, "S0", loop)
        promise(now, *every(scop, (0, 1, 6)))
        promise(set_kinds(now, {loop: "parallel"}), *every(scop, (0, 1, 6)))
    promise(compute_at(initial(scop), "S1", "j"), *every(scop, (0, 1, 6)))  # again for each j
    late = compute_at(tile(initial(scop), {"i": 4}), "S0", "i_t")
    assert "E0440" in refusal(late)  # four rows in one scalar


def test_mutations_are_caught() -> None:
    now = compute_at(tiled(), "S0", "j_2_t")
    maker = now.scop.statement("S0")
    (write,) = maker.writes
    small = replace(maker, domain=(*maker.domain, Constraint(4 - write.indices[2])))
    assert "E0440" in refusal(_with(now, small))
    moved = replace(write, indices=(*write.indices[:3], write.indices[3] + 1))
    assert "E04" in refusal(_with(now, replace(maker, writes=(moved,))))
    other = replace(maker.origin, instance=tuple(reversed(maker.origin.instance)))  # type: ignore
    assert "E04" in refusal(_with(now, replace(maker, origin=other)))


def _with(now: Scheduled, changed) -> Scheduled:  # type: ignore[no-untyped-def]
    statements = (changed if s.name == changed.name else s for s in now.scop.statements)
    return replace(now, scop=replace(now.scop, statements=tuple(statements)))


@pytest.mark.parametrize(
    ("statement", "loop", "reason"),
    [
        ("S1", "i_2_t", "outlives"),
        ("S0", "i", "E0470"),
        ("S0", "nowhere", "E0450"),
        ("S9", "i_2_t", "E0451"),
    ],
)
def test_refusals(statement: str, loop: str, reason: str) -> None:
    with pytest.raises(IllegalScheduleError, match=reason):
        compute_at(tiled(), statement, loop)


def test_local_already() -> None:
    now = compute_at(tiled(), "S0", "j_2_t")
    with pytest.raises(IllegalScheduleError, match="WEFT-E0467"):
        compute_at(now, "S0", "j_2_t")
