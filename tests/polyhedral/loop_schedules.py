"""Tilings of ``loop_programs`` as Pluto finds them: permutable bands, shifted, skewed, tiled."""

from __future__ import annotations

from collections.abc import Mapping

from tests.polyhedral.scops import Band, Leaf, Scop, Sequence, Var
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Loop, Tree

i, j, k, t = (Var(name) for name in "ijkt")

Values = Mapping[str, tuple[Expr, ...]]

BANDS: dict[str, Values] = {
    "gemm": {"S0": (i, j, 0 * i), "S1": (i, j, k)},
    "lu": {"S0": (i, j, k), "S1": (i, j, j), "S2": (i, j, k)},
    "cholesky": {"S0": (i, j, k), "S1": (i, j, j), "S2": (i, i, k), "S3": (i, i, i)},
    "jacobi-1d": {"S0": (2 * t, 2 * t + i), "S1": (2 * t + 1, 2 * t + 1 + i)},
    "jacobi-2d": {
        "S0": (2 * t, 2 * t + i, 2 * t + j),
        "S1": (2 * t + 1, 2 * t + 1 + i, 2 * t + 1 + j),
    },
    "heat-3d": {
        "S0": (2 * t, 2 * t + i, 2 * t + j, 2 * t + k),
        "S1": (2 * t + 1, 2 * t + 1 + i, 2 * t + 1 + j, 2 * t + 1 + k),
    },
    "seidel-2d": {"S0": (t, t + i, 2 * t + i + j)},
    "fdtd-2d": {
        "S0": (t, t, t + j), "S1": (t, t + i, t + j), "S2": (t, t + i, t + j),
        "S3": (t, t + i + 1, t + j + 1),
    },
    "trmm": {"S0": (i, j, k), "S1": (i, j, Var("M") + 0 * i)},
    "floyd-warshall": {"S0": (k, i, j)},
}  # fmt: skip


def tiled(of: Scop, values: Values, *levels: tuple[int, ...], kinds: str = "") -> Tree:
    """The fused band of ``values`` under tile loops: one size per loop and level, 0 for no tile.

    Sizes are those of the tiles, outermost first. ``kinds`` has a letter per point loop: s, p, v.
    """
    names = {"s": "serial", "p": "parallel", "v": "vector", "": "serial"}
    depth = len(next(iter(values.values())))
    loops: list[Loop] = []
    for number, sizes in enumerate(levels):
        for d, size in enumerate(sizes):
            if size:
                at = {s: value[d] // size for s, value in values.items()}
                loops.append(Loop(f"c{d}_{number}", at))
    for d in range(depth):
        kind = names[kinds[d : d + 1]]
        loops.append(Loop(f"c{d}", {s: value[d] for s, value in values.items()}, kind))  # type: ignore
    below = tuple(Leaf(s) for s in values)
    inner: Tree = below[0] if len(below) == 1 else Sequence(below)
    assert len(values) == len(of.statements)
    return Band(tuple(loops), inner)
