"""Transformed programs that compute something else are refused; those that do not, accepted.

Random tilings are compared with symbolic execution in tests/properties.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.example_scops import EXAMPLES, gemm
from tests.polyhedral.scops import (
    SUM,
    Band,
    Constraint,
    Origin,
    Sequence,
    Statement,
    Var,
    at,
    box,
    loop,
    nest,
    scop,
    statement,
    tensor,
)
from weft import dtypes
from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Expr, literal
from weft.frontend.tensor_expr import Monoid
from weft.polyhedral.schedule_tree import Tree
from weft.polyhedral.scop import Access, Body, Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline_producer
from weft.polyhedral.transform.pack_operand import pack_operand
from weft.polyhedral.transform.stage_result import stage_result
from weft.polyhedral.validation import validate

i, j, k, m, n, tile = (Var(name) for name in ("i", "j", "k", "m", "n", "tile"))
X, Y = tensor("X", 16, role="input"), tensor("Y", 16, role="output")


def _refused(original: Scop, transformed: Scop, tree: Tree, code: str = "WEFT-E0440") -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        validate(original, transformed, tree)
    assert caught.value.code == code
    return str(caught.value)


def _in_order(of: Scop) -> Tree:
    return initial(of).tree


def _ordered(of: Scop, names: str) -> Tree:
    """The statements one after the other, each in the order of its dims."""
    return Sequence(tuple(
        nest(name, *(Var(d) for d in of.statement(name).dims)) for name in names.split()
    ))  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_scop_computes_what_it_computes(name: str) -> None:
    make, tree = EXAMPLES[name]
    validate(make(), make(), tree())


# --- order ---------------------------------------------------------------------------------------


def _pair() -> Scop:
    return scop(
        (X, tensor("T", 16), Y),
        statement("p", box(i=16), at("T", i), (at("X", i),)),
        statement("c", box(i=16), at("Y", i), (at("T", i), at("X", i)), position=1),
    )  # fmt: skip


def test_a_reader_before_its_writer() -> None:
    text = _refused(_pair(), _pair(), _ordered(_pair(), "c p"))
    assert "what c reads of" in text
    assert "sees T[" in text and "should see p[i=" in text


def test_the_pair_belongs_together() -> None:
    """c[i] sees T[i]'s first value and should see p[i], all with one i."""
    text = _refused(_pair(), _pair(), _ordered(_pair(), "c p"))
    why = next(line for line in text.splitlines() if "why" in line)
    numbers = {part.split("]")[0].removeprefix("i=") for part in why.split("[")[1:]}
    assert len(numbers) == 1


def test_swapped_operands() -> None:
    of = _pair()
    c = of.statement("c")
    swapped = replace(of, statements=(of.statements[0], replace(c, reads=c.reads[::-1])))
    assert "what c reads of" in _refused(of, swapped, _in_order(swapped))


def test_a_missing_statement() -> None:
    of = _pair()
    _refused(of, replace(of, statements=of.statements[:1]), nest("p", i))


def test_a_missing_instance() -> None:
    of = _pair()
    short = replace(of.statements[1], domain=box(i=15))
    less = replace(of, statements=(of.statements[0], short))
    assert "the final value of Y" in _refused(of, less, _in_order(less))


def test_an_overwritten_output() -> None:
    of = _pair()
    extra = statement("extra", box(i=1), at("Y", i), (at("X", i),), position=2)
    more = replace(of, statements=(*of.statements, extra))
    text = _refused(of, more, _in_order(more))
    assert "Y[0] sees X[0], but should see c[i=0]" in text


# --- copies and local storage --------------------------------------------------------------------


def _copied(source: Expr = i, target: Expr = i, names: str = "p copy c") -> tuple[Scop, Tree]:
    of = _pair()
    copy = statement("copy", box(i=16), at("L", target), (at("T", source),))
    c = of.statement("c")
    reader = replace(c, reads=(at("L", i), c.reads[1]))
    new = replace(
        of, tensors=(*of.tensors, tensor("L", 16)), statements=(of.statements[0], copy, reader)
    )
    return new, _ordered(new, names)


