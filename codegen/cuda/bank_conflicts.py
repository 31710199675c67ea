"""How often lanes that load matrices from shared memory at once wait for each other.

Shared memory gives one word from each of its banks at a time. Eight lanes name the rows of a
matrix, which are read at once where no two of them have different words of one bank; else as many
times as the most words of one bank. A warp's lanes are enumerated, for each turn of the loops
around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    Buffer,
    For,
    Kernel,
    Let,
    LoadMatrices,
    Stmt,
    children,
)
from weft.ir.scalar_expr import Literal
from weft.ir.scalar_point import PointEvaluator

BANKS = MATRIX[0] * MATRIX[1]  # of a word each: a matrix without conflicts is read at once
_SHOWN = 4  # turns that are looked at of a loop whose number of turns is not known

Around = tuple[For | Let, ...]


def bank_conflicts(kernel: Kernel) -> Mapping[str, int]:
    """Buffer → how many times it is read for one matrix, at most: 1 is free of conflicts."""
    found: Counter[str] = Counter()
    for stmt, around, buffers in _loads(kernel.body):
        buffer = buffers[stmt.source]
        found[buffer.name] = max(found[buffer.name], _most(stmt, around, buffer))
    return dict(found)


def _loads(body: Stmt) -> Iterator[tuple[LoadMatrices, Around, Mapping[str, Buffer]]]:
    stack: list[tuple[Stmt, Around, Mapping[str, Buffer]]] = [(body, (), {})]
    while stack:
        stmt, around, buffers = stack.pop()
        match stmt:
            case For() | Let():
                around = (*around, stmt)
            case Allocate(buffer):
                buffers = {**buffers, buffer.name: buffer}
            case LoadMatrices():
                yield stmt, around, buffers
        stack.extend((child, around, buffers) for child in children(stmt))


def _most(stmt: LoadMatrices, around: Around, buffer: Buffer) -> int:
    """The times for one matrix, in the worst turn of the loops in the launch."""
    first = next((k for k, at in enumerate(around) if _of_lanes(at)), 0)
    steps = [at for at in around[:first] if isinstance(at, For) and at.kind == "serial"]
    loops = [*steps, *(at for at in around[first:] if isinstance(at, For))]
    lets = [at for at in around[first:] if isinstance(at, Let)]
    point, most = PointEvaluator(), 0
    outer = [loop for loop in loops if loop.kind != "lane"]
    (lanes,) = (loop for loop in loops if loop.kind == "lane")
    for values in product(*map(_turns, outer)):
        names = dict(zip((loop.var for loop in outer), values, strict=True))
        places = []
        for lane in _turns(lanes):
            at = {**names, lanes.var: lane}
            for let in lets:
                at[let.name] = int(point.value(let.value, at))
            strides = (int(point.value(s, {})) for s in buffer.strides)
            indices = (int(point.value(i, at)) for i in stmt.indices)
            flat = sum(i * s for i, s in zip(indices, strides, strict=True))
            moved = flat if buffer.swizzle is None else buffer.swizzle.place(flat)
            places.append(moved * buffer.dtype.itemsize // WORD)
        for first_lane in range(0, MATRIX[0] * stmt.matrices, MATRIX[0]):
            most = max(most, _times(places[first_lane : first_lane + MATRIX[0]]))
    return most


def _times(rows: list[int]) -> int:
    """How many words of one bank the ``rows``, which begin at these words, have at most."""
    words = {row + k for row in rows for k in range(MATRIX[1])}
    return max(Counter(word % BANKS for word in words).values())


def _of_lanes(at: For | Let) -> bool:
    return isinstance(at, For) and at.kind == "warp"


def _turns(loop: For) -> range:
    if isinstance(loop.lower, Literal) and isinstance(loop.upper, Literal):
        return range(int(loop.lower.value), int(loop.upper.value), loop.step)
    return range(_SHOWN)
