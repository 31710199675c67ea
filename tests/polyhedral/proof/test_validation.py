"""Transformed programs that compute something else are refused; those that do not, accepted.

Random tilings are compared with symbolic execution in tests/properties.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.example_scops import EXAMPLES, gemm
from tests.polyhedral.scops import (
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
from tests.polyhedral.validated import in_order, ordered, refused
from weft.ir import dtypes
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Body, Scop
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline_producer
from weft.polyhedral.transform.pack import pack

i, j, k, m, n, tile = (Var(name) for name in ("i", "j", "k", "m", "n", "tile"))
X, Y = tensor("X", 16, role="input"), tensor("Y", 16, role="output")


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
    text = refused(_pair(), _pair(), ordered(_pair(), "c p"))
    assert "what c reads of" in text
    assert "sees T[" in text and "should see p[i=" in text


def test_the_pair_belongs_together() -> None:
    """c[i] sees T[i]'s first value and should see p[i], all with one i."""
    text = refused(_pair(), _pair(), ordered(_pair(), "c p"))
    why = next(line for line in text.splitlines() if "why" in line)
    numbers = {part.split("]")[0].removeprefix("i=") for part in why.split("[")[1:]}
    assert len(numbers) == 1


def test_swapped_operands() -> None:
    of = _pair()
    c = of.statement("c")
    swapped = replace(of, statements=(of.statements[0], replace(c, reads=c.reads[::-1])))
    assert "what c reads of" in refused(of, swapped, in_order(swapped))


def test_a_missing_statement() -> None:
    of = _pair()
    refused(of, replace(of, statements=of.statements[:1]), nest("p", i))


def test_a_missing_instance() -> None:
    of = _pair()
    short = replace(of.statements[1], domain=box(i=15))
    less = replace(of, statements=(of.statements[0], short))
    assert "the final value of Y" in refused(of, less, in_order(less))


def test_an_overwritten_output() -> None:
    of = _pair()
    extra = statement("extra", box(i=1), at("Y", i), (at("X", i),), position=2)
    more = replace(of, statements=(*of.statements, extra))
    text = refused(of, more, in_order(more))
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
    return new, ordered(new, names)


def test_a_copy_is_looked_through() -> None:
    validate(_pair(), *_copied())


def test_a_copy_of_the_wrong_element() -> None:
    text = refused(_pair(), *_copied(source=15 - i))
    assert "sees p[i=" in text and "should see p[i=" in text


def test_a_copy_at_the_wrong_time() -> None:
    refused(_pair(), *_copied(names="copy p c"))
    refused(_pair(), *_copied(names="p c copy"))


def test_a_copy_that_misses_elements() -> None:
    new, tree = _copied()
    copy = replace(new.statement("copy"), domain=box(i=(1, 16)))
    statements = tuple(copy if s.name == "copy" else s for s in new.statements)
    text = refused(_pair(), replace(new, statements=statements), tree)
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
    validate(_pair(), deep, ordered(deep, "p copy again c"))
    refused(_pair(), deep, ordered(deep, "p again copy c"))


def test_a_copy_that_moves_along_itself_is_followed() -> None:
    of = _pair()
    slide = statement("slide", box(i=15), at("T", i + 1), (at("T", i),))
    new = replace(of, statements=(of.statements[0], slide, of.statements[1]))
    why = refused(of, new, ordered(new, "p slide c"))
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
    text = refused(*_window(halo=1))
    assert "Conv 'c1'" in text
    assert "c_t[tile=" in text and "should see p[i=" in text


def test_a_tile_that_loads_the_wrong_part() -> None:
    text = refused(*_window(halo=2, offset=-1)[:2], _window(2)[2])
    assert "what p_t reads of" in text


def test_tiles_that_share_storage_need_their_loop() -> None:
    original, tiled, _ = _window(halo=2)
    apart = Sequence((nest("p_t", tile, i), nest("c_t", tile, i)))
    refused(original, tiled, apart, "WEFT-E0423")
    validate(*_window(halo=2, contracted=0)[:2], apart)


