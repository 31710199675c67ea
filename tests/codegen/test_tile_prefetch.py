"""What register tiles ask for beforehand: lanes whole pages apart, 24 lines ahead."""

from __future__ import annotations

import pytest

from tests.codegen.test_register_tile import agree, j, k, program, statement, tiled
from weft import dtypes
from weft.codegen.from_schedule import build_kernel
from weft.codegen.loop_ir import Kernel, Prefetch, walk
from weft.codegen.optimise_kernel import optimise_kernel
from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Expr, Var, literal
from weft.polyhedral.scop import Scop

i, N = Var("i"), Var("N")


def product(n: Expr, width: Expr, place: tuple[Expr, Expr] = (k, j)) -> Scop:
    """9 rows and 70 steps, ``n`` lanes in rows of ``width``."""
    inside = (i, literal(8) - i, j, n - 1 - j, k, literal(69) - k)
    s = statement(inside, dtypes.float32, reads=(("A", (i, k)), ("B", place)))
    stored = (width, width) if place != (k, j) else (literal(70), width)
    shapes = {"A": (literal(9), literal(70)), "B": stored, "C": (literal(9), n)}
    return program(s, dtypes.float32, shapes)


def asked(kernel: Kernel) -> list[int]:
    """How many steps ahead lanes of B are asked for."""
    hints = [s for s in walk(kernel.body) if isinstance(s, Prefetch) and s.buffer == "B"]
    forms = [to_affine(hint.indices[0]) for hint in hints]
    return [form.constant for form in forms if form is not None]


def test_lanes_whole_pages_apart_are_asked_for() -> None:
    scop = product(literal(80), literal(1024))
    kernel = optimise_kernel(build_kernel(scop, tiled(4, 64, 70), "tile"))
    assert set(asked(kernel)) == {6, 24}  # a tile at the edge has one line
    agree(scop, tiled(4, 64, 70), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


@pytest.mark.parametrize(
    "n, width, place",
    [
        (literal(80), literal(1023), (k, j)),  # a step goes on in another set each time
        (N, N, (k, j)),  # who knows
        (literal(80), literal(1024), (j, k)),  # lanes are apart, steps are not
    ],
)
def test_what_is_foreseen_or_not_known_is_not(
    n: Expr, width: Expr, place: tuple[Expr, Expr]
) -> None:
    scop = product(n, width, place)
    assert not asked(optimise_kernel(build_kernel(scop, tiled(4, 64, 70), "tile")))
