"""Matrix units in LLVM IR: Intel's tiles (AMX), eight registers of 16 rows of 64 bytes.

    once, by the unit:            tileload the sums, emit the loops inside, tilestore the sums
      for r: for l: for q: …      for each 16 lanes: tileload B; for each 16 rows: tileload A, then
                                  the products of that block with all of B's

A tile is loaded from memory where its rows lie a stride apart: 64 bytes of A's row, or a row of
words, one for each lane, of B's panel. What lies otherwise, and what is no whole tile (the last
rows, lanes or steps), is put together in a piece of the stack first, where zeros fill it up.

A kernel with tiles lays the registers out when it starts (``ldtilecfg``) and gives them back when
it ends, so that threads that do something else afterwards need not save them. The system has to be
asked once for a process's right to them: ``native_library``, and the check of ``llvm_processor``.
(Intel, "Architecture Instruction Set Extensions Programming Reference", chapter 3.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from weft.codegen.llvm_builder import Builder, Ramp, Value, integer
from weft.codegen.llvm_expressions import evaluate, evaluate_all
from weft.codegen.llvm_frame import Frame, Lanes, TileSums
from weft.codegen.llvm_instruction import operands_in
from weft.codegen.llvm_memory import address, first_lanes, load_words
from weft.codegen.loop_ir import Block, For, Let, Stmt, Update, children
from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Expr, Literal, Load, Select, Var, literal, substitute
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.instruction import Instruction, Tiles

ROWS, ROW_BYTES = 16, 64
_LAYOUT = bytes([1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *[ROWS] * 8, *[0] * 8])
_CONFIG = "@weft_tiles"


class Host(Protocol):
    """The emitter of statements, as seen from here."""

    frame: Frame

    def emit(self, stmt: Stmt) -> None: ...


@dataclass(frozen=True, slots=True)
class _Issue:
    """A block: its loops, from 0, and its ``update``; what its operands load, where they do."""

    row: For
    lane: For
    step: For
    update: Update
    a: tuple[Load, Expr | None]
    b: tuple[Load, Expr | None]

    @property
    def rows(self) -> int:
        return _number(self.row.upper)

    @property
    def lanes(self) -> int:
        return _number(self.lane.upper)


def emit_tiles(host: Host, loop: For) -> bool:
    """Emit ``loop``, one block or what is around several, by its unit; False, with nothing emitted,
    where that does not fit: then it is emitted as it is written."""
    frame, instruction = host.frame, loop.instruction
    if instruction is None or instruction.unit is None or frame.lanes.count:
        return False
    if frame.sums is None:
        return _with_sums(host, loop, instruction, instruction.unit)
    issue = _issue(loop, instruction)
    assert issue is not None, "what is around has looked"
    _emit_issue(frame, issue, instruction, instruction.unit)
    return True


def release(frame: Frame) -> None:
    """At the end of a kernel."""
    if _CONFIG in frame.b.support:
        frame.b.declare("void @llvm.x86.tilerelease()")
        frame.b.line("call void @llvm.x86.tilerelease()")


# ---- the sums ------------------------------------------------------------------------------------


def _with_sums(host: Host, loop: For, instruction: Instruction, unit: Tiles) -> bool:
    """The body of ``loop``, its blocks' sums in tiles."""
    frame = host.frame
    issues = [_issue(each, instruction) for each in _blocks(loop.body)]
    found = [issue for issue in issues if issue is not None]
    names = {name for issue in found for name, _ in issue.update.targets}
    if not found or len(found) < len(issues) or len(names) != 1:
        return False
    (name,) = names
    target = frame.bindings[name]
    row, *lane = target.strides
    if row.const is None or [s.const for s in lane] != [1] or target.private:
        return False
    down = ceil(max(issue.rows for issue in found) / ROWS)
    across = ceil(max(issue.lanes for issue in found) * target.dtype.itemsize / ROW_BYTES)
    sums = TileSums(down, across)
    if sums.others[-1] >= unit.registers:
        return False
    _configure(frame.b)
    places = []
    for i in range(down):
        for j in range(across):
            offset = i * ROWS * int(row.const) + j * ROW_BYTES // target.dtype.itemsize
            at = frame.b.element(target.pointer, _bits(target.dtype.itemsize), integer(offset))
            places.append((sums.register(i, j), at))
    stride = integer(int(row.const) * target.dtype.itemsize)
    for register, at in places:
        _tile_load(frame.b, register, at, stride)
    frame.sums = sums
    host.emit(loop.body)
    frame.sums = None
    for register, at in places:
        frame.b.declare("void @llvm.x86.tilestored64(i8, ptr, i64)")
        frame.b.line(f"call void @llvm.x86.tilestored64(i8 {register}, {at}, {stride})")
    return True


