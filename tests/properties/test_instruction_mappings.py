"""``map_instruction`` against brute force: every way to put a program's dims on an instruction's is
tried, and judged by nothing but the elements that the instances touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.index_reader import parse_index
from weft.ir.instruction import ACCUMULATOR, Instruction, Operand
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr, Load, Var, walk
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor, Update
from weft.polyhedral.map_instruction import Assignment, map_instruction

f32 = dtypes.float32

# name: target, the two factors, by their indices
PROGRAMS = {
    "matrix product": ("i, j", "i, k", "k, j"),
    "transposed": ("i, j", "k, i", "j, k"),
    "batched": ("b, i, j", "b, i, k", "b, k, j"),
    "one matrix for all batches": ("b, i, j", "b, i, k", "k, j"),
    "matrix times vector": ("i", "i, k", "k"),
    "inner product": ("0", "k", "k"),
    "outer product": ("i, j", "i", "j"),
    "contraction over two dims": ("i, j", "i, k, l", "k, l, j"),
    "contraction of four dims": ("a, b, c", "a, b, k", "k, c"),
    "elementwise": ("i, j", "i, j", "i, j"),
    "convolution": ("k, x", "c, x + r", "k, c, r"),
    "strided convolution": ("k, x", "c, 2*x + r", "k, c, r"),
    "dilated convolution": ("k, x", "c, x + 2*r", "k, c, r"),
    "transposed convolution": ("k, x + r", "c, x", "k, c, r"),
    "grouped convolution": ("g, k, x", "g, c, x + r", "g, k, c, r"),
    "depthwise convolution": ("c, x, y", "c, x + r, y", "c, r"),
    "pointwise convolution": ("k, x, y", "c, x, y", "k, c"),
    "polynomials": ("i + j", "i", "j"),
    "scores of attention": ("h, i, j", "h, i, d", "h, j, d"),
    "values of attention": ("h, i, d", "h, i, j", "h, j, d"),
    "gates of a cell": ("b, g, u", "b, k", "k, g, u"),
    "every other row": ("i, j", "2*i, k", "k, j//2"),
    "a diagonal": ("i, j", "i, i + k", "k, j"),
}

# name: dims with extents, accumulator, the two factors
INSTRUCTIONS = {
    "multiply-add": ("lane", "lane", "", "lane"),
    "outer product": ("row, lane", "row, lane", "row", "lane"),
    "dot product": ("lane, q", "lane", "q", "lane, q"),
    "dot product of pairs": ("lane, q", "lane", "lane, q", "lane, q"),
    "matrix unit": ("i, j, k", "i, j", "i, k", "k, j"),
    "sum of products": ("q", "", "q", "q"),
}
PAIRS = [(p, i) for p in PROGRAMS for i in INSTRUCTIONS]
FEW = 4  # dims for which all subsets are tried


def indices(text: str) -> tuple[Expr, ...]:
    return tuple(parse_index(part) for part in text.split(",")) if text.strip() else ()


def names_in(texts: Sequence[str]) -> tuple[str, ...]:
    found = (n for text in texts for i in indices(text) for n in walk(i))
    return tuple(sorted({n.name for n in found if isinstance(n, Var)}))


def product_of(texts: Sequence[str], tensors: Sequence[str], dims: Sequence[str]) -> Statement:
    target, *factors = (
        Access(tensor, indices(text)) for tensor, text in zip(tensors, texts, strict=True)
    )
    mentioned = {n.name for i in target.indices for n in walk(i) if isinstance(n, Var)}
    return Statement(
        "S",
        tuple(dims),
        tuple(Constraint(e) for d in dims for e in (Var(d), 2 - Var(d))),
        (*(x for d in dims for x in (0, d)), 0),
        (target,),
        tuple(factors),
        Body((), (Load(0, (), f32) * Load(1, (), f32),)),
        Update(monoid("add", f32), tuple(d for d in dims if d not in mentioned)),
    )


def program(name: str) -> tuple[Scop, Statement]:
    texts = PROGRAMS[name]
    statement = product_of(texts, ("Y", "A", "B"), names_in(texts))
    ranks = [len(indices(text)) for text in texts]
    tensors = tuple(
        Tensor(tensor, (parse_index("9"),) * rank, f32)
        for tensor, rank in zip("YAB", ranks, strict=True)
    )
    return Scop(name, (), (), tensors, (statement,)), statement


def instruction(name: str) -> Instruction:
    dims, *texts = INSTRUCTIONS[name]
    names = tuple(d.strip() for d in dims.split(","))
    step = replace(product_of(texts, (ACCUMULATOR, "a", "b"), names), domain=())
    places = {t: Operand((parse_index("0"),)) for t in (ACCUMULATOR, "a", "b")}
    return Instruction(name, step, dict.fromkeys(names, 3), places, 32, 1.0)


# ---- the oracle ----------------------------------------------------------------------------------

Given = Mapping[str, tuple[str, ...]]


def choices(dims: Sequence[str], names: Sequence[str], several: bool) -> Iterator[Given]:
    if not several:
        for chosen in permutations(dims, len(names)):
            yield {n: (d,) for n, d in zip(names, chosen, strict=True)}
        return
    for where in product((None, *names), repeat=len(dims)):
        given = {n: tuple(d for d, w in zip(dims, where, strict=True) if w == n) for n in names}
        if all(given.values()):
            yield given


def computes(statement: Statement, own: Statement, order: Sequence[int], given: Given) -> bool:
    """Whether the instances of a tile of ``statement``, its reads in ``order``, are those of
    ``own``: the same triples of elements, each operand as variable as the instruction's."""
    assigned = [d for dims in given.values() for d in dims]
    accesses = (statement.writes[0], *(statement.reads[k] for k in order))
    shapes = (own.writes[0], *own.reads)
    for rest in (0, 2):
        elements = []  # of each point: what it touches here and there
        for values in product(range(3), repeat=len(assigned)):
            at = dict.fromkeys(statement.dims, rest) | dict(zip(assigned, values, strict=True))
            there = {n: tuple(at[d] for d in dims) for n, dims in given.items()}
            here = [tuple(affine(i).value(at) for i in a.indices) for a in accesses]
            like = [tuple(there[i.name] for i in s.indices if isinstance(i, Var)) for s in shapes]
            elements.append((at, here, like))
        maps: list[dict[object, object]] = [{}, {}, {}]
        for _, here, like in elements:
            for known, one, two in zip(maps, here, like, strict=True):
                if known.setdefault(two, one) != one:
                    return False
        if len(set(maps[0].values())) != len(maps[0]):
            return False
        triples = {tuple(here) for _, here, _ in elements}
        assert triples == {
            tuple(known[two] for known, two in zip(maps, like, strict=True))
            for _, _, like in elements
        }
        for number, shape in enumerate(shapes):
            for index in shape.indices:
                assert isinstance(index, Var)
                for d in given[index.name]:
                    others = [
                        (tuple(v for k, v in at.items() if k != d), here[number])
                        for at, here, _ in elements
                    ]
                    if len(set(others)) == len({o for o, _ in others}):
                        return False  # the operand stays along d
    return True


