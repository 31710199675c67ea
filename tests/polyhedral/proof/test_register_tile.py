"""What a register tile is refused for, in the user's terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.codegen.machines.dot_products import dot_product
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Intrinsic
from weft.ir.scalar_expr import Expr, Load, Var, cast
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor, Update
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.proof.legality import check
from weft.polyhedral.proof.register_tile import check_register_tiles

i, j, k, N = map(Var, ("i", "j", "k", "N"))
f64, BF = dtypes.float64, dtypes.bfloat16
CUBE = (i, N - 1 - i, j, N - 1 - j, k, N - 1 - k)


def scop_of(
    cut: tuple[Expr, ...] = (),
    write: tuple[Expr, ...] = (i, j),
    left: tuple[Expr, ...] = (i, k),
    source: str = "A",
    update: bool = True,
) -> Scop:
    s = Statement(
        "S",
        ("i", "j", "k"),
        tuple(map(Constraint, (*CUBE, *cut))),
        (0, "i", 0, "j", 0, "k", 0),
        (Access("C", write),),
        (Access(source, left), Access("B", (k, j))),
        Body((), (Load(0, (), f64) * Load(1, (), f64),)),
        Update(monoid("add", f64), ("k",)) if update else None,
    )
    tensors = tuple(Tensor(n, (N, N), f64, "inout" if n == "C" else "input") for n in "ABC")
    return Scop("refused", ("N",), (), tensors, (s,))


def tree_of(payload: RegisterTile, *inner: tuple[str, Expr]) -> Tree:
    outer = (("kt", k // 8), ("it", i // 4), ("jt", j // 8))
    inner = inner or (("kp", k % 8), ("ip", i % 4), ("jp", j % 8))
    return Band(
        tuple(Loop(n, {"S": e}) for n, e in outer),
        Mark(payload, Band(tuple(Loop(n, {"S": e}) for n, e in inner), Leaf("S"))),
    )


TILE = RegisterTile((4,), 8)


def refusal(scop: Scop, tree: Tree) -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        check(scop, tree)
    assert caught.value.code == "WEFT-E0424"
    return caught.value.why


def test_accepted() -> None:
    check(scop_of(), tree_of(TILE))


def test_no_update() -> None:
    assert "no update" in refusal(scop_of(update=False, write=(i, j)), tree_of(TILE))


def test_rows_beyond_the_tile() -> None:
    assert "ip leaves 0 … 2" in refusal(scop_of(), tree_of(RegisterTile((3,), 8)))


def test_lanes_that_share_an_element() -> None:
    order = (("jp", j % 8), ("ip", i % 4), ("kp", k % 8))
    why = refusal(scop_of(), tree_of(RegisterTile((4,), 8), *order))
    assert "changes along the streams" in why


def test_operand_that_the_tile_updates() -> None:
    why = refusal(scop_of((j - k - 1,), source="C"), tree_of(TILE))
    assert "updates C[" in why and "in the same tile reads" in why


def test_operand_in_the_same_array_beside_the_tile() -> None:
    left_of_it = (j - 8 * (k // 8) - 8, i - k - 1)
    check(scop_of(left_of_it, source="C"), tree_of(TILE))


def test_no_stream() -> None:
    tree = Band(
        tuple(Loop(n, {"S": e}) for n, e in (("k", k), ("it", i // 4), ("jt", j // 8))),
        Mark(
            TILE,
            Band(tuple(Loop(n, {"S": e}) for n, e in (("ip", i % 4), ("jp", j % 8))), Leaf("S")),
        ),
    )
    assert "needs a stream" in refusal(scop_of(), tree)


def test_holes() -> None:
    """They are nothing against the tile; that there is no code for them, others say."""
    check(scop_of(cut=(i - 3 * (k // 3),)), tree_of(TILE))


def reason(scop: Scop) -> str:
    """What stands against the tile alone; order is against these, too."""
    with pytest.raises(IllegalScheduleError) as caught:
        check_register_tiles(scop, tree_of(TILE))
    assert caught.value.code == "WEFT-E0424"
    return caught.value.why


def test_two_rows_share_an_element() -> None:
    why = reason(scop_of(write=(i // 2, j)))
    assert why == "rows or lanes share the element of C that they update"


def test_streams_move_the_element_beside_rows() -> None:
    why = reason(scop_of((N - 1 - i - k,), write=(i + k, j)))
    assert why == "the element of C that is updated changes along the streams"


def test_too_large() -> None:
    assert "4096" in refusal(scop_of(), tree_of(RegisterTile((1000,), 8)))


BF16 = dot_product("dot", (BF, BF), 2, 8, 32, Intrinsic("dot", ("acc", "a", "b")))


def test_instruction_that_computes_something_else() -> None:
    tile = replace(TILE, instruction=BF16)
    assert refusal(scop_of(), tree_of(tile)) == "S does not fold in what dot does"


def test_instruction_with_an_order_of_its_own() -> None:
    """Sums of bfloat16, which the instruction computes, unless they keep their order."""
    [s], f32 = scop_of().statements, dtypes.float32
    body = Body((), (cast(Load(0, (), BF), f32) * cast(Load(1, (), BF), f32),))
    s = replace(s, body=body, update=Update(monoid("add", f32), ("k",)))
    tensors = tuple(
        Tensor(n, (N, N), f32 if n == "C" else BF, "inout" if n == "C" else "input") for n in "ABC"
    )
    scop = replace(scop_of(), tensors=tensors, statements=(s,))
    check(scop, tree_of(replace(TILE, instruction=BF16)))
    why = refusal(keep_order(scop), tree_of(replace(TILE, instruction=BF16)))
    assert why == "S keeps its order, dot sums up in its own"