def _configure(b: Builder) -> None:
    if _CONFIG in b.support:
        return
    text = "".join(f"\\{byte:02X}" for byte in _LAYOUT)
    b.support[_CONFIG] = f'{_CONFIG} = internal constant [64 x i8] c"{text}", align 64\n'
    b.declare("void @llvm.x86.ldtilecfg(ptr)")
    b.first(f"call void @llvm.x86.ldtilecfg(ptr {_CONFIG})")


def _tile_load(b: Builder, register: int, at: Value, stride: Value) -> None:
    b.declare("void @llvm.x86.tileloadd64(i8, ptr, i64)")
    b.line(f"call void @llvm.x86.tileloadd64(i8 {register}, {at}, {stride})")


# ---- one block -----------------------------------------------------------------------------------


def _blocks(stmt: Stmt) -> Iterator[For]:
    """The outermost loops by an instruction in ``stmt``."""
    if isinstance(stmt, For) and stmt.instruction is not None:
        yield stmt
        return
    for part in children(stmt):
        yield from _blocks(part)


def _issue(loop: For, instruction: Instruction) -> _Issue | None:
    """``loop`` as one block, if it is one."""
    loops: list[For] = []
    lets: dict[str, Expr] = {}
    stmt: Stmt = loop
    while not isinstance(stmt, Update):
        match stmt:
            case For() if stmt.instruction == instruction and stmt.lower == literal(0):
                loops.append(stmt)
                stmt = stmt.body
            case Let(name, value, body):
                lets[name] = substitute(value, lets)
                stmt = body
            case Block((single,)):
                stmt = single
            case _:
                return None
    if len(loops) != 3 or len(stmt.targets) != 1:
        return None
    row, lane, step = loops
    ((_, at),) = stmt.targets
    sizes = isinstance(row.upper, Literal) and isinstance(lane.upper, Literal)
    if not sizes or at != (Var(row.var), Var(lane.var)):
        return None
    for found in operands_in(instruction, substitute(stmt.values[0], lets)):
        if mentions(found["a"], (lane.var,)) or mentions(found["b"], (row.var,)):
            continue
        a, b = _masked_load(found["a"]), _masked_load(found["b"])
        if a is not None and b is not None:
            return _Issue(row, lane, step, stmt, a, b)
    return None


def _masked_load(expr: Expr) -> tuple[Load, Expr | None] | None:
    """``expr`` as what is loaded, and where; elsewhere it is 0."""
    match expr:
        case Load():
            return expr, None
        case Select(mask, Load() as load, Literal(value)) if not value:
            return load, mask
    return None


def _number(size: Expr) -> int:
    assert isinstance(size, Literal), "rows and lanes are known"
    return int(size.value)


def _lanes(instruction: Instruction) -> int:
    (lane,) = instruction.across
    return instruction.extents[lane]


def _bits(size: int) -> str:
    """An integer of so many bytes."""
    return f"i{8 * size}"


def _emit_issue(frame: Frame, issue: _Issue, instruction: Instruction, unit: Tiles) -> None:
    """All products of the block: each tile of ``b`` is loaded once, each of ``a`` once."""
    b, sums = frame.b, frame.sums
    assert sums is not None, "sums are in tiles"
    names, (*held, row) = frame.names, sums.others
    down, across = ceil(issue.rows / ROWS), ceil(issue.lanes / _lanes(instruction))
    steps = b.materialise(evaluate(frame, issue.step.upper))
    depth = instruction.depth
    b.declare(f"void @{unit.symbol}(i8, i8, i8)")
    for i in range(down):
        _load_rows(frame, issue, row, i * ROWS, steps, depth)
        for j in range(across):
            words = held[j % len(held)]
            if i == 0:
                _load_words(frame, issue, words, j * _lanes(instruction), steps, instruction)
            numbers = sums.register(i, j), row, words
            b.line(f"call void @{unit.symbol}({', '.join(f'i8 {n}' for n in numbers)})")
    frame.names = names