def test_a_copy_is_looked_through() -> None:
    validate(_pair(), *_copied())


def test_a_copy_of_the_wrong_element() -> None:
    text = _refused(_pair(), *_copied(source=15 - i))
    assert "sees p[i=" in text and "should see p[i=" in text


def test_a_copy_at_the_wrong_time() -> None:
    _refused(_pair(), *_copied(names="copy p c"))
    _refused(_pair(), *_copied(names="p c copy"))


def test_a_copy_that_misses_elements() -> None:
    new, tree = _copied()
    copy = replace(new.statement("copy"), domain=box(i=(1, 16)))
    statements = tuple(copy if s.name == "copy" else s for s in new.statements)
    text = _refused(_pair(), replace(new, statements=statements), tree)
    assert "sees L[0]" in text


def test_copies_of_copies() -> None:
    new, _ = _copied()
    again = statement("again", box(i=16), at("M", i), (at("L", i),))
    c = new.statement("c")
    reader = replace(c, reads=(at("M", i), c.reads[1]))
    deep = replace(
        new,
        tensors=(*new.tensors, tensor("M", 16)),
        statements=(*new.statements[:2], again, reader),
    )
    validate(_pair(), deep, _ordered(deep, "p copy again c"))
    _refused(_pair(), deep, _ordered(deep, "p again copy c"))


def test_a_copy_that_moves_along_itself_is_followed() -> None:
    of = _pair()
    slide = statement("slide", box(i=15), at("T", i + 1), (at("T", i),))
    new = replace(of, statements=(of.statements[0], slide, of.statements[1]))
    why = _refused(of, new, _ordered(new, "p slide c"))
    assert "sees p[i=0]" in why


def _window(halo: int, contracted: int = 1, offset: int = 0) -> tuple[Scop, Scop, Tree]:
    """p over X, c over windows of p; and both in tiles of 4 with p recomputed into L."""
    size = 18
    tensors = (tensor("X", size, role="input"), tensor("T", size), Y)
    window = tuple(at("T", i + d) for d in range(3))
    original = scop(
        tensors,
        statement("p", box(i=size), at("T", i), (at("X", i),)),
        statement("c", box(i=16), at("Y", i), window, position=1),
    )
    whole = 4 * tile + i
    local = tuple(at("L", tile, i + d) for d in range(3))
    tiled = scop(
        (tensors[0], tensor("L", 4, 6, scope="local", contracted=contracted), Y),
        statement("p_t", box(tile=4, i=4 + halo), at("L", tile, i), (at("X", whole + offset),),
                  origin=Origin("p", (whole,))),
        statement("c_t", box(tile=4, i=4), at("Y", whole), local,
                  origin=Origin("c", (whole,), "Conv 'c1'"), position=1),
    )  # fmt: skip
    inner = (nest("p_t", i), nest("c_t", i))
    return original, tiled, Band((loop("tile", p_t=tile, c_t=tile),), Sequence(inner))


def test_overlapped_tiles() -> None:
    validate(*_window(halo=2))


def test_a_halo_that_is_too_small() -> None:
    text = _refused(*_window(halo=1))
    assert "Conv 'c1'" in text
    assert "c_t[tile=" in text and "should see p[i=" in text


def test_a_tile_that_loads_the_wrong_part() -> None:
    text = _refused(*_window(halo=2, offset=-1)[:2], _window(2)[2])
    assert "what p_t reads of" in text


def test_tiles_that_share_storage_need_their_loop() -> None:
    original, tiled, _ = _window(halo=2)
    apart = Sequence((nest("p_t", tile, i), nest("c_t", tile, i)))
    _refused(original, tiled, apart, "WEFT-E0423")
    validate(*_window(halo=2, contracted=0)[:2], apart)


