"""IR 7, instruction streams: what an accelerator runs, in program order.

Stream ::= accelerator, issues: Issue…
Issue  ::= operation, fields                the flags of tokens among them; not given: 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir.accelerator import Accelerator, Wire
from weft.ir.bit_fields import choose
from weft.ir.errors import StreamError


@dataclass(frozen=True, slots=True)
class Issue:
    operation: str
    fields: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stream:
    accelerator: Accelerator
    issues: tuple[Issue, ...]

    def encode(self) -> bytes:
        """The instructions, one after the other. Raises ``StreamError`` (WEFT-E1002)."""
        of = self.accelerator.operation
        return b"".join(of(each.operation).encoding.encode(each.fields) for each in self.issues)

    def pops(self, issue: Issue) -> tuple[Wire, ...]:
        """The wires that ``issue`` takes a token from."""
        queue = self.accelerator.operation(issue.operation).queue
        wires = self.accelerator.wires
        return tuple(w for w in wires if w.sink == queue and issue.fields.get(w.pop))

    def pushes(self, issue: Issue) -> tuple[Wire, ...]:
        """The wires that ``issue`` gives a token to."""
        queue = self.accelerator.operation(issue.operation).queue
        wires = self.accelerator.wires
        return tuple(w for w in wires if w.source == queue and issue.fields.get(w.push))


def decode(accelerator: Accelerator, data: bytes) -> Stream:
    """The stream that ``data`` is. Raises ``StreamError`` (WEFT-E1003, WEFT-E1004)."""
    encodings = {each.name: each.encoding for each in accelerator.operations}
    sizes = sorted({each.size for each in encodings.values()})
    if len(sizes) != 1:
        raise StreamError("WEFT-E1004", "instructions of several sizes cannot be told apart")
    (size,) = sizes
    if len(data) % size:
        raise StreamError(
            "WEFT-E1004",
            f"{len(data)} bytes are no whole number of instructions",
            why=f"one of {accelerator.name} has {size} bytes",
            hint="the file was cut off, or is no stream of this machine",
        )
    issues: list[Issue] = []
    for at in range(0, len(data), size):
        try:
            name = choose(encodings, data[at : at + size])
            issues.append(Issue(name, encodings[name].decode(data[at : at + size])))
        except StreamError as error:
            where = f"instruction {at // size}, byte {at}"
            raise StreamError(error.code, error.what, where=where, why=error.why) from None
    return Stream(accelerator, tuple(issues))
