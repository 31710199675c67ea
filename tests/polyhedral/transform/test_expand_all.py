"""Every temporary expanded as far as it goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.loop_programs import PROGRAMS, program
from tests.polyhedral.transform.integer_programs import every, promise, read
from weft.ir.scalar_expr import Var
from weft.ir.scop import Constraint, Scop
from weft.polyhedral.proof.dependences import dependences
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.expand_all import expand_all
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


def ranks(scop: Scop) -> dict[str, int]:
    return {t.name: len(t.shape) for t in scop.tensors if t.role == "temp"}


def symm() -> Scop:
    return read(
        """
        for i in range(M):
            for j in range(N):
                temp = 0
                for k in range(i):
                    C[k, j] += B[i, j] * A[i, k]
                    temp += B[k, j] * A[i, k]
                C[i, j] = C[i, j] + B[i, j] * A[i, i] + temp
        """, "M N", A="in M M", B="in M N", C="io M N", temp="tmp",
    )  # fmt: skip


def test_a_scalar_per_element() -> None:
    now = expand_all(symm())
    assert ranks(now) == {"temp": 2}
    promise(Scheduled(symm(), now, initial(now).tree), *every(now, (0, 1, 2, 5)))
    assert not [d for d in dependences(now) if d.tensor == "temp" and d.kind == "anti"]


def test_no_false_dependence_between_time_steps() -> None:
    scop = read(
        """
        for t in range(T):
            for i in range(N):
                x = A[i]
                row[i] = x
            for i in range(N):
                A[i] = row[i] + t
        """, "T N", A="io N", x="tmp", row="tmp N",
    )  # fmt: skip
    now = expand_all(scop)
    assert ranks(now) == {"x": 2, "row": 2}  # row: the step; its index tells i apart already
    promise(Scheduled(scop, now, initial(now).tree), *every(now, (0, 1, 3)))


def test_a_loop_of_no_closed_length_is_left_out_and_the_others_are_not() -> None:
    scop = read(
        """
        for t in range(T):
            for i in range(N):
                x = A[i]
                A[i] = x + t
        """, "T N", A="io N", x="tmp",
    )  # fmt: skip
    scop = replace(scop, context=(Constraint(Var("N")),))  # T may be negative: no array's length
    now = expand_all(scop)
    assert ranks(now) == {"x": 1}
    promise(Scheduled(scop, now, initial(now).tree), *every(now, (0, 1, 3)))


def test_independent_uses_are_separated() -> None:
    scop = read(
        """
        for i in range(N):
            w = A[i]
            B[i] = w
        for i in range(N):
            for j in range(i):
                w = B[j]
                C[i, j] = w
        """, A="in N", B="io N", C="io N N", w="tmp",
    )  # fmt: skip
    now = expand_all(scop)
    assert ranks(now) == {"w": 1, "w_2": 2}
    promise(Scheduled(scop, now, initial(now).tree), *every(now, (0, 1, 4)))


def test_what_carries_values_stays() -> None:
    scop = read(
        """
        total = 0
        for i in range(N):
            total += A[i]
        for i in range(N):
            if i > 2:
                x = A[i]
            B[i] = x + total
        """, A="in N", B="io N", total="tmp", x="tmp",
    )  # fmt: skip
    assert expand_all(scop).tensors == scop.tensors


@pytest.mark.parametrize("name", PROGRAMS)
def test_validates(name: str) -> None:
    scop = program(name)
    now = expand_all(scop)
    if now is not scop:
        validate(scop, now, initial(now).tree)
