"""The Scop of a loop kernel while it is written: tensors, parameters, statements in order."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft.frontend.loops.affine import cases, split, tightest
from weft.frontend.loops.conditions import Way
from weft.frontend.loops.folding import both, guarded
from weft.frontend.loops.source import Source
from weft.frontend.loops.values import Free, View, is_pure, loads
from weft.ir.dtypes import DType
from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import constrained, tuple_space
from weft.ir.scalar_affine import Affine, to_affine, to_expr
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Expr, Load, Var, literal, rewrite, select, variable_list
from weft.ir.scalar_paths import Path, path_guards, walk_scalar
from weft.ir.scalar_printer import python_text
from weft.ir.scop import (
    Access,
    Body,
    Constraint,
    Origin,
    Role,
    Scop,
    Statement,
    Tensor,
    Update,
)
from weft.ir.tensor_expr import Monoid

MAX_STATEMENTS = 2000
# x + (-0.0) is x for every x, which x + 0.0 is not.
_NEUTRAL = {"add": -0.0, "mul": 1}


@dataclass(slots=True)
class Turn:
    """Statements of one block in textual order: the next place in it."""

    next: int = 0

    def take(self) -> int:
        self.next += 1
        return self.next - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands: in loops over ``dims``, within ``domain``, where ``guard``, a bool
    of data, is true."""

    dims: tuple[str, ...] = ()
    domain: tuple[Constraint, ...] = ()
    prefix: tuple[int | str, ...] = ()
    turn: Turn = field(default_factory=Turn)
    guard: Expr | None = None
    label: str = ""

    def where(self, way: Way) -> Place:
        """The same place, where ``way`` holds."""
        domain = tightest((*self.domain, *way.constraints))
        return replace(self, domain=domain, guard=both(self.guard, way.guard))

    def inside(self, dim: str, constraints: Sequence[Constraint]) -> Place:
        """In a loop over ``dim`` that comes next here."""
        return replace(
            self,
            dims=(*self.dims, dim),
            domain=tightest((*self.domain, *constraints)),
            prefix=(*self.prefix, self.turn.take(), dim),
            turn=Turn(),
        )


@dataclass(frozen=True, slots=True)
class Assignment:
    """``tensor[indices] := value``, or folded into it with ``fold``."""

    target: Load
    value: Expr
    fold: Monoid | None = None


