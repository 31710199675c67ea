"""The interpreter runs instances in the order that it is told, and notices broken rules."""

from __future__ import annotations

import numpy as np
import pytest

from tests.polyhedral.scops import at, box, scop, statement, tensor
from weft.ir import dtypes
from weft.ir.errors import CallError, InternalError
from weft.ir.scalar_expr import Load, Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, Sequence
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor
from weft.ir.scop_interpreter import domain_points, instances, interpret

i, j, t, n = Var("i"), Var("j"), Var("t"), Var("n")
F = dtypes.float32


def visits(program, tree=None, **parameters):
    return [
        (s.name, *(point[d] for d in s.dims)) for s, point in instances(program, parameters, tree)
    ]


def two(**position):
    shape = box(i=2, j=2)
    return scop(
        (tensor("A", 2, 2, role="output"), tensor("B", 2, 2, role="output")),
        statement("a", shape, at("A", i, j), position=position.get("a", 0)),
        statement("b", shape, at("B", i, j), position=position.get("b", 1)),
    )


def test_the_initial_order_is_textual():
    grid = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert visits(two()) == [("a", *p) for p in grid] + [("b", *p) for p in grid]
    shared = two(a=(0, "i", 0, "j", 0), b=(0, "i", 1, "j", 0))
    assert visits(shared)[:4] == [("a", 0, 0), ("a", 0, 1), ("b", 0, 0), ("b", 0, 1)]
    swapped = two(a=(0, "j", 0, "i", 0), b=(0, "i", 1, "j", 0))
    assert visits(swapped)[:2] == [("a", 0, 0), ("a", 1, 0)]


