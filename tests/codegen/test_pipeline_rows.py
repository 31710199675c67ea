"""Rows in a pipeline: every row goes through its stages, whatever their number is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled
from weft import dtypes
from weft.codegen.loop_interpreter import interpret
from weft.codegen.loop_ir import Allocate, Block, Buffer, For, Kernel, Let, Stmt, Store, Update
from weft.codegen.loop_printer import print_stmt
from weft.codegen.loop_verifier import verify_kernel
from weft.codegen.pipeline_rows import pipeline_rows
from weft.frontend.build import exp, monoid
from weft.frontend.scalar_expr import Expr, Load, Var, apply, literal

F32 = dtypes.float32
WIDTH, PLENTY = 133, (1 << 16, 1 << 20)
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


def rows(body: Stmt, upper: Expr = n, low: int = 0) -> Kernel:
    shape, strides = (n, literal(WIDTH)), (literal(WIDTH), literal(1))
    buffers = (Buffer("x", F32, shape, strides, writable=False), Buffer("y", F32, shape, strides))
    return Kernel("rows", ("n",), buffers, For("i", literal(low), upper, "parallel", body))


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


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 63, 64, 65, 130])
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
        changed = pipeline_rows(original, *PLENTY)
        assert changed != original
        verify_kernel(changed)
        expected = {"x": x.copy(), "y": np.full_like(x, 7)}
        actual = {"x": x.copy(), "y": np.full_like(x, 7)}
        interpret(original, {"n": count}, expected)
        interpret(changed, {"n": count}, actual)
        np.testing.assert_array_equal(actual["y"], expected["y"])
        native, _ = Compiled(changed)({"n": count}, {"x": x, "y": np.full_like(x, 7)})
        np.testing.assert_allclose(native["y"], expected["y"], 1e-5, 1e-6)


def test_text() -> None:
    kernel = rows(deviation().body.body)  # type: ignore[union-attr]
    assert print_stmt(pipeline_rows(kernel, *PLENTY).body) == (
        "for i.block in 0 .. (n + 63) // 64 parallel:\n"
        "  allocate sum: float32[2] local\n"
        "  for i.turn in 0 .. 65 serial:\n"
        "    if (i.turn >= 1) & (i.turn < 64) & (i.block * 64 + i.turn < n):\n"
        "      let i.0 = i.block * 64 + i.turn\n"
        "      let i.slot.0 = i.turn - i.turn // 2 * 2\n"
        "      sum[i.slot.0] = 0.0\n"
        "      let i.1 = i.block * 64 + i.turn - 1\n"
        "      let i.slot.1 = i.turn + 1 - (i.turn + 1) // 2 * 2\n"
        "      let i.mean.1 = sum[i.slot.1] / 133.0\n"
        "      for k in 0 .. 133 vector:\n"
        "        sum[i.slot.0] add= x[i.0, k]\n"
        "        y[i.1, k] = x[i.1, k] - i.mean.1\n"
        "    else:\n"
        "      if (i.turn < 64) & (i.block * 64 + i.turn < n):\n"
        "        let i.0 = i.block * 64 + i.turn\n"
        "        let i.slot.0 = i.turn - i.turn // 2 * 2\n"
        "        sum[i.slot.0] = 0.0\n"
        "        for k in 0 .. 133 vector:\n"
        "          sum[i.slot.0] add= x[i.0, k]\n"
        "      if (i.turn >= 1) & (i.block * 64 + i.turn - 1 < n):\n"
        "        let i.1 = i.block * 64 + i.turn - 1\n"
        "        let i.slot.1 = i.turn + 1 - (i.turn + 1) // 2 * 2\n"
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
    assert pipeline_rows(rows(body), *PLENTY) == rows(body)


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
        assert (pipeline_rows(kernel, first, second) != kernel) is fits


def test_short_rows_stay() -> None:
    short = Allocate(local("sum"), Block((
        along(fold("sum", "add", at("x", i, k)), width=127),
        along(Store("y", (i, k), at("sum")), width=127),
    )))  # fmt: skip
    assert pipeline_rows(rows(short), *PLENTY) == rows(short)


def test_names_that_are_taken_are_avoided() -> None:
    kernel = replace(rows(deviation()), parameters=("n", "i.block", "i.0"))
    changed = pipeline_rows(kernel, *PLENTY)
    verify_kernel(changed)
    assert changed != kernel
