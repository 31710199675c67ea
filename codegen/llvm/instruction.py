"""Instructions of a target in LLVM IR: all iterations of a loop over one update at once.

    for q in 0 … 4 unrolled:
      acc[lane] += i32(A[4k + q]) * i32(B[k, lane, q])      lane: a vector loop

    word = load i32 A + 4k                                  one for all lanes
    words = load <16 x i32> B + 64k
    acc = vpdpbusd(acc, splat word, words)

A lane's elements are contiguous and are loaded as one word; words of neighbouring lanes are
contiguous, or all lanes share one. Or element q of all lanes is contiguous, for each q: such rows
are interleaved in registers. If the loop is shorter than the instruction's depth, words are padded
with zeros. For other strides the loop is emitted as written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.codegen.llvm.builder import Builder, Index, Ramp, Value, integer, register_type
from weft.codegen.llvm.expressions import evaluate, evaluate_all
from weft.codegen.llvm.frame import Binding, Frame
from weft.codegen.llvm.memory import address, load, load_words
from weft.codegen.llvm.store import interleaved, store
from weft.ir.dtypes import DType
from weft.ir.instruction import (
    ACCUMULATOR,
    Assembly,
    Instruction,
    Intrinsic,
    Pattern,
    VectorEmission,
)
from weft.ir.loop_ir import For, Update
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Select, literal, substitute, walk
from weft.ir.scalar_match import matches


def emit_issue(frame: Frame, loop: For) -> bool:
    """Emit ``loop`` by its instruction; False, with nothing emitted, if the operands do not
    match."""
    instruction, update = loop.instruction, loop.body
    if instruction is None or instruction.emission is None or not isinstance(update, Update):
        return False
    if instruction.unit:
        return False  # ``tiles`` emits these
    lanes = lanes_of(instruction)
    if lanes & (lanes - 1) or len(update.targets) != 1:
        return False
    ((name, indices),) = update.targets
    target = frame.bindings[name]
    place = address(frame, target, evaluate_all(frame, indices))
    if frame.lanes.count and not isinstance(place, Ramp):
        return False
    for found in _found(instruction, update.values[0]):
        operands = {name: _operand(frame, loop, expr) for name, expr in found.items()}
        if None not in operands.values():
            flipped = instruction.offset.tensor if instruction.offset else ""
            given = {n: o.words(frame, n == flipped) for n, o in operands.items() if o is not None}
            old = load(frame, target, place)
            store(frame, target, place, _issued(frame, instruction, old, given))
            return True
    return False


def _found(instruction: Instruction, value: Expr) -> Iterator[dict[str, Expr]]:
    """The operands of ``instruction`` in ``value``; one that is left out contributes its offset
    only."""
    values = [instruction.issued]
    if instruction.offset is not None:
        values.append(instruction.excess)
    for pattern in values:
        for found in matches(pattern, value):
            yield {instruction.tensors[number]: expr for number, expr in found.items()}


def lanes_of(instruction: Instruction) -> int:
    """Results of one issue."""
    count = 1
    for dim, extent in instruction.extents.items():
        if dim not in instruction.summed:
            count *= extent
    return count


# ---- operands -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Operand:
    """``count`` of ``depth`` elements for each lane, from ``load`` (the first) on, under ``mask``.
    ``rows``: offsets of rows with one element for each lane."""

    load: Load
    depth: int
    count: int
    mask: Expr | None
    rows: tuple[Index, ...] = ()

    def words(self, frame: Frame, flipped: bool) -> Value:
        """The elements of each lane as one integer; a scalar if uniform.

        ``flipped``: with sign bits inverted. They are inverted in whole words: LLVM does not
        terminate on vectors of bytes that repeat one word.
        """
        buffer = frame.bindings[str(self.load.source)]
        mask = None if self.mask is None else evaluate(frame, self.mask)
        assert mask is None or isinstance(mask, Value)
        if self.rows:
            words = self._interleaved(frame, buffer, mask)
        else:
            offset = address(frame, buffer, evaluate_all(frame, self.load.indices))
            words = load_words(frame, buffer, offset, self.depth, mask, self.count)
        if flipped:
            words = frame.b.binary("xor", words, _sign_bits(buffer.dtype, self.depth))
        return words

    def _interleaved(self, frame: Frame, buffer: Binding, mask: Value | None) -> Value:
        """The words of all lanes out of ``rows``, zeros for missing rows."""
        loaded = [load_words(frame, buffer, row, 1, mask) for row in self.rows]
        zeros = frame.b.splat(integer(0, loaded[0].type), loaded[0].lanes)
        rows = [*loaded, *[zeros] * (self.depth - self.count)]
        mixed = interleaved(frame.b, rows, zeros.lanes)
        return frame.b.cast("bitcast", mixed, f"i{self.depth * int(mixed.type[1:])}", zeros.lanes)


def _operand(frame: Frame, loop: For, expr: Expr) -> _Operand | None:
    """What ``expr`` loads in all iterations of ``loop``, if a lane's elements, and words, are
    contiguous; None otherwise."""
    mask: Expr | None = None
    if isinstance(expr, Select) and isinstance(expr.if_false, Literal) and not expr.if_false.value:
        mask, expr = expr.condition, expr.if_true
    if not isinstance(expr, Load) or not isinstance(loop.upper, Literal):
        return None
    assert loop.instruction is not None, "it is asked for"
    depth, count = loop.instruction.depth, int(loop.upper.value)
    buffer = frame.bindings[str(expr.source)]
    iterations = [
        [substitute(index, {loop.var: literal(iteration)}) for index in expr.indices]
        for iteration in range(count)
    ]
    if buffer.private or buffer.scope == "register" or buffer.strides[-1].const != 1:
        return None
    first = Load(expr.source, tuple(iterations[0]), expr.dtype)
    if _neighbours(iterations):
        return _Operand(first, depth, count, mask)
    rows = tuple(address(frame, buffer, evaluate_all(frame, iteration)) for iteration in iterations)
    side_by_side = all(isinstance(row, Ramp) and row.stride.const == 1 for row in rows)
    return _Operand(first, depth, count, mask, rows) if side_by_side else None


def _neighbours(iterations: Sequence[Sequence[Expr]]) -> bool:
    """Whether only the last index moves, by 1 per iteration."""
    first = [to_affine(index) for index in iterations[0]]
    for number, iteration in enumerate(iterations):
        for place, (one, index) in enumerate(zip(first, iteration, strict=True)):
            form = to_affine(index)
            if one is None or form is None:
                return False
            distance = form - one
            last = place == len(iteration) - 1
            if not distance.is_constant or distance.constant != (number if last else 0):
                return False
    return True


def element_type(dtype: DType) -> str:
    """The LLVM type of an element of a vector that an instruction takes."""
    return "bfloat" if dtype.name == "bfloat16" else register_type(dtype)


# ---- the instruction -----------------------------------------------------------------------------


def _issued(frame: Frame, instruction: Instruction, old: Value, words: dict[str, Value]) -> Value:
    """The accumulator after as many issues as the active lanes need."""
    b, lanes = frame.b, lanes_of(instruction)
    types = dict(zip(instruction.tensors, _element_types(instruction), strict=True))
    parts = []
    for start in range(0, max(1, old.lanes), lanes):
        given = {
            n: b.cast("bitcast", _part(b, w, start, lanes), types[n], lanes * instruction.depth)
            for n, w in words.items()
        }
        given = _shifted(frame, instruction, given)
        parts.append(call(frame, instruction, {**given, ACCUMULATOR: _part(b, old, start, lanes)}))
    while len(parts) > 1:
        both = list(range(2 * parts[0].lanes))
        parts = [b.shuffle(x, y, both) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    (new,) = parts
    return _part(b, new, 0, old.lanes) if old.lanes else b.extract(new, integer(0))


def _part(b: Builder, value: Value, start: int, lanes: int) -> Value:
    """``lanes`` of ``value`` from ``start`` on, padded with its last one."""
    if not value.lanes:
        return b.splat(value, lanes)
    if (start, lanes) == (0, value.lanes):
        return value
    return b.shuffle(value, None, [min(start + k, value.lanes - 1) for k in range(lanes)])


def _element_types(instruction: Instruction) -> list[str]:
    """The LLVM types of the elements of the operands' vectors, by number of the read."""
    found = {n.source: n.dtype for n in walk(instruction.value) if isinstance(n, Load)}
    return [element_type(found[k]) for k in range(len(instruction.tensors))]


