"""Inlining pointwise producers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    i,
    lowered,
    matmul,
    promise,
    random_scops,
    refusal,
    stencil,
    tensor,
)
from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.validated import in_order
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.inline_producer import inline_producer, why_not_inline


def test_golden() -> None:
    assert scop_text(inline_producer(stencil(5, 2), "T")) == (
        "scop test()\n"
        "  input X: int64[6]\n"
        "  output Y: int64[5]\n"
        "  Y[i] at (1, i, 0)\n"
        "    where i >= 0 and 4 - i >= 0\n"
        "    r0 = X[i]\n"
        "    r1 = X[i + 1]\n"
        "    let T_value = r0 * 2\n"
        "    let T_value_2 = r1 * 2\n"
        "    Y[i] = T_value + T_value_2\n"
        "    for 'Y'\n"
    )


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    promise(chain(n), inline_producer(chain(n), "T"))
    of = matmul(n, 3, 2)
    assert why_not_inline(of, of.statement("D")) == "D is visible outside"


def test_symbolic_sizes() -> None:
    of = chain(w.var("n"))
    promise(of, inline_producer(of, "T"), *({"n": n} for n in AWKWARD))


def padded(n: int = 7) -> Scop:
    """Y[i] = 3 X[i - 2] + i % 4 where that is inside X, else 5: T is read under a guard."""
    x = tensor("X", n)
    t = w.compute((n,), lambda i: x[i] * 3 + i % 4, name="T")
    y = w.compute(
        (n + 4,), lambda i: select((i >= 2) & (i < n + 2), t[i - 2], literal(5)), name="Y"
    )
    return lowered(y, inputs=(x,))


@pytest.mark.parametrize("n", AWKWARD)
def test_a_guard_of_the_reader_keeps_around_the_body(n: int) -> None:
    of = padded(n)
    now = inline_producer(of, "T")
    assert all(r.guard for s in now.statements for r in s.reads)
    promise(of, now)


def test_names_of_lets_keep_clear_of_parameters() -> None:
    of = chain(w.var("T_value"))
    promise(of, inline_producer(of, "T"), {"T_value": 3})


def test_a_chain_and_a_diamond() -> None:
    x = tensor("X", 6)
    a = w.compute((6,), lambda i: x[i] + 1, name="A")
    b = w.compute((6,), lambda i: a[5 - i] * 2, name="B")
    c = w.compute((6,), lambda i: a[i] + b[i], name="C")
    d = w.compute((6,), lambda i: c[i] - b[i], name="D")
    of = lowered(d, inputs=(x,))
    now = of
    for name in "BCA":
        now = inline_producer(now, name)
        promise(of, now)
    assert [s.name for s in now.statements] == ["D"]


def test_broken_indices_are_refused() -> None:
    now = inline_producer(chain(), "T")
    (y,) = now.statements
    wrong = replace(y, reads=(replace(y.reads[0], indices=(i - i % 2,)),))
    text = refusal(chain(), replace(now, statements=(wrong,)))
    assert "WEFT-E0440" in text and "sees X[" in text and "should see X[" in text


def _copied(body: str) -> Scop:
    text = f"for i in range(N):\n    t[i] = H[i]\n    {body}\n"
    return read(text, "N", H="io N", G="io N", t="tmp N")


def test_a_reader_may_overwrite_what_it_reads_if_it_is_the_last() -> None:
    last = _copied("G[i] = G[i] + t[i]\n    H[i] = t[i] * 3")
    assert why_not_inline(last, last.statements[0]) == ""
    inlined = inline_producer(last, "S0")
    validate(last, inlined, in_order(inlined))
    for body in (
        "H[i] = t[i] * 3\n    G[i] = G[i] + t[i]",  # another one comes after it
        "H[i] = G[i]\n    G[i] = t[i] * 3",  # not a reader
    ):
        first = _copied(body)
        with pytest.raises(IllegalScheduleError, match="overwritten before its readers"):
            inline_producer(first, "S0")
    apart = _copied("H[i] = t[i] * 3\nfor i in range(N):\n    G[i] = t[N - 1 - i]")
    with pytest.raises(IllegalScheduleError, match="overwritten before its readers"):
        inline_producer(apart, "S0")


def test_random_programs() -> None:
    """Every producer that can be inlined, one after the other."""
    inlined = 0
    for of, sizes in random_scops(20, seed=700):
        now = of
        for name in [s.name for s in of.statements]:
            if not why_not_inline(now, now.statement(name)):
                now = inline_producer(now, name)
                inlined += 1
        if now is not of:
            promise(of, now, sizes)
    assert inlined > 8


# ---- refusals -----------------------------------------------------------------------------------


def gathered(*, at_first: bool) -> Scop:
    """Y[i] = X[A[i]], where A (``at_first``) or X is computed before."""
    x, at = tensor("X", 5), tensor("at_4", 5)
    a = w.compute((5,), lambda i: at[i] + 1, name="A") if at_first else at
    t = x if at_first else w.compute((5,), lambda i: x[i] * 2, name="A")
    return lowered(w.compute((5,), lambda i: t[a[i]], name="Y"), inputs=(x, at))


@pytest.mark.parametrize(
    "of, reason",
    [
        (lambda: (matmul(), "C_add"), "a reduction"),
        (lambda: (matmul(), "C_add_init"), "written by other statements"),
        (lambda: (chain(), "Y"), "visible outside"),
        (lambda: (gathered(at_first=False), "A"), "read at data-dependent indices"),
        (lambda: (gathered(at_first=True), "A"), "elements of A are indices"),
        (lambda: (two_results(), "P"), "several tensors"),
        (lambda: (running_sum(), "S"), "reads itself"),
        (lambda: (overwritten(), "T"), "overwritten before its readers run"),
        (lambda: (overwritten_in_its_loop(), "S1"), "overwritten before its readers run"),
        (lambda: (reversed_write(), "T"), "at its own dims"),
    ],
)
def test_refusals(of, reason: str) -> None:  # type: ignore[no-untyped-def]
    scop, producer = of()
    assert reason in why_not_inline(scop, scop.statement(producer))
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0454") as caught:
        inline_producer(scop, producer)
    assert reason in caught.value.why


def two_results() -> Scop:
    x = tensor("X", 4)
    p, q = w.computes((4,), lambda i: (x[i] + 1, x[i] + 2), name="P")
    return lowered(w.compute((4,), lambda i: p[i] * q[i], name="Y"), inputs=(x,))


def running_sum() -> Scop:
    x = tensor("X", 4)

    def value(itself: object, i: Expr) -> tuple[Expr]:
        return (select(i > 0, itself(0, i - 1), 0) + x[i],)  # type: ignore[operator]

    (s,) = w.scan((4,), value, dtypes_=(dtypes.int64,), name="S")
    return lowered(w.compute((4,), lambda i: s[i] * 2, name="Y"), inputs=(x,))


def overwritten_in_its_loop() -> Scop:
    return read(
        "for i in range(N):\n B[0] = A[i]\n T[i] = B[0]\nfor i in range(N):\n C[i] = T[i] * 2",
        A="in N", B="io 1", T="tmp N", C="io N",
    )  # fmt: skip


def overwritten() -> Scop:
    """T = 2 X, X = 0, Y = T + 1: made by hand, tensor expressions have no such thing."""
    of = chain()
    t, y = of.statements
    clear = replace(
        y, name="clear", position=(1, "i", 0), reads=(), writes=t.reads,
        body=replace(y.body, lets=(), results=(literal(0),)), origin=None,
    )  # fmt: skip
    late = replace(y, position=(2, "i", 0))
    tensors = tuple(replace(x, role="output") if x.name == "X" else x for x in of.tensors)
    return replace(of, tensors=tensors, statements=(t, clear, late))


def reversed_write() -> Scop:
    of = chain()
    t, y = of.statements
    return replace(of, statements=(replace(t, writes=(replace(t.writes[0], indices=(7 - i,)),)), y))
