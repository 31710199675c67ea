"""The state of scheduling one Scop, and the recursion that all strategies share.

A *strategy* is a function ``(planner, group) -> Tree | None``: the loops of a group of statements
inside the loops around it, or None where it has nothing to say. The first one that answers decides.
Strategies recurse through ``Planner.nest`` and may replace the Scop (split a statement, add a copy)
as long as every statement keeps a place in the initial order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

from weft.ir.errors import BudgetError, PlanError
from weft.ir.isl_context import derived
from weft.ir.machine import Machine
from weft.ir.named_isl import domain_set
from weft.ir.plan import Decisions
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, substitute, walk
from weft.ir.schedule_tree import (
    Band,
    Kind,
    Loop,
    Tree,
    children,
    statements_below,
    with_children,
)
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Constraint, Scop, Statement
from weft.polyhedral.analysis.delta_box import Distances, Quota
from weft.polyhedral.analysis.hyperplanes import Hyperplane, Hyperplanes, components
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.policy.lanes import Lanes, choose_lanes
from weft.polyhedral.proof.dependences import dependences
from weft.polyhedral.transform.cut import condition, cut
from weft.polyhedral.transform.initial import textual
from weft.polyhedral.transform.scheduled import Scheduled, added, fresh

At = dict[str, Expr]  # the value of one loop, by statement
T = TypeVar("T")
AS_WRITTEN, SHARED = "as written", "one loop"
STEPS = 150_000  # of ``Quota``: about 5 s, ten times what the largest PolyBench kernel takes


@dataclass(frozen=True, slots=True)
class Group:
    """Statements to schedule together: ``active``, the dependences among them, without those of
    free reductions, that the loops ``above`` (outermost first) do not satisfy."""

    names: tuple[str, ...]
    active: tuple[Distances, ...]
    above: tuple[At, ...]
    strips: int = 0  # outermost loops of ``above`` that are strip-mined only to limit live ranges

    @property
    def in_tile(self) -> bool:
        """Whether one of the loops around is a tile loop."""
        return any(_floors(e) for at in self.above[self.strips :] for e in at.values())

    @property
    def outermost(self) -> bool:
        """Whether no loop is around but strip-mined ones."""
        return len(self.above) == self.strips

    def part(self, names: Sequence[str]) -> Group:
        """Some of the statements, in the same place."""
        inside = (
            a
            for a in self.active
            if a.dependence.source.name in names and a.dependence.sink.name in names
        )
        return replace(self, names=tuple(names), active=tuple(inside))

    def inside(self, *loops: At) -> Group:
        """The group inside further ``loops``: dependences that these satisfy are no longer
        active."""
        active: Sequence[Distances] = self.active
        for at in loops:
            active = Hyperplanes(active).inside(at)
        return replace(self, active=tuple(active), above=(*self.above, *loops))

    def against(self, at: At) -> str:
        """The first dependence that no loop ``at`` may carry, as it goes backward along it; ''
        where there is none."""
        backward = (a for a in self.active if Hyperplanes((a,)).valid(at) is None)
        return next((str(a.dependence) for a in backward), "")

    def search(self) -> Hyperplanes:
        return Hyperplanes(self.active)

    def independent(self, at: At) -> bool:
        """Whether the loop ``at`` may be outermost and carries no dependence."""
        plane = self.search().valid(at)
        return plane is not None and plane.coincident

    def components(self) -> list[tuple[str, ...]]:
        return components(self.names, [a.dependence for a in self.active])


Strategy = Callable[["Planner", Group], Tree | None]
Fusion = Callable[["Planner", Group], list[tuple[Group, Hyperplane | None]]]
Share = Callable[["Planner", Group, Hyperplane], Tree]


@dataclass(frozen=True, slots=True)
class Packing:
    """A request to pack a read: ``operand`` of ``statement`` in panels of ``width`` along dimension
    ``dim`` of its tensor, inside ``loop`` ('': once, before everything). A temporary is computed
    into its panels by ``maker`` instead of copied. ``inner``: further panels (dim, width) inside of
    these."""

    statement: str
    operand: int
    loop: str
    dim: int
    width: int
    maker: str = ""
    inner: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Planner:
    """What is known while one Scop is scheduled."""

    now: Scheduled  # in the order of the source
    machine: Machine
    strategies: Sequence[tuple[str, Strategy]]
    # a group in parts, one after the other, and the loop that the statements of each share
    fuse: Fusion
    share: Share  # the loops of a part that shares one
    threads: int = 1
    decisions: Decisions = field(default_factory=Decisions)
    plain: frozenset[str] = frozenset()  # statements that keep their textual loops
    sized: bool = True  # whether sizes that are not known may have versions of their own
    planned: dict[str, Strategy] = field(default_factory=dict)  # statements already decided on
    copies: dict[str, str] = field(default_factory=dict)  # part of a statement → that statement
    packings: list[Packing] = field(default_factory=list)  # applied once the tree is complete
    tiled: dict[str, int] = field(default_factory=dict)  # levels of in-place tiles around
    row_tiles: dict[str, bool] = field(default_factory=dict)  # do threads share them?
    row_blocks: list[Hyperplane] = field(default_factory=list)  # serial loops inside row tiles
    untiled: set[str] = field(default_factory=set)  # versions for small sizes
    narrow: dict[str, int] = field(default_factory=dict)  # lanes that rows may be, at most
    operands: dict[str, str] = field(default_factory=dict)  # precomputed → its statement
    in_place: set[str] = field(default_factory=set)  # products with too few rows for packing
    short_streams: dict[str, bool] = field(default_factory=dict)  # is a reduction one part?
    notes: list[str] = field(default_factory=list)  # for ``explain``
    blocks: list[At] = field(default_factory=list)  # serial loops over blocks of steps: no tiles
    spread: list[At] = field(default_factory=list)  # parallel loops that statements share
    given_up: list[str] = field(default_factory=list)  # what a budget was exceeded for, and why
    declined: Callable[[], str] = str  # why the last strategy that was asked has nothing to say
    quota: Quota = field(default_factory=lambda: Quota(STEPS))
    _taken: set[str] = field(default_factory=set)
    _found: dict[tuple[Any, ...], tuple[Scop, Any]] = field(default_factory=dict)

    def everything(self) -> Group:
        """All statements, with all dependences."""
        return self.group([s.name for s in self.scop.statements])

    def group(self, names: Sequence[str], above: Sequence[At] = ()) -> Group:
        """``names`` inside the loops ``above``, with dependences computed anew."""
        found = dependences(self.scop, implied=False)
        hard = tuple(Distances(d, quota=self.quota) for d in found if not d.reduction)
        return Group((), hard, ()).part(names).inside(*above)

    def nest(self, group: Group) -> Tree:
        """The loops of ``group``: its components one after the other in topological order."""
        try:
            parts = self.fuse(self, group)
        except BudgetError as error:
            self._give_up(f"fusion of {', '.join(group.names)}", error)
            parts = [(group.part(names), None) for names in group.components()]
        if self.plain:
            parts = [alone for part in parts for alone in self._set_aside(*part)]
        return TreeSequence(tuple(self._plan(part, plane) for part, plane in parts))

    def as_written(self, group: Group) -> Tree:
        """All textual loops of ``group``, serial, which is always legal: dependences that the loops
        around leave are satisfied by the program's own. Those that are determined have one
        iteration."""
        return textual([s for s in self.scop.statements if s.name in group.names], self.loop)

    def _set_aside(
        self, group: Group, plane: Hyperplane | None
    ) -> list[tuple[Group, Hyperplane | None]]:
        """``group`` in its components if one of its statements keeps its textual loops, so that
        none shares a loop with it."""
        if self.plain.isdisjoint(group.names):
            return [(group, plane)]
        return [(group.part(names), None) for names in group.components()]

    def _plan(self, group: Group, plane: Hyperplane | None) -> Tree:
        """The loops of ``group``, which is to share ``plane`` if that is given."""
        tried: list[tuple[str, Strategy]] = []
        if len(group.names) == 1 and group.names[0] in self.planned:
            tried.append(("", self.planned[group.names[0]]))
        if plane is not None:
            tried.append((SHARED, partial(_shared, plane)))
        tried += self.strategies if self.plain.isdisjoint(group.names) else ()
        planned = None if group.above else self.decisions.planned(f"{self.title(group)}.strategy")
        if planned is not None:
            self._check_strategy(str(planned), group)
            tried = [t for t in tried if t[0] == planned]
        self.declines("")
        try:
            for name, strategy in tried:
                tree = self.attempt(strategy, group)
                if tree is not None:
                    if name and not group.above:
                        self._decided(name, group)
                    return tree
        except BudgetError as error:
            self._give_up(f"loops for {', '.join(group.names)}", error)
        if planned not in (None, AS_WRITTEN):
            if planned == SHARED:
                self.declines("they share no loop, or it is a decision, loop_fusion")
            raise PlanError(
                "WEFT-E0028",
                f"the strategy {planned!r} does not apply to {', '.join(group.names)}",
                where=f"{self.title(group)}.strategy",
                why=self.declined(),
                hint="explain says which does",
            )
        if not group.above:
            self._decided(AS_WRITTEN, group)
        return self.as_written(group)

    def _check_strategy(self, planned: str, group: Group) -> None:
        """Raise ``PlanError`` (WEFT-E0026) where no strategy is called so."""
        known = (SHARED, *(name for name, _ in self.strategies), AS_WRITTEN)
        if planned not in known:
            name = f"{self.title(group)}.strategy"
            raise PlanError(
                "WEFT-E0026",
                f"{name} cannot be {planned!r}",
                hint=f"options: {', '.join(known)}; a seed is taken by "
                f"{self.now.original.name}.seed: docs/extending.md",
            )

    def declines(self, why: str | Callable[[], str]) -> None:
        """What a strategy answers that has nothing to say. ``why`` is for a plan that asks for it:
        worked out only then, where that takes isl."""
        self.declined = why if callable(why) else lambda: why

    def _decided(self, strategy: str, group: Group) -> None:
        """``strategy`` has an answer for ``group``, inside no loop."""
        options = dict.fromkeys([strategy, *(name for name, _ in self.strategies), AS_WRITTEN])
        self.decisions.choose(f"{self.title(group)}.strategy", tuple(options), strategy)
        self._note(strategy, group)

    def attempt(self, strategy: Strategy, group: Group) -> Tree | None:
        """What ``strategy`` answers; if None, the planner is as it was before."""
        kept = self.now, len(self.packings), list(self.notes)
        known = dict(self.planned), dict(self.copies), dict(self.tiled), dict(self.row_tiles)
        decided = self.decisions.mark()
        tree: Tree | None = None
        try:
            tree = strategy(self, group)
            return tree
        finally:
            if tree is None:
                self.decisions.back(decided)
                self.now = kept[0]
                del self.packings[kept[1] :]
                self.notes[:] = kept[2]
                self.planned, self.copies, self.tiled, self.row_tiles = known

    def _give_up(self, what: str, error: BudgetError) -> None:
        self.given_up.append(f"{what}, because {error.what}")

    @property
    def scop(self) -> Scop:
        """The Scop as it is by now."""
        return self.now.scop

    def split(self, now: Scheduled, statement: str, group: Group) -> tuple[str, ...]:
        """Take ``now``, in which ``statement`` is split, as the program; the names of the new
        parts, which run in the loops of the whole."""
        parts = added(self.now, now)
        self.now = now
        self._in_loops_of(statement, parts, group)
        return parts

    def isolate(
        self, statement: str, where: Sequence[Constraint], group: Group, rest: str = "edge"
    ) -> tuple[str, ...]:
        """Split ``statement`` where one of ``where`` does not hold; the names of these parts, which
        end in ``rest``."""
        made = cut(self.now, statement, list(map(condition, where)), rest)
        return self.split(made, statement, group)

    def never(self, group: Group, where: Constraint) -> bool:
        """Whether no statement of ``group`` has an instance where ``where`` holds."""
        return all(
            domain_set(self.scop, replace(s, domain=(*s.domain, where))).is_empty()
            for s in self.statements(group)
        )

    def versions(self, group: Group, where: Constraint, rest: str, note: str) -> list[str]:
        """Split the statements of ``group`` where the sizes violate ``where``; the names of these
        versions, which end in ``rest`` and of which ``note`` says why there are any."""
        names = list(group.names)
        self.now = cut(self.now, names if len(names) > 1 else names[0], [condition(where)], rest)
        order = [s.name for s in self.scop.statements]
        parts = [order[order.index(name) + 1] for name in names]  # as ``cut`` puts them
        for name, part in zip(names, parts, strict=True):
            self._in_loops_of(name, (part,), group)
        self.notes.append(f"{', '.join(parts)}: {note}, chosen when it runs")
        return parts

    def _in_loops_of(self, statement: str, parts: Sequence[str], group: Group) -> None:
        self.copies |= dict.fromkeys(parts, statement)
        for at in group.above:
            at |= dict.fromkeys(parts, at[statement])

    def completed(self, tree: Tree) -> Tree:
        """``tree`` with each loop's values for the parts of split statements."""

        def change(loop: Loop, below: Sequence[str]) -> Loop:
            return replace(loop, at={s: loop.at[self._known(s, loop)] for s in below})

        def walk_(node: Tree) -> Tree:
            node = with_children(node, tuple(walk_(child) for child in children(node)))
            if isinstance(node, Band):
                below = statements_below(node)
                return replace(node, loops=tuple(change(loop, below) for loop in node.loops))
            return node

        return walk_(tree)

    def _known(self, statement: str, loop: Loop) -> str:
        while statement not in loop.at:
            statement = self.copies[statement]
        return statement

    def _note(self, strategy: str, group: Group) -> None:
        """Neighbouring groups with one strategy share a note."""
        names = ", ".join(group.names)
        if self.notes and self.notes[-1].startswith(f"{strategy}: "):
            self.notes[-1] += f", {names}"
        else:
            self.notes.append(f"{strategy}: {names}")

    def title(self, group: Group) -> str:
        """The statement of ``group`` with most dims: what its decisions are called after."""
        return max(group.names, key=lambda n: len(self.scop.statement(n).dims))

    def size(self, name: str, default: int, why: str) -> int:
        """A number, ``default`` unless a plan says another one. ``why``: the reason for it, with
        its numbers."""
        near = (default // 4, default // 2, default, default * 2, default * 4)
        options = tuple(dict.fromkeys(n for n in near if n))
        return int(self.decisions.choose(name, options, default, size=True, why=why))

    def accepts(self, name: str, chosen: str, other: str) -> bool:
        """Whether ``chosen`` is done, unless a plan says the ``other``."""
        return self.decisions.choose(name, (chosen, other), chosen) == chosen

    # ---- what strategies ask -------------------------------------------------------------------

    def prepared(self, statement: Statement, number: int) -> bool:
        """Whether that read comes from panels that are packed before everything else, as constants
        are."""
        if self.scop.tensor(statement.reads[number].tensor).role == "constant":
            return True
        once = ((p.statement, p.operand) for p in self.packings if not p.loop)
        return (statement.name, number) in once

    def once(self, find: Callable[..., T], name: str, free: tuple[str, ...]) -> T:
        """``find(scop, statement, free, machine)``, memoised: several strategies ask the same."""
        key = (find, id(self.scop), name, free)
        if key not in self._found:  # together with the Scop, whose id is then nobody else's
            found = find(self.scop, self.scop.statement(name), free, self.machine)
            self._found[key] = self.scop, found
        return cast("T", self._found[key][1])

    def statements(self, group: Group) -> list[Statement]:
        return [self.scop.statement(name) for name in group.names]

    def free(self, group: Group, name: str) -> tuple[str, ...]:
        """The dims of a statement, in textual order, that the loops above do not determine."""
        known = self.solved(group, name)
        position = self.scop.statement(name).position
        return tuple(p for p in position if isinstance(p, str) and p not in known)

    def common(self, group: Group, fixed: Mapping[str, Expr]) -> Hyperplane | None:
        """A loop that all statements of ``group`` share, with the values ``fixed`` for some and
        along an open dim for the others; None if there is none."""
        own = {n: tuple(map(Var, self.free(group, n))) for n in group.names}
        return group.search().complete(fixed, own)

    def lanes(
        self, statement: Statement, dims: Sequence[str], *, latency: float = 0.0
    ) -> Lanes | None:
        """The best of ``dims`` to run as a vector (``choose_lanes``)."""
        return derived(
            lambda: choose_lanes(self.scop, statement, dims, self.machine, latency=latency),
            f"lanes {latency}",
            tuple(dims),
            self.scop,
            statement,
            self.machine,
        )

    def solved(self, group: Group, name: str) -> dict[str, Expr]:
        """The dims that the loops above determine, in terms of loops ``@0``, ``@1`` …"""
        dims = set(self.scop.statement(name).dims)
        known: dict[str, Expr] = {}
        changed = True
        while changed:
            changed = False
            for k, at in enumerate(group.above):
                form = linear(at[name], dims - set(known))
                if form is not None and list(form.coefficients.values()) in ([1], [-1]):
                    ((dim, factor),) = form.coefficients.items()
                    known[dim] = (Var(f"@{k}") - substitute(form.rest, known)) * factor
                    changed = True
        return known

    def spreads(self, group: Group) -> bool:
        """Whether the loops of ``group`` may be parallel: outermost, or right inside one serial
        loop, with a barrier in each of its iterations."""
        if not group.above:
            return True
        above = group.above[0]
        block = any(at is above for at in self.blocks)
        return len(group.above) == 1 and (block or (self.threads > 1 and not group.in_tile))

    def folds(self, group: Group, at: At) -> bool:
        """Whether a statement reduces along the loop ``at``, so that its iterations meet in an
        element."""
        return any(mentions(at[s.name], s.update.dims) for s in self.statements(group) if s.update)

    def point(self, group: Group, at: At) -> At:
        """``at`` as the point loop of the tiles of ``group.above`` that run over the same values.
        If these tiles differ among the statements, ``at`` as it is: values within different tiles
        are not comparable."""
        for tile in reversed(group.above):
            found: dict[str, Expr] = {}
            shifts: set[tuple[Affine, int]] = set()  # over the loops above, and the tile's size
            for name, value in at.items():
                match tile.get(name):
                    case Apply("floordiv", (numerator, Literal(size, _))):
                        known = self.solved(group, name)
                        shift = to_affine(substitute(numerator - value, known))
                        open_ = set(self.scop.statement(name).dims)
                        if shift is not None and not shift.variables() & open_:
                            found[name] = numerator % int(size)
                            shifts.add((shift, int(size)))
            if len(found) == len(at) and len(shifts) == 1:
                return found
        return at

    def loop(self, hint: str, at: At, kind: Kind = "serial") -> Loop:
        """A loop with a name of its own."""
        return Loop(fresh(hint, self._taken), at, kind)

    def name(self, at: At) -> str:
        """The name for a loop: the dim that it is of the first statement of which it is one."""
        return next((e.name for e in at.values() if isinstance(e, Var)), "w")


def _shared(plane: Hyperplane, planner: Planner, group: Group) -> Tree:
    return planner.share(planner, group, plane)


def _floors(expr: Expr) -> bool:
    return any(isinstance(n, Apply) and n.op == "floordiv" for n in walk(expr))