def _load_rows(
    frame: Frame, issue: _Issue, register: int, first: int, steps: Value, depth: int
) -> None:
    """16 rows of ``a`` from ``first`` on, each of so many ``steps``."""
    b = frame.b
    load, mask = issue.a
    buffer, size = frame.bindings[str(load.source)], ROW_BYTES // depth
    count = min(ROWS, issue.rows - first)
    fixed = {issue.row.var: integer(first), issue.step.var: integer(0)}
    whole = mask is None and count == ROWS and steps.const == depth and not buffer.private
    if whole and _in_rows(frame, issue, load, depth):
        at = _place(frame, load, fixed)
        far = b.sub(_place(frame, load, {**fixed, issue.row.var: integer(first + 1)}), at)
        pointer = b.element(buffer.pointer, _bits(size), at)
        _tile_load(b, register, pointer, b.materialise(b.mul(far, integer(size))))
        return
    piece = b.alloca("i8", ROWS * ROW_BYTES)
    lanes = _some(frame, steps, depth)
    for k in range(count):
        frame.names = {
            **frame.names,
            issue.row.var: integer(first + k),
            issue.step.var: Ramp(integer(0), integer(1), depth),
        }
        with frame.within(lanes):
            words = _elements(frame, load, mask, depth)
        b.store(words, b.element(piece, "i8", integer(k * ROW_BYTES)))
    _tile_load(b, register, piece, integer(ROW_BYTES))