def test_parameters() -> None:
    def sized(over: int) -> Scop:
        return scop(
            (tensor("X", n, role="input"), tensor("T", n), tensor("Y", n, role="output")),
            statement("p", box(i=n - over), at("T", i), (at("X", i),), dims=("i",)),
            statement("c", box(i=n), at("Y", i), (at("T", i),), dims=("i",), position=1),
            parameters=("n",), context=(Constraint(n - 1),),
        )  # fmt: skip

    validate(sized(0), sized(0), _in_order(sized(0)))
    assert "for n=" in _refused(sized(0), sized(1), _in_order(sized(1)))


# --- statements that come and go -----------------------------------------------------------------


def _chain(length: int) -> Scop:
    names = ["X", *(f"T{p}" for p in range(1, length)), "Y"]
    return scop(
        (X, Y, *(tensor(name, 16) for name in names[1:-1])),
        *(
            statement(f"s{p}", box(i=16), at(names[p + 1], i), (at(names[p], i), at("X", 15 - i)),
                      position=p)
            for p in range(length)
        ),
    )  # fmt: skip


def _inlined(length: int) -> Scop:
    of = _chain(length)
    for p in range(length - 1):
        of = inline_producer(of, f"s{p}")
    return of


def test_inlined_producers_are_looked_through() -> None:
    new = _inlined(4)
    assert len(new.statements) == 1
    validate(_chain(4), new, _in_order(new))


def test_an_inlined_producer_at_the_wrong_element() -> None:
    new = _inlined(4)
    [only] = new.statements
    wrong = replace(only, reads=(at("X", i - 1), *only.reads[1:]))
    text = _refused(_chain(4), replace(new, statements=(wrong,)), _in_order(new))
    assert "what s3 reads" in text and "sees X[" in text


def test_a_hoisted_computation_is_looked_through() -> None:
    """c reads f(scale, shift); a new statement computes it beforehand."""
    constants = (tensor("scale", role="constant"), tensor("shift", role="constant"))
    reads = (at("X", i), at("scale"), at("shift"))
    original = scop((X, Y, *constants), statement("c", box(i=16), at("Y", i), reads))
    both = statement("both", (), at("f"), reads[1:])
    reader = statement("c", box(i=16), at("Y", i), (at("X", i), at("f")), position=1)
    hoisted = scop((X, Y, *constants, tensor("f")), both, reader)
    validate(original, hoisted, _in_order(hoisted))
    half = replace(both, reads=(at("scale"),))
    less = replace(hoisted, statements=(half, reader))
    assert "should see shift[]" in _refused(original, less, _in_order(less))


def test_a_dropped_copy() -> None:
    original = scop(
        (X, tensor("T", 16), Y),
        statement("p", box(i=16), at("T", i), (at("X", i),)),
        statement("out", box(i=16), at("Y", i), (at("T", i),), position=1),
    )
    direct = scop((X, Y), statement("p", box(i=16), at("Y", i), (at("X", i),)))
    validate(original, direct, _in_order(direct))


# --- reductions ----------------------------------------------------------------------------------


def _gemm_tree(*mac: Expr) -> Tree:
    return Sequence((nest("init", i, j), nest("mac", *mac)))


def test_contributions_may_come_in_any_order() -> None:
    validate(gemm(8), gemm(8), _gemm_tree(-k, j, i))


def test_contributions_before_the_start_are_lost() -> None:
    tree = Sequence((nest("mac", i, j, k), nest("init", i, j)))
    assert "the final value of C" in _refused(gemm(8), gemm(8), tree)


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
    validate(gemm(8), _split(5, 5), _in_order(_split(5, 5)))
    tree = _ordered(_split(5, 5), "init high low")
    validate(gemm(8), _split(5, 5), tree)


def test_a_lost_contribution() -> None:
    text = _refused(gemm(8), _split(4, 5), _in_order(_split(4, 5)))
    assert "should see mac[i=" in text and "k=4]" in text


