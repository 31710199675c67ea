"""Which loops of a statement an outer product computes, and what is said where it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.errors import BudgetError
from weft.ir.instruction import ACCUMULATOR, Instruction, Operand
from weft.ir.machine import Cache, Machine, outer_product, register_tile
from weft.ir.scalar_expr import Expr, Load, Var, apply, walk
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor, Update
from weft.ir.tensor_expr import Monoid
from weft.polyhedral.map_instruction import Mapped, map_instruction

b, i, j, k, N = map(Var, ("b", "i", "j", "k", "N"))
f64, i32 = dtypes.float64, dtypes.int32
WIDE = Machine("wide", 64, 32, (Cache(32768),))
NARROW = Machine("narrow", 32, 16, (Cache(32768),))
Places = tuple[tuple[str, tuple[Expr, ...]], ...]
MATRIX: Places = (("C", (i, j)), ("A", (i, k)), ("B", (k, j)))


def scop_of(
    places: Places, fold: Monoid | None, value: Expr | None = None
) -> tuple[Scop, Statement]:
    """The first of ``places`` is updated by ``value`` of the others."""
    (target, *reads) = places
    dtype = f64 if fold is None else fold.dtypes[0]
    names = sorted({v.name for _, p in places for e in p for v in walk(e) if isinstance(v, Var)})
    steady = {v.name for e in target[1] for v in walk(e) if isinstance(v, Var)}
    s = Statement(
        "S",
        tuple(names),
        tuple(Constraint(e) for n in names for e in (Var(n), N - 1 - Var(n))),
        (*(x for n in names for x in (0, n)), 0),
        (Access(*target),),
        tuple(Access(*read) for read in reads),
        Body((), (Load(0, (), dtype) * Load(1, (), dtype) if value is None else value,)),
        None if fold is None else Update(fold, tuple(n for n in names if n not in steady)),
    )
    sizes = {name: len(indices) for name, indices in places}
    tensors = tuple(Tensor(n, (2 * N,) * rank, dtype) for n, rank in sizes.items())
    return Scop("mapped", ("N",), (), tensors, (s,)), s


def mapped(
    places: Places = MATRIX,
    value: Expr | None = None,
    fold: str | None = "add",
    dtype: DType = f64,
    *,
    any_update: bool = False,
) -> Mapped:
    scop, s = scop_of(places, None if fold is None else monoid(fold, dtype), value)
    return map_instruction(scop, s, outer_product(WIDE, dtype, any_update=any_update))


def dot(dtype: DType) -> Instruction:
    """``acc[lane] += a[q] * b[lane, q]``"""
    lane, q = Var("lane"), Var("q")
    step = Statement(
        "step", ("lane", "q"), (), (0, "lane", 0, "q", 0),
        (Access(ACCUMULATOR, (lane,)),), (Access("a", (q,)), Access("b", (lane, q))),
        Body((), (Load(0, (), dtype) * Load(1, (), dtype),)), Update(monoid("add", dtype), ("q",)),
    )  # fmt: skip
    places = {ACCUMULATOR: Operand((lane,)), "a": Operand((q,)), "b": Operand((4 * lane + q,))}
    return Instruction("dot", step, {"lane": 8, "q": 4}, places, 32, 1.0)


def shown(found: Mapped) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    return [
        (a.dims["row"][0], a.dims["lane"][0], a.streams, tuple(m.tensor for m in a.packs))
        for a in found.assignments
    ]


def test_matrix_product() -> None:
    assert shown(mapped()) == [("i", "j", ("k",), ()), ("j", "i", ("k",), ("C", "A"))]


def test_transposed_operand_wants_packing() -> None:
    places: Places = (("C", (i, j)), ("A", (i, k)), ("B", (j, k)))
    assert shown(mapped(places))[0] == ("i", "j", ("k",), ("B",))
    assert [m.number for m in mapped(places).assignments[0].packs] == [1]


def test_batches_stay_outside() -> None:
    places: Places = (("C", (b, i, j)), ("A", (b, i, k)), ("B", (k, j)))
    found = mapped(places)
    best = found.assignments[0]
    assert (best.dims["row"], best.dims["lane"], best.outer) == (("i",), ("j",), ("b",))
    assert ("b", "j", ("k",), ()) in shown(mapped((places[0], ("A", (b, k)), ("B", (k, j)))))


def test_subtraction_is_a_product_too() -> None:
    value = -(Load(0, (), f64) * Load(1, (), f64))
    assert shown(mapped(value=value))[0] == ("i", "j", ("k",), ())


def test_other_monoids_and_contributions() -> None:
    value = Load(0, (), i32) + Load(1, (), i32)
    assert "folds with add, not min" in mapped(value=value, fold="min", dtype=i32).refusals[0]
    assert "what S adds is not a * b" in mapped(value=value, dtype=i32).refusals[0]
    found = mapped(value=value, fold="min", dtype=i32, any_update=True)
    assert shown(found)[0] == ("i", "j", ("k",), ())


def test_two_products_at_once() -> None:
    """syr2k: four operands, of the same two shapes."""
    loads = [Load(n, (), f64) for n in range(4)]
    places: Places = (
        ("C", (i, j)), ("A", (i, k)), ("B", (j, k)), ("B", (i, k)), ("A", (j, k)),
    )  # fmt: skip
    value = loads[0] * loads[1] + loads[2] * loads[3]
    found = mapped(places, value, any_update=True)
    assert ("i", "j", ("k",), ("B", "A")) in shown(found)


@pytest.mark.parametrize(
    "places, why",
    [
        (
            (("C", (i, j)), ("A", (i, k)), ("B", (i, j))),
            "B changes along i, b of multiply-add outer product stays along row",
        ),
        (
            (("C", (i, j)), ("A", (i, k)), ("B", (i, k))),
            "B stays along j, a of multiply-add outer product changes along row",
        ),
        (
            (("C", (i,)), ("A", (i, k)), ("B", (k,))),
            "C stays along k, acc of multiply-add outer product changes",
        ),
        ((("C", (i,)), ("A", (i,)), ("B", ())), "S has 1 dims (i), multiply-add outer product"),
    ],
)
def test_refusals(places: Places, why: str) -> None:
    found = mapped(places)
    assert not found.assignments
    assert any(why in refusal for refusal in found.refusals)


def test_shared_elements() -> None:
    found = mapped((("C", (i + j,)), ("A", (i, k)), ("B", (k, j))))
    assert not found.assignments
    assert "row = i, lane = j, a = A, b = B: i and j share elements of C" in found.refusals


def test_steps_in_order_are_no_dot_product() -> None:
    kept = replace(monoid("add", f64), laws=frozenset())
    found = map_instruction(*scop_of(MATRIX, kept), dot(f64))
    assert found.refusals == ("S keeps its order, dot sums up in its own",)
    assert map_instruction(*scop_of(MATRIX, monoid("add", f64)), dot(f64)).assignments


def test_what_counts_through_several_dims() -> None:
    places: Places = (("C", (b, i, j)), ("A", (b, i, k)), ("B", (k, j)))
    scop, s = scop_of(places, monoid("add", f64))
    fused = outer_product(WIDE, f64)
    assert [a.dims["row"] for a in map_instruction(scop, s, fused, several=True).assignments] == [
        ("i",), ("b",), ("j",), ("j",),
    ]  # fmt: skip
    sizes = [Constraint(7 - i), *(c for c in s.domain if c.expr != N - 1 - i)]
    fixed = replace(s, domain=tuple(sizes))
    rows = {a.dims["row"] for a in map_instruction(scop, fixed, fused, several=True).assignments}
    assert ("b", "i") in rows and ("j",) in rows


def test_too_many_dims() -> None:
    names = [f"d{n}" for n in range(13)]
    places: Places = (
        ("C", tuple(map(Var, names[:12]))), ("A", tuple(map(Var, names))), ("B", (Var(names[12]),)),
    )  # fmt: skip
    with pytest.raises(BudgetError, match="E0429"):
        map_instruction(*scop_of(places, monoid("add", f64)), dot(f64), several=True)


def test_no_update() -> None:
    assert "no update" in mapped(fold=None).refusals[0]


def test_factors_are_of_one_operand_each() -> None:
    a, c = Load(0, (), f64), Load(1, (), f64)
    assert "A changes along i, b of" in mapped(value=(a + c) * a).refusals[0]
    assert mapped(value=apply("sqrt", a) * (c + c)).assignments


def test_register_tile_fills_the_registers() -> None:
    assert register_tile(WIDE, f64) == (8, 3)
    assert register_tile(NARROW, f64) == (4, 3)
    for machine in (WIDE, NARROW):
        rows, vectors = register_tile(machine, f64)
        assert rows * vectors + vectors < machine.vector_registers
        assert rows * vectors >= machine.fma_latency * machine.fma_per_cycle