def _load_words(
    frame: Frame, issue: _Issue, register: int, first: int, steps: Value, instruction: Instruction
) -> None:
    """Rows of words of ``b`` for 16 lanes from ``first`` on: as many rows as ``steps`` have."""
    b, word, count = frame.b, instruction.word, _lanes(instruction)
    load, mask = issue.b
    buffer, size = frame.bindings[str(load.source)], ROW_BYTES // (count * word)
    fixed = {issue.lane.var: integer(first), issue.step.var: integer(0)}
    left = min(count, issue.lanes - first)
    whole = mask is None and left == count and steps.const == instruction.depth
    if whole and not buffer.private and _in_words(frame, issue, load, instruction):
        at = _place(frame, load, fixed)
        far = b.sub(_place(frame, load, {**fixed, issue.step.var: integer(word)}), at)
        pointer = b.element(buffer.pointer, _bits(size), at)
        _tile_load(b, register, pointer, b.materialise(b.mul(far, integer(size))))
        return
    piece = b.alloca("i8", ROWS * ROW_BYTES)
    lane = Ramp(integer(first), integer(1), count)
    for k in range(instruction.depth // word):
        there = b.sub(steps, integer(k * word))
        if isinstance(there, Value) and there.const is not None and there.const <= 0:
            words = b.splat(integer(0, _bits(ROW_BYTES // count)), count)
        else:
            with frame.within(_some(frame, integer(left), count)):
                words = _word(frame, issue, lane, (k * word, word), steps)
        b.store(words, b.element(piece, "i8", integer(k * ROW_BYTES)))
    _tile_load(b, register, piece, integer(ROW_BYTES))


def _word(
    frame: Frame,
    issue: _Issue,
    lane: Ramp,
    part: tuple[int, int],
    steps: Value,
) -> Value:
    """One word for each lane: so many elements from a step on, zeros from ``steps`` on."""
    b, (load, mask), (start, word) = frame.b, issue.b, part
    names, total = frame.names, None
    bits = frame.bindings[str(load.source)].dtype.storage_bits
    for k in range(word):
        frame.names = {**names, issue.lane.var: lane, issue.step.var: integer(start + k)}
        there = b.compare("icmp slt", integer(start + k), steps)
        if steps.const is None:
            lanes = frame.narrowed(b.splat(there, lane.lanes), may_be_empty=True)
        elif start + k < int(steps.const):
            lanes = frame.lanes
        else:
            break
        with frame.within(lanes):
            element = _elements(frame, load, mask, lane.lanes)
        wide = b.cast("zext", element, _bits(word * bits // 8), lane.lanes) if word > 1 else element
        if k:
            shift = b.splat(integer(k * bits, wide.type), lane.lanes)
            wide = b.binary("shl", wide, shift)
        total = wide if total is None else b.binary("or", total, wide)
    frame.names = names
    assert total is not None, "there is a step"
    return total


def _elements(frame: Frame, load: Load, mask: Expr | None, lanes: int) -> Value:
    """The bits that ``load`` gives in each lane; zeros where it is masked off."""
    at = address(frame, frame.bindings[str(load.source)], evaluate_all(frame, load.indices))
    there = None if mask is None else frame.spread(frame.b.materialise(evaluate(frame, mask)))
    found = load_words(frame, frame.bindings[str(load.source)], at, 1, there)
    if found.lanes:
        return found
    return frame.b.splat(found, lanes)


def _some(frame: Frame, count: Value, lanes: int) -> Lanes:
    """The first ``count`` of so many lanes."""
    if count.const == lanes:
        return Lanes(lanes)
    return Lanes(lanes, first_lanes(frame, count, lanes), first=count)


def _place(frame: Frame, load: Load, values: Mapping[str, Value]) -> Value:
    outer = frame.names
    frame.names = {**outer, **values}
    at = address(frame, frame.bindings[str(load.source)], evaluate_all(frame, load.indices))
    frame.names = outer
    return frame.b.materialise(at)


# ---- how operands lie ----------------------------------------------------------------------------


def _in_rows(frame: Frame, issue: _Issue, load: Load, depth: int) -> bool:
    """Whether steps are neighbours, and rows a stride apart."""
    rows, steps = _distances(load, issue.row.var, ROWS), _distances(load, issue.step.var, depth)
    if rows is None or steps is None:
        return False
    near = frame.bindings[str(load.source)].strides[-1].const == 1
    return near and _even(rows) and all(step == _last(step, k) for k, step in enumerate(steps))


def _in_words(frame: Frame, issue: _Issue, load: Load, instruction: Instruction) -> bool:
    """Whether words of neighbouring lanes are neighbours, and rows of words a stride apart."""
    word, depth = instruction.word, instruction.depth
    lanes = _distances(load, issue.lane.var, _lanes(instruction))
    steps = _distances(load, issue.step.var, depth)
    if lanes is None or steps is None:
        return False
    strides = [stride.const for stride in frame.bindings[str(load.source)].strides]
    moved = [(n, stride) for n, stride in zip(lanes[1], strides, strict=True) if n]
    apart = None if any(c is None for _, c in moved) else sum(n * int(c or 0) for n, c in moved)
    firsts = steps[::word]
    inside = all(
        step == [n + m for n, m in zip(firsts[k // word], _last(step, k % word), strict=True)]
        for k, step in enumerate(steps)
    )
    near = strides[-1] == 1 and apart == word
    return near and _even(lanes) and inside and _even(firsts)


def _distances(load: Load, name: str, count: int) -> list[list[int]] | None:
    """How much more each index is where ``name`` is 0, 1, … than where it is 0, whatever else."""
    first = [to_affine(substitute(index, {name: literal(0)})) for index in load.indices]
    found = []
    for k in range(count):
        forms = (to_affine(substitute(index, {name: literal(k)})) for index in load.indices)
        pairs = zip(forms, first, strict=True)
        moved = [x - y for x, y in pairs if x is not None and y is not None]
        if len(moved) < len(first) or not all(form.is_constant for form in moved):
            return None
        found.append([form.constant for form in moved])
    return found


def _even(distances: Sequence[list[int]]) -> bool:
    """Whether each is as far from the one before as the second from the first."""
    return all(d == [k * n for n in distances[1]] for k, d in enumerate(distances))


def _last(indices: Sequence[int], distance: int) -> list[int]:
    """So far along the last of the ``indices``."""
    return [*[0] * (len(indices) - 1), distance]
