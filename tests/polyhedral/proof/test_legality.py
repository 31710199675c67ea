"""Broken schedules are refused with an instance pair that is really violated; sound ones pass."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.polyhedral.example_scops import EXAMPLES, band, conv_cluster, conv_tree, gemm, softmax
from tests.polyhedral.scops import (
    Band,
    Constraint,
    Leaf,
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
from weft.ir.errors import CompileError, IllegalScheduleError
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_tree import Kind, Loop, Tree, children, with_children
from weft.ir.scop import Access, Scop
from weft.polyhedral.proof.legality import check, check_bounds

i, j, k, n, t = (Var(name) for name in "ijknt")


def _refused(of: Scop, tree: Tree, code: str = "WEFT-E0420") -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        check(of, tree)
    assert caught.value.code == code
    return str(caught.value)


def _kinds(tree: Tree, **kinds: Kind) -> Tree:
    """``tree`` with the kinds of some loops changed."""
    below = with_children(tree, tuple(_kinds(child, **kinds) for child in children(tree)))
    if isinstance(below, Band):
        loops = tuple(replace(x, kind=kinds.get(x.name, x.kind)) for x in below.loops)
        return replace(below, loops=loops)
    return below


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_legal(name: str) -> None:
    make, tree = EXAMPLES[name]
    check(make(), tree())


# --- order ---------------------------------------------------------------------------------------


def _stencil(*offsets: int) -> Scop:
    reads = tuple(at("A", t, i + o) for o in offsets)
    step = statement(
        "s", box(t=8, i=(1, 31)), at("A", t + 1, i), reads, dims=("t", "i"),
        origin=Origin("s", (t, i), "jacobi, line 7"),
    )  # fmt: skip
    return scop((tensor("A", 9, 32),), step)


def test_the_error_shows_one_violated_pair_and_its_element() -> None:
    text = _refused(_stencil(-1, 0, 1), nest("s", i, t))
    found = re.search(
        r"s\[t=(\d+), i=(\d+)\] writes A\[(\d+), (\d+)\] before s\[t=(\d+), i=(\d+)\] reads it",
        text,
    )
    assert found, text
    t0, i0, row, column, t1, i1 = map(int, found.groups())
    assert (row, column) == (t0 + 1, i0)  # what the first writes
    assert row == t1 and abs(column - i1) <= 1  # is read by the second,
    assert t0 < t1 and i1 < i0  # which the interchanged loops run first
    assert "jacobi, line 7" in text


@pytest.mark.parametrize(
    ("offsets", "values"),
    [
        ((-1, 0, 1), (t, -i)),
        ((-1, 0, 1), (t, i + t)),
        ((-1, 0, 1), (t // 4, (i + t) // 4, t, i)),
        ((-1, 0), (i, t)),
        ((-1, 0, 1), (i + t, t)),
        ((-1,), (i - t, t)),
    ],
)
def test_legal_orders(offsets: tuple[int, ...], values: tuple[Expr, ...]) -> None:
    check(_stencil(*offsets), nest("s", *values))


@pytest.mark.parametrize(
    ("offsets", "values"),
    [
        ((0,), (-t, i)),
        ((1,), (i, t)),
        ((-1, 0, 1), (t // 4, i // 4, t, i)),
        ((0, 2), (i + t, t)),
        ((0,), (t // 2, -t, i)),
        ((-1,), (t % 2, t // 2, i)),
    ],
)
def test_illegal_orders(offsets: tuple[int, ...], values: tuple[Expr, ...]) -> None:
    _refused(_stencil(*offsets), nest("s", *values))


def _blur() -> Scop:
    return scop(
        (tensor("X", 34, role="input"), tensor("A", 34), tensor("B", 32, role="output")),
        statement("p", box(i=34), at("A", i), (at("X", i),)),
        statement("c", box(i=32), at("B", i), tuple(at("A", i + d) for d in range(3)),
                  position=1),
    )  # fmt: skip


def _together(shift: int, first: str = "p", second: str = "c") -> Tree:
    shared = loop("i", p=i, c=i + shift)
    return Band((shared,), Sequence((Leaf(first), Leaf(second))))


def test_fusion_needs_the_shift_of_its_window() -> None:
    check(_blur(), _together(2))
    check(_blur(), _together(3, "c", "p"))
    text = _refused(_blur(), _together(1))
    assert "loop i runs the second before the first" in text
    text = _refused(_blur(), _together(2, "c", "p"))
    assert "the sequence runs the second before the first" in text


def test_parameters_are_part_of_the_pair() -> None:
    producer = statement("p", box(i=n), at("A", i), dims=("i",))
    consumer = statement("c", box(i=n), at("B", i), (at("A", n - 1 - i),), dims=("i",), position=1)
    whole = scop(
        (tensor("A", n), tensor("B", n)), producer, consumer,
        parameters=("n",), context=(Constraint(n - 2),),
    )  # fmt: skip
    text = _refused(whole, _together(0))
    size = re.search(r"for n=(\d+)", text)
    assert size and int(size[1]) >= 2


def test_a_legal_order_for_the_context_only() -> None:
    """Distance n is at least the tile of 4 only where the context says so."""
    step = statement("s", box(i=64), at("A", i + n), (at("A", i),), dims=("i",))
    tree = nest("s", i // 4, -(i % 4))
    far = scop((tensor("A", 99),), step, parameters=("n",), context=(Constraint(n - 4),))
    near = scop((tensor("A", 99),), step, parameters=("n",), context=(Constraint(n - 3),))
    check(far, tree)
    _refused(near, tree)


# --- reductions ----------------------------------------------------------------------------------


def _gemm_with(*values: Expr) -> Tree:
    return Sequence((nest("init", i, j), nest("mac", *values)))


def test_a_reduction_may_run_in_any_order() -> None:
    check(gemm(8), _gemm_with(i, j, -k))
    check(gemm(8), _gemm_with(k % 4, i, j, k // 4))


def test_a_reduction_stays_between_its_start_and_its_use() -> None:
    both = {"init": (i, j), "mac": (i, j)}
    mac = band(["k"], {"mac": (k,)}, Leaf("mac"))
    check(gemm(8), band("ij", both, Sequence((Leaf("init"), mac))))
    text = _refused(gemm(8), band("ij", both, Sequence((mac, Leaf("init")))))
    assert "init[" in text and "mac[" in text


def test_a_partial_sum_must_not_be_used() -> None:
    names = ("m0", "m1", "exp", "d0", "d1", "div")
    tree = Sequence(tuple(
        nest(name, i) if name.endswith("0") else nest(name, j, i) for name in names
    ))  # fmt: skip
    check(softmax(4, 4), tree)
    fused = band(["j"], {"m1": (j,), "exp": (j,)}, Sequence((nest("m1", i), nest("exp", i))))
    parts = (nest("m0", i), fused, nest("d0", i), nest("d1", i, j), nest("div", i, j))
    assert "exp[" in _refused(softmax(4, 4), Sequence(parts))


# --- concurrency ---------------------------------------------------------------------------------


def test_parallel_and_vector_loops() -> None:
    tree = _gemm_with(i, j, k)
    for kinds in (
        {"mac0": "parallel", "mac1": "vector"},
        {"mac2": "vector"},
        {"mac0": "parallel", "init0": "parallel"},
        {"mac2": "unrolled"},
    ):
        check(gemm(8), _kinds(tree, **kinds))  # type: ignore[arg-type]
    text = _refused(gemm(8), _kinds(tree, mac2="parallel"), "WEFT-E0421")
    assert "parallel loop mac2 may run both at the same time" in text


def test_a_vector_loop_carries_no_dependence_but_a_reduction() -> None:
    _refused(_stencil(0), _kinds(nest("s", t, i), s0="vector"), "WEFT-E0422")
    check(_stencil(0), _kinds(nest("s", t, i), s1="vector"))


def test_a_dependence_carried_further_out_does_not_matter() -> None:
    check(_stencil(-1, 0, 1), _kinds(nest("s", t, i), s1="parallel"))
    _refused(_stencil(-1), _kinds(nest("s", t // 2, i, t), s1="parallel"), "WEFT-E0421")


def test_a_parallel_loop_must_not_share_scratch() -> None:
    """One cell for all iterations: fine in order, a race in parallel."""
    whole = scop(
        (tensor("s"), tensor("B", 8, role="output")),
        statement("p", box(i=8), at("s"), position=(0, "i", 0)),
        statement("c", box(i=8), at("B", i), (at("s"),), position=(0, "i", 1)),
    )
    check(whole, _together(0))
    _refused(whole, _kinds(_together(0), i="parallel"), "WEFT-E0421")


def test_a_wrong_order_is_named_before_a_race() -> None:
    _refused(_stencil(1), _kinds(nest("s", i, t), s0="parallel"))


# --- data-dependent accesses ---------------------------------------------------------------------


def test_a_scatter_keeps_its_order() -> None:
    anywhere = Access("A", (), may=True, body_indices=(literal(0),))
    scatter = statement("s", box(i=8), anywhere, (at("X", i),))
    whole = scop((tensor("A", 4, role="output"), tensor("X", 8, role="input")), scatter)
    check(whole, nest("s", i // 2, i % 2))
    assert "an element of A" in _refused(whole, nest("s", -i))
    _refused(whole, _kinds(nest("s", i), s0="parallel"), "WEFT-E0421")


def test_a_scatter_that_adds_may_be_reordered() -> None:
    anywhere = Access("A", (), may=True, body_indices=(literal(0),))
    scatter = statement("s", box(i=8), anywhere, (at("X", i),), reduce=("i",))
    whole = scop((tensor("A", 4, role="output"), tensor("X", 8, role="input")), scatter)
    check(whole, nest("s", -i))
    _refused(whole, _kinds(nest("s", i), s0="parallel"), "WEFT-E0421")


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_stay_inside_their_tensors(name: str) -> None:
    check_bounds(EXAMPLES[name][0]())


def _outside(of: Scop) -> str:
    with pytest.raises(CompileError) as caught:
        check_bounds(of)
    assert caught.value.code == "WEFT-E0430"
    return str(caught.value)


def test_an_access_outside_is_shown() -> None:
    bad = statement("s", box(i=8), at("B", i), (at("A", i - 1),))
    text = _outside(scop((tensor("A", 8), tensor("B", 8)), bad))
    assert "s[i=0] touches A[-1] of shape [8]" in text


def test_a_guard_keeps_an_access_inside() -> None:
    guarded = at("A", i - 1, guard=(Constraint(i - 1),))
    check_bounds(scop((tensor("A", 7), tensor("B", 8)),
                      statement("s", box(i=8), at("B", i), (guarded,))))  # fmt: skip


def test_bounds_hold_for_all_parameters() -> None:
    one = statement("s", box(i=n), at("A", 2 * i), dims=("i",))
    context = (Constraint(n - 1),)
    check_bounds(scop((tensor("A", 2 * n - 1),), one, parameters=("n",), context=context))
    text = _outside(scop((tensor("A", 8),), one, parameters=("n",), context=context))
    size = re.search(r"for n=(\d+)", text)
    assert size and int(size[1]) > 4


def test_writes_and_empty_tensors_are_checked_too() -> None:
    _outside(scop((tensor("A", 0),), statement("s", box(i=1), at("A", i))))
    check_bounds(scop((tensor("A", 0),), statement("s", box(i=0), at("A", i))))


def test_strides_that_never_leave() -> None:
    domain = (*box(i=9), Constraint(i % 2, equality=True))
    check_bounds(scop((tensor("A", 5),), statement("s", domain, at("A", i // 2))))


# --- halos ---------------------------------------------------------------------------------------


def test_a_tile_that_is_too_small_for_its_halo() -> None:
    """pad fused into the tiles of conv without a halo: the last column is not there yet."""
    c, y, x = (Var(d) for d in "cyx")
    tree = conv_tree()
    assert isinstance(tree, Sequence)
    _, body = tree.children
    assert isinstance(body, Band) and isinstance(body.child, Sequence)
    pad = {"to": literal(0), "ty": y // 4, "tx": x // 16}
    shared = tuple(Loop(q.name, {**q.at, "pad": pad[q.name]}) for q in body.loops)
    points = band(["pc", "pad y", "pad x"], {"pad": (c, y, x)}, Leaf("pad"))
    fused = Band(shared, Sequence((points, *body.child.children)))
    text = _refused(conv_cluster(), fused)
    assert "pad[" in text and "conv[" in text and " P[" in text
