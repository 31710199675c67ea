"""Shared loops: one pass over memory, where no parallelism is lost."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def both_ways() -> Scop:
    """A times a vector, and its transpose times another: one pass over A is enough."""
    text = """
    for i in range(N):
        for j in range(N):
            x[i] += A[i, j] * u[j]
    for i in range(N):
        for j in range(N):
            y[i] += A[j, i] * v[j]
    """
    return read(text, A="in N N", u="in N", v="in N", x="io N", y="io N")


def neighbours_differ() -> Scop:
    """The second nest needs the first one's row below: it goes one iteration behind."""
    text = """
    for i in range(N):
        for j in range(N):
            B[i, j] = A[i, j] * 2
    for i in range(N - 1):
        for j in range(N):
            C[i, j] = B[i + 1, j] * 3
    """
    return read(text, A="in N N", B="io N N", C="io N N")


def test_one_pass_serves_a_matrix_and_its_transpose() -> None:
    made = schedule_loops(both_ways(), MACHINE)
    assert outline(made) == "i j!vector { S0; S1 }"
    promise(made, *({"N": n} for n in (0, 1, 2, 7)))


def test_a_reader_of_the_next_row_follows_one_behind() -> None:
    made = schedule_loops(neighbours_differ(), MACHINE)
    assert outline(made) == "i!parallel j!vector { S0; S1 }"
    promise(made, *({"N": n} for n in (0, 1, 2, 7)))


def sweeps() -> Scop:
    """Recurrences along rows, side by side, time and again."""
    text = """
    for t in range(T):
        for i in range(N):
            for j in range(1, N):
                P[i, j] = P[i, j - 1] * 3 + A[i, j]
                Q[i, j] = Q[i, j - 1] * P[i, j - 1] + A[i, j] * 2
        for i in range(N):
            for j in range(N):
                A[j, i] += Q[i, j]
    """
    return read(text, "T N", A="io N N", P="io N N", Q="io N N")


def test_threads_share_strips_of_recurrences_in_each_step() -> None:
    made = schedule_loops(sweeps(), MACHINE, threads=2)
    assert outline(made).count("i_t!parallel") == 1
    assert "i_t!parallel" not in outline(schedule_loops(sweeps(), MACHINE))
    promise(made, *({"T": 2, "N": n} for n in (0, 1, 2, 17)))


ROTATED = """
for j in range(N):
    for i in range(1, N):
        c[i, j] = A[i - 1, j] + A[i, j] * 2
        for k in range(N):
            u = A[i - 1, k]
            d = A[i, k]
            A[i - 1, k] = u * c[i, j] + d
            A[i, k] = d * c[i, j] - u
"""


def test_one_thread_keeps_rows_that_a_serial_loop_hands_on_in_registers() -> None:
    scop = read(ROTATED, A="io N N", c="io N N", u="tmp", d="tmp")
    made = schedule_loops(scop, MACHINE)
    assert outline(made).endswith(
        "j i { S0_small; k_2!vector { S2_small; S1_small; S4_small; S3_small } }"
    )
    computes(made, {"N": 9}, {"N": 2})


def test_each_version_of_a_nest_has_temporaries_of_its_own() -> None:
    made = schedule_loops(read(ROTATED, A="io N N", c="io N N", u="tmp", d="tmp"), MACHINE)
    assert any(s.name == "S0_small" for s in made.scop.statements)
    sizes = [
        size for t in made.scop.tensors if t.role == "temp" for size in t.shape[t.contracted :]
    ]
    assert all(isinstance(size, Literal) for size in sizes)
    promise(made, *({"N": n} for n in (0, 1, 2, 7)))
