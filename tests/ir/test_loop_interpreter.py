"""The interpreter does what the page of loop IR says, and is strict about it."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_interpreter import Status, interpret
from weft.ir.loop_ir import Allocate, Block, Buffer, Check, For, Kernel, Stmt, Store, Update
from weft.ir.scalar_expr import Load, Var, literal

F = dtypes.float32
i, n = Var("i"), Var("n")
X = Buffer("x", F, (n,), (literal(1),), writable=False)
Y = Buffer("y", F, (n,), (literal(2),))


def run(body: Stmt, size: int = 4) -> tuple[np.ndarray, Status]:
    kernel = Kernel("k", ("n",), (X, Y), For("i", literal(0), n, "serial", body), ("m",))
    memory = {"x": np.arange(size, dtype=np.float32), "y": np.zeros(2 * size, np.float32)}
    status = interpret(kernel, {"n": size}, memory)
    return memory["y"], status


def test_strides_and_updates() -> None:
    fold = Update((("y", (literal(1),)),), monoid("add", F), (Load("x", (i,), F),))
    assert list(run(fold)[0]) == [0, 0, 6, 0, 0, 0, 0, 0]


def test_the_first_failed_check_counts_and_the_loop_goes_on() -> None:
    body = Block((Check(i < 2, 1, (i, n)), Store("y", (i,), literal(1, F))))
    values, status = run(body)
    assert status == Status(1, (2, 4)) and values.sum() == 4


@pytest.mark.parametrize(
    "body, what",
    [
        (Store("y", (i + n,), literal(1, F)), "outside its buffer"),
        (Store("y", (i,), Load("x", (i - 1,), F)), "outside its buffer"),
        (Store("x", (i,), literal(1, F)), "read only"),
        (
            Allocate(Buffer("t", F, (), (), "local"), Store("y", (i,), Load("t", (), F))),
            "before it is written",
        ),
    ],
)
def test_strict(body: Stmt, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        run(body)
