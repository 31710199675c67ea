"""What no caller sees moves to temporaries; what a caller may see stays where it is."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, attr-defined, index, operator"

from typing import Any

import numpy as np
import pytest

import weft
from tests.polyhedral.transform.integer_programs import read
from weft.ir.scop import Scop
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.private_results import detached

f64 = weft.f64


@weft.kernel
def twice(A: f64["N"], B: f64["N"], p: f64["N"]):
    for i in range(N):
        p[i] = A[i] + 1.0
    for i in range(N):
        B[i] = p[i] * 2.0
    for i in range(N):
        p[i] = A[i] - 1.0
    for i in range(N):
        B[i] = B[i] + p[i]


@weft.kernel
def partly(A: f64["N"], B: f64["N"], p: f64["N"]):
    for i in range(N):
        p[i] = A[i] + 1.0
    for i in range(N):
        B[i] = p[i] * 2.0
    for i in range(1, N):
        p[i] = A[i] - 1.0


@weft.kernel
def before(A: f64["N"], B: f64["N"], p: f64["N"]):
    for i in range(1, N):
        p[i] = A[i] + 1.0
    for i in range(N):
        B[i] = p[i] * 2.0
    for i in range(N):
        p[i] = A[i] - 1.0


@weft.kernel
def folded(A: f64["N"], B: f64["N"], p: f64["N"]):
    for i in range(N):
        p[i] += A[i]
        B[i] = p[i]
    for i in range(N):
        p[i] = A[i]


@weft.kernel
def iterated(T: weft.i64, A: f64["N"], p: f64["N"]):
    for _t in range(T):
        for i in range(N):
            p[i] = A[i] * 2.0
        for i in range(N):
            A[i] = p[i] + 1.0
        for i in range(N):
            p[i] = A[i] * 3.0
        for i in range(N):
            A[i] = p[i] - 1.0


def written(scop: Scop) -> list[str]:
    return [w.tensor for s in scop.statements for w in s.writes]


@pytest.mark.parametrize(
    ("kernel", "targets"),
    [
        (twice, ["p_2", "B", "p", "B"]),
        (partly, ["p", "B", "p"]),  # p[0] is seen at the end
        (before, ["p", "B", "p"]),  # p[0] is seen before it is written
        (folded, ["p", "B", "p"]),
        (iterated, ["p_2", "A", "p", "A"]),
    ],
)
def test_only_what_no_caller_sees(kernel: Any, targets: list[str]) -> None:
    scop = kernel.scop
    found, names = detached(scop, "p")
    assert written(found) == targets
    assert names == (("p_2",) if "p_2" in targets else ())
    validate(scop, found, initial(found).tree)


def test_a_read_that_no_instance_performs_has_no_tensor_of_its_own() -> None:
    scop = read(
        """
        for i in range(N):
            if i > N:
                B[i] = p[i]
            p[i] = A[i]
            B[i] = p[i]
            p[i] = B[i]
        """, A="in N", B="io N", p="io N",
    )  # fmt: skip
    found, names = detached(scop, "p")
    assert names == ("p_2",)
    assert [a.tensor for s in found.statements for a in s.reads] == ["p", "A", "p_2", "B"]
    assert written(found) == ["B", "p_2", "B", "p"]
    validate(scop, found, initial(found).tree)


def test_inputs_and_temporaries_stay() -> None:
    assert detached(twice.scop, "A") == (twice.scop, ())


def test_the_caller_sees_the_same() -> None:
    rng = np.random.default_rng(0)
    A, B, p = rng.random(100), rng.random(100), rng.random(100)
    a = A.copy()
    twice(a, B, p)
    np.testing.assert_array_equal(a, A)
    np.testing.assert_array_equal(p, A - 1.0)
    np.testing.assert_array_equal(B, (A + 1.0) * 2.0 + (A - 1.0))
