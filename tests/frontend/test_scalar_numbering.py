"""Numbers are equal exactly where expressions are."""

from __future__ import annotations

from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.scalar_expr import Load, Var, bitcast, cast, literal, select
from weft.ir.scalar_paths import Numbering
from weft.ir.tensor_expr import Reduce

i, x = Var("i"), Var("x", dtypes.float32)


def test_equal_expressions_and_different_ones():
    def every():
        return [
            i, x, i + 1, i - 1, 1 + i, x + 1.0, x + 0.0, x + -0.0, x * float("nan"),
            x.astype("int8"), cast(x, dtypes.float8_e5m2),
            cast(x, dtypes.float8_e5m2, saturate=False), bitcast(x, dtypes.int32),
            bitcast(x, dtypes.uint32), select(i > 0, x, 1.0),
            select(i > 1, x, 1.0), Load("a", (i,), dtypes.float32), Load("b", (i,), dtypes.float32),
            literal(1, "int8"), literal(1, "int64"), literal(True, "bool"), literal(1.0, "float32"),
            Var("i", dtypes.int32),
        ]  # fmt: skip

    numbering = Numbering()
    first, again = [numbering.number(e) for e in every()], [numbering.number(e) for e in every()]
    assert first == again and len(set(first)) == len(first)


def test_shared_and_deep_expressions_take_linear_time():
    numbering = Numbering()

    def tower():
        part = x
        for _ in range(3000):
            part = part * part + part
        return part

    assert numbering.number(tower()) == numbering.number(tower())


def test_other_nodes_are_told_apart_by_their_label():
    k = w.reduce_axis((0, 3), name="k")
    total, most = w.sum(x * k.astype("float32"), k), w.max_over(x * k.astype("float32"), k)

    def label(node):
        assert isinstance(node, Reduce)
        return node.monoid.name

    numbering = Numbering(label)
    assert numbering.number(total) != numbering.number(most)
    assert numbering.number(total) == numbering.number(w.sum(x * k.astype("float32"), k))
