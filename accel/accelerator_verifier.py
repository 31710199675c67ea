"""Verifier of machine records: all names they use are defined, once.

``weft/offload/accelerators.py`` checks the semantics, which takes the compiler of kernels.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable
from types import FunctionType
from typing import NoReturn

from weft.ir.accelerator import Accelerator, Cost, Operation
from weft.ir.errors import CompileError


def verify(machine: Accelerator) -> None:
    """Raises ``CompileError`` (WEFT-E1032) that says what is wrong and, for an operation, where its
    semantics are defined."""
    for kind, records in (
        ("memory", machine.memories), ("queue", machine.queues), ("wire", machine.wires),
        ("operation", machine.operations), ("channel", machine.channels),
    ):  # fmt: skip
        _once(machine, kind, (record.name for record in records))
    _parts(machine)
    _wires(machine)
    for operation in machine.operations:
        _operation(machine, operation)
    _apart(machine)


def _wrong(machine: Accelerator, what: str, where: str = "", why: str = "") -> NoReturn:
    raise CompileError("WEFT-E1032", f"{machine.name} is no machine: {what}", where=where, why=why)


def _once(machine: Accelerator, kind: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            _wrong(machine, f"{count} times a {kind} {name!r}")


def _known(machine: Accelerator, what: str, name: str, names: Iterable[str], where: str) -> None:
    given = list(names)
    if name not in given:
        _wrong(machine, f"no {what} {name!r}", where, f"there are {', '.join(given) or 'none'}")


def _parts(machine: Accelerator) -> None:
    for memory in machine.memories:
        if min((*memory.shape, 1 if memory.depth is None else memory.depth)) < 1:
            _wrong(machine, f"memory {memory.name} of {memory.depth} elements of {memory.shape}")
    depths = {memory.name: memory.depth for memory in machine.memories if not memory.twin}
    for memory in machine.memories:
        if memory.twin and (memory.depth is None or depths.get(memory.twin) != memory.depth):
            _wrong(machine, f"memory {memory.name} is no twin of {memory.twin!r}")
    for queue in machine.queues:
        if queue.depth < 1:
            _wrong(machine, f"queue {queue.name} holds {queue.depth} instructions")
    queues = [queue.name for queue in machine.queues]
    for channel in machine.channels:
        for name in channel.queues:
            _known(machine, "queue", name, queues, f"channel {channel.name}")


def _wires(machine: Accelerator) -> None:
    queues = [queue.name for queue in machine.queues]
    for wire in machine.wires:
        for queue, flag in ((wire.source, wire.push), (wire.sink, wire.pop)):
            where = f"the wire from {wire.name}"
            _known(machine, "queue", queue, queues, where)
            own = [o.encoding for o in machine.operations if o.queue == queue]
            fields = sorted({f.name for encoding in own for f in encoding.fields})
            _known(machine, f"field of queue {queue}'s operations", flag, fields, where)
        if wire.most < 1:
            _wrong(machine, f"the wire from {wire.name} counts {wire.most} tokens")


def _operation(machine: Accelerator, operation: Operation) -> None:
    where = source_of(operation)
    _known(machine, "queue", operation.queue, (q.name for q in machine.queues), where)
    try:
        cost = operation.takes({})
    except Exception as error:  # a user's function
        _wrong(machine, f"the cost of {operation.name} raises", where, repr(error))
    if not isinstance(cost, Cost):
        _wrong(machine, f"the cost of {operation.name} is a {type(cost).__name__}, no Cost", where)
    if cost.channel:
        _known(machine, "channel", cost.channel, (c.name for c in machine.channels), where)
    if operation.semantics is None:
        return
    if not isinstance(operation.semantics, FunctionType):
        kind = type(operation.semantics).__name__
        _wrong(machine, f"the semantics of {operation.name} are a {kind}, no function", where)
    arguments = list(inspect.signature(operation.semantics).parameters)
    for argument, name in operation.memories.items():
        _known(machine, f"argument of {operation.name}", argument, arguments, where)
        _known(machine, "memory", name, (m.name for m in machine.memories), where)
    fields = [each.name for each in operation.encoding.fields]
    memories = [memory.name for memory in machine.memories]
    for argument in arguments:
        if argument not in operation.memories:
            what = f"memory or field of {operation.name}"
            _known(machine, what, argument, [*memories, *fields], where)


def _apart(machine: Accelerator) -> None:
    """Instructions have one size, and each is of one operation."""
    sizes = {operation.encoding.size for operation in machine.operations}
    if len(sizes) > 1:
        listed = ", ".join(map(str, sorted(sizes)))
        _wrong(machine, f"instructions of {listed} bytes", why="they cannot be told apart")
    seen: list[tuple[str, int, int]] = []
    for operation in machine.operations:
        mask = value = 0
        for each in operation.encoding.fields:
            if each.value is not None:
                own = (1 << each.width) - 1
                mask |= own << operation.encoding.places[each.name]
                value |= (each.value & own) << operation.encoding.places[each.name]
        for name, other, bits in seen:
            if (bits ^ value) & other & mask == 0:
                _wrong(
                    machine,
                    f"{name} and {operation.name} cannot be told apart",
                    source_of(operation),
                    "no field of both has a value of its own in each",
                )
        seen.append((operation.name, mask, value))


def source_of(operation: Operation) -> str:
    """``file:line`` of the operation's semantics, and its name."""
    code = getattr(operation.semantics, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
    return f"{place}{operation.name}"
