"""Loops and statements of a random program, opened and closed in textual order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.properties.fitting import Draft, Sketch
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Access, Constraint


@dataclass(slots=True)
class Maker(Sketch):
    loops: list[tuple[str, tuple[Constraint, ...]]] = field(default_factory=list)
    counters: list[int] = field(default_factory=lambda: [0])
    count: int = 0

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.loops)

    def size(self) -> Expr:
        """How far a loop goes: a parameter, or a small number."""
        r = self.random
        if self.parameters and r.random() < 0.7:
            return Var(r.choice(self.parameters)) + r.choice((0, 0, 0, 1, -1))
        return literal(r.choice((1, 2, 3, 3, 4)))

    def loop(self, low: Expr | int, high: Expr | int, *more: Constraint, name: str = "") -> Expr:
        """Open a loop ``low <= i < high``; ``more`` may mention its dim as ``Var('')``."""
        if not name:
            name = "ijkl"[len(self.loops)] + ("" if self.random.random() < 0.7 else str(self.count))
        while name in self.dims:
            name += "x"
        self.count += 1
        i = Var(name)
        high = high if isinstance(high, Expr) else literal(high)
        constraints = [Constraint(i - low), Constraint(high - 1 - i)]
        self.loops.append((name, (*constraints, *more)))
        self.counters.append(0)
        return i

    def end(self) -> None:
        self.loops.pop()
        self.counters.pop()
        self.counters[-1] += 1

    def access(self, tensor: str, *indices: Expr | int, guard: Sequence[Constraint] = ()) -> Access:
        self.ranks.setdefault(tensor, len(indices))
        return Access(
            tensor,
            tuple(i if isinstance(i, Expr) else literal(i) for i in indices),
            tuple(guard),
        )

    def statement(
        self,
        write: Access,
        *reads: Access,
        fold: str = "",
        along: Sequence[str] = (),
        guard: Sequence[Constraint] = (),
        laws: bool = True,
    ) -> None:
        entries: list[int | str] = []
        for counter, (dim, _) in zip(self.counters, self.loops, strict=False):
            entries += [counter, dim]
        entries.append(self.counters[-1])
        self.counters[-1] += 1
        domain = tuple(c for _, constraints in self.loops for c in constraints)
        self.drafts.append(
            Draft(f"S{len(self.drafts)}", self.dims, (*domain, *guard), tuple(entries), write,
                   list(reads), fold, tuple(along), laws)
        )  # fmt: skip
