"""Loop IR as text."""

from __future__ import annotations

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Check,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Store,
    Update,
    While,
)
from weft.ir.loop_printer import print_kernel
from weft.ir.scalar_expr import Load, Var, literal

F = dtypes.float32


def test_every_construct() -> None:
    i, n, a = Var("i"), Var("n"), Var("a", F)
    x = Buffer("x", F, (n, literal(4)), (literal(4), literal(1)), writable=False)
    y = Buffer("y", F, (n,), (literal(2),), aliases=("x",))
    r = Buffer("r", F, (), (), "register")
    body = Block((
        Comment("one line\nof words"),
        Store("r", (), literal(0, F)),
        If(i < 3, Store("y", (i,), a * 2.0), Update((("r", ()),), monoid("add", F), (a,))),
        Check(i < n, 1, (i, n)),
        While(Load("r", (), F) < 1.0, Store("r", (), literal(1, F))),
    ))  # fmt: skip
    inner = Let("a", Load("x", (i, literal(0)), F), Allocate(r, body))
    kernel = Kernel("k", ("n",), (x, y), For("i", literal(0), n, "parallel", inner, 2), ("bad",))
    assert print_kernel(kernel).splitlines() == [
        "kernel k(n)",
        "  x: float32[n, 4] const",
        "  y: float32[n] strides (2) aliases x",
        "  for i in 0 .. n step 2 parallel:",
        "    let a = x[i, 0]",
        "    allocate r: float32[] register",
        "    # one line of words",
        "    r[] = 0.0",
        "    if i < 3:",
        "      y[i] = a * 2.0",
        "    else:",
        "      r[] add= a",
        "    check i < n else 1(i, n)",
        "    while r[] < 1.0:",
        "      r[] = 1.0",
        "  # 1: bad",
    ]
