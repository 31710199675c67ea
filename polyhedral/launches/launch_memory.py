"""Does every thread of a launch read shared memory that was filled, and stay inside it?

Three claims about each block, on the loop IR that is printed, for all sizes:

* no access to memory that is written, nor what a copy reads, is beyond its buffer: the next slot of
  a ring of three is 0, not 3;
* what is read was written before, by the thread itself, or by another with a barrier between; an
  asynchronous copy counts from where it is waited for. So no stage is missing before the first
  step, and no line of a stage;
* what an asynchronous copy brought is not read again at a later time with no copy between: each
  step has a stage of its own, and there are no more steps than stages came.

Accesses and their order are those of the proof of races (``proof/gpu.py``), which says, beside
this, that nobody overwrites what is read. Where an access depends on data, or its bounds are not
quasi-affine, nothing is claimed about its buffer; nor is it where the question whether it is filled
exceeds a budget.

Which elements a thread reads may be a long relation, as of matrices that lanes name by rows. So the
question is asked first of a box around what all threads of a block read at one time, each dimension
by itself: a stage of a ring, and in it all rows and lanes. What fills the box fills what is read.
Where nothing does, the relation decides.

Also known as: array bounds and definite-initialisation analysis; exact for affine programs
(Feautrier 1991).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from weft.ir.dtypes import int64
from weft.ir.errors import BudgetError, CompileError, IllegalScheduleError
from weft.ir.isl_context import CONTEXT, bounded
from weft.ir.isl_text import affine_text, condition_texts, sides
from weft.ir.loop_ir import (
    Allocate,
    Buffer,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    children,
    is_grid,
    walk,
)
from weft.ir.named_isl import (
    box_of_second,
    sample_pair,
    target_rank,
    whatever_first,
    where_first_as,
    where_same,
    where_second_as,
)
from weft.ir.scalar_expr import Expr, Literal, Var
from weft.polyhedral.proof.gpu import (
    Access,
    Order,
    Reader,
    launches_of,
)

_BUDGET, _FILLED = 20_000_000, 1_000_000  # isl operations for one launch, and for one buffer


@dataclass(frozen=True, slots=True)
class LaunchMemory:
    """``asked``: how many reads of shared memory were asked about. ``unclaimed``: buffers of which
    it is not claimed that they are filled before they are read, and why not."""

    asked: int
    unclaimed: tuple[tuple[str, str], ...]


def check_launch_memory(kernel: Kernel, context: Sequence[Expr] = ()) -> LaunchMemory:
    """Check every launch of ``kernel``, for sizes for which ``context`` holds.

    Raises ``IllegalScheduleError`` (WEFT-E0427) with an access that is outside its buffer, or a
    read of what nobody has written; ``BudgetError`` (WEFT-E0400) rather than running unbounded.
    """
    asked, unclaimed = 0, dict[str, str]()
    shapes = {buffer.name: buffer.shape for buffer in _buffers(kernel)}
    around = dict(_host_conditions(kernel))
    for launch in launches_of(kernel):
        reader, accesses = launch.reader, launch.accesses
        with bounded(_BUDGET, f"the check of shared memory of {kernel.name}"):
            for access in filter(_is_certain, accesses):
                known = (*context, *around[id(launch.nest)])
                _check_inside(kernel, reader, access, shapes[access.memory], known)
        for memory in dict.fromkeys(a.memory for a in accesses if a.private):
            own = [a for a in accesses if a.memory == memory]
            if not all(map(_is_certain, own)):
                unclaimed[memory] = "who touches what of it depends on data"
                continue
            try:
                with bounded(_FILLED, f"the check of {memory}"):
                    asked += _check_filled(kernel, reader, own, launch.order, shapes[memory])
            except BudgetError:
                unclaimed[memory] = "the question is too large"
    return LaunchMemory(asked, tuple(unclaimed.items()))


def _host_conditions(kernel: Kernel) -> Iterator[tuple[int, tuple[Expr, ...]]]:
    """The launches of ``kernel``, by identity, and what holds where the host reaches each."""
    stack: list[tuple[Stmt, tuple[Expr, ...]]] = [(kernel.body, ())]
    while stack:
        stmt, known = stack.pop()
        if is_grid(stmt):
            yield id(stmt), known
            continue
        match stmt:
            case For(var=name, lower=low, upper=high):
                lower = [Var(name) >= side for side in sides(low, "max")]
                upper = [Var(name) < side for side in sides(high, "min")]
                known = (*known, *lower, *upper)
            case Let(name, value) if value.dtype == int64:
                known = (*known, Var(name).equal(value))
            case If(condition, then, otherwise):
                stack += [(then, (*known, condition)), (otherwise, (*known, ~condition))]
                continue
        stack += [(child, known) for child in children(stmt)]


def _buffers(kernel: Kernel) -> Iterator[Buffer]:
    yield from kernel.buffers
    for stmt in walk(kernel.body):
        if isinstance(stmt, Allocate):
            yield stmt.buffer


def _is_certain(access: Access) -> bool:
    """Whether ``access`` reaches no further than its relation says."""
    place = access.place
    known = [affine_text(index, place.word) is not None for index in access.indices]
    return place.certain and all(known)


def _check_inside(
    kernel: Kernel,
    reader: Reader,
    access: Access,
    shape: Sequence[Expr],
    context: Sequence[Expr],
) -> None:
    sizes = [affine_text(size, access.place.word) for size in shape]
    if not sizes or None in sizes or len(sizes) != target_rank(access.element):
        return  # what may overlap others is any element
    numbers = all(isinstance(size, Literal) for size in shape)
    if numbers and access.element.range().is_subset(_whole(shape)):
        return
    limits = (f"e{k} < 0 or e{k} >= {size}" for k, size in enumerate(sizes))
    beyond = access.place.where(f"({' or '.join(limits)})")
    for condition in context:
        known, _ = condition_texts(condition, beyond.word)
        beyond = beyond if known is None else beyond.where(known)
    outside = isl.Map(reader.relation(access.indices, beyond), context=CONTEXT)
    if (found := sample_pair(outside)) is not None:
        values, instance, element = found
        why = f"{reader.instance(access, instance)} touches {access.memory}{list(element)}"
        why += "".join(f", {name} = {value}" for name, value in values.items())
        raise _refused(kernel, f"an access to {access.memory} is outside it", why)


def _check_filled(
    kernel: Kernel, reader: Reader, own: Sequence[Access], order: Order, shape: Sequence[Expr]
) -> int:
    """Check the reads among ``own``, the accesses to one buffer of ``shape``; how many they are."""
    reads = [a for a in own if not a.writes]
    writes = [a for a in own if a.writes]
    copies = [a for a in writes if a.late]
    for read in reads:
        box = _box(read.element, _thread(reader), shape)
        if copies and not _again(reader, box, copies, order).is_empty():
            twice = _again(reader, _by_anybody(reader, read.element), copies, order)
            _check_once(kernel, reader, read, twice)
        if _unfenced(reader, box, writes, order).is_empty():
            continue
        missing = read.element
        for write in writes:
            filled = _before(reader, write, missing, order).reverse()
            missing = missing.subtract(filled.apply_range(write.element))
        if (found := sample_pair(missing)) is not None:
            _, instance, element = found
            who = reader.instance(read, instance)
            why = f"{who} reads {read.memory}{list(element)}, and no write of it is before"
            raise _refused(kernel, f"{read.memory} is read where nothing is yet", why)
    return len(reads)


def _check_once(kernel: Kernel, reader: Reader, read: Access, twice: isl.Map) -> None:
    """Refuse what is read ``twice``, pairs of times, and was copied once."""
    if (found := sample_pair(twice)) is not None:
        _, first, second = found
        why = f"{reader.instance(read, first)} and, later, {reader.instance(read, second)}"
        raise _refused(kernel, f"{read.memory} is read twice, and copied once", why)


def _box(element: isl.Map, thread: int, shape: Sequence[Expr]) -> isl.Map:
    """A box around what ``element`` leads to from all threads at one time, inside ``shape``."""
    return box_of_second(element, thread).intersect_range(_whole(shape))


def _whole(shape: Sequence[Expr]) -> isl.Set:
    """All elements of a buffer of ``shape``, and more along dims whose size is no number."""
    known = [(k, size.value) for k, size in enumerate(shape) if isinstance(size, Literal)]
    inside = " and ".join(f"0 <= e{k} < {size}" for k, size in known) or "true"
    dims = ", ".join(f"e{k}" for k in range(len(shape)))
    return isl.Set(f"{{ [{dims}] : {inside} }}", context=CONTEXT)


def _by_anybody(reader: Reader, element: isl.Map) -> isl.Map:
    """``element`` of any thread: which one it is does not matter behind a barrier."""
    return whatever_first(element, _thread(reader))


def _unfenced(reader: Reader, read: isl.Map, writes: Sequence[Access], order: Order) -> isl.Map:
    """What of ``read``, by anybody, no write with a barrier behind it has filled."""
    missing = read
    for write in writes:
        element, pairs = _meeting(reader, write, missing)
        filled = pairs.intersect(order.fenced(write, pairs)).reverse()
        missing = missing.subtract(filled.apply_range(element))
    return missing


def _again(reader: Reader, read: isl.Map, copies: Sequence[Access], order: Order) -> isl.Map:
    """Pairs of times at which one element of ``read``, by anybody, is read, with no copy of that
    element between."""
    reads = read.reverse()
    later = _ordered(order, read.apply_range(reads))
    twice = reads.range_product(reads).intersect_range(later.wrap())  # element → pairs of times
    for copy in copies:
        element, then = _meeting(reader, copy, read)
        before, behind = (_ordered(order, pairs) for pairs in (then.reverse(), then))
        between = before.reverse().range_product(behind)  # time of a copy → pairs of times
        twice = twice.subtract(element.reverse().apply_range(between))
    return twice.range().unwrap()


def _meeting(reader: Reader, access: Access, other: isl.Map) -> tuple[isl.Map, isl.Map]:
    """The elements of ``access`` by any thread; and pairs of instances, its and of ``other``, in
    one block that touch one."""
    element = _by_anybody(reader, access.element)
    pairs = element.apply_range(other.reverse())
    return element, where_same(pairs, range(reader.grid))


def _ordered(order: Order, pairs: isl.Map) -> isl.Map:
    """Those of ``pairs`` of which the first is earlier."""
    return pairs.intersect(where_first_as(where_second_as(order.earlier, pairs), pairs))


def _thread(reader: Reader) -> int:
    """Where an instance has the number of its thread."""
    return reader.grid + reader.depth


def _before(reader: Reader, write: Access, read: isl.Map, order: Order) -> isl.Map:
    """From instances of ``write`` to those of ``read`` of one element that surely come after."""
    pairs = where_same(write.element.apply_range(read.reverse()), range(reader.grid))
    alone = where_same(pairs, [_thread(reader)])
    fenced = pairs.intersect(order.fenced(write, pairs))
    return fenced.union(alone.intersect(order.followed(write, alone)))


def _refused(kernel: Kernel, what: str, why: str) -> CompileError:
    return IllegalScheduleError(
        "WEFT-E0427",
        f"{what}, in {kernel.name}",
        why=why,
        hint="fill it before, or leave out the stages of the tile",
    )
