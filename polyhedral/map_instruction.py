"""Instruction mapping: which dims of a statement are an instruction's, and what stands against it.

    C[i, j] += A[i, k] * B[k, j]   is   acc[row, lane] += a[row, q] * b[lane, q]   in two ways:

        row = i, lane = j, q = k, a = A, b = B       as A lies in memory; B has to be interleaved
        row = j, lane = i, q = k, a = B, b = A       C changes by jumps along i

The instruction's own semantics are a statement too (``instruction.Instruction``). What makes a
mapping is nothing but accesses and arithmetic:

1. The statement folds what the instruction folds in: its expression is the instruction's with
   expressions of its own for the instruction's operands (``scalar_match``), and the monoid is the
   same. So every operand stands for something of the statement.
2. Each dim of the statement *moves* some of (the updated element, the operands), and so does each
   dim of the instruction. A dim of the statement may be put on one of the instruction's that moves
   the same: then what an operand is follows from where it stands in the instruction, and only then
   is it used as often as it could be.
3. Each of the instruction's dims has at least one dim. If it has several, they are counted
   through, the last one fastest (``row = h, w`` is ``row = 14 * h + w``): affine, as long as all
   but the first have constant sizes. Other orders number the same points differently and are left
   out, as are sizes: a dim is cut into as many issues as it takes, the last perhaps in part.
4. No two points of the instruction's dims update the same element.
5. Sums over the instruction's own dims are in its order: the monoid's laws have to allow that.

``Mapped.assignments`` are all of these, over all subsets of dims. Dims that are left are loops
around: ``streams`` if the updated element stays, else ``outer``; so batches, groups, taps of a
convolution need no rules of their own. Operands that do not lie in memory as the instruction wants
them are reported, not refused: packing makes them so.

In the spirit of Exo's ``replace``, TVM's tensor intrinsics, and the access-matrix matching of AMOS
(Zheng et al., ISCA 2022), without a schedule to start from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from math import perm, prod

import islpy as isl

from weft.ir import dtypes
from weft.ir.errors import BudgetError
from weft.ir.instruction import ACCUMULATOR, Instruction
from weft.ir.isl_context import bounded
from weft.ir.named_isl import access_map, constrained, multi_aff, sample, tuple_space
from weft.ir.scalar_expr import Expr, Literal, Load, Var, literal, walk
from weft.ir.scalar_match import matches
from weft.ir.scalar_printer import scalar_text
from weft.ir.schedule_verifier import for_parameters, instance
from weft.ir.scop import Access, Constraint, Scop, Statement
from weft.ir.scop_printer import access_text
from weft.polyhedral.analysis.linear import (
    dims_moving,
    expression_moves,
    first_step,
    known_extent,
    moves,
    operand_number,
    stride,
    tell_apart,
)

MAX_ASSIGNMENTS = 4096  # to look at

Moved = frozenset[str]  # what a dim moves: names of the instruction's tensors


@dataclass(frozen=True, slots=True)
class Misfit:
    """Read ``number`` (None: the target) does not lie in memory as it should along ``dim``."""

    number: int | None
    tensor: str
    dim: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """``dims``: the instruction's dims -> the statement's; ``operands``: its tensors -> what they
    are, over the statement's reads (empty with ``any_update``). ``streams`` are stepped over
    inside, ``outer`` dims tell tiles apart. ``packs``: operands that would need packing, and the
    target if it is scattered."""

    instruction: Instruction
    dims: Mapping[str, tuple[str, ...]]
    operands: Mapping[str, Expr]
    streams: tuple[str, ...]
    outer: tuple[str, ...]
    packs: tuple[Misfit, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    """``assignments``, those with the fewest packs first, then those of single dims, inner before
    outer ones; ``refusals``: what stood against others, each a sentence."""

    assignments: tuple[Assignment, ...]
    refusals: tuple[str, ...]


def map_instruction(
    scop: Scop,
    statement: Statement,
    instruction: Instruction,
    free: Sequence[str] | None = None,
    *,
    several: bool = False,
    reasons: bool = True,
) -> Mapped:
    """Every way in which ``instruction`` computes ``statement``.

    ``free``: the dims that may be assigned or streamed, by default all; the others are fixed by
    loops outside. ``several``: more than one dim may be put on one of the instruction's (not where
    it takes any update). ``reasons``: say of each other choice of single dims what stands against
    it. Whether a tile may stand where it is put, with respect to what else the program does to its
    elements, is ``proof/register_tile``'s question. Raises ``BudgetError``
    (WEFT-E0429) where there would be more than ``MAX_ASSIGNMENTS`` to look at.
    """
    reason = _unsuitable(statement, instruction)
    if reason:
        return Mapped((), (reason,))
    dims = tuple(statement.dims if free is None else free)
    assignments: list[Assignment] = []
    refusals: list[str] = []
    for operands in _operands(statement, instruction):
        view = _View(scop, statement, instruction, dims, operands)
        assignments += view.assignments(several)
        refusals += view.refusals() if reasons else ()
    place = {dim: -n for n, dim in enumerate(dims)}
    assignments.sort(key=lambda a: _preference(a, place))
    return Mapped(tuple(assignments), tuple(dict.fromkeys(refusals)))


def _preference(a: Assignment, place: Mapping[str, int]) -> tuple[object, ...]:
    given = list(a.dims.values())
    return len(a.packs), [len(dims) for dims in given], [[place[d] for d in g] for g in given]


# ---- what does not depend on dims ----------------------------------------------------------------


def _unsuitable(statement: Statement, instruction: Instruction) -> str:
    """What stands against ``statement`` whatever the assignment, or ''."""
    update, own = statement.update, instruction.semantics.update
    assert own is not None, "an instruction accumulates"
    if update is None:
        return f"{statement.name} is no update of an element (+=, max, …)"
    if any(a.may for a in statement.accesses):
        return f"{statement.name} accesses elements that depend on data"
    if any(w.guard for w in statement.writes):
        return f"{statement.name} writes under a condition of its own"
    if instruction.summed and not update.monoid.laws >= {"associative", "commutative"}:
        return f"{statement.name} keeps its order, {instruction.name} sums up in its own"
    if instruction.any_update:
        return ""
    if update.monoid.dtypes != own.monoid.dtypes:
        return f"{statement.name} is not of {own.monoid.dtypes[0]}"
    if update.monoid.name != own.monoid.name:
        return f"{instruction.name} folds with {own.monoid.name}, not {update.monoid.name}"
    if next(iter(_operands(statement, instruction)), None) is None:
        wanted = _shown(instruction.value, instruction.tensors)
        return f"what {statement.name} adds is not {wanted}"
    return ""


def _operands(statement: Statement, instruction: Instruction) -> Iterator[Mapping[str, Expr]]:
    """What the instruction's operands may be, the statement's expression being its."""
    if instruction.any_update:
        yield {}
        return
    if len(statement.body.results) != 1 or statement.body.lets:
        return
    for found in matches(instruction.value, statement.body.results[0]):
        yield {instruction.tensors[number]: expr for number, expr in found.items()}


def _shown(value: Expr, names: Sequence[str]) -> str:
    """``value`` in words: ``int32(a) * int32(b)``."""
    match value:
        case Load(source=int() as number):
            return names[number]
        case Literal():
            return str(value.value)
    parts = [_shown(child, names) for child in value.children]
    signs = {"mul": " * ", "add": " + ", "sub": " - "}
    op = getattr(value, "op", "")
    if op in signs:
        return signs[op].join(parts)
    return f"{op or value.dtype}({', '.join(parts)})"


# ---- assignments ---------------------------------------------------------------------------------

Given = Mapping[str, tuple[str, ...]]  # the instruction's dims -> the statement's


@dataclass(slots=True)
class _View:
    """A statement with expressions for the operands of an instruction. ``moved`` and ``wanted``:
    what the free dims of either move, asked of many assignments."""

    scop: Scop
    statement: Statement
    instruction: Instruction
    free: tuple[str, ...]
    operands: Mapping[str, Expr]
    moved: Mapping[str, Moved] = field(init=False)
    wanted: Mapping[str, Moved] = field(init=False)
    _steps: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = self.instruction.semantics
        named = {n: Load(k, (), dtypes.int64) for k, n in enumerate(self.instruction.tensors)}
        self.wanted = {name: _moves(own, named, name) for name in own.dims}
        self.moved = {dim: _moves(self.statement, self.operands, dim) for dim in self.free}

    def assignments(self, several: bool) -> Iterator[Assignment]:
        for given in self._subsets() if several and self.operands else self._singles():
            if not self._against(given):
                yield self._assignment(given)

    def refusals(self) -> Iterator[str]:
        """Why the other assignments of single dims are none."""
        names = self.instruction.semantics.dims
        if len(self.free) < len(names):
            dims = ", ".join(self.free) or "none"
            yield (
                f"{self.statement.name} has {len(self.free)} dims ({dims}), "
                f"{self.instruction.name} needs {len(names)}"
            )
        for given in self._singles():
            against = self._against(given)
            if against:
                yield f"{mapping_text(self.statement, given, self.operands)}: {against}"

    def _singles(self) -> Iterator[Given]:
        """All choices of one dim for each of the instruction's."""
        names = self.instruction.semantics.dims
        self._count(perm(len(self.free), len(names)))
        for chosen in permutations(self.free, len(names)):
            yield {name: (dim,) for name, dim in zip(names, chosen, strict=True)}

    def _subsets(self) -> Iterator[Given]:
        """All choices of some dims for each of the instruction's that move the same."""
        names = self.instruction.semantics.dims
        wanted, moved = self.wanted, self.moved
        choices = [(None, *(n for n in names if wanted[n] == moved[d])) for d in self.free]
        self._count(prod(map(len, choices)))
        for chosen in product(*choices):
            pairs = list(zip(self.free, chosen, strict=True))
            given = {name: tuple(d for d, c in pairs if c == name) for name in names}
            if all(given.values()):
                yield given

    def _count(self, count: int) -> None:
        if count > MAX_ASSIGNMENTS:
            raise BudgetError(
                "WEFT-E0429",
                f"{self.statement.name} has too many dims to look at every mapping",
                why=f"{count} choices, more than {MAX_ASSIGNMENTS}",
                hint="give the dims that matter",
            )

    def _assignment(self, given: Given) -> Assignment:
        used = {d for dims in given.values() for d in dims}
        moving = [d for d in self.free if self._updates(d)]
        return Assignment(
            self.instruction,
            given,
            self.operands,
            tuple(d for d in self.free if d not in moving),
            tuple(d for d in moving if d not in used),
            tuple(self._misfits(given)),
        )

    def _updates(self, dim: str) -> bool:
        return any(moves(w, dim) for w in self.statement.writes)

    # ---- what stands against an assignment --------------------------------------------------

    def _against(self, given: Given) -> str:
        """The first constraint that ``given`` fails, or ''."""
        found = self._shapes(given) if not self.operands else self._movement(given)
        return next(found, "") or self._sizes(given) or self._shared(given)

    def _movement(self, given: Given) -> Iterator[str]:
        """Rule 2: each dim moves what the instruction's does."""
        own = self.instruction
        for name, dims in given.items():
            wanted = self.wanted[name]
            for dim in dims:
                moved = self.moved[dim]
                for tensor in (ACCUMULATOR, *own.tensors):
                    if (tensor in moved) != (tensor in wanted):
                        here, there = (
                            ("changes", "stays") if tensor in moved else ("stays", "changes")
                        )
                        yield (
                            f"{self._called(tensor)} {here} along {dim}, "
                            f"{tensor} of {own.name} {there} along {name}"
                        )

    def _shapes(self, given: Given) -> Iterator[str]:
        """Rule 2 for an instruction that takes any update: each read is like one of its operands,
        or steady, and each of its operands has one."""
        own = self.instruction.semantics
        back = {dim: name for name, dims in given.items() for dim in dims}
        for name, (dim, *_) in given.items():
            if self._updates(dim) != any(moves(w, name) for w in own.writes):
                does = "does not update" if not self._updates(dim) else "updates"
                yield f"{self.statement.name} {does} elements along {dim}"
        shapes = {dims_moving(read, own.dims) for read in own.reads}
        seen: set[Moved] = set()
        for read in self.statement.reads:
            along = frozenset(back[d] for d in dims_moving(read, tuple(back)))
            if along and along not in shapes:
                both = " and ".join(given[name][0] for name in own.dims if name in along)
                yield f"{read.tensor} changes along {both}, so nothing of it is used twice"
            seen.add(along)
        for shape in sorted(shapes - seen, key=sorted):
            missing = ", ".join(given[name][0] for name in own.dims if name in shape)
            yield f"no operand changes along {missing} alone"

    def _sizes(self, given: Given) -> str:
        """Rule 3: all but the first of several dims have constant sizes."""
        for name, dims in given.items():
            for dim in dims[1:]:
                if known_extent(self.statement, dim) is None:
                    shown = ", ".join(dims)
                    return f"{shown} cannot be counted through as {name}: {dim} has no known size"
        return ""

    def _shared(self, given: Given) -> str:
        """Rule 4: no two points update one element."""
        inside = [d for dims in given.values() for d in dims if self._updates(d)]
        if all(tell_apart(write, inside) for write in self.statement.writes):
            return ""
        outside = [Var(d) for d in self.statement.dims if d not in inside]
        with bounded(what="the check of an instruction's mapping"):
            space = tuple_space(self.scop, "", len(outside))
            for write in self.statement.writes:
                fixed = multi_aff(self.scop, self.statement, outside, space)
                element = access_map(self.scop, self.statement, write)
                if not element.flat_range_product(isl.Map.from_multi_aff(fixed)).is_injective():
                    return f"{' and '.join(inside)} share elements of {write.tensor}"
        return ""

    def _called(self, tensor: str) -> str:
        """The user's name of what is ``tensor`` in the instruction."""
        if tensor == ACCUMULATOR:
            return self.statement.writes[0].tensor
        expr = self.operands[tensor]
        reads = [self.statement.reads[operand_number(n)] for n in walk(expr) if isinstance(n, Load)]
        return " and ".join(dict.fromkeys(r.tensor for r in reads)) or f"what {tensor} stands for"

    # ---- memory -----------------------------------------------------------------------------

    def _misfits(self, given: Given) -> Iterator[Misfit]:
        """Operands that do not lie in memory as the instruction places them."""
        own = self.instruction.semantics
        back = {d: name for name, dims in given.items() for d in dims}
        numbered: list[tuple[int | None, Access, Access]] = [
            (None, w, own.writes[0]) for w in self.statement.writes
        ]
        for place, read in enumerate(self.statement.reads):
            numbered += [(place, read, like) for like in self._likes(place, read, back)]
        for name, dims in given.items():
            for number, access, like in numbered:
                if any(self._misplaced(access, like, name, dims, d) for d in dims):
                    yield Misfit(number, access.tensor, dims[-1])

    def _likes(self, number: int, read: Access, back: Mapping[str, str]) -> Iterator[Access]:
        """The instruction's operands that a read is part of."""
        own = self.instruction.semantics
        along = {back[d] for d in dims_moving(read, tuple(back))}
        for like in own.reads:
            expr = self.operands.get(like.tensor)
            if expr is None:
                if along and along == dims_moving(like, own.dims):
                    yield like
            elif any(isinstance(n, Load) and n.source == number for n in walk(expr)):
                yield like

    def _misplaced(
        self, access: Access, like: Access, name: str, dims: tuple[str, ...], dim: str
    ) -> bool:
        """Whether ``access`` steps along ``dim`` by another distance than the instruction does."""
        if not moves(access, dim):
            return False
        key = like.tensor, name
        if key not in self._steps:
            place = self.instruction.operands[like.tensor].place
            self._steps[key] = first_step(place[-1], name)
        step = self._steps[key]
        if not step:
            return False
        for later in dims[dims.index(dim) + 1 :]:
            step *= known_extent(self.statement, later) or 0
        tensor = self.scop.tensor(access.tensor)
        stored = access.indices[tensor.contracted :]
        return stride(stored, tensor.shape[tensor.contracted :], dim) != step


