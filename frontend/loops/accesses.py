"""Elements that expressions load → the reads of a statement, and operands in its body.

An affine subscript becomes an access that is known exactly. Any other is a may access: it stands
for every element of its tensor, and which one it is is computed, and checked, when it is performed.
A load that is selected under affine conditions is guarded by them, and one whose subscript is
affine by cases becomes several: ``x[max(i - 1, 0)]`` is ``x[i - 1] if i >= 1 else x[0]``.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.loops.affine import cases, split
from weft.frontend.loops.values import loads
from weft.frontend.scalar_affine import Affine, to_affine, to_expr
from weft.frontend.scalar_condition import conjunction
from weft.frontend.scalar_expr import Expr, Load, literal, rewrite, select
from weft.frontend.scalar_paths import Path, path_guards, walk_scalar
from weft.polyhedral.scop import Access, Constraint


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
