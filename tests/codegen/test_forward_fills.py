"""What a fill leaves is known where it covers what is loaded; the kernel does the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.forward_fills import forward_fills
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Block, Buffer, For, If, Kernel, Let, Stmt, Store, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select

i, j, r, c, n, t = map(Var, ("i", "j", "r", "c", "n", "t"))
SIDE = 16
ZERO = literal(0)


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, dtypes.int64)


def nest(store: Store, **bounds: tuple[Expr | int, Expr | int]) -> Stmt:
    """Loops over ``bounds`` around ``store``, outermost first."""
    stmt: Stmt = store
    for name, pair in reversed(bounds.items()):
        low, high = (literal(e) if isinstance(e, int) else e for e in pair)
        stmt = For(name, low, high, "serial", stmt)
    return stmt


def fill(rows: Expr | int = 4, width: Expr | int = 8, start: Expr = ZERO, low: int = 0) -> Stmt:
    return nest(Store("x", (start + i, j), literal(7)), i=(low, rows), j=(0, width))


LOAD = nest(Store("t", (r, c), at("x", r, c)), r=(0, 4), c=(0, 8))
BACK = nest(Store("x", (r, c), at("t", r, c) + 1), r=(0, 4), c=(0, 8))


def tile(load: Stmt = LOAD, back: Stmt = BACK) -> Stmt:
    shape, strides = (literal(4), literal(8)), (literal(8), literal(1))
    buffer = Buffer("t", dtypes.int64, shape, strides, "local")
    return Allocate(buffer, Block((load, back)))


def forwarded(*parts: Stmt, alias: bool = False) -> str:
    """The kernel after the pass, which still does the same."""
    shape, strides = (literal(SIDE), literal(SIDE)), (literal(SIDE), literal(1))
    x = Buffer("x", dtypes.int64, shape, strides, aliases=("y",) if alias else ())
    y = Buffer("y", dtypes.int64, shape, strides)
    kernel = Kernel("k", ("n",), (x, y), Block(parts), ())
    changed = forward_fills(kernel)
    verify_kernel(changed)
    for size in range(7):
        rng = np.random.default_rng(size)
        arrays = {b: rng.integers(-99, 99, SIDE * SIDE) for b in "xy"}
        expected = {name: a.copy() for name, a in arrays.items()}
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(kernel, {"n": size}, expected)
        interpret(changed, {"n": size}, actual)
        native, _ = Compiled(changed)({"n": size}, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)
    return print_stmt(changed.body)


def fills(text: str) -> int:
    return text.count("x[i, j] = 7")


def test_what_was_filled_is_neither_loaded_nor_filled() -> None:
    text = forwarded(fill(), tile())
    assert "t[r, c] = 7" in text and fills(text) == 0


def test_fills_of_short_rows_are_found_before_these_are_collapsed() -> None:
    def rows(row: Var, column: Var, store: Store) -> Stmt:
        short = For(column.name, ZERO, literal(3), "vector", store)
        return For(row.name, ZERO, literal(4), "serial", short)

    sizes = (literal(4), literal(3)), (literal(3), literal(1))
    x, buffer = Buffer("x", dtypes.int64, *sizes), Buffer("t", dtypes.int64, *sizes, "local")
    first = rows(i, j, Store("x", (i, j), literal(7)))
    load = rows(r, c, Store("t", (r, c), at("x", r, c)))
    back = rows(r, c, Store("x", (r, c), at("t", r, c) + 1))
    body = Block((first, Allocate(buffer, Block((load, back)))))
    memory = {"x": np.zeros(12, np.int64)}
    changed = optimise_kernel(Kernel("k", (), (x,), body))
    interpret(changed, {}, memory)
    assert memory["x"].tolist() == [8] * 12
    assert sum(isinstance(s, Store) and s.buffer == "x" for s in walk(changed.body)) == 1


@pytest.mark.parametrize(
    "small", [fill(rows=3), fill(width=7), fill(start=literal(1)), fill(low=1), fill(rows=n)]
)
def test_what_was_not_filled_is_loaded(small: Stmt) -> None:
    assert "t[r, c] = x[r, c]" in forwarded(small, tile())


def test_what_is_not_stored_stays_filled() -> None:
    for large in (fill(rows=5), fill(width=9)):
        text = forwarded(large, tile())
        assert "t[r, c] = 7" in text and fills(text) == 1
    back = nest(Store("x", (r, c), at("t", r, c)), r=(0, 4), c=(0, n))
    assert fills(forwarded(fill(), tile(back=back))) == 1
    text = forwarded(fill(), tile(back=Block(())))
    assert "t[r, c] = 7" in text and fills(text) == 1


def test_conditions_say_what_is_covered() -> None:
    """Clipped fills before whole and partial tiles."""
    partial = nest(Store("y", (i, j), at("x", i, j)), i=(0, n), j=(0, 8))
    parts = fill(rows=apply("min", literal(4), n)), If(n >= 4, tile(), partial)
    text = forwarded(*parts)
    assert "t[r, c] = 7" in text and fills(text) == 1
    assert text.index("else") < text.index("x[i, j] = 7")
    otherwise = If(n < 4, partial, tile())
    assert fills(forwarded(parts[0], otherwise)) == 1
    assert "t[r, c] = x[r, c]" in forwarded(parts[0], If(n >= 3, tile(), partial))


def test_names_and_conditions_are_respected() -> None:
    assert "t[r, c] = 7" in forwarded(fill(), Let("k", n + 1, tile()))
    assert "t[r, c] = x[r, c]" in forwarded(fill(), Let("i", n + 1, tile()))
    asked = If(at("x", ZERO, ZERO) > 0, tile(), Block(()))
    assert "t[r, c] = x[r, c]" in forwarded(fill(), asked)


def test_arrays_that_may_overlap_stay() -> None:
    between = Store("y", (ZERO, ZERO), literal(5))
    assert "t[r, c] = x[r, c]" in forwarded(fill(), between, tile(), alias=True)


def test_other_boxes() -> None:
    blocks = nest(Store("t", (r, c * 4 + t), at("x", r, c * 4 + t)), r=(0, 4), c=(0, 2), t=(0, 4))
    back = nest(Store("x", (r, c * 4 + t), literal(1)), r=(0, 4), c=(0, 2), t=(0, 4))
    text = forwarded(fill(), tile(blocks, back))
    assert "= 7" in text and fills(text) == 0
    gaps = nest(Store("x", (r, c * 5 + t), literal(1)), r=(0, 4), c=(0, 2), t=(0, 4))
    assert fills(forwarded(fill(), tile(blocks, gaps))) == 1
    diagonal = nest(Store("x", (r, r + c), literal(1)), r=(0, 4), c=(0, 8))
    assert fills(forwarded(fill(), tile(back=diagonal))) == 1
    triangle = nest(Store("x", (r, c), literal(1)), r=(0, 4), c=(0, r + 5))
    assert fills(forwarded(fill(), tile(back=triangle))) == 1
    transposed = nest(Store("x", (c, r), literal(1)), r=(0, 8), c=(0, 4))
    assert fills(forwarded(fill(), tile(back=transposed))) == 0


LEFT = apply("min", n, literal(8))


def masked_load(limit: Expr, *, other: Expr = ZERO) -> Stmt:
    value = select(Var("end") > ZERO, select(c < Var("end"), at("x", r, c), other), other)
    inside = Let("end", limit, nest(Store("t", (r, c), value), c=(0, 8)))
    return For("r", ZERO, literal(4), "serial", inside)


def masked_back(limit: Expr, guard: Expr) -> Stmt:
    one = If(c < Var("end"), Store("x", (r, c), at("t", r, c)), Block(()))
    inside = If(guard, For("c", ZERO, literal(8), "serial", one), Block(()))
    return For("r", ZERO, literal(4), "serial", Let("end", limit, inside))


def test_masked_tiles_begin_with_what_was_filled() -> None:
    some = Var("end") > ZERO
    whole = tile(masked_load(LEFT, other=literal(7)), masked_back(LEFT, some))
    text = forwarded(fill(width=LEFT), whole)
    assert "t[r, c] = 7" in text and fills(text) == 0
    text = forwarded(fill(width=LEFT), tile(masked_load(LEFT), masked_back(LEFT, some)))
    assert "x[r, c], " not in text and fills(text) == 0  # zeros beside, as they were
    rows = nest(Store("t", (r, c), select(n - r - 1 >= 0, at("x", r, c), ZERO)), r=(0, 4), c=(0, 8))
    back = For(
        "r", ZERO, literal(4), "serial",
        If(n - r - 1 >= 0, nest(Store("x", (r, c), at("t", r, c)), c=(0, 8)), Block(())),
    )  # fmt: skip
    text = forwarded(fill(rows=apply("min", n, literal(4))), tile(rows, back))
    assert "x[r, c], " not in text and fills(text) == 0


def test_masks_that_leave_something_keep_fills() -> None:
    some = Var("end") > ZERO
    load = masked_load(LEFT)
    fewer = masked_back(apply("min", n - 1, literal(8)), some)
    assert fills(forwarded(fill(width=LEFT), tile(load, fewer))) == 1
    assert fills(forwarded(fill(width=LEFT), tile(load, masked_back(LEFT, n > 3)))) == 1
    odd = masked_back(LEFT, apply("mod", r, literal(2)).equal(0))
    assert fills(forwarded(fill(width=LEFT), tile(load, odd))) == 1
    wider = masked_load(apply("min", n + 1, literal(8)))
    assert "x[r, c]" in forwarded(fill(width=LEFT), tile(wider, masked_back(LEFT, some)))
    other = select(c < n, ZERO, at("x", r, c))
    beside = nest(Store("t", (r, c), other), r=(0, 4), c=(0, 8))
    assert "x[r, c]" in forwarded(fill(width=LEFT), tile(beside, masked_back(LEFT, some)))


def test_what_names_stand_for_may_lie_beside_what_was_filled() -> None:
    inside = Let("v", at("x", r, literal(9)), nest(Store("t", (r, c), Var("v")), c=(0, 8)))
    load = For("r", ZERO, literal(4), "serial", inside)
    assert "x[r, 9]" in forwarded(fill(), tile(load))
