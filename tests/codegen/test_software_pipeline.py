"""Rows in a pipeline: every row goes through its stages, whatever their number is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled
from weft.codegen.map_loops import worksharing_loop
from weft.codegen.software_pipeline import software_pipeline
from weft.ir import dtypes
from weft.ir.build import exp, monoid
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Block, Buffer, For, Kernel, Let, Stmt, Store, Update
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

F32 = dtypes.float32
WIDTH, PLENTY = 133, (1 << 16, 1 << 20, 64)
i, k, n = Var("i"), Var("k"), Var("n")


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, F32)


def number(value: float) -> Expr:
    return literal(value, F32)


def along(*stmts: Stmt, width: int = WIDTH, var: str = "k") -> For:
    return For(var, literal(0), literal(width), "vector", Block(stmts))


def fold(name: str, kind: str, value: Expr) -> Update:
    return Update(((name, ()),), monoid(kind, F32), (value,))


def local(name: str, *shape: int) -> Buffer:
    sizes = tuple(map(literal, shape))
    return Buffer(name, F32, sizes, (literal(1),) * len(shape), "local")


def rows(body: Stmt, upper: Expr = n, low: int = 0, width: Expr | None = None) -> Kernel:
    width = literal(WIDTH) if width is None else width
    shape, strides = (n, width), (width, literal(1))
    buffers = (Buffer("x", F32, shape, strides, writable=False), Buffer("y", F32, shape, strides))
    return Kernel("rows", ("n", "w"), buffers, For("i", literal(low), upper, "parallel", body))


def softmax() -> Stmt:
    power = Store("e", (k,), exp(at("x", i, k) - at("most")))
    stages = Block((
        Store("most", (), number(-np.inf)),
        along(fold("most", "max", at("x", i, k))),
        Store("sum", (), number(0)),
        along(power, fold("sum", "add", at("e", k))),
        along(Store("y", (i, k), at("e", k) / at("sum"))),
    ))  # fmt: skip
    return Allocate(local("sum"), Allocate(local("most"), Allocate(local("e", WIDTH), stages)))


def deviation() -> Stmt:
    """A let of one stage, and lets around all."""
    mean = Var("mean", F32)
    stages = Block((
        Store("sum", (), number(0)),
        along(fold("sum", "add", at("x", i, k))),
        Let("mean", at("sum") / number(WIDTH), along(Store("y", (i, k), at("x", i, k) - mean))),
    ))  # fmt: skip
    return Let("j", i * 2, Let("i2", Var("j") // 2, Allocate(local("sum"), stages)))


@pytest.mark.long
@pytest.mark.parametrize("count", [0, 1, 3, 4, 63, 65])
@pytest.mark.parametrize("body", [softmax(), deviation()], ids=["softmax", "deviation"])
def test_every_row_is_what_it_was(body: Stmt, count: int) -> None:
    x = np.random.default_rng(count).normal(size=count * WIDTH).astype(np.float32)
    if count:
        x[5], x[count // 2 * WIDTH + 3] = np.nan, np.inf
    few = apply("min", n, literal(61))
    for original in (
        rows(body),
        rows(body, literal(count)),
        rows(body, n - 1, low=1),
        rows(body, few),
    ):
        changed = software_pipeline(original, *PLENTY)
        assert changed != original
        verify_kernel(changed)
        expected = {"x": x.copy(), "y": np.full_like(x, 7)}
        actual = {"x": x.copy(), "y": np.full_like(x, 7)}
        interpret(original, {"n": count, "w": WIDTH}, expected)
        interpret(changed, {"n": count, "w": WIDTH}, actual)
        np.testing.assert_array_equal(actual["y"], expected["y"])
        native, _ = Compiled(changed)({"n": count, "w": WIDTH}, {"x": x, "y": np.full_like(x, 7)})
        np.testing.assert_allclose(native["y"], expected["y"], 1e-5, 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("low", [0, 3])
@pytest.mark.parametrize("width", [0, 127, 128, 300])
def test_lengths_that_are_not_known_are_asked_for(width: int, low: int) -> None:
    """A cache of 1600 bytes is for rows of 200 elements, or of 133 with one of temporaries."""
    over = replace(along(), lower=literal(low), upper=Var("w"))
    row = replace(local("e"), shape=(Var("w"),), strides=(literal(1),))
    kept = Store("e" if not low else "y", (k,) if not low else (i, k), at("x", i, k) * number(2))
    body = Allocate(row, Allocate(local("sum"), Block((
        Store("sum", (), number(0)),
        replace(over, body=Block((kept, fold("sum", "add", at("x", i, k))))),
        replace(over, body=Store("y", (i, k), at(kept.buffer, *kept.indices) - at("sum"))),
    ))))  # fmt: skip
    body = body if not low else body.body  # type: ignore[assignment]
    original = rows(body, width=Var("w"))
    changed = software_pipeline(original, 1600, 0, 64)
    verify_kernel(changed)
    _, loop = worksharing_loop(changed)
    assert loop is not None and changed != original  # threads share it out
    for count in (0, 3, 65):
        x = np.random.default_rng(count).normal(size=count * width).astype(np.float32)
        memory = [{"x": x.copy(), "y": np.full_like(x, 7)} for _ in range(2)]
        parameters = {"n": count, "w": width}
        for kernel, arrays in zip((original, changed), memory, strict=True):
            interpret(kernel, parameters, arrays)
        np.testing.assert_array_equal(memory[0]["y"], memory[1]["y"])
        native, _ = Compiled(changed)(parameters, {"x": x, "y": np.full_like(x, 7)})
        np.testing.assert_allclose(native["y"], memory[0]["y"], 1e-4, 1e-4)


def test_text() -> None:
    kernel = rows(deviation().body.body)  # type: ignore[union-attr]
    assert print_stmt(software_pipeline(kernel, *PLENTY).body) == (
        "let i.lag = select(n * 1064 <= 1048576, 2, 1)\n"
        "for i.block in 0 .. (n + 63) // 64 parallel:\n"
        "  allocate sum: float32[3] local\n"
        "  for i.turn in 0 .. i.lag + 64 serial:\n"
        "    if (i.turn >= i.lag) & (i.turn < 64) & (i.block * 64 + i.turn < n):\n"
        "      let i.0 = i.block * 64 + i.turn\n"
        "      let i.slot.0 = i.turn - i.turn // 3 * 3\n"
        "      sum[i.slot.0] = 0.0\n"
        "      let i.1 = i.block * 64 + i.turn - i.lag\n"
        "      let i.slot.1 = i.turn - i.lag - (i.turn - i.lag) // 3 * 3\n"
        "      let i.mean.1 = sum[i.slot.1] / 133.0\n"
        "      for k in 0 .. 133 vector:\n"
        "        sum[i.slot.0] add= x[i.0, k]\n"
        "        y[i.1, k] = x[i.1, k] - i.mean.1\n"
        "    else:\n"
        "      if (i.turn < 64) & (i.block * 64 + i.turn < n):\n"
        "        let i.0 = i.block * 64 + i.turn\n"
        "        let i.slot.0 = i.turn - i.turn // 3 * 3\n"
        "        sum[i.slot.0] = 0.0\n"
        "        for k in 0 .. 133 vector:\n"
        "          sum[i.slot.0] add= x[i.0, k]\n"
        "      if (i.turn >= i.lag) & (i.turn - i.lag < 64)"
        " & (i.block * 64 + i.turn - i.lag < n):\n"
        "        let i.1 = i.block * 64 + i.turn - i.lag\n"
        "        let i.slot.1 = i.turn - i.lag - (i.turn - i.lag) // 3 * 3\n"
        "        let i.mean.1 = sum[i.slot.1] / 133.0\n"
        "        for k in 0 .. 133 vector:\n"
        "          y[i.1, k] = x[i.1, k] - i.mean.1"
    )


@pytest.mark.parametrize(
    "body",
    [
        along(Store("y", (i, k), at("x", i, k))),
        Block((along(Store("y", (i, k), at("x", i, k))), along(Store("y", (i, k), number(1))))),
        Allocate(local("sum"), Block((
            along(fold("sum", "add", at("x", i, k)), width=WIDTH - 1),
            along(Store("y", (i, k), at("sum"))),
        ))),
        Allocate(local("sum"), Block((
            along(fold("sum", "add", at("x", i, k))),
            along(Store("y", (i, k), at("sum"))),
            Store("y", (i, literal(0)), number(2)),
        ))),
        Allocate(local("sum"), Let("s", at("x", i, literal(1)), Block((
            along(fold("sum", "add", at("x", i, k) * Var("s", F32))),
            along(Store("y", (i, k), at("sum") + Var("s", F32))),
        )))),
    ],
    ids=["one loop", "nothing folded", "lengths", "behind the last loop", "shared let"],
)  # fmt: skip
def test_other_bodies_stay(body: Stmt) -> None:
    assert software_pipeline(rows(body), *PLENTY) == rows(body)


def test_rows_that_no_cache_holds_stay() -> None:
    needed = 3 * 3 * 4 * WIDTH  # three stages of three rows
    for count, first, second, fits in (
        (literal(9), needed // 2, 0, True),
        (literal(9), needed // 2 - 1, needed * 4, False),
        (literal(99), 0, needed * 4, True),
        (n, 0, needed * 4, True),
        (n, needed // 2 - 1, needed * 4 - 1, False),
    ):
        kernel = rows(softmax(), count)
        assert (software_pipeline(kernel, first, second, 64) != kernel) is fits


def test_short_rows_stay() -> None:
    short = Allocate(local("sum"), Block((
        along(fold("sum", "add", at("x", i, k)), width=127),
        along(Store("y", (i, k), at("sum")), width=127),
    )))  # fmt: skip
    assert software_pipeline(rows(short), *PLENTY) == rows(short)


def test_names_that_are_taken_are_avoided() -> None:
    kernel = replace(rows(deviation()), parameters=("n", "w", "i.block", "i.0"))
    changed = software_pipeline(kernel, *PLENTY)
    verify_kernel(changed)
    assert changed != kernel
