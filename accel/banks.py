"""Memories addressed by (bank, row) are flattened to one address.

    Memory("spad", i8, (256, 8), 4), spad[bank, row + k, p]
        →   Memory("spad", i8, (8,), 1024, bank=256), spad[bank * 256 + row + k, p]

Mapping and tiling work on the flat memories. An access must stay within its bank (``Memory.bank``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.accel.sequential_program import SequentialIssue
from weft.ir.accelerator import Accelerator, Memory
from weft.ir.scalar_expr import Expr, Literal, Var, literal, walk
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import box


def flatten_banks(
    machine: Accelerator, semantics: Mapping[str, Scop]
) -> tuple[Accelerator, dict[str, Scop]]:
    """``machine`` and the ``semantics`` of its operations, by name, with such memories
    flattened."""
    banked: set[str] = set()
    for name, scop in semantics.items():
        places = machine.operation(name).memories
        for statement in scop.statements:
            for access in (*statement.reads, *statement.writes):
                if _has_rows(statement, access):
                    banked.add(places.get(access.tensor, access.tensor))
    local = {m.name for m in machine.memories if m.depth is not None and m.shape}
    banked &= local
    if not banked:
        return machine, dict(semantics)
    sizes = {m.name: m.shape[0] for m in machine.memories if m.name in banked}
    memories = tuple(_flat(m) if m.name in banked else m for m in machine.memories)
    found = {
        name: _rewritten(scop, machine.operation(name).memories, sizes)
        for name, scop in semantics.items()
    }
    return replace(machine, memories=memories), found


def _flat(memory: Memory) -> Memory:
    assert memory.depth is not None, "a local memory"
    rows, *shape = memory.shape
    return replace(memory, shape=tuple(shape), depth=memory.depth * rows, bank=rows)


def _has_rows(statement: Statement, access: Access) -> bool:
    """Whether its second index is more than loops with constant trip counts."""
    indices = access.body_indices if access.may else access.indices
    if len(indices) < 2:
        return False
    constant = {d for d, bounds in box(statement).items() if all(map(_is_number, bounds))}
    return any(isinstance(e, Var) and e.name not in constant for e in walk(indices[1]))


def _is_number(bound: Expr) -> bool:
    return isinstance(bound, Literal)


def _rewritten(scop: Scop, places: Mapping[str, str], sizes: Mapping[str, int]) -> Scop:
    def flat(access: Access) -> Access:
        size = sizes.get(places.get(access.tensor, access.tensor))
        if size is None:
            return access

        def joined(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
            if len(indices) < 2:
                return indices
            return (indices[0] * literal(size) + indices[1], *indices[2:])

        return replace(
            access, indices=joined(access.indices), body_indices=joined(access.body_indices)
        )

    def shaped(tensor: Tensor) -> Tensor:
        size = sizes.get(places.get(tensor.name, tensor.name))
        if size is None:
            return tensor
        first, _, *others = tensor.shape
        return replace(tensor, shape=(first * literal(size), *others))

    return replace(
        scop,
        tensors=tuple(map(shaped, scop.tensors)),
        statements=tuple(
            replace(s, writes=tuple(map(flat, s.writes)), reads=tuple(map(flat, s.reads)))
            for s in scop.statements
        ),
    )


def in_banks(machine: Accelerator, plain: Accelerator, issue: SequentialIssue) -> SequentialIssue:
    """``issue``, planned for ``plain``, with the elements of ``machine`` that it accesses: whole
    banks."""
    if plain is machine:
        return issue
    sizes = {
        flat.name: flat.bank
        for own, flat in zip(machine.memories, plain.memories, strict=True)
        if own.depth != flat.depth
    }
    regions = tuple(
        replace(r, begin=r.begin // sizes[r.memory], end=-(-r.end // sizes[r.memory]))
        if r.memory in sizes
        else r
        for r in issue.regions
    )
    return replace(issue, regions=regions)
