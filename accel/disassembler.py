"""Streams as text: one instruction per line, with its memory accesses below.

4  compute  gemm      takes load, gives store   uop_end 9, iter_out 14, iter_in 14, …
            reads inp[0:256], wgt[0:9]; writes acc[0:196], out[0:196]
            uop[0]: dst 0, src 0, wgt 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.accel.footprints import Footprint, Footprints
from weft.accel.memory_accesses import Contents
from weft.ir.accelerator import Memory
from weft.ir.instruction_stream import Issue, Stream

SHOWN = 8  # micro-operations of one instruction


def listing(stream: Stream) -> Iterator[str]:
    """Number, queue, operation, tokens, and the non-zero fields."""
    names = [operation.name for operation in stream.accelerator.operations]
    width = max(map(len, names), default=0)
    queues = max((len(queue.name) for queue in stream.accelerator.queues), default=0)
    for number, issue in enumerate(stream.issues):
        queue = stream.accelerator.operation(issue.operation).queue
        line = f"{number:6}  {queue:{queues}}  {issue.operation:{width}}  {_tokens(stream, issue)}"
        yield f"{line.rstrip()}  {_fields(stream, issue)}".rstrip()


def annotated(
    stream: Stream, footprints: Footprints, contents: Contents, execute: Callable[[int], None]
) -> Iterator[str]:
    """The listing with the elements that each instruction accesses, and what it reads of memories
    that addresses depend on; ``execute`` runs an instruction that writes to these. Raises
    ``StreamError``."""
    memories = {memory.name: memory for memory in stream.accelerator.memories}
    indent = " " * (10 + max((len(queue.name) for queue in stream.accelerator.queues), default=0))
    for number, line in enumerate(listing(stream)):
        yield line
        found = footprints.of(stream.issues[number], contents)
        if found:
            yield indent + "; ".join(
                f"{verb} {', '.join(_ranges(found, writes))}"
                for verb, writes in (("reads", False), ("writes", True))
                if _ranges(found, writes)
            )
        if any(each.writes and each.memory in footprints.contents for each in found):
            execute(number)
        for each in found:
            if each.memory in footprints.contents:
                for text in _records(memories[each.memory], each, contents):
                    yield indent + text


def _tokens(stream: Stream, issue: Issue) -> str:
    taken = ", ".join(wire.source for wire in stream.pops(issue))
    given = ", ".join(wire.sink for wire in stream.pushes(issue))
    parts = [f"takes {taken}" if taken else "", f"gives {given}" if given else ""]
    return ", ".join(part for part in parts if part)


def _fields(stream: Stream, issue: Issue) -> str:
    wires = stream.accelerator.wires
    flags = {flag for wire in wires for flag in (wire.push, wire.pop)}
    encoding = stream.accelerator.operation(issue.operation).encoding
    values = ((f.name, issue.fields.get(f.name, 0)) for f in encoding.fields if f.value is None)
    return ", ".join(f"{name} {value}" for name, value in values if value and name not in flags)


def _ranges(found: tuple[Footprint, ...], writes: bool) -> list[str]:
    texts = [
        f"{each.memory}[{each.low}:{each.high + 1}]" for each in found if each.writes == writes
    ]
    return list(dict.fromkeys(texts))


def _records(memory: Memory, each: Footprint, contents: Contents) -> Iterator[str]:
    """The fields of the elements."""
    places = [each.base + int(place) for place in each.pattern.places]
    for place in places[:SHOWN]:
        value = contents[memory.name][place]
        if memory.record is None:
            yield f"{memory.name}[{place}]: {value}"
        else:
            word = int(value) & ((1 << memory.record.bits) - 1)
            fields = memory.record.fields
            parts = (
                f"{f.name} {word >> memory.record.places[f.name] & (1 << f.width) - 1}"
                for f in fields
            )
            yield f"{memory.name}[{place}]: {', '.join(parts)}"
    if len(places) > SHOWN:
        yield f"… {len(places) - SHOWN} more"
