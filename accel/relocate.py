"""Streams for main memory at another base address: all addresses in it shifted.

load_inp dram_base 512, image from 0x0   →   load_inp dram_base 4608, image from 0x10000
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from weft.accel.artifact import Artifact
from weft.accel.memory_accesses import Analysed, Array, MemoryAccess, addresses, parameters
from weft.ir.accelerator import Memory, Operation
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Issue
from weft.ir.scalar_expr import Var
from weft.ir.scalar_polynomial import polynomial


def relocated(artifact: Artifact, analysed: Mapping[str, Analysed], base: int) -> Artifact:
    """``artifact`` with its image from address ``base`` on. ``analysed``: the semantics of its
    machine's operations.

    Raises ``StreamError`` (WEFT-E1048) if instructions cannot encode these addresses.
    """
    if base == artifact.base:
        return artifact
    if base < 0:
        raise StreamError("WEFT-E1048", f"no address: {base}")
    moves = {name: _moves(artifact, name, each) for name, each in analysed.items()}
    by = base - artifact.base
    issues = []
    for number, issue in enumerate(artifact.stream.issues):
        try:
            for move in moves.get(issue.operation, ()):
                issue = move.moved(issue, by)
        except _NoAddress as no:
            what = f"instruction {number} ({issue.operation}) cannot be moved by {by} bytes"
            hint = "a base that is a multiple of every element's size, and small enough"
            raise StreamError("WEFT-E1048", what, why=str(no), hint=hint) from None
        issues.append(issue)
    return replace(artifact, stream=replace(artifact.stream, issues=tuple(issues)), base=base)


def used(artifact: Artifact, analysed: Mapping[str, Analysed]) -> range:
    """The bytes of main memory that its instructions access."""
    moves = {name: _moves(artifact, name, each) for name, each in analysed.items()}
    first, end = [], []
    for issue in artifact.stream.issues:
        for move in moves.get(issue.operation, ()):
            if (places := move.places(issue)).size:
                first.append(int(places.min()) * move.memory.nbytes)
                end.append((int(places.max()) + 1) * move.memory.nbytes)
    return range(min(first, default=0), max(end, default=0))


class _NoAddress(Exception):
    """A sentence without a capital and a full stop."""


@dataclass(frozen=True)
class _Move:
    """An access of main ``memory``."""

    operation: Operation
    analysed: Analysed
    accessed: MemoryAccess
    memory: Memory

    @cached_property
    def fields(self) -> list[tuple[int, str]]:
        """(factor, field) of the terms of the address, the coarsest first."""
        names = {each.name for each in self.operation.encoding.fields if each.value is None}
        found = []
        access = self.accessed.access
        for monomial, factor in polynomial((access.body_indices or access.indices)[0]).items():
            match monomial:
                case (Var(name),) if name in names and factor > 0:
                    found.append((factor, name))
        return sorted(found, reverse=True)

    def moved(self, issue: Issue, by: int) -> Issue:
        if not self.places(issue).size:
            return issue
        elements, rest = divmod(by, self.memory.nbytes)
        if rest:
            raise _NoAddress(
                f"an element of {self.memory.name} has {self.memory.nbytes} bytes, of which "
                f"{by} are no multiple"
            )
        fields = dict(issue.fields)
        total = elements + sum(factor * fields.get(name, 0) for factor, name in self.fields)
        for factor, name in self.fields:
            fields[name], total = divmod(total, factor)
            if not self.operation.holds(name, fields[name]):
                raise _NoAddress(f"{name} would be {fields[name]}, which its field does not hold")
        if total or not self.fields:
            raise _NoAddress(f"the address in {self.memory.name} is no sum of fields")
        return Issue(issue.operation, fields)

    def places(self, issue: Issue) -> Array:
        """The elements that it accesses."""
        every = {each.name: each.value or 0 for each in self.operation.encoding.fields}
        scop = self.analysed.scop
        given = {p: {**every, **issue.fields}.get(p, 0) for p in scop.parameters}
        return addresses(self.accessed, parameters(scop, given), {})


def _moves(artifact: Artifact, name: str, analysed: Analysed) -> list[_Move]:
    """Accesses of main memory, one of those that are equal."""
    machine = artifact.stream.accelerator
    operation = machine.operation(name)
    found: dict[object, _Move] = {}
    for accessed in analysed.accesses:
        memory = machine.memory(operation.memories.get(accessed.tensor, accessed.tensor))
        if memory.depth is None:
            move = _Move(operation, analysed, accessed, memory)
            key = (memory.nbytes, tuple(move.fields))
            found.setdefault(key, move)
    return list(found.values())
