"""Register tiles of windows: two streams, the inner one of which slides over a few taps."""

from __future__ import annotations

import pytest

from tests.codegen.test_register_tile import K, M, N, agree, i, j, program
from weft.codegen.from_schedule import build_kernel
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import For, walk
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile
from weft.ir.scop import Access, Body, Constraint, Statement, Update

c, r = Var("c"), Var("r")

TREE = Band(
    (Loop("it", {"S": i // 4}), Loop("jt", {"S": j // 16})),
    Mark(
        RegisterTile((4,), 16),
        Band(
            tuple(Loop(n, {"S": e}) for n, e in (("c", c), ("r", r), ("i", i % 4), ("j", j % 16))),
            Leaf("S"),
        ),
    ),
)


def window(inside: tuple[Expr, ...], a: tuple[Expr, ...], b: tuple[Expr, ...]) -> Statement:
    return Statement(
        "S",
        ("i", "j", "c", "r"),
        tuple(map(Constraint, inside)),
        (0, "i", 0, "j", 0, "c", 0, "r", 0),
        (Access("C", (i, j)),),
        (Access("A", a), Access("B", b)),
        Body((), (Load(0, (), dtypes.int64) * Load(1, (), dtypes.int64),)),
        Update(monoid("add", dtypes.int64), ("c", "r")),
    )


def sizes(*shapes: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"M": m, "N": n, "K": k} for m, n, k in shapes]


def test_streams_of_two_loops() -> None:
    """A convolution along lanes: the inner stream slides, the outer one is strided."""
    inside = (i, M - 1 - i, j, c, K - 1 - c, r, literal(2) - r, N - 1 - j - r, i + c - r)
    s = window(inside, (i, c), (c, j + r))
    scop = program(s, dtypes.int64, {"A": (M, K), "B": (K, N), "C": (M, N)})
    agree(scop, TREE, sizes((1, 1, 1), (9, 21, 5), (4, 16, 3)))


@pytest.mark.parametrize(
    ("taps", "a", "b", "kind"),
    [
        (9, (i, c, r), (c, j + r), "unrolled"),
        (10, (i, c, r), (c, j + r), "serial"),
        (3, (i + r, c, r), (c, j), "serial"),  # rows share elements: these would be held
    ],
)
def test_taps_of_a_window_are_written_out(
    taps: int, a: tuple[Expr, ...], b: tuple[Expr, ...], kind: str
) -> None:
    """Inside of a long stream, at edges as well."""
    inside = (i, M - taps - i, j, N - taps - j, c, K - 1 - c, r, literal(taps - 1) - r)
    shapes = {"A": (M, K, literal(taps)), "B": (K, N), "C": (M, N)}
    scop = program(window(inside, a, b), dtypes.int64, shapes)
    agree(scop, TREE, sizes((1, 1, 1), (17, 30, 5), (13, 25, 3)))
    loops = (x for x in walk(build_kernel(scop, TREE, "tile").body) if isinstance(x, For))
    assert {x.kind for x in loops if x.upper == literal(taps)} == {kind}