def _moves(statement: Statement, operands: Mapping[str, Expr], dim: str) -> Moved:
    """What ``dim`` moves: names of ``operands``, and the accumulator's."""
    found = {name for name, e in operands.items() if expression_moves(statement, e, dim)}
    updates = any(moves(w, dim) for w in statement.writes)
    return frozenset(found | {ACCUMULATOR} if updates else found)


# ---- Does one issue of an instruction read what it updates?
#
#     for i, j, k:  Y[i, j] += Y[i, k] * X[k, j]      as      acc[lane] += a[0] * b[lane]
#
# An issue takes its operands before it updates anything. With ``lane = j``, the one of Y[0, 0:8]
# at ``k = 1`` takes one Y[0, 1] for all lanes; in the loops, the lanes behind ``j = 1`` read it
# after it was updated, those before it earlier. With ``lane = i`` it reads elements of column k
# and updates those of column j, each lane in a row of its own: that is right.
#
# ``map_instruction`` looks at what dims move, not at which elements two accesses share. Wherever
# a schedule puts a tile, ``register_tile`` asks about that one; here no position is known, so all
# are asked about.


AGAIN = " again"  # behind the names of the second instance's dims


def issue_conflict(scop: Scop, statement: Statement, found: Assignment) -> str:
    """Two instances that one issue may have, of which one updates what the other reads, in words;
    '' where there are none."""
    together = list(_together(statement, found))
    for write in statement.writes:
        for read in statement.reads:
            if read.tensor == write.tensor:
                conflict = _meeting(scop, statement, (write, read), together)
                if conflict:
                    return conflict
    return ""