def test_parameters() -> None:
    def sized(over: int) -> Scop:
        return scop(
            (tensor("X", n, role="input"), tensor("T", n), tensor("Y", n, role="output")),
            statement("p", box(i=n - over), at("T", i), (at("X", i),), dims=("i",)),
            statement("c", box(i=n), at("Y", i), (at("T", i),), dims=("i",), position=1),
            parameters=("n",), context=(Constraint(n - 1),),
        )  # fmt: skip

    validate(sized(0), sized(0), in_order(sized(0)))
    assert "for n=" in refused(sized(0), sized(1), in_order(sized(1)))


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
    validate(_chain(4), new, in_order(new))


def test_an_inlined_producer_at_the_wrong_element() -> None:
    new = _inlined(4)
    [only] = new.statements
    wrong = replace(only, reads=(at("X", i - 1), *only.reads[1:]))
    text = refused(_chain(4), replace(new, statements=(wrong,)), in_order(new))
    assert "what s3 reads" in text and "sees X[" in text


def test_a_hoisted_computation_is_looked_through() -> None:
    """c reads f(scale, shift); a new statement computes it beforehand."""
    constants = (tensor("scale", role="constant"), tensor("shift", role="constant"))
    reads = (at("X", i), at("scale"), at("shift"))
    original = scop((X, Y, *constants), statement("c", box(i=16), at("Y", i), reads))
    both = statement("both", (), at("f"), reads[1:])
    reader = statement("c", box(i=16), at("Y", i), (at("X", i), at("f")), position=1)
    hoisted = scop((X, Y, *constants, tensor("f")), both, reader)
    validate(original, hoisted, in_order(hoisted))
    half = replace(both, reads=(at("scale"),))
    less = replace(hoisted, statements=(half, reader))
    assert "should see shift[]" in refused(original, less, in_order(less))


def test_a_dropped_copy() -> None:
    original = scop(
        (X, tensor("T", 16), Y),
        statement("p", box(i=16), at("T", i), (at("X", i),)),
        statement("out", box(i=16), at("Y", i), (at("T", i),), position=1),
    )
    direct = scop((X, Y), statement("p", box(i=16), at("Y", i), (at("X", i),)))
    validate(original, direct, in_order(direct))


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
    assert why in refused(of, new, in_order(new), "WEFT-E0442")


def test_an_update_must_stay_one() -> None:
    of = gemm(8)
    plain = replace(of.statements[1], update=None)
    new = replace(of, statements=(of.statements[0], plain))
    refused(of, new, in_order(new))  # the last contribution is no fold
    fold = replace(of.statements[0], update=of.statements[1].update)
    refused(of, replace(of, statements=(fold, of.statements[1])), in_order(of), "WEFT-E0442")
    one = replace(of.statements[0], body=Body((), (literal(1.0, dtypes.float32),)))
    of = replace(of, statements=(one, of.statements[1]))
    new = replace(of, statements=(one, plain))
    refused(of, new, in_order(new), "WEFT-E0442")  # nothing may overwrite what is not identity


def test_a_new_update_is_refused() -> None:
    of = _pair()
    new: Statement = statement("new", box(i=4), at("T", i), (at("X", i),), reduce=("i",))
    more = replace(of, statements=(*of.statements, new))
    refused(of, more, ordered(more, "p c new"), "WEFT-E0442")


# --- the named transformations -------------------------------------------------------------------


def test_cache_write_and_pack() -> None:
    original = gemm(10)
    made = cache_write(initial(original), "C", ["init", "mac"], "")
    made = pack(made, "B", "mac", "", {1: 4})
    assert len(made.scop.statements) == 4
    validate(original, made.scop, made.tree)


def test_a_pack_of_the_wrong_width() -> None:
    original = gemm(10)
    made = pack(initial(original), "B", "mac", "", {1: 4}, name="P")
    wrong = tuple(
        replace(s, reads=tuple(
            at("P", j // 4, k, (j + 1) % 4) if a.tensor == "P" else a for a in s.reads
        ))
        for s in made.scop.statements
    )  # fmt: skip
    text = refused(original, replace(made.scop, statements=wrong), made.tree)
    assert "what mac reads of P" in text and "should see B[" in text


def test_nothing_at_all() -> None:
    of = scop((X, Y))
    validate(of, of, Sequence(()))
    never = scop((X, Y), statement("s", box(i=0), at("Y", i), (at("X", i),)))
    validate(never, never, nest("s", i))
    validate(never, of, Sequence(()))
