"""LU in place, blocked by 4: its updates isolated from the factorisation of panels."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import lu
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree
from weft.ir.scop import Constraint
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.scheduled import Scheduled

i, j, k = (Var(name) for name in "ijk")
EDGES = ("S1_edge", "S1_edge_2")
S0 = {"i": i, "j": k, "k": k}  # S0 makes column k
S1 = {"i": i, "j": j, "k": k}


def band(values: dict[str, dict[str, Expr]], names: str, child: Tree, suffix: str = "") -> Band:
    """Loops ``names`` (``i``, or ``i_t`` and ``i_p`` of tiles of 4) for statements' i, j and k."""

    def at(values: dict[str, Expr], name: str) -> Expr:
        x = values[name[0]]
        return x // 4 if name.endswith("_t") else x % 4 if name.endswith("_p") else x

    return Band(
        tuple(
            Loop(name + suffix, {s: at(of, name) for s, of in values.items()})
            for name in names.split()
        ),
        child,
    )


def isolated() -> Scheduled:
    """Under no particular tree yet."""
    original = lu()
    where = (Constraint(i // 4 - k // 4 - 1), Constraint(j // 4 - k // 4 - 1))
    scop, edges = isolate(original, "S1", where)
    assert edges == EDGES
    return Scheduled(original, scop, Leaf("S0"))


def panels() -> Tree:
    """What stays of one block column and row: k outside, as in the original."""
    edges = dict.fromkeys(EDGES, S1)
    parts = [band({"S0": S0}, "i", Leaf("S0"), "_s0")]
    parts += [band({e: S1}, "i j", Leaf(e), f"_{e}") for e in EDGES]
    return band({"S0": S0, **edges}, "k", Sequence(tuple(parts)))


def left_looking() -> Scheduled:
    """A block gets all of its updates, then it is factored."""
    now = isolated()
    full = band({"S1": S1}, "k_t i_p j_p k_p", Leaf("S1"))
    all_ = {"S0": S0, **dict.fromkeys(("S1", *EDGES), S1)}
    tree = band(all_, "i_t j_t", Sequence((full, panels())))
    return Scheduled(now.original, now.scop, tree)


def right_looking() -> Scheduled:
    """A block row and column are factored, then all blocks behind them are updated."""
    now = isolated()
    full = band({"S1": S1}, "i_t j_t i_p j_p k_p", Leaf("S1"))
    all_ = {"S0": S0, **dict.fromkeys(("S1", *EDGES), S1)}
    tree = band(all_, "k_t", Sequence((panels(), full)))
    return Scheduled(now.original, now.scop, tree)


__all__ = ["EDGES", "band", "isolated", "left_looking", "right_looking"]
