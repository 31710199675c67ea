"""``python -m tests.properties.mutations [--every 1]``: correct schedules, broken on purpose.

Loops swapped, turned round, skewed wrongly, statements moved, kinds claimed; halos, packed indices,
copies, domains, shapes, contraction and origins one off. A mutant that enumeration finds legal and
that gives the same values is none; all others must be refused by the checkers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tests.properties import executions
from tests.properties.enumeration import TooLarge
from tests.properties.examine import refusal, sharpened
from tests.properties.random_affine import inputs_of
from tests.properties.random_schedules import Pair
from tests.properties.scheduled_programs import CASES, case
from tests.properties.tree_moves import bands, clean, put
from tests.properties.verdicts import Program
from weft.ir.errors import CompileError
from weft.ir.scalar_expr import Expr, Literal, literal, walk
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Band, Kind, Leaf, Loop, Sequence, Tree, statements_below
from weft.ir.schedule_tree import walk as nodes
from weft.ir.scop import Access, Scop, Statement
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.scheduled import Scheduled

Mutant = tuple[str, str, Scheduled]  # kind, what was done, the result


def mutants(of: Scheduled) -> Iterator[Mutant]:
    """Every mutant of ``of``, in a fixed order."""
    for kind, what, tree in _trees(of.tree):
        yield kind, what, replace(of, tree=tree)
    for kind, what, scop in _scops(of):
        yield kind, what, replace(of, scop=scop)


# ---- schedules ----------------------------------------------------------------------------------


def _trees(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for make in (_swapped, _changed_loops, _moved, _skewed, _parts, _claimed, _joined):
        yield from make(tree)


def _swapped(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for band in bands(tree):
        for a in range(len(band.loops)):
            for b in range(a + 1, len(band.loops)):
                order = list(band.loops)
                order[a], order[b] = order[b], order[a]
                new = replace(band, loops=tuple(order))
                what = f"{band.loops[a].name} and {band.loops[b].name}"
                yield "swapped loops", what, put(tree, band, new)


def _each(tree: Tree) -> Iterator[tuple[Loop, Callable[[tuple[Loop, ...]], Tree]]]:
    """Every loop, and what puts others in its place."""
    for band in bands(tree):
        for k, loop in enumerate(band.loops):

            def place(new: tuple[Loop, ...], band: Band = band, k: int = k) -> Tree:
                rest = (*band.loops[:k], *new, *band.loops[k + 1 :])
                return clean(put(tree, band, replace(band, loops=rest)))

            yield loop, place


def _changed_loops(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for loop, place in _each(tree):
        turned = replace(loop, at={s: literal(0) - v for s, v in loop.at.items()})
        yield "reversed loop", loop.name, place((turned,))
        yield "lost loop", loop.name, place(())
        for s, value in loop.at.items():
            for what, new in _constants(value):
                bent = replace(loop, at={**loop.at, s: new})
                yield "wrong constant in a loop", f"{loop.name} of {s}: {what}", place((bent,))


def _moved(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for loop, place in _each(tree):
        for s, value in loop.at.items() if len(loop.at) > 1 else ():
            for by in (-1, 1):
                new = replace(loop, at={**loop.at, s: value + by})
                yield "moved statement", f"{s} in {loop.name} by {by}", place((new,))


def _skewed(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for band in bands(tree):
        for k, loop in enumerate(band.loops):
            for by in band.loops:
                for factor in (1, -1) if by is not loop else ():
                    at = {s: v + by.at[s] * factor for s, v in loop.at.items()}
                    order = (*band.loops[:k], replace(loop, at=at), *band.loops[k + 1 :])
                    what = f"{loop.name} by {factor} {by.name}"
                    yield "wrong skew", what, put(tree, band, replace(band, loops=order))


def _parts(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for node in nodes(tree):
        if isinstance(node, Sequence):
            for k in range(len(node.children) - 1):
                order = list(node.children)
                order[k], order[k + 1] = order[k + 1], order[k]
                what = f"part {k + 1} before part {k}"
                yield "swapped parts", what, put(tree, node, Sequence(tuple(order)))
            without = node.children[:-1]
            yield "lost part", "the last", clean(put(tree, node, Sequence(without)))
        if isinstance(node, Band) and isinstance(node.child, Sequence):
            copies = (_copy(node, k, part) for k, part in enumerate(node.child.children))
            distributed = clean(put(tree, node, Sequence(tuple(copies))))
            yield "distributed", node.loops[0].name, distributed
        if isinstance(node, Leaf):
            twice = put(tree, node, Sequence((node, node)))
            yield "statement twice", node.statement, clean(twice)


def _copy(band: Band, number: int, part: Tree) -> Band:
    """The loops of ``band`` around ``part`` of its sequence alone."""
    inside = statements_below(part)
    own = (
        replace(x, name=f"{x.name}_{number}", at={s: x.at[s] for s in inside}) for x in band.loops
    )
    return Band(tuple(own), part)


def _claimed(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    kinds: tuple[Kind, ...] = ("parallel", "vector")
    for loop, place in _each(tree):
        for kind in kinds:
            if kind != loop.kind:
                yield "wrong kind", f"{kind} {loop.name}", place((replace(loop, kind=kind),))


def _joined(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for node in nodes(tree):
        if not isinstance(node, Sequence):
            continue
        for k, (a, b) in enumerate(zip(node.children, node.children[1:], strict=False)):
            if isinstance(a, Band) and isinstance(b, Band):
                shared = replace(a.loops[0], at={**a.loops[0].at, **b.loops[0].at})
                below = Sequence((Band(a.loops[1:], a.child), Band(b.loops[1:], b.child)))
                parts = (*node.children[:k], Band((shared,), below), *node.children[k + 2 :])
                yield "wrong fusion", shared.name, clean(put(tree, node, Sequence(parts)))


# ---- statements and storage ---------------------------------------------------------------------


def _scops(of: Scheduled) -> Iterator[tuple[str, str, Scop]]:
    for number, s in enumerate(of.scop.statements):
        for kind, what, new in _statements(of, s):
            statements = list(of.scop.statements)
            statements[number] = new
            yield kind, f"{s.name}: {what}", replace(of.scop, statements=tuple(statements))
    yield from _storage(of)


def _statements(of: Scheduled, s: Statement) -> Iterator[tuple[str, str, Statement]]:
    for k, c in enumerate(s.domain):
        for what, expr in _constants(c.expr):
            domain = (*s.domain[:k], replace(c, expr=expr), *s.domain[k + 1 :])
            yield "domain", what, replace(s, domain=domain)
    for kind, what, reads in _accesses(of, s.reads, "read"):
        yield kind, what, replace(s, reads=reads)
    for kind, what, writes in _accesses(of, s.writes, "write"):
        yield kind, what, replace(s, writes=writes)
    if s.update is not None:
        yield "update", "a plain write", replace(s, update=None)
    if s.origin is not None:
        for k, index in enumerate(s.origin.instance):
            for what, expr in _constants(index):
                instance = (*s.origin.instance[:k], expr, *s.origin.instance[k + 1 :])
                yield "origin", what, replace(s, origin=replace(s.origin, instance=instance))


def _accesses(
    of: Scheduled, accesses: tuple[Access, ...], how: str
) -> Iterator[tuple[str, str, tuple[Access, ...]]]:
    old = {t.name for t in of.original.tensors}
    for number, access in enumerate(accesses):
        tensor = of.scop.tensor(access.tensor)
        local = tensor.scope != "global" or tensor.contracted
        kind = "halo or local index" if local else "index"
        kind = "packed index or copy" if tensor.name not in old else kind
        for k, index in enumerate(access.indices):
            for what, expr in _constants(index):
                new = replace(access, indices=(*access.indices[:k], expr, *access.indices[k + 1 :]))
                changed = (*accesses[:number], new, *accesses[number + 1 :])
                yield kind, f"{how} {number}, dim {k}: {what}", changed
        for other in of.scop.tensors:
            same = len(other.shape) == len(tensor.shape) and other.name != tensor.name
            if same and not (how == "write" and other.role == "input"):
                changed = (
                    *accesses[:number],
                    replace(access, tensor=other.name),
                    *accesses[number + 1 :],
                )
                yield "wrong tensor", f"{how} {number} of {other.name}", changed


def _storage(of: Scheduled) -> Iterator[tuple[str, str, Scop]]:
    for number, t in enumerate(of.scop.tensors):
        if t.role != "temp":
            continue
        new = []
        for k, size in enumerate(t.shape):
            for by in (-1, 1):
                shape = (*t.shape[:k], size + by, *t.shape[k + 1 :])
                new.append(("shape", f"dim {k} by {by}", replace(t, shape=shape)))
        for by in (-1, 1):
            if 0 <= t.contracted + by <= len(t.shape):
                changed = replace(t, contracted=t.contracted + by, scope="local")
                new.append(("contraction", f"by {by}", changed))
        for kind, what, tensor in new:
            tensors = (*of.scop.tensors[:number], tensor, *of.scop.tensors[number + 1 :])
            yield kind, f"{t.name}: {what}", replace(of.scop, tensors=tensors)


def _constants(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """``expr`` one off, and with each of its constants one off."""
    yield "one more", expr + 1
    yield "one less", expr - 1
    for node in [n for n in walk(expr) if isinstance(n, Literal)]:
        for by in (-1, 1):
            changed = _with(expr, node, literal(int(node.value) + by))
            if changed is not None:
                yield f"{node.value} by {by}", changed


def _with(expr: Expr, old: Expr, new: Expr) -> Expr | None:
    """``expr`` with the node ``old`` (that very one) replaced; None where it divides by 0."""
    if expr is old:
        return new
    if not expr.children:
        return expr
    children = [_with(c, old, new) for c in expr.children]
    if any(c is None for c in children):
        return None
    op = getattr(expr, "op", "")
    divisor = children[-1]
    if op in ("floordiv", "mod") and isinstance(divisor, Literal) and int(divisor.value) < 1:
        return None
    return expr.rebuild(tuple(c for c in children if c is not None))


# ---- verdicts -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Report:
    caught: Counter[str] = field(default_factory=Counter)
    equivalent: Counter[str] = field(default_factory=Counter)
    refused_anyway: int = 0  # equivalent ones that the checkers refuse
    missed: list[str] = field(default_factory=list)

    def text(self) -> str:
        kinds = sorted({*self.caught, *self.equivalent})
        lines = [f"  {k}: {self.caught[k]} caught, {self.equivalent[k]} equivalent" for k in kinds]
        total = sum(self.caught.values())
        share = 100 * total / max(1, total + len(self.missed))
        lines.append(
            f"{total} of {total + len(self.missed)} mutants caught ({share:.2f} %); "
            f"{sum(self.equivalent.values())} equivalent, {self.refused_anyway} of these refused"
        )
        return "\n".join(lines)


def mutate(name: str, report: Report, every: int = 1, begin: int = 0) -> None:
    """Every ``every``-th mutant of case ``name``, from ``begin``, into ``report``."""
    pair = case(name)
    expected = _values(pair)
    for number, (kind, what, changed) in enumerate(mutants(pair.scheduled)):
        if number % every != begin:
            continue
        try:
            mutant = _pair(pair, changed)
        except TooLarge:
            continue
        error = _refusal(mutant)
        if _equivalent(mutant, expected):
            report.equivalent[kind] += 1
            report.refused_anyway += error is not None
        elif error is not None:
            report.caught[kind] += 1
        else:
            text = f"{name}, mutant {number}: {kind}, {what}\n"
            report.missed.append(text + scop_text(changed.scop) + print_schedule(changed.tree))


def _pair(base: Pair, changed: Scheduled) -> Pair:
    same = changed.scop is base.scheduled.scop
    oracle = base.oracle if same else Program(changed.scop, base.subject.affine.sizes)
    return Pair(0, base.subject, changed, oracle)


def _refusal(mutant: Pair) -> CompileError | None:
    try:
        return refusal(mutant)
    except CompileError as error:  # of the verifier of Scops
        return error


Values = list[dict[str, executions.Array]]


def _values(base: Pair) -> Values:
    original = sharpened(base.subject.affine.scop)
    return [
        executions.run(original, None, sizes, inputs_of(original, sizes))
        for sizes in base.subject.affine.sizes
    ]


def _equivalent(mutant: Pair, expected: Values) -> bool:
    """Whether enumeration finds nothing wrong with ``mutant``."""
    of = mutant.scheduled
    leaves = Counter(statements_below(of.tree))
    if leaves != Counter(s.name for s in of.scop.statements):
        return False
    if mutant.oracle.outside() or not mutant.oracle.judge(of.tree).legal:
        return False
    scop, original = sharpened(of.scop), sharpened(mutant.subject.affine.scop)
    for sizes, wanted in zip(mutant.subject.affine.sizes, expected, strict=True):
        inputs = inputs_of(original, sizes)
        try:
            found = executions.run(scop, of.tree, sizes, inputs)
            disturbed = executions.run_disturbed(scop, of.tree, sizes, inputs)
        except CompileError:  # it reads outside its tensors
            return False
        if executions.difference(found, wanted):
            return False
        if disturbed and executions.difference(disturbed, wanted):
            return False
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take one mutant of so many")
    parser.add_argument("--case", choices=list(CASES), help="one program only")
    options = parser.parse_args(arguments)
    report, start = Report(), time.perf_counter()
    for name in [options.case] if options.case else CASES:
        before = len(report.missed)
        mutate(name, report, options.every)
        for text in report.missed[before:]:
            print(f"not caught: {text}", flush=True)
    print(report.text())
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
