"""What depends on constants alone, computed once."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    lowered,
    promise,
    refusal,
    tensor,
)
from weft.ir import build as w
from weft.ir.scalar_expr import Expr, Var, literal, select
from weft.ir.scop import Constraint, Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.hoist_constants import hoist_constants


def constant(of: Scop, *names: str) -> Scop:
    """``of`` with inputs whose data is known."""
    tensors = (replace(t, role="constant") if t.name in names else t for t in of.tensors)
    return replace(of, tensors=tuple(tensors))


def scaled(n: object = 4, channels: object = 3) -> Scop:
    """Y[i, k] = X[i, k] * (G[k] * (V[k] + 2)) - B[k], all but X constant."""
    x = tensor("X", n, channels)
    g, v, b = (tensor(name, channels) for name in "GVB")
    y = w.compute(
        (n, channels),  # type: ignore[arg-type]
        lambda i, k: x[i, k] * (g[k] * (v[k] + 2)) - b[k],
        name="Y",
    )
    return constant(lowered(y, inputs=(x, g, v, b)), "G", "V", "B")


def test_golden() -> None:
    lines = scop_text(hoist_constants(scaled(), "Y")).splitlines()
    assert lines[6:] == [
        "  temp Y_constant: int64[3]",
        "  compute_Y_constant[k] at (0, k, 0)",
        "    where k >= 0 and 2 - k >= 0",
        "    r0 = G[k]",
        "    r1 = V[k]",
        "    Y_constant[k] = r0 * (r1 + 2)",
        "  Y[i, k] at (1, i, 0, k, 0)",
        "    where i >= 0 and 3 - i >= 0 and k >= 0 and 2 - k >= 0",
        "    r0 = X[i, k]",
        "    r1 = Y_constant[k]",
        "    r2 = B[k]",
        "    Y[i, k] = r0 * r1 - r2",
        "    for 'Y'",
    ]


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    promise(scaled(n, 2), hoist_constants(scaled(n, 2), "Y"))
    promise(scaled(2, n), hoist_constants(scaled(2, n), "Y"))


def test_a_symbolic_size() -> None:
    of = scaled(w.var("n"), 3)
    promise(of, hoist_constants(of, "Y"), *({"n": n} for n in AWKWARD))


def test_nothing_to_hoist() -> None:
    """Loads alone, and arithmetic over all dims, stay where they are."""
    x, b = tensor("X", 3), tensor("B", 3)
    plain = constant(lowered(w.compute((3,), lambda i: x[i] + b[i], name="Y"), inputs=(x, b)), "B")
    assert hoist_constants(plain, "Y") == plain
    whole = w.compute((3,), lambda i: x[i] + b[i] * 2, name="Y")
    all_dims = constant(lowered(whole, inputs=(x, b)), "B")
    assert hoist_constants(all_dims, "Y") == all_dims


def test_a_branch_that_is_not_taken_may_be_computed_all_the_same() -> None:
    x, b = tensor("X", 4, 3), tensor("B", 3)
    y = w.compute((4, 3), lambda i, k: select(x[i, k] > 0, b[k] * 3, x[i, k]), name="Y")
    of = constant(lowered(y, inputs=(x, b)), "B")
    now = hoist_constants(of, "Y")
    assert len(now.statements) == 2
    promise(of, now)


def test_a_guarded_constant_stays() -> None:
    """B[k - 1] does not exist for k = 0."""
    x, b = tensor("X", 4, 3), tensor("B", 2)
    y = w.compute((4, 3), lambda i, k: x[i, k] + select(k >= 1, b[k - 1] * 3, literal(0)), name="Y")
    of = constant(lowered(y, inputs=(x, b)), "B")
    now = hoist_constants(of, "Y")
    assert now == of
    promise(of, now)


def test_a_nest_that_leaves_something_out_is_refused() -> None:
    of = scaled()
    now = hoist_constants(of, "Y")
    computing, reading = now.statements
    short = replace(computing, domain=(*computing.domain, Constraint(1 - Var("k"))))
    text = refusal(of, replace(now, statements=(short, reading)))
    assert "WEFT-E0440: what Y reads is not what it was" in text
    assert re.search(r"Y\[i=., k=2\] ", text)


def test_random_expressions() -> None:
    """Arithmetic on a varying matrix, constant vectors along either dim, and a constant scalar."""
    random, hoisted = Random(0), 0
    for _ in range(30):
        x, g, v, b, c = (tensor(*spec) for spec in (
            ("X", 4, 3), ("G", 3), ("V", 3), ("B", 4), ("C",)
        ))  # fmt: skip

        def value(i: Expr, k: Expr, depth: int = 4) -> Expr:
            if depth == 0 or random.random() < 0.15:
                return random.choice((x[i, k], g[k], v[k], b[i], c[()]))  # noqa: B023
            left, right = value(i, k, depth - 1), value(i, k, depth - 1)
            return random.choice((left + right, left * right, left - right, w.maximum(left, right)))

        y = w.compute((4, 3), lambda i, k: value(i, k), name="Y")
        of = constant(lowered(y, inputs=(x, g, v, b, c)), "G", "V", "B", "C")
        now = hoist_constants(of, "Y")
        hoisted += len(now.statements) - 1
        promise(of, now)
    assert hoisted > 8
