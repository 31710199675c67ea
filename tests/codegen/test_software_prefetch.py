"""Lines asked for ahead: hints alone, for what the schedule says, once for each array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.software_prefetch import software_prefetch
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Prefetch, Stmt, Store, Update
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Apply, Expr, Load, Var, literal

F32 = dtypes.float32
i, k = Var("i"), Var("k")
ROWS, WIDTH = 5, 37


def x(*at: Expr, name: str = "x") -> Load:
    return Load(name, at, F32)


def along(body: Stmt) -> For:
    return For("k", literal(0), literal(WIDTH), "vector", body)


def kernel(body: Stmt, *small: str) -> Kernel:
    def buffer(name: str) -> Buffer:
        count = 1 if name in small else ROWS
        return Buffer(name, F32, (literal(count), literal(WIDTH)), (literal(WIDTH), literal(1)))

    buffers = tuple(map(buffer, "xys"))
    return Kernel("k", (), buffers, For("i", literal(0), literal(ROWS), "parallel", body))


def stored(value: Expr) -> For:
    return along(Store("y", (i, k), value))


def asking(original: Kernel, ahead: int = 1024) -> Kernel:
    """``original``, asking so many bytes ahead for ``x`` and half as many for ``s``."""
    far = {"x": ahead, "s": ahead // 2}
    buffers = tuple(replace(b, ahead=far.get(b.name, 0)) for b in original.buffers)
    made = software_prefetch(replace(original, buffers=buffers))
    verify_kernel(made)
    assert made.buffers == original.buffers
    return made


def hints(original: Kernel) -> list[str]:
    lines = print_kernel(asking(original)).splitlines()
    return [line.strip() for line in lines if "prefetch" in line]


EXP = Apply("exp", (x(i, k),))


def test_what_is_read_element_by_element() -> None:
    assert hints(kernel(stored(EXP), "s")) == ["prefetch x[i, k + 256]"]


def test_each_as_far_as_is_said() -> None:
    both = kernel(stored(x(i, k) + x(i, k, name="s")))
    assert hints(both) == ["prefetch x[i, k + 256]", "prefetch s[i, k + 128]"]


def test_once_where_it_is_read_again() -> None:
    fold = Update((("s", (literal(0), literal(0))),), monoid("max", F32), (x(i, k),))
    again = kernel(Block((along(fold), stored(EXP))), "s")
    assert hints(again) == ["prefetch x[i, k + 256]"]


@pytest.mark.parametrize(
    "original",
    [
        kernel(stored(x(i, literal(0)))),  # the same in all turns
        kernel(stored(x(i, literal(WIDTH - 1) - k))),  # backwards
        kernel(stored(x(k, i))),  # across rows
        kernel(For("j", literal(0), literal(4), "unrolled", stored(EXP))),  # a block of rows
        kernel(stored(x(i, k, name="y"))),  # nothing is said of it
    ],
)
def test_nothing_else_is_asked_for(original: Kernel) -> None:
    assert hints(original) == []


def test_a_kernel_that_prefetches_is_left_alone() -> None:
    own = Prefetch("x", (i, literal(0)))
    assert hints(kernel(Block((own, stored(EXP))))) == ["prefetch x[i, 0]"]


def test_nothing_is_said() -> None:
    original = kernel(stored(EXP))
    assert software_prefetch(original) is original


def test_hints_change_nothing() -> None:
    original = kernel(stored(EXP), "s")
    rng = np.random.default_rng(1)
    given = {n: rng.uniform(-1, 1, ROWS * WIDTH).astype(np.float32) for n in "xys"}
    found = check(asking(original), {}, given, rtol=1e-6)
    np.testing.assert_array_equal(found["y"], check(original, {}, given, rtol=1e-6)["y"])
    np.testing.assert_allclose(found["y"], np.exp(given["x"].astype(np.float64)), rtol=1e-6)
