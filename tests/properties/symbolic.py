"""What a Scop computes, as terms: an interpreter that knows no arithmetic, only who read what.

An ordinary instance computes ``(original statement, original instance, operands)``, a copy its
operand, an update a bag of contributions onto what was there. Two Scops compute the same if their
outputs hold the same terms. Storage is as declared: contracted dimensions have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.polyhedral.scops import evaluate, holds, instances
from tests.properties.brute_force import time
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Access, Scop, Statement

Term = int


@dataclass
class Symbolic:
    """Terms are numbered, so that equal terms are equal numbers in all runs of one object."""

    terms: dict[object, Term] = field(default_factory=dict)
    keys: list[object] = field(default_factory=list)

    def term(self, key: object) -> Term:
        if key not in self.terms:
            self.terms[key] = len(self.keys)
            self.keys.append(key)
        return self.terms[key]

    def run(
        self,
        scop: Scop,
        original: Scop,
        parameters: Mapping[str, int],
        tree: Tree | None = None,
        high: int = 11,
    ) -> dict[object, Term]:
        """The terms of all elements of output tensors; the initial order without a ``tree``."""
        rows = []
        for number, s in enumerate(scop.statements):
            for env in instances(s, parameters, -1, high):
                if tree is None:
                    key = [env[p] if isinstance(p, str) else p for p in s.position] + [number]
                else:
                    key = [place.value for place in time(tree, s, env)]
                rows.append((key, s, env))
        memory: dict[object, object] = {}
        for _, s, env in sorted(rows, key=lambda row: row[0]):
            self._execute(scop, original, s, env, memory)
        visible = {t.name for t in scop.tensors if t.role in ("output", "inout")}
        return {
            cell: self.term(value)
            for cell, value in memory.items()
            if cell[0] in visible  # type: ignore[index]
        }

    def _execute(
        self,
        scop: Scop,
        original: Scop,
        s: Statement,
        env: Mapping[str, int],
        memory: dict[object, object],
    ) -> None:
        operands = []
        for access in s.reads:
            if not holds(access.guard, env):
                operands.append(self.term("nothing"))
                continue
            cell = _cell(scop, access, env)
            operands.append(self.term(memory.get(cell, ("initially", cell))))
        names = {o.name for o in original.statements}
        for access in s.writes:
            cell = _cell(scop, access, env)
            if s.origin is None and s.name not in names:
                [copied] = operands
                memory[cell] = self.keys[copied]
                continue
            name = s.origin.statement if s.origin else s.name
            point = s.origin.instance if s.origin else None
            at = tuple(evaluate(e, env) for e in point) if point else tuple(env[d] for d in s.dims)
            value = (name, at, tuple(operands))
            if s.update is None:
                memory[cell] = value
            else:
                old = memory.get(cell, ("initially", cell))
                base, bag = old[1:] if old[0] == "bag" else (self.term(old), ())  # type: ignore[index]
                bag = tuple(sorted((*bag, self.term(value))))
                memory[cell] = ("bag", base, bag)


def _cell(scop: Scop, access: Access, env: Mapping[str, int]) -> object:
    point = tuple(evaluate(e, env) for e in access.indices)
    return access.tensor, point[scop.tensor(access.tensor).contracted :]
