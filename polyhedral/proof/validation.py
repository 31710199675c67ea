"""Does a transformed Scop still compute the original? Dataflow validation.

``legality`` compares two orders of the same instances. Here the instances and the storage may have
changed: values recomputed in overlapping tiles, copied into packed or local buffers, inlined into
their readers, or held in temporaries of their own. ``Statement.origin`` says which original
instance each instance stands for; everything else is found out by comparing the flow of values.

For each read of each instance, and for the final value of each tensor that outlives the Scop:

    the instances (or initial elements) whose values it sees, in the order of the transformed tree,
    must stand for those that the read sees in the original.

* Statements that are new (no origin, no such name in the original) are looked through: a read of
  what they compute counts as their reads. So are original statements that are gone, on the other
  side. A statement that was changed in this way (an inlined producer, a hoisted constant) is
  compared by the set of all that it reads, else read by read.
* Of an associative and commutative update, a read must see the same contributions, in any order,
  each once; other updates keep their order, and where all writes of their tensors do, reads are
  compared by contributions too (``_in_place``). Contributions may come by way of partial results,
  and the first one may overwrite what starts as the identity (``partial_results``).
* What the bodies compute is not looked at.

What is unchanged between the two Scops (``unchanged``) need not be compared, nor its flow computed,
where the tree keeps the dependences (``order_check``). Nor does any tile loop matter for the flow
of what has a place in the initial order (``flow_under``).

By induction along the flow, the transformed program then ends with the original values, for all
sizes in its context. See Verdoolaege, Janssens, Bruynooghe, "Equivalence checking of static affine
programs using widening" (2012), for the general problem.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NoReturn

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    context_set,
    domain_set,
    encode,
    multi_aff,
    parameter_space,
    sample_named,
    sample_pair,
    tensor_box,
    tuple_space,
)
from weft.ir.scalar_expr import Literal, Load, Var
from weft.ir.schedule_tree import Tree
from weft.ir.schedule_verifier import for_parameters, instance, refusal, verify_schedule
from weft.ir.scop import Origin, Scop, Statement
from weft.ir.tensor_expr import Monoid
from weft.polyhedral.proof.contraction import check_contraction
from weft.polyhedral.proof.dependences import folding, reassociable
from weft.polyhedral.proof.flow import FINAL, Read, Seen, flow, instances, reads_of
from weft.polyhedral.proof.flow_under import flow_under
from weft.polyhedral.proof.order_check import keeps_dependences
from weft.polyhedral.proof.unchanged import Unchanged


def validate(original: Scop, transformed: Scop, tree: Tree) -> None:
    """Check that ``transformed``, run as ``tree`` says, computes what ``original`` computes.

    Raises IllegalScheduleError (WEFT-E0440: a read sees another value than in the original; E0441:
    a contribution to a reduction is counted twice; E0442: a statement stands for none of the
    original; E0443: a copy reads itself; the codes of ``verify_schedule`` and
    ``check_contraction``) with an instance, what it sees and what it should see, and BudgetError
    (WEFT-E0400) rather than running unbounded.
    """
    verify_schedule(transformed, tree)
    check_contraction(transformed, tree)
    with bounded(what="the validation of the transformed program"):
        _Comparison(original, transformed, tree).run()


class _Comparison:
    def __init__(self, original: Scop, transformed: Scop, tree: Tree) -> None:
        self.original = original
        self.transformed = transformed
        self.folding = folding(original)
        self.origins = _origins(original, transformed)
        self.source = {n: original.statement(o.statement) for n, o in self.origins.items()}
        self.combining = self._combining()
        self.opened = self._opened()
        ordered = keeps_dependences(transformed, tree)
        self.unchanged = Unchanged(original, transformed, self.origins if ordered else {})
        self.folds = self.folding | self._in_place()
        self.stands_for = self._stands_for()
        kept = {source.name for source in self.source.values()}
        gone = [s for s in original.statements if s.name not in kept and s.update is None]
        new = [s for s in transformed.statements if s.name not in self.origins]
        self.changed = [s for s in transformed.statements if self._is_changed(s)]
        self.finals = self._changed_finals()
        before = flow(
            original,
            folds=lambda s: s.name in self.folds,
            wanted={*self.finals, *self._reads_of(gone), *self._reads_before()},
        )
        wanted = (*self.finals, *self._reads_of(new), *self._reads_of(self.changed))
        after = flow_under(transformed, tree, self._folds, wanted)
        self.before, self.after = Seen(original, before, gone), Seen(transformed, after, new)
        self.composed = instances(transformed, [s for s in new if len(s.reads) != 1])
        self.as_sets: list[tuple[Seen, list[Read]]] = []  # reads that are compared as one set
        self._silent = [self._starts_and_contributions(o) for o in self.opened]

    def _combining(self) -> tuple[Statement, ...]:
        """The new updates: they fold partial results."""
        found = []
        for s in self.transformed.statements:
            if s.update is not None and s.name not in self.origins:
                why = why_not_combining(self.transformed, s, self.origins, self.folding)
                if why:
                    _misleading(s, why)
                found.append(s)
        return tuple(found)

    def _opened(self) -> tuple[Opened, ...]:
        """The updates that statements other than updates stand for."""
        found: dict[Opened, None] = {}
        for s in self.transformed.statements:
            source = self.source.get(s.name)
            if source is None or (source.update and source.update.monoid) == (
                s.update and s.update.monoid
            ):
                continue
            known = None if s.update else opened(self.original, source, self.folding)
            if known is None:
                _misleading(s, f"only one of it and {source.name} is that kind of update")
            found[known] = None
        return tuple(found)

    def _starts_and_contributions(self, of: Opened) -> tuple[isl.UnionSet, isl.UnionSet]:
        original = self.original
        starts = instances(original, [original.statement(name) for name in of.starts])
        return starts, instances(original, [original.statement(of.update)])

    def run(self) -> None:
        for statement in self.changed:
            self._compare(statement)
        if self.as_sets:
            self._one_stage(self.before, lambda s: s.name in self.folds)
            self._one_stage(self.after, self._folds)
        for final in self.finals:
            self._equal(f"the final value of {final.name}", [final], self.before.by([final]))
        if self.combining:
            self._combined_once()
        else:
            self._contributions_once()

    def _is_changed(self, statement: Statement) -> bool:
        """Whether ``statement`` stands for an original one and may see something else than it."""
        return statement.name in self.origins and not (
            self.unchanged.statement(statement.name)
            and all(self.unchanged.read(read) for read in self._reads_of([statement]))
        )

    def _changed_finals(self) -> list[Read]:
        finals = [Read(tensor.name, FINAL) for tensor in self.original.tensors]
        return [final for final in finals if not self.unchanged.read(final)]

    def _reads_of(self, statements: Iterable[Statement]) -> list[Read]:
        """All reads of ``statements``, transformed ones or original ones that are gone."""
        return [read for s in statements for read in reads_of(s, self._folds(s))]

    def _reads_before(self) -> list[Read]:
        """What the originals of the changed statements read."""
        names = {self.source[s.name].name for s in self.changed}
        sources = (self.original.statement(name) for name in sorted(names))
        return [read for s in sources for read in reads_of(s, s.name in self.folds)]

    def _folds(self, statement: Statement) -> bool:
        if statement in self.combining:
            return True
        source = self.source.get(statement.name)
        if source is None or source.name not in self.folds:
            return False
        return source.name not in self.folding or reassociable(statement)

    def _in_place(self) -> set[str]:
        """The updates of tensors whose writes are the same, in the same order, whatever their laws.

        If the tree keeps the dependences, the writes to each element of an unchanged tensor are one
        sequence, in both programs (``unchanged``). What a read sees of it is an interval: from the
        last write that is no contribution to the last one before the read. Two that are equal as
        sets end with the same write, and so hold the same value: no order is given away. Else
        (another storage, or order, or other writers) these updates are compared by the last write.
        """
        same = {t.name for t in self.original.tensors if self.unchanged.read(Read(t.name, FINAL))}
        updates = (s for s in self.original.statements if s.update is not None)
        return {s.name for s in updates if same.issuperset(w.tensor for w in s.writes)}

    def _stands_for(self) -> isl.UnionMap:
        """Instances → original instances; initial elements → themselves."""
        scop = self.transformed
        result = isl.UnionMap.empty(parameter_space(scop))
        for name, origin in self.origins.items():
            statement, source = scop.statement(name), self.source[name]
            if self.unchanged.statement(name) and name == source.name:
                result = result.union(domain_set(scop, statement).to_union_set().identity())
                continue
            target = tuple_space(scop, encode("S", source.name), len(source.dims))
            part = isl.Map.from_multi_aff(multi_aff(scop, statement, origin.instance, target))
            part = part.intersect_domain(domain_set(scop, statement))
            clones, sources = instances(scop, [statement]), instances(self.original, [source])
            if not clones.apply(part.to_union_map()).is_subset(sources):
                _misleading(statement, f"some of its instances stand for none of {source.name}")
            result = result.union(part.to_union_map())
        for tensor in scop.tensors:
            result = result.union(tensor_box(scop, tensor.name).to_union_set().identity())
        return result

    def _compare(self, statement: Statement) -> None:
        """Compare what ``statement`` reads, read by read where both sides have the same reads."""
        source = self.source[statement.name]
        to_source = self.stands_for.intersect_domain(instances(self.transformed, [statement]))
        mine = reads_of(statement, self._folds(statement))
        theirs = reads_of(source, source.name in self.folds)
        if len(mine) != len(theirs) or self._restructured(mine, theirs):
            expected = to_source.apply_range(self.before.by(theirs))
            self._equal(f"what {statement.name} reads", mine, expected)
            self.as_sets += [(self.before, theirs), (self.after, mine)]
            return
        accesses = statement.accesses
        for read, old in zip(mine, theirs, strict=True):
            expected = to_source.apply_range(self.before.by([old]))
            what = f"what {statement.name} reads of {accesses[read.number].tensor}"
            self._equal(what, [read], expected)

    def _restructured(self, mine: Sequence[Read], theirs: Sequence[Read]) -> bool:
        """Whether reads go through statements that are gone, or through new ones of many reads."""
        old = self.before.directly(theirs).intersect_range(self.before.inside)
        now = self.after.directly(mine).intersect_range(self.composed)
        return not (old.is_empty() and now.is_empty())

    def _one_stage(self, side: Seen, folds: Callable[[Statement], bool]) -> None:
        """No instance whose reads are compared as one set sees two stages of a fold.

        ``t = s; s += x; y = t * s`` sees in all what ``s += x; y = s * s`` does. If two reads that
        share a value of an element see the same of it, then the set says what each of them sees.
        """
        updates = instances(side.scop, filter(folds, side.scop.statements))
        same = _same_element(side.scop, side.scop.statements)
        inside = [reads_of(s, folds=False) for s in side.transparent]
        for reads in (*(of for at, of in self.as_sets if at is side), *inside):
            seen = [side.by([read]) for read in reads]
            folded = [one for one in seen if not one.intersect_range(updates).is_empty()]
            for one, other in product(folded, seen):
                alike = one.intersect(other).apply_range(same)
                missed = one.subtract(other).intersect_range(updates).intersect(alike)
                if not missed.is_empty():
                    reader = isl.UnionSet.from_point(missed.domain().sample_point())
                    part = missed.intersect_domain(reader).range()
                    self._refuse(
                        "WEFT-E0440",
                        "a fold is read before and after a contribution, it cannot be told where",
                        [(reader, side.scop), (part, side.scop)],
                        f"one read of {self._shown(reader, side.scop)} sees "
                        f"{self._shown(part, side.scop)}, another one does not",
                        "keep the value from before the contribution in a temporary",
                    )

    def _equal(self, what: str, reads: Sequence[Read], expected: isl.UnionMap) -> None:
        """Check that ``reads`` see what stands for ``expected``."""
        actual = self.after.by(reads).apply_range(self.stands_for)
        expected = expected.intersect_params(context_set(self.transformed))
        if len(reads) == 1:
            actual, expected = self._without_starts(actual), self._without_starts(expected)
        if actual.is_equal(expected):
            return
        surplus, missing = actual.subtract(expected), expected.subtract(actual)
        wrong = surplus if not surplus.is_empty() else missing
        reader = isl.UnionSet.from_point(wrong.domain().sample_point())
        seen = {
            verb: values.intersect_domain(reader).range()
            for verb, values in (("sees", surplus), ("should see", missing))
        }
        seen = {verb: values for verb, values in seen.items() if not values.is_empty()}
        parts = [f"{verb} {self._shown(values, self.original)}" for verb, values in seen.items()]
        self._refuse(
            "WEFT-E0440",
            f"{what} is not what it was before the transformations",
            [(reader, self.transformed), *((v, self.original) for v in seen.values())],
            f"{self._shown(reader, self.transformed)} {self._element(reader, reads)}"
            f"{', but '.join(parts)}",
            "let the copy or the computation come behind what it needs, before what needs it,"
            " and be large enough",
        )

    def _refuse(
        self, code: str, what: str, places: Sequence[tuple[isl.UnionSet, Scop]], why: str, hint: str
    ) -> NoReturn:
        """Raise ``code``; ``places``: the reader, for whose parameters it is, and what it sees."""
        named = [(sample_named(points), scop) for points, scop in places]
        found = [scop.statement(name) for (kind, name, *_), scop in named if kind == "S"]
        raise refusal(code, what, found, why + for_parameters(named[0][0][2]), hint)

    def _element(self, reader: isl.UnionSet, reads: Sequence[Read]) -> str:
        """``reads A[3, 1]: it`` where ``reader`` is an instance and this its one read."""
        kind, name, _, _ = sample_named(reader)
        if kind != "S" or len(reads) != 1:
            return ""
        statement = self.transformed.statement(name)
        access = statement.accesses[reads[0].number]
        touched = access_map(self.transformed, statement, access)
        pair = sample_pair(touched.intersect_domain(isl.Set.from_union_set(reader)))
        if access.may or pair is None:
            return f"reads {access.tensor}: it "
        return f"reads {access.tensor}{list(pair[2]) if pair[2] else ''}: it "

    def _without_starts(self, seen: isl.UnionMap) -> isl.UnionMap:
        """``seen`` without the identity that a fold starts with, where contributions follow it."""
        for starts, contributions in self._silent:
            folded = seen.intersect_range(contributions).domain()
            seen = seen.subtract(seen.intersect_domain(folded).intersect_range(starts))
        return seen

    def _shown(self, points: isl.UnionSet, scop: Scop) -> str:
        kind, name, _, point = sample_named(points)
        return instance(scop.statement(name), point) if kind == "S" else f"{name}{list(point)}"

    def _contributions_once(self) -> None:
        """No read sees two instances that stand for the same contribution to a reduction."""
        for name in sorted(self.folding):
            clones = [
                self.transformed.statement(n) for n, s in self.source.items() if s.name == name
            ]
            if all(self.unchanged.statement(s.name) for s in clones):
                continue
            own = self.stands_for.intersect_domain(instances(self.transformed, clones))
            twice = own.apply_range(own.reverse())
            twice = twice.subtract(own.domain().identity())
            if not twice.is_empty() and not self._copied_into(clones):
                twice = twice.intersect(_same_element(self.transformed, clones))
            if not twice.is_empty():
                self._refuse_twice(twice)

    def _combined_once(self) -> None:
        """No read sees a contribution by two ways, through partial results or not."""
        updates = (self.original.statement(name) for name in sorted(self.folding))
        behind = self.stands_for.union(self.after.behind.apply_range(self.stands_for))
        behind = behind.intersect_range(instances(self.original, updates))
        twice = behind.apply_range(behind.reverse()).subtract(behind.domain().identity())
        if not twice.is_empty():
            self._refuse_twice(twice, directly=True)

    def _copied_into(self, clones: Sequence[Statement]) -> bool:
        """Whether an accumulator of ``clones`` may start from a copy of another one."""
        accumulators = {s.writes[0].tensor for s in clones}
        return any(w.tensor in accumulators for s in self.after.transparent for w in s.writes)

    def _refuse_twice(self, twice: isl.UnionMap, directly: bool = False) -> None:
        """Raise if some read sees both of a pair of ``twice``; a write between may part them."""
        for read in self.after.flow.sources:
            seen = self.after.directly([read]) if directly else self.after.by([read])
            pairs = twice.intersect(seen.reverse().apply_range(seen))
            if pairs.is_empty():
                continue
            first = isl.UnionSet.from_point(pairs.domain().sample_point())
            second = pairs.intersect_domain(first).range()
            self._refuse(
                "WEFT-E0441",
                "a contribution to a reduction is counted twice",
                [(first, self.transformed)],
                f"{self._shown(first, self.transformed)} and "
                f"{self._shown(second, self.transformed)} both add the same",
                "tiles that overlap may recompute values, but not fold into one accumulator",
            )


def _origins(original: Scop, transformed: Scop) -> dict[str, Origin]:
    """What each statement of ``transformed`` stands for, new ones left out."""
    by_name = {s.name: s for s in original.statements}
    found = {}
    for statement in transformed.statements:
        origin = statement.origin
        if origin is None or not origin.statement:
            if statement.name not in by_name:
                continue
            origin = Origin(statement.name, tuple(Var(d) for d in statement.dims))
        source = by_name.get(origin.statement)
        if source is None:
            _misleading(statement, f"the original has no statement {origin.statement!r}")
        if len(source.dims) != len(origin.instance):
            _misleading(statement, f"{source.name} has the dims {', '.join(source.dims)}")
        found[statement.name] = origin
    return found


def _same_element(scop: Scop, statements: Iterable[Statement]) -> isl.UnionMap:
    """Instances of ``statements``, and elements before them, → those with the same element."""
    into = isl.UnionMap.empty(parameter_space(scop))
    for box in (tensor_box(scop, tensor.name) for tensor in scop.tensors):
        into = into.union(box.to_union_set().identity())
    for s, write in ((one, write) for one in statements for write in one.writes):
        into = into.union(access_map(scop, s, write).to_union_map())
    return into.apply_range(into.reverse())


def _misleading(statement: Statement, why: str) -> NoReturn:
    what = f"statement {statement.name} does not stand for what the original does"
    raise refusal("WEFT-E0442", what, (statement,), why)


# ---- Partial results: reductions that were split, as ``validation`` has to read them.
#
# * A *combining* update is new, and folds bare elements of a temporary into its target: ``C +=
# P``. Where only folds of that monoid write the temporary, plain writes of its identity, and bare
# copies of such temporaries, an element is the fold of the contributions that it has seen:
# whoever sees the combining instance sees these. What is behind it counts in its place; that no
# read sees anything twice by two ways, ``validation`` finds out. * An *opening* statement stands
# for an instance of an update, but overwrites: the first contribution of a fold that starts with
# nothing. That is the same where the original starts with the identity, and where the fold has
# other contributions, the identity may be missing.


def why_not_combining(
    scop: Scop, statement: Statement, origins: Mapping[str, Origin], folds: Collection[str]
) -> str:
    """The reason why the new update ``statement`` of the transformed ``scop`` does not combine
    partial results, or ''. ``folds`` are the original updates whose order is free."""
    update = statement.update
    assert update is not None
    loads = tuple(Load(k, (), r.dtype) for k, r in enumerate(statement.body.results))
    if len(statement.writes) != 1 or statement.body.lets or statement.body.results != loads:
        return "it is an update, but of no original statement, and folds no bare partial results"
    (read,) = statement.reads
    if read.may or statement.writes[0].may or scop.tensor(read.tensor).role != "temp":
        return f"it folds {read.tensor}, which is no temporary at indices known here"
    if statement.name not in folding(scop):
        return f"it shares {statement.writes[0].tensor} with updates that combine in another way"
    tensors = [read.tensor]
    for tensor in tensors:  # grows: copies lead to others
        for writer in _writers(scop, tensor):
            if writer.update is not None:
                source = origins.get(writer.name)
                known = writer is not statement and (source is None or source.statement in folds)
                known = known and writer.update.monoid == update.monoid
            elif writer.name in origins:
                known = False
            elif is_copy(writer) and scop.tensor(writer.reads[0].tensor).role == "temp":
                known = True
                if writer.reads[0].tensor not in tensors:
                    tensors.append(writer.reads[0].tensor)
            else:
                known = is_identity(writer, update.monoid)
            if not known:
                return f"it folds {tensor}, but {writer.name} writes there what is no such fold"
    return ""


def is_copy(statement: Statement) -> bool:
    """Whether a plain statement writes one bare read, and nothing else."""
    if len(statement.reads) != 1 or len(statement.writes) != 1 or statement.update is not None:
        return False
    bare = Load(0, (), statement.body.results[0].dtype)
    indirect = statement.reads[0].may or statement.writes[0].may
    return not indirect and not statement.body.lets and statement.body.results == (bare,)


def is_identity(statement: Statement, monoid: Monoid) -> bool:
    """Whether a plain statement writes the identity of ``monoid``, and nothing else."""
    return (
        statement.update is None
        and not statement.reads
        and not statement.body.lets
        and len(statement.body.results) == len(monoid.identity)
        and all(
            isinstance(result, Literal) and result.value == identity
            for result, identity in zip(statement.body.results, monoid.identity, strict=True)
        )
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """An original update, whose first contribution a transformed statement may write."""

    update: str
    starts: tuple[str, ...]  # the original statements that write the identity


def opened(original: Scop, update: Statement, folds: Collection[str]) -> Opened | None:
    """What there is to know about ``update`` to open its fold; None where it cannot be opened."""
    if update.update is None or update.name not in folds or len(update.writes) != 1:
        return None
    plain = [s for s in _writers(original, update.writes[0].tensor) if s.update is None]
    if not all(is_identity(s, update.update.monoid) for s in plain):
        return None
    return Opened(update.name, tuple(s.name for s in plain))


def _writers(scop: Scop, tensor: str) -> Iterable[Statement]:
    return (s for s in scop.statements if any(w.tensor == tensor for w in s.writes))