def _shifted(
    frame: Frame, instruction: Instruction, operands: dict[str, Value]
) -> dict[str, Value]:
    """``operands``; one that is left out is its offset."""
    if instruction.offset is None or instruction.offset.tensor in operands:
        return operands
    (other,) = operands.values()
    sign = integer(1 << (int(other.type[1:]) - 1), other.type)
    return {**operands, instruction.offset.tensor: frame.b.splat(sign, other.lanes)}


def _sign_bits(dtype: DType, depth: int) -> Value:
    """A word of ``depth`` elements, all of them sign."""
    bits = dtype.storage_bits
    word = sum(1 << (bits * k + bits - 1) for k in range(depth))
    return integer(word, f"i{bits * depth}")


def call(frame: Frame, instruction: Instruction, values: dict[str, Value]) -> Value:
    """The new accumulator, for whole vectors of operands."""
    b, emission, old = frame.b, instruction.emission, values[ACCUMULATOR]
    assert isinstance(emission, VectorEmission), "it takes vectors"
    given = [values[name] for name in emission.arguments]
    shown = ", ".join(map(str, given))
    match emission:
        case Intrinsic(symbol):
            b.declare(f"{old.full_type} @{symbol}({', '.join(v.full_type for v in given)})")
            text = f"@{symbol}({shown})"
        case Assembly(template, constraints):
            text = f'asm "{template}", "{constraints}"({shown})'
        case Pattern(body):
            digest = hashlib.sha256(body.encode()).hexdigest()[:8]  # of one name there are several
            symbol = f"@weft_{instruction.name}_{digest}"
            named = ", ".join(
                f"{v.full_type} %{n}" for n, v in zip(emission.arguments, given, strict=True)
            )
            b.support.setdefault(
                symbol,
                f"define internal {old.full_type} {symbol}({named}) alwaysinline {{\n{body}\n}}\n",
            )
            text = f"{symbol}({shown})"
    return b.emit(f"call {old.full_type} {text}", old.type, old.lanes)
