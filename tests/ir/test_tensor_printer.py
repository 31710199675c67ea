"""Golden texts of whole tensor programs."""

from __future__ import annotations

from textwrap import dedent

from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.scalar_expr import select
from weft.ir.tensor_expr import Program
from weft.ir.tensor_printer import program_text


def check(program, text):
    assert program_text(program) == dedent(text).lstrip("\n")


def test_matmul():
    m, n, k = w.var("m"), w.var("n"), w.var("k")
    a, b = w.placeholder((m, k), name="a"), w.placeholder((k, n * 2), name="b")
    r = w.reduce_axis((0, k), name="r")
    c = w.compute((m, n * 2), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="c")
    check(
        Program("matmul", (a, b), (c,)),
        """
        program matmul(a: float32[m, k], b: float32[k, n * 2]) -> (c)
          c[i < m, j < n * 2] = add[r < k](a[i, r] * b[r, j])
        """,
    )


def test_everything_else():
    a, ix = w.placeholder((4,), name="a"), w.placeholder((3,), "int64", name="ix")
    twice = w.compute((4,), lambda i: a[i] * 2.0, name="t")
    again = w.compute((4,), lambda i: twice[i] * 2.0, name="t")
    k = w.reduce_axis((1, 4), name="k")
    where = w.compute((), lambda: w.argmax(again[k], k, k) + w.sum(k, k, where=k > 2), name="where")
    u, v = w.computes((4,), lambda i: (again[i], twice[i]), name="uv")
    (s,) = w.scan(
        (4,),
        lambda itself, t: (select(t > 0, itself(0, t - 1), 0.0) + v[t],),
        dtypes_=(dtypes.float32,),
        name="s",
    )
    put = w.scatter(s, (3,), lambda i: ((ix[i],), u[i]), combine="add", name="put")
    only = w.scatter(put, (3,), lambda i: ((i,), a[i]), condition=lambda i: ix[i] > 0, name="only")
    out = w.reshape(only, (2, 2), name="out")
    check(
        Program("all", (a, ix), (out, where), in_place=((0, 0),)),
        """
        program all(a: float32[4], ix: int64[3]) -> (out, where)
          t[i < 4] = a[i] * 2.0
          t#2[i < 4] = t[i] * 2.0
          uv.0, uv.1[i < 4] = t#2[i], t[i]
          s.0[t < 4] scan 1 = select(t > 0, s.0[t - 1], 0.0) + uv.1[t]
          put = s, then for [i < 3]: [ix[i]] add= uv.0[i]
          only = put, then for [i < 3] if ix[i] > 0: [i] = a[i]
          out = reshape only
          where[] = argmax[1 <= k < 4](t#2[k], k).1 + add[1 <= k < 4 if k > 2](k)
          out may share storage with a
        """,
    )
