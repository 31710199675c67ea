"""How often threads that touch shared memory at once wait for each other.

Shared memory gives one word from each of its banks at a time. A warp's access is served in parts of
as many neighbouring lanes as together may have a word of every bank: 8 lanes that name the rows of
a matrix or copy a line of 16 bytes, 32 that touch a word each. A part takes one turn where no two
of its lanes have different words of one bank; else as many as the most words of one bank.

Places follow from the indices and the buffer's swizzle. The lanes of a warp are enumerated, for
each turn of the loops around, of serial ones the first few; what is known when launched alone
counts as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    AsyncCopy,
    Buffer,
    For,
    Kernel,
    Let,
    LoadMatrices,
    Stmt,
    Store,
    Update,
    children,
    expressions,
)
from weft.ir.scalar_expr import Expr, Literal, Load, has_loads, substitute, variable_names, walk
from weft.ir.scalar_point import PointEvaluator

BANKS = MATRIX[0] * MATRIX[1]  # of a word each: a matrix without conflicts is read at once
_SHOWN = 4  # turns that are looked at of a serial loop

Around = tuple[For | Let, ...]


@dataclass(frozen=True, slots=True)
class _Touch:
    """``words`` from the element at ``indices`` on, by each of the ``lanes`` that are turns of
    ``loop``; ``outer``: the loops around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    words: int
    lanes: int
    loop: For
    outer: tuple[For, ...]


def bank_conflicts(kernel: Kernel) -> Mapping[str, int]:
    """Shared buffer → how many turns a part of a warp's access takes, at most: 1 is free of
    conflicts. Accesses at indices that are data are left out."""
    found: dict[str, int] = {}
    for touch in _touches(kernel.body):
        found[touch.buffer.name] = max(found.get(touch.buffer.name, 0), _most(touch))
    return found


def _touches(body: Stmt) -> Iterator[_Touch]:
    stack: list[tuple[Stmt, Around, Mapping[str, Buffer]]] = [(body, (), {})]
    while stack:
        stmt, around, buffers = stack.pop()
        match stmt:
            case For() | Let():
                around = (*around, stmt)
            case Allocate(buffer) if buffer.scope == "shared":
                buffers = {**buffers, buffer.name: buffer}
        for name, indices, size, lanes in _accesses(stmt, buffers):
            loops = [at for at in around if isinstance(at, For)]
            shared = [x for x in loops if x.kind in ("lane", "block")]
            if name not in buffers or not shared or any(map(has_loads, indices)):
                continue
            buffer, loop = buffers[name], shared[-1]
            flat = tuple(_without_lets(index, around) for index in indices)
            words = max(1, size * buffer.dtype.itemsize // WORD)
            outer = tuple(x for x in loops if x is not loop)
            yield _Touch(buffer, flat, words, lanes or BANKS, loop, outer)
        stack.extend((child, around, buffers) for child in children(stmt))


def _accesses(
    stmt: Stmt, buffers: Mapping[str, Buffer]
) -> Iterator[tuple[str, tuple[Expr, ...], int, int]]:
    """(buffer, indices, elements of a lane, lanes) that ``stmt`` itself touches; 0: all lanes."""
    match stmt:
        case LoadMatrices(source=name, indices=indices) if name in buffers:
            row = MATRIX[1] * WORD // buffers[name].dtype.itemsize
            yield name, indices, row, MATRIX[0] * stmt.matrices
        case AsyncCopy(target=(name, indices), count=count):
            yield name, indices, count, 0
        case Store(buffer=name, indices=indices):
            yield name, indices, 1, 0
        case Update(targets=targets):
            for name, indices in targets:
                yield name, indices, 1, 0
    for expr in expressions(stmt):
        for node in walk(expr):
            if isinstance(node, Load):
                yield str(node.source), node.indices, 1, 0


def _without_lets(index: Expr, around: Around) -> Expr:
    for at in reversed(around):
        if isinstance(at, Let) and at.name in variable_names(index):
            index = substitute(index, {at.name: at.value})
    return index


def _most(touch: _Touch) -> int:
    """The turns of one part, in the worst turn of the loops around."""
    point, most = PointEvaluator(), 0
    names = {n for index in touch.indices for n in variable_names(index)}
    outer = [x for x in touch.outer if x.var in names]
    strides = [int(point.value(s, {})) for s in touch.buffer.strides]
    together = BANKS // touch.words
    for values in product(*map(_turns, outer)):
        at = dict.fromkeys(names, 0) | dict(zip((x.var for x in outer), values, strict=True))
        words = [
            _word(touch, strides, point, {**at, touch.loop.var: lane}) for lane in _lanes(touch)
        ]
        for first in range(0, len(words), together):
            most = max(most, _times(words[first : first + together], touch.words))
    return most


def _word(touch: _Touch, strides: list[int], point: PointEvaluator, at: Mapping[str, int]) -> int:
    """The word where the touch of one lane begins."""
    indices = (int(point.value(i, at)) for i in touch.indices)
    flat = sum(i * s for i, s in zip(indices, strides, strict=True))
    swizzle = touch.buffer.swizzle
    moved = flat if swizzle is None else swizzle.place(flat)
    return moved * touch.buffer.dtype.itemsize // WORD


def _lanes(touch: _Touch) -> range:
    return range(min(touch.lanes, len(_turns(touch.loop))))


def _times(begins: list[int], size: int) -> int:
    """How many words of one bank there are at most among ``size`` from each of ``begins`` on."""
    words = {begin + k for begin in begins for k in range(size)}
    return max(Counter(word % BANKS for word in words).values(), default=0)


def _turns(loop: For) -> range:
    if not (isinstance(loop.lower, Literal) and isinstance(loop.upper, Literal)):
        return range(BANKS if loop.kind == "block" else _SHOWN)
    turns = range(int(loop.lower.value), int(loop.upper.value), loop.step)
    return turns[:_SHOWN] if loop.kind == "serial" else turns