def _together(statement: Statement, found: Assignment) -> Iterator[Constraint]:
    """What holds of two instances in one issue, wherever that begins."""
    inside = {d for dims in found.dims.values() for d in dims}
    for dim in statement.dims:
        if dim not in inside:
            yield Constraint(Var(dim) - Var(dim + AGAIN), equality=True)
    for own, dims in found.dims.items():
        away = _counted(statement, dims, "") - _counted(statement, dims, AGAIN)
        farthest = found.instruction.extents[own] - 1
        yield from (Constraint(farthest - away), Constraint(farthest + away))


def _counted(statement: Statement, dims: Sequence[str], suffix: str) -> Expr:
    """The number of a point of ``dims``, the last one fastest: ``14 * h + w``."""
    number: Expr = literal(0)
    for dim in dims:
        number = number * (known_extent(statement, dim) or 1) + Var(dim + suffix)
    return number


def _meeting(
    scop: Scop,
    statement: Statement,
    accesses: tuple[Access, Access],
    together: Sequence[Constraint],
) -> str:
    write, read = accesses
    with bounded(what="the check of what an issue reads and updates"):
        updates = access_map(scop, statement, write)
        pairs = updates.apply_range(access_map(scop, statement, read).reverse())
        # One instance may read what it updates itself: it does so first in any case.
        others = pairs.subtract(isl.Map.identity(pairs.get_space())).wrap().flatten()
        names = (*statement.dims, *(d + AGAIN for d in statement.dims))
        near = constrained(others.get_space(), names, together)
        point = sample(others.intersect(isl.Set.from_basic_set(near)))
    if point is None:
        return ""
    parameters, values = point
    first, second = values[: len(statement.dims)], values[len(statement.dims) :]
    return (
        f"one issue may update an element of {write.tensor} for {instance(statement, first)} "
        f"and read it for {instance(statement, second)}{for_parameters(parameters)}"
    )


# ---- A mapping in words: ``row = i, lane = j, a = A, b = B``.


def mapping_text(
    statement: Statement, dims: Mapping[str, Sequence[str]], operands: Mapping[str, Expr]
) -> str:
    """``dims`` and ``operands`` as ``map_instruction.Assignment`` has them.

    A tensor that the statement reads at several places has its indices with it, as nothing else
    tells the operands apart: ``a = A[i, k], b = A[j, k]``.
    """
    tensors = [read.tensor for read in statement.reads]
    names = {
        number: access_text(read) if tensors.count(read.tensor) > 1 else read.tensor
        for number, read in enumerate(statement.reads)
    }
    loops = [f"{own} = {', '.join(chosen)}" for own, chosen in dims.items()]
    # The elements of a statement's reads are no indices of a load, so it prints empty brackets.
    shown = [
        f"{own} = {scalar_text(expr, lambda number: names[int(str(number))]).replace('[]', '')}"
        for own, expr in operands.items()
    ]
    return ", ".join([*loops, *shown])
