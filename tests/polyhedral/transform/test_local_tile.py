"""Layouts of buffers, and the instances of copies, by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.polyhedral.scops import evaluate, instances
from tests.polyhedral.transform.integer_programs import lu, matmul
from weft.ir.scalar_expr import Var, literal
from weft.polyhedral.analysis.window import Window, windows
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.local_tile import Layout, copying, layout_of, local_tile, needed
from weft.polyhedral.transform.scheduled import loops_above
from weft.polyhedral.transform.tile import tile

SIZES = (5, 4, 3)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (Layout((0, 1, 2)), [5, 4, 3]),
        (Layout((2, 0, 1)), [3, 5, 4]),
        (Layout((0, 1, 2), ((0, 2),)), [3, 4, 3, 2]),
        (Layout((1, 0, 2), ((0, 3), (1, 2))), [2, 2, 3, 3, 2]),
    ],
)
def test_layouts_are_one_to_one(layout: Layout, shape: list[int]) -> None:
    assert [evaluate(s, {}) for s in layout.shape([literal(n) for n in SIZES])] == shape
    taken = set()
    for element in product(*map(range, SIZES)):
        indices = layout.indices([literal(n) for n in element])
        place = [evaluate(i, {}) for i in indices]
        assert all(0 <= p < size for p, size in zip(place, shape, strict=True))
        assert [evaluate(p, {}) for p in layout.place(indices, 3)] == list(element)
        taken.add(tuple(place))
    assert len(taken) == 5 * 4 * 3


def test_dims_of_size_one_are_not_stored() -> None:
    boxes = [Window((), literal(7), literal(size)) for size in (1, 4, 1)]
    assert layout_of(boxes, None, None) == Layout((1,))
    assert layout_of(boxes, (2, 1, 0), {0: 2}) == Layout((1, 0), ((0, 2),))
    assert [evaluate(p, {}) for p in Layout((1,)).place([literal(3)], 3)] == [0, 3, 0]


@pytest.mark.parametrize("panels", [None, {0: 3}])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize(("program", "name"), [(matmul, "A"), (lu, "A")])
def test_copies_cover_what_is_read(program, name, panels, pad) -> None:  # type: ignore[no-untyped-def]
    """Each element that an iteration reads is copied there once, in its place, and in bounds."""
    now = tile(initial(program()), {"k": 2} if program is matmul else {"i_2": 2, "j": 2})
    reader = now.scop.statement("S1")
    use = reader, next(a for a in reader.reads if a.tensor == name)
    loops = loops_above(now.tree, "S1")[:3]
    boxes = windows(now.scop, [use], loops)
    assert boxes is not None
    made = local_tile(now.scop, "L", now.scop.tensor(name), [use], loops, boxes,
                      layout_of(boxes, None, panels))  # fmt: skip
    assert made is not None
    stored = [f"d{k}" for k in range(len(made.tensor.shape))]
    space = copying(now.scop, made, [use], stored, pad=pad)
    sizes = dict.fromkeys(now.scop.parameters, 5)
    here = made.redirected(use[1], reader.name)
    read = {
        (tuple(evaluate(i, p) for i in here.indices), tuple(evaluate(i, p) for i in use[1].indices))
        for p in instances(reader, sizes, 0, 6)
    }

    copier = replace(reader, dims=space.dims, domain=(*space.domain, *space.real))
    copied = [
        (tuple(evaluate(i, p) for i in space.local.indices),
         tuple(evaluate(i, p) for i in space.remote.indices))
        for p in instances(copier, sizes, 0, 6)
    ]  # fmt: skip
    assert read <= set(copied)
    assert len(copied) == len(set(copied)) == len({place for place, _ in copied})
    assert all(0 <= index < 5 for _, element in copied for index in element)
    assert all(
        0 <= index < evaluate(size, sizes)
        for place, _ in copied
        for index, size in zip(place, made.tensor.shape, strict=True)
    )


def test_needed() -> None:
    """Of the rows that others make: those that are read in the iteration."""
    now = tile(initial(matmul()), {"i": 2})
    reader = now.scop.statement("S1")
    use = reader, next(a for a in reader.reads if a.tensor == "A")
    loops = loops_above(now.tree, "S1")[:1]
    boxes = windows(now.scop, [use], loops)
    assert boxes is not None
    made = local_tile(now.scop, "L", now.scop.tensor("A"), [use], loops, boxes,
                      layout_of(boxes, None, None))  # fmt: skip
    assert made is not None
    found = needed(now.scop, made, [use], ("t",), (Var("r"), Var("c")))
    sizes = {"M": 5, "N": 1, "K": 3}
    points = {
        (t, r, c)
        for t, r, c in product(range(-1, 5), range(-1, 7), range(-1, 5))
        if all(evaluate(e.expr, {**sizes, "t": t, "r": r, "c": c}) >= 0 for e in found)
    }
    assert points == {(r // 2, r, c) for r in range(5) for c in range(3)}
