"""Lines asked for ahead: hints alone, for what comes from memory, once for each array."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.optimise_kernel import optimise_kernel
from weft.codegen.software_prefetch import software_prefetch
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Stmt, Store, Update
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Apply, Expr, Load, Var, literal

F32 = dtypes.float32
i, k = Var("i"), Var("k")
ROWS, WIDTH = 5, 37
SIZE = ROWS * WIDTH * 4  # bytes of one array
FIRST = 8192  # of a first cache: 1024 bytes are asked for


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


def hints(original: Kernel, last: int = SIZE) -> list[str]:
    made = software_prefetch(original, FIRST, last, 4096)
    verify_kernel(made)
    return [line.strip() for line in print_kernel(made).splitlines() if "prefetch" in line]


EXP = Apply("exp", (x(i, k),))


def test_what_is_read_element_by_element() -> None:
    assert hints(kernel(stored(EXP), "s")) == ["prefetch x[i, k + 256]"]


def test_at_most_half_a_page_ahead() -> None:
    made = software_prefetch(kernel(stored(EXP), "s"), 1 << 17, SIZE, 4096)
    assert "prefetch x[i, k + 512]" in print_kernel(made)


def test_several_share_the_cache() -> None:
    both = kernel(stored(x(i, k) + x(i, k, name="s")))
    assert hints(both) == ["prefetch x[i, k + 128]", "prefetch s[i, k + 128]"]


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
        kernel(along(Store("x", (i, k), EXP))),  # written as well
        kernel(stored(x(literal(0), k, name="s")), "s"),  # small
    ],
)
def test_nothing_else_is_asked_for(original: Kernel) -> None:
    assert hints(original) == []


def test_what_a_cache_holds_is_there() -> None:
    total = 2 * SIZE + WIDTH * 4
    assert hints(kernel(stored(EXP), "s"), total) == []
    assert hints(kernel(stored(EXP), "s"), total - 1) != []


@pytest.mark.parametrize("sequential_prefetcher", [True, False])
def test_a_sequential_prefetcher_needs_no_hints(sequential_prefetcher: bool) -> None:
    caches = (Cache(FIRST), Cache(SIZE, sequential_prefetcher=sequential_prefetcher))
    shifted = stored(Apply("exp", (x(i, k) + x(literal(0), k, name="s"),)))  # rows stay apart
    made = optimise_kernel(kernel(shifted, "s"), Machine("m", 16, 16, caches))
    assert ("prefetch" in print_kernel(made)) is not sequential_prefetcher


def test_hints_change_nothing() -> None:
    original = kernel(stored(EXP), "s")
    rng = np.random.default_rng(1)
    given = {n: rng.uniform(-1, 1, ROWS * WIDTH).astype(np.float32) for n in "xys"}
    found = check(software_prefetch(original, FIRST, SIZE, 4096), {}, given, rtol=1e-6)
    np.testing.assert_array_equal(found["y"], check(original, {}, given, rtol=1e-6)["y"])
    np.testing.assert_allclose(found["y"], np.exp(given["x"].astype(np.float64)), rtol=1e-6)
