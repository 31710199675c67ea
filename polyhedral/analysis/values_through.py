"""Values through a tensor: do they stay within an iteration of a loop?

That is what privatisation, contraction and register promotion ask. Flow answers, not memory: a
scalar that every iteration writes before it reads it carries nothing, whatever its memory does.

An update reads the one before it. So whoever reads a sum reads all of its updates, at one remove or
at many, and all of them stay within an iteration where each stays with the one before: that all are
seen is asked, which isl answers sooner than which is the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import access_map, difference, tuple_names, union_maps
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr
from weft.ir.scop import Access, Role, Scop, Statement
from weft.polyhedral.proof.flow import FINAL, flow


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of instances: of statement ``first`` and of statement ``second``."""

    first: Statement
    second: Statement
    set: isl.Set  # flattened

    def agree(self, at: Mapping[str, Expr]) -> bool:
        """Whether ``at`` (statement name → a loop's value) is the same on both sides of each."""
        return self.equal(at[self.first.name], at[self.second.name])

    def equal(self, one: Expr, two: Expr) -> bool:
        """Whether ``one``, at the first of each pair, is ``two`` at the second."""
        left, right = (affine(one), self.first.dims), (affine(two), self.second.dims)
        delta = difference(self.set.get_space(), left, right)
        return all(
            self.set.add_constraint(
                isl.Constraint.inequality_from_aff(delta.scale_val(sign).add_constant_val(-1))
            ).is_empty()
            for sign in (1, -1)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Through:
    """What goes through one tensor. Uses are numbered by statement: its reads, then its writes."""

    seen: tuple[tuple[int, Pairs], ...]  # a use of the tensor; readers and writers that it sees
    uninitialised: bool  # whether some read may see what the tensor held before the Scop

    def stays_within(self, at: Mapping[str, Expr]) -> bool:
        """Whether each value is read in the iteration that wrote it. Ask inside ``bounded``."""
        return not self.uninitialised and all(pairs.agree(at) for _, pairs in self.seen)


def values_through(scop: Scop, tensor: str, schedule: isl.UnionMap | None = None) -> Through:
    """What reads of ``tensor`` see under ``schedule`` (instances → times; the initial order).

    Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="the analysis of private storage"):
        found = flow(_only(scop, tensor), schedule, lambda s: s.update is not None, implicit=True)
        seen = [
            (read.number, _pairs(scop, part))
            for read, union in found.sources.items()
            for part in union_maps(union)
        ]
        initial = any(not elements.is_empty() for elements in found.initial.values())
    return Through(tuple(seen), initial)


@dataclass(frozen=True, slots=True)
class Meetings:
    """Which uses of one tensor exchange values. ``seen``: (reader, number of its use, writer); the
    reader '' is whoever reads the tensor in the end. ``initial``: uses (statement, number) that may
    see what the tensor held before."""

    seen: tuple[tuple[str, int, str], ...]
    initial: tuple[tuple[str, int], ...]


def meetings(scop: Scop, tensor: str) -> Meetings:
    """Who sees whose values in ``tensor``, and in the end, in the initial order.

    Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="the analysis of private storage"):
        found = flow(_only(scop, tensor, scop.tensor(tensor).role))
        seen = []
        for read, union in found.sources.items():
            reader = ("", FINAL) if read.number == FINAL else (read.name, read.number)
            for part in union_maps(union):
                if not part.is_empty():
                    seen.append((*reader, tuple_names(part)[1]))
        initial = tuple(
            (read.name, read.number)
            for read, elements in found.initial.items()
            if read.number != FINAL and not elements.is_empty()
        )
    return Meetings(tuple(seen), initial)


def sharing(scop: Scop, tensor: str) -> tuple[Pairs, ...]:
    """The pairs of instances that touch one element of ``tensor``, reads with reads too."""
    uses = [(s, a) for s in scop.statements for a in (*s.writes, *s.reads) if a.tensor == tensor]
    with bounded(what="the analysis of private storage"):
        maps = [(s, access_map(scop, s, a)) for s, a in uses]
        return tuple(
            _pairs(scop, one.apply_range(two.reverse()))
            for k, (_, one) in enumerate(maps)
            for _, two in maps[k:]
        )


def _pairs(scop: Scop, pairs: isl.Map) -> Pairs:
    first, second = tuple_names(pairs)
    return Pairs(scop.statement(first), scop.statement(second), pairs.wrap().flatten())


def _only(scop: Scop, tensor: str, role: Role = "temp") -> Scop:
    """``scop`` with the statements and accesses of ``tensor`` alone, by default with nobody to read
    its end."""

    def kept(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(a for a in accesses if a.tensor == tensor)

    statements = (replace(s, reads=kept(s.reads), writes=kept(s.writes)) for s in scop.statements)
    return replace(
        scop,
        tensors=(replace(scop.tensor(tensor), role=role),),
        statements=tuple(s for s in statements if s.reads or s.writes),
    )
