"""Golden texts of Scops."""

from __future__ import annotations

from textwrap import dedent

from weft.ir import build as w
from weft.ir.scalar_expr import Var, select
from weft.ir.scop import Access, Body, Origin, Scop, Statement, Tensor
from weft.ir.scop_printer import scop_text
from weft.ir.tensor_expr import Program
from weft.polyhedral.from_tensor_expr import lower


def test_matmul():
    m, n, k = w.var("m"), w.var("n"), w.var("k")
    a, b = w.placeholder((m, k), name="a"), w.placeholder((k, n), name="b")
    r = w.reduce_axis((0, k), name="r")
    c = w.compute((m, n), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="c")
    assert scop_text(lower(Program("matmul", (a, b), (c,)), "matmul")) == dedent(
        """\
        scop matmul(m, k, n) where m >= 0 and k >= 0 and n >= 0
          input a: float32[m, k]
          input b: float32[k, n]
          output c: float32[m, n]
          c_add_init[i, j] at (0, i, 0, j, 0)
            where i >= 0 and m - i - 1 >= 0 and j >= 0 and n - j - 1 >= 0
            c[i, j] = 0.0
            for 'c'
          c_add[i, j, r] at (1, i, 0, j, 0, r, 0)
            where i >= 0 and m - i - 1 >= 0 and j >= 0 and n - j - 1 >= 0 and r >= 0 and k - r - 1 >= 0
            r0 = a[i, r]
            r1 = b[r, j]
            along r
            c[i, j] add= r0 * r1
            for 'c'
        """  # noqa: E501
    )


def test_guards_gathers_and_derived_parameters():
    n, m = w.var("n"), w.var("m")
    a, ix = w.placeholder((n, m), name="a"), w.placeholder((3,), "int64", name="ix")
    line = w.reshape(a, (n * m,), name="line")
    t = w.compute((4,), lambda i: select(i > 0, line[ix[i - 1]], 0.0), name="t")
    assert scop_text(lower(Program("p", (a, ix), (t,)), "p")) == dedent(
        """\
        scop p(n, m, {m * n}) where n >= 0 and m >= 0 and {m * n} >= 0
          {m * n} = m * n
          input a: float32[n, m]
          input ix: int64[3]
          output t: float32[4]
          temp line: float32[{m * n}]
          line_copy[i0] at (0, i0, 0)
            where i0 >= 0 and {m * n} - i0 - 1 >= 0
            r0 = may a[i0 // m, i0 % m]
            line[i0] = r0
            for 'line'
          t[i] at (1, i, 0)
            where i >= 0 and 3 - i >= 0
            r0 = ix[i - 1] if i - 1 >= 0
            r1 = may line[r0] if i - 1 >= 0
            t[i] = select(i > 0, r1, 0.0)
            for 't'
        """
    )


def test_what_only_transformed_scops_have():
    i = Var("i")
    x = w.placeholder((4,), name="x").dtype
    statement = Statement(
        "copy", ("i",), (), (0, "i", 0), (Access("t", (i,)),), (Access("a", (i + 1,)),),
        Body((("v", Var("i", x)),), (Var("v", x),)), None, Origin("old", (i * 2,), "node 'n'"),
    )  # fmt: skip
    tensors = (Tensor("t", (w.as_size(4),), x, "temp", "local", 1),)
    assert scop_text(Scop("s", (), (), tensors, (statement,))) == dedent(
        """\
        scop s()
          temp t: float32[4] local, contracted 1
          copy[i] at (0, i, 0)
            r0 = a[i + 1]
            let v = i
            t[i] = v
            from old[i * 2]
            for "node 'n'"
        """
    )
