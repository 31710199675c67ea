"""Every promise of loop IR, broken once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.errors import InternalError
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Check,
    For,
    If,
    Kernel,
    Let,
    Single,
    Stmt,
    Store,
    Update,
)
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Load, Var, literal

F, I32 = dtypes.float32, dtypes.int32
i, n = Var("i"), Var("n")
X = Buffer("x", F, (n,), (literal(1),), writable=False)
Y = Buffer("y", F, (n,), (literal(1),))
x = Load("x", (i,), F)


def kernel(body: Stmt, *buffers: Buffer) -> Kernel:
    return Kernel("k", ("n",), buffers or (X, Y), For("i", literal(0), n, "serial", body), ("m",))


def region(body: Stmt) -> Kernel:
    return Kernel("k", ("n",), (X, Y), body, ("m",), region=True)


def spread(body: Stmt) -> For:
    return For("i", literal(0), n, "parallel", body)


SHARED = Buffer("s", F, (n,), (literal(1),), "shared")
FIRST = Store("y", (literal(0),), Load("x", (literal(0),), F))


def test_a_good_region() -> None:
    inside = Store("s", (i,), x)
    verify_kernel(region(Allocate(SHARED, Block((spread(inside), Barrier(), Single(FIRST))))))


def test_a_good_kernel() -> None:
    verify_kernel(kernel(Let("a", x, Store("y", (i,), Var("a", F)))))


BAD: dict[str, Kernel] = {
    "j is used where it is not bound": kernel(Store("y", (Var("j"),), x)),
    "i is bound again where it is bound": kernel(Let("i", i + 1, Store("y", (i,), x))),
    "n is bound again where it is bound": kernel(
        For("n", literal(0), i, "serial", Store("y", (n,), x))
    ),
    "a is bound again where it is bound": kernel(
        Let("a", x, Let("a", Var("a", F), Store("y", (i,), Var("a", F))))
    ),
    "a is used as int64": kernel(Let("a", x, Store("y", (Var("a"),), x))),
    "z is accessed where there is no such buffer": kernel(Store("z", (i,), x)),
    "y has 1 indices": kernel(Store("y", (i, i), x)),
    "y has int64 indices": kernel(Store("y", (i.astype(I32),), x)),
    "y is accessed as int64, not float32": kernel(Store("y", (i,), i)),
    "x is accessed as int32, not float32": kernel(Store("y", (i,), Load("x", (i,), I32).astype(F))),
    "x is written but read only": kernel(Store("x", (i,), x)),
    "an update gives add what it folds": kernel(
        Update((("y", (i,)),), monoid("add", F), (i,))
    ),
    "two buffers have one name": kernel(Store("y", (i,), x), X, Y, Y),
    "conditions are bools": kernel(If(i, Store("y", (i,), x))),
    "check 2 has a message": kernel(Check(i < n, 2, (i, n))),
    "register buffer r has constant sizes": kernel(
        Allocate(Buffer("r", F, (n,), (literal(1),), "register"), Store("r", (i,), x))
    ),
    "y has a stride per dimension": kernel(
        Store("y", (i,), x), X, Buffer("y", F, (n,), ())
    ),
    "a barrier or a single where no team is": kernel(Barrier()),
    "a barrier or a single where no team": region(Single(Barrier())),
    "a barrier or a single where": region(spread(Single(FIRST))),
    "every thread of a team has the same effect": region(FIRST),
    "a team is in a vector loop": region(For("i", literal(0), n, "vector", Single(FIRST))),
    "s is shared by a team, or by nobody": region(spread(Allocate(SHARED, Store("s", (i,), x)))),
    "s is shared by a team, or by": region(
        Allocate(replace(SHARED, scope="local"), spread(Store("s", (i,), x)))
    ),
    "loop i has int64 bounds, step > 0": Kernel(
        "k", ("n",), (X, Y), For("i", literal(0), n, "serial", Store("y", (i,), x), 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_refused(what: str) -> None:
    with pytest.raises(InternalError, match="WEFT-E0912") as caught:
        verify_kernel(BAD[what])
    assert what in str(caught.value)