def test_a_contribution_counted_twice() -> None:
    text = _refused(gemm(8), _split(5, 4), _in_order(_split(5, 4)), "WEFT-E0441")
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
        _refused(gemm(8), new, _in_order(new), code)
    else:
        validate(gemm(8), new, _in_order(new))


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
    _refused(of, of, nest("f", i, -k))


def test_two_kinds_of_update_keep_their_order() -> None:
    other = Monoid("max", SUM.left, SUM.right, SUM.combined, SUM.identity)
    of = scop(
        (X, Y),
        statement("f", box(i=4, k=4), at("Y", i), (at("X", k),), reduce=("k",)),
        statement("g", box(i=4, k=4), at("Y", i), (at("X", k),), reduce=("k",), monoid=other,
                  position=1),
    )  # fmt: skip
    validate(of, of, _in_order(of))
    _refused(of, of, _ordered(of, "g f"))


def test_a_scatter_keeps_its_order() -> None:
    anywhere = Access("Y", (), may=True, body_indices=(literal(0),))
    of = scop((X, Y), statement("s", box(i=4), anywhere, (at("X", i),)))
    validate(of, of, nest("s", i))
    _refused(of, of, nest("s", -i))


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
    validate(of, of, _ordered(of, "zero low part high all"))
    text = _refused(of, of, _ordered(of, "zero low high part all"))
    assert "what part reads of" in text and "sees high[k=" in text and "should see" not in text


# --- origins -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        (Origin("q", (i,)), "no statement 'q'"),
        (Origin("p", (i, i)), "has the dims i"),
        (Origin("p", (i + 1,)), "stand for none of p"),
    ],
)
def test_origins_that_make_no_sense(origin: Origin, why: str) -> None:
    of = _pair()
    new = replace(of, statements=(replace(of.statements[0], origin=origin), of.statements[1]))
    assert why in _refused(of, new, _in_order(new), "WEFT-E0442")


def test_an_update_must_stay_one() -> None:
    of = gemm(8)
    plain = replace(of.statements[1], update=None)
    new = replace(of, statements=(of.statements[0], plain))
    _refused(of, new, _in_order(new))  # the last contribution is no fold
    fold = replace(of.statements[0], update=of.statements[1].update)
    _refused(of, replace(of, statements=(fold, of.statements[1])), _in_order(of), "WEFT-E0442")
    one = replace(of.statements[0], body=Body((), (literal(1.0, dtypes.float32),)))
    of = replace(of, statements=(one, of.statements[1]))
    new = replace(of, statements=(one, plain))
    _refused(of, new, _in_order(new), "WEFT-E0442")  # nothing may overwrite what is not identity


def test_a_new_update_is_refused() -> None:
    of = _pair()
    new: Statement = statement("new", box(i=4), at("T", i), (at("X", i),), reduce=("i",))
    more = replace(of, statements=(*of.statements, new))
    _refused(of, more, _ordered(more, "p c new"), "WEFT-E0442")


# --- the named transformations -------------------------------------------------------------------


def test_cache_write_and_pack() -> None:
    original = gemm(10)
    staged = stage_result(original, "C", readers=frozenset({"init", "mac"}))
    staged, _ = pack_operand(staged, "mac", 1, "j", 4, ("k",))
    assert len(staged.statements) == 4
    validate(original, staged, _in_order(staged))


def test_a_pack_of_the_wrong_width() -> None:
    original = gemm(10)
    staged, name = pack_operand(original, "mac", 1, "j", 4, ("k",))
    wrong = tuple(
        replace(s, reads=tuple(
            at(name, j // 4, k, (j + 1) % 4) if a.tensor == name else a for a in s.reads
        ))
        for s in staged.statements
    )  # fmt: skip
    text = _refused(original, replace(staged, statements=wrong), _in_order(staged))
    assert "what mac reads of B" in text and "B[" in text


def test_nothing_at_all() -> None:
    of = scop((X, Y))
    validate(of, of, Sequence(()))
    never = scop((X, Y), statement("s", box(i=0), at("Y", i), (at("X", i),)))
    validate(never, never, nest("s", i))
    validate(never, of, Sequence(()))
