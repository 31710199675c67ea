"""Reductions that a transformation splits, moves or repeats: right ones pass, no others do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.example_scops import gemm
from tests.polyhedral.scops import (
    SUM,
    Band,
    Constraint,
    Origin,
    Sequence,
    Var,
    at,
    box,
    loop,
    nest,
    scop,
    statement,
    tensor,
)
from tests.polyhedral.validated import in_order, ordered, refused
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Access, Scop
from weft.ir.tensor_expr import Monoid
from weft.polyhedral.proof.validation import validate

i, j, k, m, n, tile = (Var(name) for name in ("i", "j", "k", "m", "n", "tile"))
X, Y = tensor("X", 16, role="input"), tensor("Y", 16, role="output")


def _gemm_tree(*mac: Expr) -> Tree:
    return Sequence((nest("init", i, j), nest("mac", *mac)))


def test_contributions_may_come_in_any_order() -> None:
    validate(gemm(8), gemm(8), _gemm_tree(-k, j, i))


def test_contributions_before_the_start_are_lost() -> None:
    tree = Sequence((nest("mac", i, j, k), nest("init", i, j)))
    assert "the final value of C" in refused(gemm(8), gemm(8), tree)


def _split(first: int, second: int, tensors: tuple[str, str] = ("C", "C")) -> Scop:
    """The update in two statements, over k < first and k >= second."""
    of = gemm(8)
    init, mac = of.statements
    origin = Origin("mac", (i, j, k))
    halves = [
        replace(mac, name=name, domain=box(i=8, j=8, k=limits), writes=(at(target, i, j),),
                origin=origin, position=(place, *mac.position[1:]))
        for name, limits, target, place in (
            ("low", (0, first), tensors[0], 1), ("high", (second, 8), tensors[1], 3),
        )
    ]  # fmt: skip
    return replace(of, statements=(init, *halves))


def test_an_update_in_two_statements() -> None:
    validate(gemm(8), _split(5, 5), in_order(_split(5, 5)))
    tree = ordered(_split(5, 5), "init high low")
    validate(gemm(8), _split(5, 5), tree)


def test_a_lost_contribution() -> None:
    text = refused(gemm(8), _split(4, 5), in_order(_split(4, 5)))
    assert "should see mac[i=" in text and "k=4]" in text


def test_a_contribution_counted_twice() -> None:
    text = refused(gemm(8), _split(5, 4), in_order(_split(5, 4)), "WEFT-E0441")
    assert "low[i=" in text and "high[i=" in text and text.count("k=4]") == 2


@pytest.mark.parametrize(("second", "code"), [(5, ""), (4, "WEFT-E0441"), (6, "WEFT-E0440")])
def test_an_accumulator_that_goes_on_from_a_copy(second: int, code: str) -> None:
    new = _split(5, second, ("L", "C"))
    init, low, high = new.statements
    carry = statement("carry", box(i=8, j=8), at("C", i, j), (at("L", i, j),), position=2)
    start = replace(init, writes=(at("L", i, j),))
    new = replace(
        new, tensors=(*new.tensors, tensor("L", 8, 8)), statements=(start, low, carry, high)
    )
    if code:
        refused(gemm(8), new, in_order(new), code)
    else:
        validate(gemm(8), new, in_order(new))


def test_tiles_may_each_have_their_own_sum() -> None:
    """Two tiles recompute the same sum in accumulators of their own: counted once in each."""
    original = scop(
        (tensor("X", 16, 4, role="input"), tensor("s", 16), Y),
        statement("zero", box(i=16), at("s", i), position=0),
        statement("sum", box(i=16, k=4), at("s", i), (at("X", i, k),), position=1, reduce=("k",)),
        statement("use", box(i=(1, 16)), at("Y", i), (at("s", i), at("s", i - 1)), position=2),
        statement("first", box(i=1), at("Y", i), (at("s", i),), position=3),
    )
    whole = 4 * tile + i - 1
    inside = (*box(tile=4, i=5), Constraint(whole))
    tiled = scop(
        (original.tensors[0], tensor("L", 4, 5, contracted=1, scope="local"), Y),
        statement("zero_t", inside, at("L", tile, i), origin=Origin("zero", (whole,)),
                  dims=("tile", "i")),
        statement("sum_t", (*inside, *box(k=4)), at("L", tile, i), (at("X", whole, k),),
                  origin=Origin("sum", (whole, k)), reduce=("k",), position=1,
                  dims=("tile", "i", "k")),
        statement("use_t", (*box(tile=4, i=(1, 5)), Constraint(whole - 1)), at("Y", whole),
                  (at("L", tile, i), at("L", tile, i - 1)), origin=Origin("use", (whole,)),
                  position=2, dims=("tile", "i")),
        statement("first", box(i=1), at("Y", i), (at("L", 0, i + 1),), position=3),
    )  # fmt: skip
    names = ("zero_t", "sum_t", "use_t", "first")
    parts = (nest("zero_t", i), nest("sum_t", i, k), nest("use_t", i), nest("first", i))
    values = {name: tile if name != "first" else literal(0) for name in names}
    tree = Band((loop("tile", **values),), Sequence(parts))
    validate(original, tiled, tree)


_ORDERED = Monoid(SUM.name, SUM.left, SUM.right, SUM.combined, SUM.identity, frozenset())


def test_an_ordered_fold_keeps_its_order() -> None:
    fold = statement("f", box(i=4, k=4), at("Y", i), (at("X", k),), reduce=("k",), monoid=_ORDERED)
    of = scop((X, Y), fold)
    validate(of, of, nest("f", k, i))
    refused(of, of, nest("f", i, -k))


def test_two_kinds_of_update_keep_their_order() -> None:
    other = Monoid("max", SUM.left, SUM.right, SUM.combined, SUM.identity)
    of = scop(
        (X, Y),
        statement("f", box(i=4, k=4), at("Y", i), (at("X", k),), reduce=("k",)),
        statement("g", box(i=4, k=4), at("Y", i), (at("X", k),), reduce=("k",), monoid=other,
                  position=1),
    )  # fmt: skip
    validate(of, of, in_order(of))
    refused(of, of, ordered(of, "g f"))


def test_a_scatter_keeps_its_order() -> None:
    anywhere = Access("Y", (), may=True, body_indices=(literal(0),))
    of = scop((X, Y), statement("s", box(i=4), anywhere, (at("X", i),)))
    validate(of, of, nest("s", i))
    refused(of, of, nest("s", -i))


def test_a_scatter_that_adds_may_be_reordered() -> None:
    anywhere = Access("Y", (), may=True, body_indices=(literal(0),))
    of = scop((X, Y), statement("s", box(i=4), anywhere, (at("X", i),), reduce=("i",)))
    validate(of, of, nest("s", -i))


def test_a_partial_sum_must_not_have_more() -> None:
    of = scop(
        (X, Y, tensor("s"), tensor("Z", 1, role="output")),
        statement("zero", (), at("s"), position=0),
        statement("low", box(k=4), at("s"), (at("X", k),), position=1, reduce=("k",)),
        statement("part", box(i=1), at("Z", i), (at("s"),), position=2),
        statement("high", box(k=(4, 8)), at("s"), (at("X", k),), position=3, reduce=("k",)),
        statement("all", box(i=1), at("Y", i), (at("s"),), position=4),
    )
    validate(of, of, ordered(of, "zero low part high all"))
    text = refused(of, of, ordered(of, "zero low high part all"))
    assert "what part reads of" in text and "sees high[k=" in text and "should see" not in text


ANY_ORDER = pytest.mark.parametrize("monoid", [SUM, _ORDERED], ids=["sum", "ordered"])


def _before_and_after(monoid: Monoid) -> Scop:
    """``t[k] = s; s += X[k]; Y[k] = t[k] and s``"""
    zero = literal(0)
    return scop(
        (X, tensor("t", 16), Y, tensor("s", 1, role="inout")),
        statement("p", box(k=16), at("t", k), (at("s", zero),), position=(0, "k", 0)),
        statement("f", box(k=16), at("s", zero), (at("X", k),), position=(0, "k", 1),
                  reduce=("k",), monoid=monoid),
        statement("c", box(k=16), at("Y", k), (at("t", k), at("s", zero)), position=(0, "k", 2)),
    )  # fmt: skip


def _inlined(of: Scop, *reads: Access) -> Scop:
    _, f, c = of.statements
    tensors = tuple(t for t in of.tensors if t.name != "t")
    return replace(of, tensors=tensors, statements=(f, replace(c, reads=reads)))


@ANY_ORDER
def test_a_value_from_before_a_contribution_is_not_the_one_behind_it(monoid: Monoid) -> None:
    """In all, both read the same contributions: the first one sees fewer."""
    of = _before_and_after(monoid)
    validate(of, of, in_order(of))
    new = _inlined(of, at("s", literal(0)), at("s", literal(0)))
    assert "a fold is read before and after" in refused(of, new, in_order(new))
    new = _inlined(of, at("s", literal(0)))
    assert "a fold is read before and after" in refused(of, new, in_order(new))


@ANY_ORDER
def test_a_part_of_a_fold_through_a_statement_of_many_reads(monoid: Monoid) -> None:
    """``Y[k] = X[k] and s`` by way of a new statement that adds them up too early."""
    of = _before_and_after(monoid)
    p, f, c = of.statements
    of = replace(of, statements=(f, replace(c, reads=(at("X", k), at("s", literal(0))))))
    early = replace(p, reads=(at("X", k), at("s", literal(0))))
    reader = replace(of.statements[1], reads=(at("t", k),))
    new = replace(of, statements=(early, f, reader))
    assert "what c reads is not" in refused(of, new, in_order(new))
    late = replace(early, position=(0, "k", 1))
    new = replace(of, statements=(replace(f, position=(0, "k", 0)), late, reader))
    validate(of, new, in_order(new))
    both = replace(new, statements=(*new.statements[:2], replace(reader, reads=(
        at("t", k), at("s", literal(0))))))  # fmt: skip
    validate(of, both, in_order(both))


def _packed(first: str) -> tuple[Scop, Scop]:
    """An ordered fold into ``s[i]`` in steps ``k``, and what step ``k`` leaves in ``Y[k, i]``: by
    way of a copy, which runs after the step or ``first``."""
    Y = tensor("Y", 16, 16, role="output")
    s = tensor("s", 16, role="inout")
    f = statement("f", box(k=16, i=16), at("s", i), (at("X", i),), position=(0, "k", 0, "i", 0),
                  reduce=("k",), monoid=_ORDERED)  # fmt: skip
    c = statement("c", box(k=16, i=16), at("Y", k, i), (at("s", i),), position=(0, "k", 2, "i", 0))
    of = scop((X, Y, s), f, c)
    copy = statement("copy", box(k=16, i=16), at("L", i), (at("s", i),))
    place = -1 if first == "copy" else 1
    copy = replace(copy, position=(0, "k", place, "i", 0))
    between = (copy, f) if first == "copy" else (f, copy)
    packed = (*between, replace(c, reads=(at("L", i),)))
    return of, replace(of, tensors=(*of.tensors, tensor("L", 16)), statements=packed)


def test_steps_of_an_ordered_fold_may_be_copied() -> None:
    of, packed = _packed("f")
    validate(of, packed, in_order(packed))


def test_a_copy_of_an_ordered_fold_at_the_wrong_step() -> None:
    of, packed = _packed("copy")
    text = refused(of, packed, in_order(packed))
    assert "what c reads of L" in text and "should see f[" in text


def test_an_ordered_fold_in_storage_of_its_own_keeps_its_order() -> None:
    """No tensor whose writes are unchanged: its last contribution has to be the original's."""
    here, there = at("s", 0), at("L", 0, 0)
    of = scop(
        (X, Y, tensor("s", 1)),
        statement("z", box(i=1), here, (at("X", i),)),
        statement("f", box(k=16), here, (at("X", k),), reduce=("k",), monoid=_ORDERED, position=1),
        statement("c", box(i=16), at("Y", i), (here,), position=2),
    )
    z, f, c = (s.map_accesses(lambda a: there if a == here else a) for s in of.statements)
    for step in (k, 15 - k):
        stored = (z, replace(f, origin=Origin("f", (step,))), c)
        new = replace(of, tensors=(X, Y, tensor("L", 1, 1)), statements=stored)
        if step == k:
            validate(of, new, in_order(new))
        else:
            refused(of, new, in_order(new))