class ScopBuilder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: list[str] = []
        self.context: dict[Constraint, None] = {}
        self.derived: dict[str, Expr] = {}
        self.tensors: dict[str, Tensor] = {}
        self.statements: list[Statement] = []
        self._taken: set[str] = set()

    def scop(self) -> Scop:
        return Scop(
            self.name,
            tuple(self.parameters),
            tuple(self.context),
            tuple(self.tensors.values()),
            tuple(self.statements),
            tuple(self.derived.items()),
        )

    # ---- names --------------------------------------------------------------------------------

    def fresh(self, wanted: str) -> str:
        """A C identifier like ``wanted`` that nothing else in the Scop has."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def parameter(self, name: str, *constraints: Constraint) -> Var:
        if name not in self.parameters:
            self._taken.add(name)
            self.parameters.append(name)
            self.assume(constraints)
        return Var(name)

    def assume(self, constraints: Sequence[Constraint]) -> None:
        self.context |= dict.fromkeys(constraints)

    def derive(self, value: Expr) -> Var:
        """A parameter that is ``value``, a function of other parameters."""
        for name, known in self.derived.items():
            if known == value:
                return Var(name)
        name = self.fresh("_".join([*variable_list(value), "size"]))
        self.derived[name] = value
        self.parameters.append(name)
        return Var(name)

    def tensor(self, wanted: str, shape: tuple[Expr, ...], dtype: DType, role: Role) -> str:
        name = self.fresh(wanted)
        self.tensors[name] = Tensor(name, shape, dtype, role)
        for size in shape:
            form = to_affine(size)
            if form is not None and not (form.is_constant and form.constant >= 0):
                self.assume([Constraint(size)])
        return name

    def is_reached(self, place: Place) -> bool:
        """Whether some sizes and iterations lead there."""
        scop = Scop(self.name, tuple(self.parameters), (), (), ())
        space = tuple_space(scop, "S", len(place.dims))
        with bounded(what="a condition"):
            everything = (*self.context, *place.domain)
            return not constrained(space, place.dims, everything).is_empty()

    # ---- statements ---------------------------------------------------------------------------

    def held(self, expr: Expr, place: Place, source: Source, node: ast.AST) -> Expr:
        """``expr``, in a tensor of its own if what follows could change it."""
        if is_pure(expr):
            return expr
        target = Load(self.tensor("held", (), expr.dtype, "temp"), (), expr.dtype)
        self.emit(place, [Assignment(target, expr)], source, node)
        return target

    def settled(self, view: View, place: Place, source: Source, node: ast.AST) -> View:
        """``view`` where what follows may change the data that its subscripts come from."""
        done: list[Expr | Free] = []
        for subscript in view.subscripts:
            if isinstance(subscript, Free):
                start = self.held(subscript.start, place, source, node)
                done.append(Free(start, self.held(subscript.size, place, source, node)))
            else:
                done.append(self.held(subscript, place, source, node))
        return replace(view, subscripts=tuple(done))

    def emit(
        self, place: Place, parts: Sequence[Assignment], source: Source, node: ast.AST
    ) -> None:
        """What performs ``parts`` at once, everything read before anything is written: a statement
        for each case of a subscript of theirs, nearly always one."""
        for number, part in enumerate(parts):
            found = _cases_of(part.target)
            for way, target in found:
                chosen = [*parts[:number], replace(part, target=target), *parts[number + 1 :]]
                self.emit(place.where(way), chosen, source, node)
            if found:
                return
        self._emit(place, parts, source, node)

    def _emit(
        self, place: Place, parts: Sequence[Assignment], source: Source, node: ast.AST
    ) -> None:
        if len(self.statements) >= MAX_STATEMENTS:
            raise BudgetError(
                "WEFT-E0173",
                f"the kernel has more than {MAX_STATEMENTS} statements",
                where=source.where(node),
                why="each way through its conditions is a statement of its own",
            )
        exprs: list[Expr] = []
        if place.guard is not None:
            place, parts = _unguarded(place, place.guard, parts)
        if place.guard is not None:
            place, parts = self._anywhere(place, place.guard, parts)
        reads = Reads(place.domain)
        for part in parts:
            exprs += [_guarded(part, place.guard), *part.target.indices]
        done = iter(reads.translate(exprs))
        writes: list[Access] = []
        results: list[Expr] = []
        for part in parts:
            results.append(next(done))
            indices = tuple(next(done) for _ in part.target.indices)
            writes.append(access(str(part.target.source), indices))
            self._becomes_written(str(part.target.source))
        name = self.fresh(place.label or f"S{len(self.statements)}")
        text = source.label(node)
        if place.guard is not None:
            text += f", if {python_text(place.guard)}"
        origin = Origin(name, tuple(map(Var, place.dims)), text)
        self.statements.append(
            Statement(
                name,
                place.dims,
                place.domain,
                (*place.prefix, place.turn.take()),
                tuple(writes),
                tuple(reads.accesses),
                Body((), tuple(results)),
                _update(parts[0], writes[0], place),
                origin,
            )
        )

    def _anywhere(
        self, place: Place, guard: Expr, parts: Sequence[Assignment]
    ) -> tuple[Place, list[Assignment]]:
        """An element that is computed, where the guard is false, is any: it is left as it is.

        That takes one, so nothing happens to a tensor that has none.
        """
        done: list[Assignment] = []
        for part in parts:
            if any(to_affine(index) is None for index in part.target.indices):
                tensor, indices = str(part.target.source), part.target.indices
                sizes = tuple(Constraint(size - 1) for size in self.tensors[tensor].shape)
                place = place.where(Way(sizes))
                chosen = tuple(select(guard, index, 0) for index in indices)
                part = replace(part, target=Load(tensor, chosen, part.target.dtype))
            done.append(part)
        return place, done

    def _becomes_written(self, name: str) -> None:
        if self.tensors[name].role == "input":
            self.tensors[name] = replace(self.tensors[name], role="inout")


def _cases_of(target: Load) -> list[tuple[Way, Load]]:
    """``target`` where a subscript of it that is affine by cases is affine; none if all are."""
    for number, index in enumerate(target.indices):
        if to_affine(index) is None and is_pure(index):
            return [
                (
                    Way(known),
                    replace(target, indices=replaced(target.indices, number, to_expr(form))),
                )
                for known, form in cases(index) or ()
            ]
    return []


def _unguarded(
    place: Place, guard: Expr, parts: Sequence[Assignment]
) -> tuple[Place, Sequence[Assignment]]:
    """``parts`` without what ``guard`` only says about which of two values is to stay."""
    if len(parts) == 1 and parts[0].fold is None:
        (part,) = parts
        found = guarded(part.target, guard, part.value)
        if found is not None:
            rest, value, fold = found
            return replace(place, guard=rest), [Assignment(part.target, value, fold)]
    return place, parts


def _guarded(part: Assignment, guard: Expr | None) -> Expr:
    """What is written: where the guard is false, what leaves the element as it is."""
    if guard is None:
        return part.value
    dtype = part.value.dtype
    if part.fold is None:
        return select(guard, part.value, part.target)
    neutral = part.fold.identity[0]
    if dtype.is_float:
        neutral = _NEUTRAL.get(part.fold.name, neutral)
    return select(guard, part.value, literal(neutral, dtype))


def _update(part: Assignment, write: Access, place: Place) -> Update | None:
    """How the statement folds; along the loops on which the element does not depend."""
    if part.fold is None:
        return None
    if write.may:
        return Update(part.fold, place.dims)
    used = {name for index in write.indices for name in variable_list(index)}
    return Update(part.fold, tuple(dim for dim in place.dims if dim not in used))


# ---- Elements that expressions load → the reads of a statement, and operands in its body.
#
# An affine subscript becomes an access that is known exactly. Any other is a may access: it
# stands for every element of its tensor, and which one it is is computed, and checked, when it is
# performed. A load that is selected under affine conditions is guarded by them, and one whose
# subscript is affine by cases becomes several: ``x[max(i - 1, 0)]`` is ``x[i - 1] if i >= 1 else
# x[0]``.


class Reads:
    """The reads of one statement over ``domain``, each once."""

    def __init__(self, domain: Sequence[Constraint]) -> None:
        self.accesses: list[Access] = []
        forms = [to_affine(c.expr) for c in domain if not c.equality]
        self._known = [form for form in forms if form is not None]
        self._numbers: dict[Access, int] = {}

    def translate(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        """``exprs`` over operands: ``Load(k, ())`` for the value of ``accesses[k]``."""
        exprs = [
            rewrite(expr, lambda n: _by_cases(n) if isinstance(n, Load) else n) for expr in exprs
        ]
        paths = path_guards(*exprs)
        done: dict[int, Expr] = {}
        for node in walk_scalar(*exprs):
            operands = tuple(done[id(child)] for child in node.children)
            same = all(a is b for a, b in zip(operands, node.children, strict=True))
            rebuilt = node if same else node.rebuild(operands)
            if isinstance(node, Load) and isinstance(rebuilt, Load):
                rebuilt = self._operand(rebuilt, guard_of(paths[id(node)], self._known))
            done[id(node)] = rebuilt
        return tuple(done[id(expr)] for expr in exprs)

    def _operand(self, load: Load, guard: tuple[Constraint, ...]) -> Load:
        made = access(str(load.source), load.indices, guard)
        number = self._numbers.setdefault(made, len(self.accesses))
        if number == len(self.accesses):
            self.accesses.append(made)
        return Load(number, (), load.dtype)


def _by_cases(node: Load) -> Expr:
    """A load with min, max, abs or a conditional in its subscripts, selected by their cases."""
    for number, index in enumerate(node.indices):
        branches = None if to_affine(index) is not None or loads(index) else split(index)
        if branches is not None and cases(index) is not None:
            condition, *sides = branches
            one, other = (
                Load(node.source, replaced(node.indices, number, side), node.dtype)
                for side in sides
            )
            return select(condition, _by_cases(one), _by_cases(other))
    return node


def replaced(indices: tuple[Expr, ...], number: int, index: Expr) -> tuple[Expr, ...]:
    """``indices`` with another one in place ``number``."""
    return (*indices[:number], index, *indices[number + 1 :])


def access(tensor: str, indices: Sequence[Expr], guard: tuple[Constraint, ...] = ()) -> Access:
    """An access at ``indices``, whose own loads are of operands."""
    forms = [to_affine(index) for index in indices]
    affine = tuple(to_expr(form) for form in forms if form is not None)
    if len(affine) == len(forms):
        return Access(tensor, affine, guard)
    known = tuple(literal(0) if form is None else to_expr(form) for form in forms)
    return Access(tensor, known, guard, may=True, body_indices=tuple(indices))


def guard_of(path: Path, known: Sequence[Affine] = ()) -> tuple[Constraint, ...]:
    """What the conditions on ``path`` say about indices, the forms ``known`` being at least 0."""
    found: dict[Constraint, None] = {}
    facts = list(known)
    for condition, holds in path:
        follows = conjunction(condition, holds, facts)
        facts += follows.at_least
        found |= dict.fromkeys(Constraint(to_expr(form)) for form in follows.at_least)
        found |= dict.fromkeys(Constraint(to_expr(form), equality=True) for form in follows.equal)
    return tuple(found)