def test_a_tree_orders_instances_by_bands_and_sequences():
    def at_both(x):
        return {"a": x, "b": x}

    tree = Band(
        (Loop("d", at_both(i + j)), Loop("i", at_both(-i), "parallel")),
        Mark("payload", Sequence((Leaf("b"), Leaf("a")))),
    )
    assert visits(two(), tree) == [
        ("b", 0, 0), ("a", 0, 0), ("b", 1, 0), ("a", 1, 0), ("b", 0, 1), ("a", 0, 1),
        ("b", 1, 1), ("a", 1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (box(i=3, j=(i, 3)), [(a, b) for a in range(3) for b in range(a, 3)]),
        (box(i=n, j=0), []),
        ((*box(i=6, j=4), Constraint(i - 2 * j, equality=True)), [(0, 0), (2, 1), (4, 2)]),
        ((*box(i=6, j=3), Constraint(i // 2 - j, equality=True)), [(k, k // 2) for k in range(6)]),
        (
            (*box(j=2), Constraint(i - 3 * j), Constraint(3 * j + 2 - i)),
            [(k, k // 3) for k in range(6)],
        ),
        (box(i=(-2, 1), j=(3, 5)), [(a, b) for a in (-2, -1, 0) for b in (3, 4)]),
    ],
)  # fmt: skip
def test_domains_are_enumerated(domain, expected):
    s = statement("s", domain, at("A", i, j), dims=("i", "j"))
    points = domain_points(s, {"n": 3})
    assert sorted(zip(points["i"].tolist(), points["j"].tolist(), strict=True)) == expected


def test_domains_without_dims_or_without_bounds():
    s = statement("s", (Constraint(n - 3),), at("A"), dims=())
    assert domain_points(s, {"n": 3})[""].size == 1 and domain_points(s, {"n": 2})[""].size == 0
    with pytest.raises(InternalError, match="dim i of s is not bounded"):
        domain_points(statement("s", (Constraint(i),), at("A", i), dims=("i",)), {})
    with pytest.raises(InternalError, match="instances"):
        domain_points(statement("s", box(i=1 << 40), at("A", i), dims=("i",)), {})


def prefix_sums():
    """s[i] = a[i] + s[i - 1]."""
    size = literal(4)
    guard = (Constraint(i - 1),)
    before, here = Load(0, (), F), Load(1, (), F)
    return Scop(
        "prefix", (), (),
        (Tensor("a", (size,), F, "input"), Tensor("s", (size,), F, "output")),
        (
            Statement(
                "first", (), (), (0,), (at("s", 0),), (at("a", 0),), Body((), (Load(0, (), F),))
            ),
            Statement(
                "next", ("i",), (Constraint(i - 1), Constraint(3 - i)), (1, "i", 0),
                (at("s", i),), (at("s", i - 1, guard=guard), at("a", i)),
                Body((("v", before), ), (Var("v", F) + here,)),
            ),
        ),
    )  # fmt: skip


def test_instances_run_in_order_and_memory_starts_as_garbage():
    program, a = prefix_sums(), np.arange(4, dtype=np.float32)
    assert interpret(program, {"a": a})["s"].tolist() == [0, 1, 3, 6]
    loops = (Loop("i", {"next": -i}),)
    backwards = Sequence((Leaf("first"), Band(loops, Leaf("next"))))
    assert np.isnan(interpret(program, {"a": a}, tree=backwards)["s"][2:]).all()
    too_late = Sequence((Band((Loop("i", {"next": i}),), Leaf("next")), Leaf("first")))
    assert np.isnan(interpret(program, {"a": a}, tree=too_late)["s"][1:]).all()


def tiled(contracted, reader_tile=None):
    """b[t, p] = a[2 t + p]; c[2 t + p] = b[t, p], with b in one tile's worth of memory."""
    p = Var("p")
    value = Body((), (Load(0, (), F),))
    return Scop(
        "tiled", (), (),
        (
            Tensor("a", (literal(4),), F, "input"),
            Tensor("b", (literal(2), literal(2)), F, "temp", "local", contracted),
            Tensor("c", (literal(4),), F, "output"),
        ),
        (
            Statement("fill", ("t", "p"), box(t=2, p=2), (0, "t", 0, "p", 0),
                      (at("b", t, p),), (at("a", t * 2 + p),), value),
            Statement("use", ("t", "p"), box(t=2, p=2), (0, "t", 1, "p", 0),
                      (at("c", t * 2 + p),), (at("b", t, p),), value),
        ),
    )  # fmt: skip


def test_contracted_tensors_hold_one_tile():
    a = {"a": np.arange(4, dtype=np.float32)}
    p = Var("p")
    by_tile = Band(
        (Loop("t", {"fill": t, "use": t}),),
        Sequence(tuple(Band((Loop("p", {s: p}),), Leaf(s)) for s in ("fill", "use"))),
    )
    apart = Sequence(
        tuple(Band((Loop("t", {s: t}), Loop("p", {s: p})), Leaf(s)) for s in ("fill", "use"))
    )
    assert interpret(tiled(1), a)["c"].tolist() == [0, 1, 2, 3]
    assert interpret(tiled(1), a, tree=by_tile)["c"].tolist() == [0, 1, 2, 3]
    assert interpret(tiled(0), a, tree=apart)["c"].tolist() == [0, 1, 2, 3]
    assert np.isnan(interpret(tiled(1), a, tree=apart)["c"][:2]).all()


def test_broken_rules_are_noticed():
    program, a = prefix_sums(), {"a": np.zeros(4, np.float32)}

    def changed(access):
        first, following = program.statements
        reads = (access, following.reads[1])
        new = Statement(
            "next", ("i",), following.domain, following.position, following.writes, reads,
            following.body,
        )  # fmt: skip
        return Scop("p", (), (), program.tensors, (first, new))

    with pytest.raises(InternalError, match="index 4 in dimension 0 of s"):
        interpret(changed(at("s", i + 1)), a)
    with pytest.raises(InternalError, match="the guard of operand 0 is false"):
        interpret(changed(at("s", i - 1, guard=(Constraint(-i),))), a)
    with pytest.raises(InternalError, match="has 1 dimensions"):
        interpret(changed(Access("s", ())), a)


def test_writes_below_a_false_guard_do_not_happen():
    size = literal(3)
    write = Access("s", (i - 1,), (Constraint(i - 1),))
    one = Statement("s", ("i",), box(i=3), (0, "i", 0), (write,), (), Body((), (literal(1.0, F),)))
    program = Scop("p", (), (), (Tensor("s", (size,), F, "output"),), (one,))
    result = interpret(program, {})["s"]
    assert result[:2].tolist() == [1, 1] and np.isnan(result[2])


def test_inputs_that_do_not_fit_are_refused():
    program = Scop(
        "p", ("n", "nn"), (Constraint(n - 1),),
        (Tensor("a", (n, Var("nn")), F, "input"),), (), (("nn", n * n),),
    )  # fmt: skip
    assert interpret(program, {"a": np.zeros((2, 4), np.float32)}) == {}
    for wrong in (
        np.zeros((2, 3), np.float32),
        np.zeros((0, 0), np.float32),
        np.zeros((2, 4)),
        None,
    ):
        with pytest.raises(CallError, match="E0690"):
            interpret(program, {} if wrong is None else {"a": wrong})
    unknown = Scop("p", ("n",), (), (), ())
    with pytest.raises(CallError, match="no value for n"):
        interpret(unknown, {})
