"""What two Scops have in common, so that the flow of values through it is the same in both.

A *statement* is unchanged if the statements that stand for it, its clones, are its instances: each
with the same dims and the same kind of update, their domains a partition of its own. A *tensor* is
unchanged if it is declared alike, if clones of unchanged statements write it by the same accesses,
and if any two of the writers follow each other as their originals do. A *read* is unchanged if it
is the same access of an unchanged statement and tensor, and stands to each writer as its original.

Then the writes to an element that come before an instance of the read in the initial order are the
same in both Scops, and so is their order; hence what the read sees, the last of them (or all
contributions of a fold since the last that is none), is the same. So is the final value of an
unchanged tensor. Initial orders only: a statement without a place in it is never unchanged, and who
runs the Scop otherwise has to show that this keeps every dependence (``order_check``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import islpy as isl

from weft.ir.named_isl import constrained, context_set, domain_set, statement_space
from weft.ir.scalar_expr import Var
from weft.ir.scop import Access, Origin, Scop, Statement
from weft.polyhedral.proof.flow import FINAL, Read
from weft.polyhedral.proof.implied import Relation, relation


class Unchanged:
    """What ``transformed`` leaves as it is in ``original``; ``origins`` of its statements given.

    Call it inside ``bounded``.
    """

    def __init__(self, original: Scop, transformed: Scop, origins: Mapping[str, Origin]) -> None:
        self._original, self._transformed = original, transformed
        self._old, self._new = _Places(original), _Places(transformed)
        self._tensors: dict[str, bool] = {}
        clones: dict[str, list[str]] = {}
        for name, origin in origins.items():
            clones.setdefault(origin.statement, []).append(name)
        comparable = (
            original.parameters == transformed.parameters
            and original.context == transformed.context
        )
        self._source = {
            name: source
            for source, names in clones.items()
            if comparable
            and all(self._alike_but_domain(name, source, origins[name]) for name in names)
            and self._partition(names, source)
            for name in names
        }  # clones of unchanged statements → their originals

    def _alike_but_domain(self, name: str, source: str, origin: Origin) -> bool:
        now, old = self._new.statement[name], self._old.statement[source]
        return (
            now.dims == old.dims
            and bool(now.position)
            and origin.instance == tuple(Var(d) for d in old.dims)
            and now.update == old.update
        )

    def _partition(self, names: list[str], source: str) -> bool:
        """Whether the instances of ``names`` are those of ``source``, each once."""
        old = self._old.statement[source]
        if [self._new.statement[name].domain for name in names] == [old.domain]:
            return True
        left = domain_set(self._original, old)
        space = statement_space(self._original, old)
        for name in names:
            clone = self._new.statement[name]
            part = isl.Set.from_basic_set(constrained(space, old.dims, clone.domain))
            part = part.intersect_params(context_set(self._original))
            if not part.is_subset(left):
                return False
            left = left.subtract(part).coalesce()
        return left.is_empty()

    def statement(self, name: str) -> bool:
        """Whether the statement ``name`` of the transformed Scop is (part of) an unchanged one."""
        return name in self._source

    def read(self, read: Read) -> bool:
        """Whether ``read``, of the transformed Scop, is unchanged; FINAL ones of tensors too."""
        if read.number == FINAL:
            return self._tensor(read.name)
        if read.name not in self._source:
            return False
        now = self._new.statement[read.name]
        old = self._old.statement[self._source[read.name]]
        mine, theirs = now.accesses, old.accesses
        if len(now.reads) != len(old.reads) or mine[read.number] != theirs[read.number]:
            return False
        tensor = mine[read.number].tensor
        return self._tensor(tensor) and all(
            self._follow_alike(read.name, writer) for writer in self._new.writers.get(tensor, ())
        )

    def _tensor(self, name: str) -> bool:
        if name not in self._tensors:
            self._tensors[name] = self._same_writers(name)
        return self._tensors[name]

    def _same_writers(self, tensor: str) -> bool:
        now, old = self._new.writers.get(tensor, {}), self._old.writers.get(tensor, {})
        if self._new.tensors.get(tensor) != self._old.tensors.get(tensor):
            return False
        if {self._source.get(name) for name in now} != set(old):
            return False
        if any(accesses != old[self._source[name]] for name, accesses in now.items()):
            return False
        return all(self._follow_alike(one, other) for one in now for other in now)

    def _follow_alike(self, one: str, other: str) -> bool:
        """Whether two statements follow each other as their originals do."""
        source, second = self._source[one], self._source[other]
        loops, first = self._new.relation(one, other)
        if source == second:  # parts of one statement: no two instances have the same loops
            return loops == self._old.relation(source, source)[0]
        return (loops, first) == self._old.relation(source, second)


class _Places:
    """A Scop by the names of its statements."""

    def __init__(self, scop: Scop) -> None:
        self.statement = {s.name: s for s in scop.statements}
        self.tensors = {t.name: t for t in scop.tensors}
        self._number = {s.name: k for k, s in enumerate(scop.statements)}
        self._statements = scop.statements

    @cached_property
    def writers(self) -> dict[str, dict[str, list[Access]]]:
        """Tensor → the statements that write it → the accesses by which they do."""
        found: dict[str, dict[str, list[Access]]] = {}
        for s in self._statements:
            for write in s.writes:
                found.setdefault(write.tensor, {}).setdefault(s.name, []).append(write)
        return found

    def relation(self, one: str, other: str) -> Relation:
        first, second = self._at(one), self._at(other)
        return relation(*first, *second)

    def _at(self, name: str) -> tuple[Statement, int]:
        return self.statement[name], self._number[name]
