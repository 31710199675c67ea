"""Accelerators as data: memories, queues that run at the same time, tokens, instructions.

    Accelerator ::= name, memories: Memory…, queues: Queue…, wires: Wire…, operations: Operation…,
                    channels: Channel…
    Memory      ::= name, dtype, shape, depth      ``depth`` elements of ``shape``; None: main
    Operation   ::= name, queue, encoding, cost, semantics, memories

* Instructions are delivered in program order, one a cycle, each to the queue of its operation; the
  queues run them in order, each on its own, and wait for each other by tokens alone. A ``Wire``
  counts the tokens from one queue to another: an instruction with the flag ``push`` adds one at its
  end, one with ``pop`` takes one before it begins, or waits.
* ``semantics`` is a function in the language of loop kernels: its arguments are memories, as arrays
  of ``(depth, *shape)``, and fields of the encoding, as integers. Instruction selection, simulation
  and checks come from it.
* ``rules`` refuse streams that semantics and tokens allow, and the hardware does not.
* ``reserved``: bytes at the begin of main memory where nothing may lie, such as a null page.
* ``configuration`` tells machines of one name apart, in files.
* ``cost`` says what an instruction takes, by its fields; ``timing`` says what comes of many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import Any

from weft.ir.bit_fields import Encoding
from weft.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory, ``name``: ``depth`` elements (None: main memory), each an array of ``shape`` and
    ``dtype``; one address is one element. ``twin``: another memory of the same depth, which some
    implementations keep in the same place: who writes to an element of the one has to wait for who
    reads it of the other. ``record``: what an element is made of. ``bank``: so many addresses are a
    bank, and what one operand has there lies in one bank, where no other has a part; 0: there are
    none."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    depth: int | None
    twin: str = ""
    record: Encoding | None = None
    bank: int = 0

    def taken(self, size: int) -> int:
        """The addresses that a part of ``size`` takes for itself: a whole bank, where it may lie
        in one; more than there are, where it may not."""
        if not self.bank:
            return size
        return self.bank if size <= self.bank else (self.depth or 0) + 1

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, ``name``. ``depth``: instructions that wait in it at most; then the next is not
    delivered, nor any after it."""

    name: str
    depth: int


@dataclass(frozen=True, slots=True)
class Wire:
    """Tokens from queue ``source`` to queue ``sink``. ``push`` and ``pop``: the flags, fields of
    the encodings; ``most``: tokens that it counts."""

    source: str
    sink: str
    push: str
    pop: str
    most: int

    @property
    def name(self) -> str:
        """Both queues, for errors."""
        return f"{self.source} to {self.sink}"


@dataclass(frozen=True, slots=True)
class Channel:
    """What carries one beat a cycle, ``name``, for the first of ``queues`` that wants one."""

    name: str
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """In cycles: ``latency``, which is hidden where the channel is busy with another queue's beats;
    ``beats`` on ``channel``; ``cycles`` more."""

    cycles: int = 0
    channel: str = ""
    latency: int = 0
    beats: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """What an instruction does: ``name``, in ``queue``, with the fields of ``encoding``, at the
    ``cost`` that a function of the fields returns. Fields with a value tell it apart from others.
    ``semantics``: a function in the language of loop kernels. ``memories``: the arguments of
    ``semantics`` that are memories of another name. Without ``semantics`` it does nothing but wait
    and be waited for. ``apart``: the turns after which it may update an element again, at the
    earliest. ``same``: fields, of the encoding or of micro-operations, that mean nothing here and
    have to be equal to others all the same. ``limits``: the least and the greatest value of fields
    that hold more than is safe to say."""

    name: str
    queue: str
    encoding: Encoding
    cost: Callable[[Any], Cost]
    semantics: Callable[..., None] | None = None
    memories: Mapping[str, str] = field(default_factory=dict)
    apart: int = 1
    same: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def holds(self, name: str, value: int) -> bool:
        """Whether field ``name`` may have that ``value``."""
        low, high = self.limits_of(name)
        return low <= value <= high

    def limits_of(self, name: str) -> tuple[int, int]:
        """The least and the greatest value of field ``name``."""
        found = next(each for each in self.encoding.fields if each.name == name)
        return self.limits.get(name, found.limits)

    def takes(self, values: Mapping[str, int]) -> Cost:
        """What an instruction with these fields costs, those that are not given 0."""
        every = {each.name: each.value or 0 for each in self.encoding.fields}
        return self.cost(SimpleNamespace(**{**every, **values}))


# What a machine asks for beyond its semantics: of the instructions of a stream, in program order,
# (operation, fields) each, a function that is called for one after the other in an order in which
# they may run, with its number, its ``footprints.Footprint``s (None: nobody knows) and the contents
# of memories that addresses depend on; it says what is wrong, or ''.
Watch = Callable[[int, Sequence[Any] | None, Mapping[str, Any]], str]
Rule = Callable[[Sequence[Any]], Watch]


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A machine as one value, ``name``: docs/new-accelerator.md has one in 90 lines.

    ``memories``, ``queues``, ``wires`` that carry tokens between these, ``operations``, which are
    its instructions, and ``channels`` that queues share. ``micro_operation``: the encoding of words
    that instructions read addresses from. ``last``: the operation that streams end with, if they
    have to. ``configuration``: what tells machines of one name apart, in files. ``rules``: what
    streams must not do otherwise. ``reserved``: bytes at the begin of main memory where nothing
    may lie.
    """

    name: str
    memories: tuple[Memory, ...]
    queues: tuple[Queue, ...]
    wires: tuple[Wire, ...]
    operations: tuple[Operation, ...]
    channels: tuple[Channel, ...] = ()
    micro_operation: Encoding | None = None
    last: str = ""
    configuration: Mapping[str, int | str | bool | float] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    reserved: int = 0
    _operation: dict[str, Operation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_operation", {each.name: each for each in self.operations})

    def operation(self, name: str) -> Operation:
        """The operation called ``name``, which there is."""
        return self._operation[name]

    def memory(self, name: str) -> Memory:
        """The memory called ``name``, which there is."""
        return next(each for each in self.memories if each.name == name)