def brute_force(name: str, by: str, several: bool) -> set[object]:
    _, statement = program(name)
    own = instruction(by).semantics
    return {
        (order, tuple(given.items()))
        for order in ((0, 1), (1, 0))
        for given in choices(statement.dims, own.dims, several)
        if computes(statement, own, order, given)
    }


def shown(assignment: Assignment) -> object:
    numbers = (assignment.operands[t] for t in ("a", "b"))
    return (
        tuple(n.source for n in numbers if isinstance(n, Load)),
        tuple((k, tuple(v)) for k, v in assignment.dims.items()),
    )


@pytest.mark.parametrize("name, by", PAIRS)
def test_equals_brute_force(name: str, by: str) -> None:
    scop, statement = program(name)
    several = len(statement.dims) <= FEW
    found = map_instruction(scop, statement, instruction(by), several=several)
    mapped = [shown(a) for a in found.assignments]
    assert len(mapped) == len(set(mapped))
    assert set(mapped) == brute_force(name, by, several)
    assert found.assignments or found.refusals


@pytest.mark.parametrize("name, by", PAIRS[::5])
def test_every_other_choice_is_refused_by_name(name: str, by: str) -> None:
    """Whatever is no mapping is listed, with the tensor or the dims at fault."""
    scop, statement = program(name)
    own = instruction(by)
    found = map_instruction(scop, statement, own)
    count = sum(1 for _ in choices(statement.dims, own.semantics.dims, False))
    if not count:
        assert "needs" in found.refusals[0]
        return
    given = {r.split(":")[0] for r in found.refusals}
    legal = {tuple(d for (d,) in a.dims.values()) for a in found.assignments}
    assert len(given | legal) >= count - len(legal)
    for refusal in found.refusals:
        dims, why = refusal.split(": ")
        assert "=" in dims and any(t in why for t in "YAB"), refusal


def test_enough_pairs_have_mappings() -> None:
    mapped = 0
    for name, by in PAIRS:
        scop, statement = program(name)
        mapped += bool(map_instruction(scop, statement, instruction(by), reasons=False).assignments)
    assert mapped >= 40
