"""Scalar expressions print as people write them; Python itself reads the infix text back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Expr, Load, Var, apply, bitcast, cast, literal, select
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_printer import scalar_text

i, j, n = Var("i"), Var("j"), Var("n")
x, y = Var("x", dtypes.float32), Var("y", dtypes.float32)


def both(a: Expr, b: Expr) -> Expr:
    return select(a, b, literal(False, "bool"))


def either(a: Expr, b: Expr) -> Expr:
    return select(a, literal(True, "bool"), b)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (i * 32 + j, "i * 32 + j"),
        ((i + j) * 2 - (n - 1), "(i + j) * 2 - (n - 1)"),
        (i - (j - n), "i - (j - n)"),
        ((i + 7) // 8 % 3, "(i + 7) // 8 % 3"),
        (-i + -3, "-i + -3"),
        (-(i + j), "-(i + j)"),
        ((i < n) & ((j >= 0) | ~(i.equal(j))), "(i < n) & ((j >= 0) | ~(i == j))"),
        (
            select(i < n, Load("a", (i, j + 1), dtypes.float32), 0.0),
            "select(i < n, a[i, j + 1], 0.0)",
        ),
        (both(either(i < n, j < n), i > 0), "(i < n or j < n) and i > 0"),
        (either(both(i < n, j < n), i > 0), "i < n and j < n or i > 0"),
        (either(i < n, either(j < n, i > 0)), "i < n or (j < n or i > 0)"),
        (~both(i < n, j < n) & (i > 0), "~(i < n and j < n) & (i > 0)"),
        (select(both(i < n, j < n), i, j), "select(i < n and j < n, i, j)"),
        (select(i < n, literal(0), j), "select(i < n, 0, j)"),
        (select(i < n, i, literal(0)), "select(i < n, i, 0)"),
        (apply("exp", x) / (x + 1.5), "exp(x) / (x + 1.5)"),
        (apply("min", i, n - 1), "min(i, n - 1)"),
        (x.astype("bfloat16") * 0.5, "bfloat16(x) * bfloat16(0.5)"),
        (cast(x, dtypes.float8_e5m2, saturate=False), "float8_e5m2(x, saturate=False)"),
        (bitcast(x, dtypes.int32) + 1, "bitcast(x, int32) + int32(1)"),
        (literal(float("-inf"), "float32"), "-inf"),
        (literal(True, "bool"), "True"),
        (Load("s", (), dtypes.float32), "s[]"),
        ((x**y) ** 2.0, "(x ** y) ** 2.0"),
        (i << (j >> 1), "i << (j >> 1)"),
    ],
)
def test_texts(expr, text):
    assert scalar_text(expr) == text


def test_shared_parts_are_named_once_and_text_stays_short():
    part = x
    for _ in range(100):
        part = part * y + part
    text = scalar_text(part)
    assert text.startswith("let t0 = ") and len(text) < 10_000
    t0 = Var("t0", dtypes.float32)
    assert "t0 = t0" not in scalar_text((t0 + part) * part)


@st.composite
def integers(draw, depth=4):
    if depth == 0:
        return draw(st.sampled_from([i, j, literal(draw(st.integers(-9, 9)))]))
    op = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "neg", "and", "shl", "xor"]))
    inner = integers(depth=depth - 1)
    if op == "neg":
        return Apply("neg", (draw(inner),))
    if op in ("floordiv", "mod", "shl"):
        return Apply(op, (draw(inner), literal(draw(st.integers(1, 5)))))
    return Apply(op, (draw(inner), draw(inner)))


@settings(max_examples=200)
@given(integers(), st.integers(-50, 50), st.integers(-50, 50))
def test_python_reads_the_text_back(expr, a, b):
    text = scalar_text(expr)
    names = {"i": a, "j": b}
    if text.startswith("let "):
        lets, text = text[4:].split(" in ")
        for let in lets.split("; "):
            name, value = let.split(" = ", 1)
            names[name] = eval(value, {}, names)
    expected = eval(text, {}, names)
    assert int(evaluate(expr, {"i": a, "j": b})) == (expected + 2**63) % 2**64 - 2**63


def test_what_prints_the_same_is_the_same():
    assert scalar_text((i + j) + n) == "i + j + n"
    assert scalar_text(i + (j + n)) == "i + (j + n)"
