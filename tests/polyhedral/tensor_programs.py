"""Affine statements of tensor programs that several tests schedule."""

from __future__ import annotations

from tests.polyhedral.transform.harness import lowered, tensor
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Expr, select
from weft.ir.scop import Scop

WIDE = Machine("wide", 64, 32, (Cache(32 << 10), Cache(1 << 20)), 4, 2, 2)
TOY = Machine("toy", 32, 10, (Cache(1 << 12), Cache(1 << 14)), 4, 2, 2)  # 4 lanes of int64


def softmax(rows: int = 64, columns: int = 48) -> Scop:
    x, r = tensor("X", rows, columns), w.reduce_axis((0, columns), name="r")
    top = w.compute((rows,), lambda i: w.max_over(x[i, r], r), name="M")
    e = w.compute((rows, columns), lambda i, j: (x[i, j] - top[i]) * 3, name="E")
    total = w.compute((rows,), lambda i: w.sum(e[i, r], r), name="S")
    y = w.compute((rows, columns), lambda i, j: e[i, j] - total[i], name="Y")
    return lowered(y, inputs=(x,))


def running_sum(rows: int = 32, columns: int = 16) -> Scop:
    """S[t, i] = S[t - 1, i] + X[t, i]."""
    x = tensor("X", rows, columns)

    def value(itself: object, t: Expr, i: Expr) -> tuple[Expr]:
        return (select(t > 0, itself(0, t - 1, i), 0) + x[t, i],)  # type: ignore[operator]

    (s,) = w.scan((rows, columns), value, dtypes_=(dtypes.int64,), name="S")
    return lowered(s, inputs=(x,))


def gemm(m: int, n: int, h: int, *, turned: bool = False, dtype: str = "float32") -> Scop:
    a = tensor("A", m, h, dtype=dtype)
    b = tensor("B", *((n, h) if turned else (h, n)), dtype=dtype)
    r = w.reduce_axis((0, h), name="r")
    c = w.compute(
        (m, n), lambda i, j: w.sum(a[i, r] * (b[j, r] if turned else b[r, j]), r), name="C"
    )
    return lowered(c, inputs=(a, b))
