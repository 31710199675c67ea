"""Stores past the caches: where, when, and that they store what they did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.block_transposes import block_transposes
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target
from weft.codegen.stream_stores import stream_stores
from weft.ir import dtypes
from weft.ir.build import maximum
from weft.ir.errors import InternalError
from weft.ir.loop_ir import (
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    walk,
)
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.machine import Cache
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.tensor_expr import Monoid

f32 = dtypes.float32
i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
X = Load("x", (i, j), f32)
COPY = Store("y", (i, j), X)
"""y[i, j] = x[i, j]"""


def rows(body: Stmt, upper: Expr = m, kind: str = "parallel") -> Stmt:
    return For("i", literal(0), n, kind, For("j", literal(0), upper, "vector", body))  # type: ignore[arg-type]


def kernel(body: Stmt, rows: Expr = n, columns: Expr = m) -> Kernel:
    buffers = tuple(Buffer(k, f32, (rows, columns), (columns, literal(1))) for k in "xyz")
    return Kernel("k", ("n", "m"), buffers, body)


LARGE = n * m > 341
ALWAYS, NEVER = literal(True, dtypes.bool_), literal(False, dtypes.bool_)


def streamed(original: Kernel, where: Expr = LARGE) -> Kernel:
    """``original`` with stores to ``y`` past the caches, as far as that is possible."""
    buffers = (replace(b, streams=where if b.name == "y" else None) for b in original.buffers)
    changed = replace(original, buffers=tuple(buffers))
    verify_kernel(changed)
    made = stream_stores(changed, 64)
    verify_kernel(made)
    assert all(b.streams is None for b in made.buffers)
    return made


def decision(changed: Kernel) -> Expr:
    """What is asked before the one vector loop; it streams where that holds."""
    (asked,) = (s for s in walk(changed.body) if isinstance(s, If))
    past, plain = (
        [s for s in walk(p) if isinstance(s, Store)] for p in (asked.then, asked.otherwise)
    )
    assert [s.streams for s in past + plain] == [literal(True, dtypes.bool_), None]
    return asked.condition


def streams(original: Kernel) -> list[str]:
    """The buffers that are stored to past the caches."""
    changed = streamed(original)
    found = {s.buffer for s in walk(changed.body) if isinstance(s, Store) and s.streams is not None}
    return sorted(found)


def test_sizes_decide_each_launch() -> None:
    changed = streamed(kernel(rows(COPY)))
    assert decision(changed) == LARGE
    assert "!nontemporal" in emit_kernel(changed, host_target()).text


def test_known_sizes_decide_at_once() -> None:
    large = kernel(rows(COPY, literal(64)), literal(6), literal(64))
    assert "y[i, j] = x[i, j] streams\n" in print_kernel(streamed(large, ALWAYS)) + "\n"
    assert streamed(large, NEVER) == large
    assert stream_stores(large, 64) is large


a, b = Var("a", f32), Var("b", f32)


SUM = Monoid("add", (a,), (b,), (a + b,), (0.0,))


@pytest.mark.parametrize(
    "body",
    [
        rows(Store("y", (i, j), X + Load("y", (i, j), f32))),  # read: it may still be near
        Block((rows(COPY), Update((("y", (n, n)),), SUM, (literal(1.0, f32),)))),
        rows(Store("y", (j, i), X)),  # an element of each line
        rows(Store("y", (i, j * 2), X)),  # every other one
        rows(Store("y", (literal(0), j), X), kind="serial"),  # again and again
        rows(COPY, literal(8)),  # half a line
        For("j", literal(0), m, "serial", Store("y", (n, j), literal(1.0, f32))),  # one by one
        rows(Update((("y", (i, j)),), SUM, (X,))),
    ],
)
def test_not_where_lines_are_partial_or_touched_again(body: Stmt) -> None:
    assert streams(kernel(body)) == []


def test_names_between_loops_and_stores() -> None:
    body = Let("row", i + 1, Let("v", X * 2.0, Store("y", (Var("row") - 1, j), Var("v", f32))))
    assert streams(kernel(rows(body))) == ["y"]


def test_buffers_that_may_overlap_do_not() -> None:
    original = kernel(rows(COPY))
    x, y, z = original.buffers
    assert streams(replace(original, buffers=(x, replace(y, aliases=("z",)), z))) == []


@pytest.mark.parametrize("sizes", [(0, 16), (1, 1), (3, 16), (5, 61), (2, 128), (7, 33)])
def test_the_same_is_stored_wherever_rows_begin(sizes: tuple[int, int]) -> None:
    count = sizes[0] * sizes[1]
    rng = np.random.default_rng(count)
    arrays = {k: rng.normal(size=count).astype(np.float32) for k in "xyz"}
    original = kernel(rows(Store("y", (i, j), maximum(X, 0.0) + Load("z", (i, j), f32))))
    for where in (ALWAYS, NEVER):
        found = check(streamed(original, where), dict(zip("nm", sizes, strict=True)), arrays)
        assert np.array_equal(found["y"], np.maximum(arrays["x"], 0) + arrays["z"])


def test_transposed_blocks_stream() -> None:
    original = kernel(rows(Store("y", (j, i), X), n), n, n)
    changed = streamed(block_transposes(original, Cache(32 << 10)), ALWAYS)
    assert "y" in {
        s.buffer for s in walk(changed.body) if isinstance(s, Store) and s.streams == ALWAYS
    }
    arrays = {k: np.arange(48 * 48, dtype=np.float32) for k in "xyz"}
    found = check(changed, {"n": 48, "m": 0}, arrays)
    assert np.array_equal(found["y"].reshape(48, 48), arrays["x"].reshape(48, 48).T)


def test_threads_meet_behind_what_they_streamed() -> None:
    again = For("i", literal(0), n, "parallel", Store("z", (i, literal(0)), literal(1.0, f32)))
    region = replace(kernel(Block((rows(COPY), Barrier(), again))), region=True)
    text = emit_kernel(streamed(region, ALWAYS), host_target()).text
    if host_target().triple.startswith("x86_64"):
        barrier = text.index("call void @weft_barrier")
        assert "call void @llvm.x86.sse.sfence()" in text[:barrier].splitlines()[-2]
        assert text.count("call void @llvm.x86.sse.sfence()") == 2
    assert "sfence" not in emit_kernel(region, host_target()).text


def test_conditions_are_of_parameters() -> None:
    wrong = Store("y", (i, j), X, i > 3)
    with pytest.raises(InternalError, match="i is used where it is not bound"):
        verify_kernel(kernel(rows(wrong)))
    with pytest.raises(InternalError, match="streams is a bool"):
        verify_kernel(kernel(rows(Store("y", (i, j), X, n))))
    with pytest.raises(InternalError, match="i is used where it is not bound"):
        streamed(kernel(rows(COPY)), i > 3)
