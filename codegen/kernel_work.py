"""Work of a kernel and of its busiest thread, as size expressions.

Work is counted in operations, loads and stores, of vectors in vector loops: some 0.15 ns each
(``statement_cost``). Of a parallel loop with E iterations, the busiest of n threads has ⌈E / n⌉;
outside of parallel loops one thread works and the others wait. ``kernel_work`` is the total work
and that of the busiest thread, ``kernel_barriers`` the number of barriers.

Trip counts depend on the iterations of the loops around, as tiles are clipped at edges. So the
estimate is the mean over ``WALKS`` walks: a walk enters one iteration of each loop and takes all
others to be equal. The results are expressions over the number ``WALK`` of the walk. Walks lie on a
lattice, whose samples are evenly spread along each loop and each pair of loops: the mean is within
a few percent for triangles, within 50% for clipped tiles. A trip count that depends on data counts
as ``UNKNOWN``.

References: Knuth, Estimating the efficiency of backtrack programs, Math. Comp. 1975; Korobov, The
approximate computation of multiple integrals, 1959 (lattices).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from weft.codegen.machines.dot_products import CYCLES
from weft.codegen.statement_cost import LANES, OPERATION, Around, outside, statement_cost
from weft.ir.dtypes import float32
from weft.ir.instruction import Instruction
from weft.ir.loop_ir import Barrier, For, If, Kernel, Let, Stmt, While, children, walk
from weft.ir.machine import TYPICAL, Machine
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select, substitute
from weft.ir.scalar_expr import walk as walk_expr

UNKNOWN = 64  # trip count of a loop whose bounds are data
WALKS = 13
WALK = Var("number of the walk")  # 0 … WALKS - 1
_NEXT = (  # at depth d, walk k enters iteration k * _NEXT**d mod WALKS of WALKS: each one once
    6  # at depth d, walk k enters iteration k * _NEXT**d mod WALKS of WALKS: each iteration once
)

TEAM = Var("threads of the team")  # 1 or more

_Sums = tuple[Expr, Expr]  # of all threads, of the busiest of ``TEAM`` threads


def kernel_work(kernel: Kernel, machine: Machine = TYPICAL) -> tuple[Expr, Expr]:
    """Operations of one run of ``kernel`` on ``machine``: total, and of the busiest of ``TEAM``
    threads."""
    every = frozenset(map(id, walk(kernel.body)))
    counter = _Counter(kernel, statement_cost, every, machine)
    total, busiest = counter.whole()
    return total // OPERATION, busiest // OPERATION


def kernel_barriers(kernel: Kernel) -> Expr:
    """The number of barriers in one run of ``kernel``."""
    meeting = _holding(kernel.body, lambda s: isinstance(s, Barrier))
    return _Counter(kernel, lambda s, _: isinstance(s, Barrier), meeting).whole()[0]


def _holding(body: Stmt, wanted: Callable[[Stmt], bool]) -> frozenset[int]:
    """Identities of the statements that are ``wanted`` or contain one."""
    found: set[int] = set()
    for stmt in reversed(list(walk(body))):
        if wanted(stmt) or any(id(part) in found for part in children(stmt)):
            found.add(id(stmt))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Here:
    """A place on a walk: ``values`` of names, over the parameters and ``WALK``, if known;
    ``depth``: the number of loops around."""

    around: Around
    values: Mapping[str, Expr] = field(default_factory=dict)
    depth: int = 0

    def entered(self, loop: For, first: Expr | None, trips: Expr) -> _Here:
        """Inside the iteration of ``loop`` that the walk enters."""
        iteration = WALK * (_NEXT**self.depth % WALKS) % WALKS
        at = (
            None
            if first is None
            else first + trips * (iteration * 2 + 1) // (2 * WALKS) * loop.step
        )
        inside = self.named(loop.var, at)
        return replace(inside, around=self.around.inside(loop), depth=self.depth + 1)

    def given(self, let: Let, value: Expr | None) -> _Here:
        return replace(self.named(let.name, value), around=self.around.given(let))

    def named(self, name: str, value: Expr | None) -> _Here:
        others = {n: v for n, v in self.values.items() if n != name}
        return replace(self, values=others if value is None else {**others, name: value})


class _Counter:
    """Sums of ``own`` over all iterations of the statements in ``relevant``."""

    def __init__(
        self,
        kernel: Kernel,
        own: Callable[[Stmt, Around], int],
        relevant: frozenset[int],
        machine: Machine = TYPICAL,
    ) -> None:
        self.kernel, self.own, self.relevant, self.machine = kernel, own, relevant, machine
        self.parameters = frozenset(kernel.parameters)

    def whole(self) -> _Sums:
        return self.sums(self.kernel.body, _Here(outside(self.kernel)))

    def sums(self, stmt: Stmt, here: _Here) -> _Sums:
        """Over all iterations of ``stmt``."""
        if id(stmt) not in self.relevant:
            return _NOTHING
        own = literal(self.own(stmt, here.around))
        return _each(lambda x: x + own, self._inside(stmt, here))

    def _inside(self, stmt: Stmt, here: _Here) -> _Sums:
        match stmt:
            case For():
                sums = self._trip_count(stmt, here)
                if stmt.instruction is None:
                    return sums
                faster = _faster(stmt.instruction, self.machine)
                return _each(lambda x: x // faster, sums)
            case While():
                return _each(lambda x: x * UNKNOWN, self.sums(stmt.body, here))
            case Let(_, value, body):
                return self.sums(body, here.given(stmt, self._known(value, here)))
            case If(condition):
                branches = [self.sums(branch, here) for branch in children(stmt)]
                asked = self._known(condition, here)
                if asked is None:
                    return _each(lambda x, y: apply("max", x, y), *branches)
                return _each(lambda x, y: select(asked, x, y), *branches)
        parts = [self.sums(part, here) for part in children(stmt)]
        return _each(lambda *xs: sum(xs, literal(0)), _NOTHING, *parts)

    def _trip_count(self, loop: For, here: _Here) -> _Sums:
        first, end = self._known(loop.lower, here), self._known(loop.upper, here)
        trips: Expr = literal(UNKNOWN)
        if first is not None and end is not None:
            trips = apply("max", (end - first + (loop.step - 1)) // loop.step, literal(0))
        iteration = self.sums(loop.body, here.entered(loop, first, trips))
        if loop.kind == "parallel":
            return trips * iteration[0], (trips + (TEAM - 1)) // TEAM * iteration[0]
        if loop.kind == "vector":
            trips = (trips + (LANES - 1)) // LANES
        return _each(lambda x: trips * x, iteration)

    def _known(self, expr: Expr, here: _Here) -> Expr | None:
        """``expr`` over the parameters and ``WALK``; None where it depends on more."""
        nodes = list(walk_expr(expr))
        names = {node.name for node in nodes if isinstance(node, Var)}
        known = names & here.values.keys()
        if names - known - self.parameters or any(isinstance(node, Load) for node in nodes):
            return None
        return substitute(expr, {name: here.values[name] for name in known})


def _faster(instruction: Instruction, machine: Machine) -> int:
    """The number of its products in the time of one float32 product."""
    plain = machine.lanes(float32) / CYCLES  # as records of instructions count
    return max(1, round(prod(instruction.extents.values()) / instruction.cycles / plain))


_NOTHING: _Sums = (literal(0), literal(0))


def _each(combine: Callable[..., Expr], *sums: _Sums) -> _Sums:
    total, busiest = (combine(*parts) for parts in zip(*sums, strict=True))
    return total, busiest
