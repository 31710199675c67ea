"""Register tiles that isl does not scan, and what has no closed form even so."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen.from_schedule import build_kernel
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.errors import CompileError
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import For, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor, Update

i, j, k, N = map(Var, ("i", "j", "k", "N"))
f64 = dtypes.float64


def product(*more: Expr) -> Scop:
    """C += A B, where all of ``more`` is at least 0."""
    inside = (i, N - 1 - i, j, N - 1 - j, k, N - 1 - k, *more)
    s = Statement(
        "S",
        ("i", "j", "k"),
        tuple(map(Constraint, inside)),
        (0, "i", 0, "j", 0, "k", 0),
        (Access("C", (i, j)),),
        (Access("A", (i, k)), Access("B", (k, j))),
        Body((), (Load(0, (), f64) * Load(1, (), f64),)),
        Update(monoid("add", f64), ("k",)),
    )
    tensors = tuple(Tensor(n, (N, N), f64, "inout" if n == "C" else "input") for n in "ABC")
    return Scop("product", ("N",), (), tensors, (s,))


def tiles(first: Expr = i // 4) -> Tree:
    def loops(*values: tuple[str, Expr]) -> tuple[Loop, ...]:
        return tuple(Loop(name, {"S": value}) for name, value in values)

    inside = Band(loops(("k", k), ("ip", i % 4), ("jp", j % 8)), Leaf("S"))
    return Band(loops(("it", first), ("jt", j // 8)), Mark(RegisterTile((4,), 8), inside))


def test_loops_outside_are_scanned_once() -> None:
    kernel = build_kernel(product(), tiles(), "k")
    loops = [s.var for s in walk(kernel.body) if isinstance(s, For)]
    assert [loops.count(name) for name in ("it", "jt")] == [1, 1]


@pytest.mark.parametrize(
    ("scop", "tree"),
    [
        (product(i - 3 * (k // 3)), tiles()),  # the instances have holes
        (product(), tiles(j // 4)),  # nothing says what i is
    ],
)
def test_no_closed_form(scop: Scop, tree: Tree) -> None:
    with pytest.raises(CompileError) as caught:
        build_kernel(scop, tree, "k")
    assert caught.value.code == "WEFT-E0503" and "S" in caught.value.what


@pytest.mark.parametrize("size", [1, 2, 5, 7, 8, 9, 16])
def test_streams_that_only_seem_to_move_the_target(size: int) -> None:
    """``C[i // 2]`` over ``i = 8 t + 2 l + s`` is ``C[4 t + l]``: loads of it know no ``s``."""
    one = literal(1, f64)
    s = Statement(
        "S",
        ("i",),
        (Constraint(i), Constraint(N - 1 - i)),
        (0, "i", 0),
        (Access("C", (i // 2,)),),
        (),
        Body((), (one,)),
        Update(monoid("add", f64), ()),
    )
    scop = Scop("pairs", ("N",), (), (Tensor("C", (N,), f64, "inout"),), (s,))
    values = {"s": i % 2, "r": literal(0), "l": i // 2 % 4}
    inside = Band(tuple(Loop(name, {"S": e}) for name, e in values.items()), Leaf("S"))
    tree = Band((Loop("t", {"S": i // 8}),), Mark(RegisterTile((1,), 4), inside))
    kernel = build_kernel(scop, tree, "k")
    verify_kernel(kernel)
    found = np.zeros(size)
    interpret(kernel, {"N": size}, {"C": found})
    np.testing.assert_array_equal(found, np.bincount(np.arange(size) // 2, minlength=size))
