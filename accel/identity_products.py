"""Products with a multiple of the identity: sums of products as operations by elements.

    acc[b, o] += Σ_i inp[b, i] · wgt[o, i]   with wgt = n · I   →   acc[b, o] += n · inp[b, o]

So a tensor of few bits gets into a wide accumulator from a memory into which fewer bytes are
loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weft.accel.capabilities import Capabilities, Compute
from weft.accel.instruction_tree import Constant, Held, Node, Tree
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Apply, Cast, Expr, Load, Var, literal
from weft.ir.scop import Access


@dataclass(frozen=True, slots=True)
class IdentityProduct:
    """``compute`` adds its operand ``added``, multiplied by its operand ``identity``, of ``dtype``:
    a number along the axes ``diagonal`` of an element, 0 elsewhere. Operands count from 1 on."""

    compute: Compute
    added: int
    identity: int
    dtype: DType
    diagonal: tuple[int, int]

    @property
    def source(self) -> str:
        """The memory of what is added."""
        return self.compute.operands[self.added - 1].memory

    def multiple(self, number: int) -> Constant:
        """``number`` times the identity."""
        return Constant(number, self.compute.operands[self.identity - 1].memory, self.diagonal)

    def values(self, numbers: Iterable[int]) -> Iterator[tuple[int, Expr]]:
        """(a factor, the target's new value) for factors 1 and -1, ``numbers``, and powers of two
        to these."""
        step = self.compute.step
        old = Load(0, (), step.update.monoid.dtypes[0] if step.update else self.dtype)
        (term,) = step.body.results
        added = _operands(term)[self.added - 1]
        one: Expr = Load(self.added, (), _loaded(added).dtype)
        one = Cast(one, added.dtype) if isinstance(added, Cast) else one
        yield 1, old + one
        if self._fits(-1):
            yield -1, old - one
        for n in sorted(numbers):
            if 0 < n < one.dtype.bits and self._fits(1 << n):
                yield 1 << n, old + (one << n)
            if 0 < n < one.dtype.bits and self._fits(-(1 << n)):
                yield -(1 << n), old - (one << n)
            if self._fits(n) and n not in (0, 1):
                yield n, old + one * literal(n, one.dtype)

    def _fits(self, number: int) -> bool:
        """Whether elements of the identity can be ``number``, and still are as factors."""
        (term,) = self.compute.step.body.results
        return all(
            each.lowest <= number <= each.highest
            for each in (self.dtype, _operands(term)[self.identity - 1].dtype)
        )

    def copy(self, cleared: Node) -> Node:
        """What it adds, in a place that is ``cleared``: ``Held(0, source)`` stands for it."""
        places: tuple[Tree, Tree] = Held(0, self.source), self.multiple(1)
        return Node(self.compute, {}, cleared, places if self.added == 1 else places[::-1])


def identity_products(found: Capabilities) -> tuple[IdentityProduct, ...]:
    """The operations among ``found`` that are operations by elements if an operand is a multiple
    of the identity."""
    every = (_as_product(compute, n) for compute in found.computes for n in (0, 1))
    return tuple(each for each in every if each is not None)


def _as_product(compute: Compute, added: int) -> IdentityProduct | None:
    """With operand ``added``, from 0 on, as the one that is added."""
    step = compute.step
    update, (term,) = step.update, step.body.results
    if update is None or compute.first is not None or len(compute.operands) != 2:
        return None
    if update.monoid.name != "add" or len(update.dims) != 1 or not _is_product(term):
        return None
    if any(at.group != 1 for at in (compute.target, *compute.operands)):
        return None
    if any(loop.dim not in compute.target.steps for loop in compute.loops):
        return None
    (summed,) = update.dims
    moved, other = step.reads[added], step.reads[1 - added]
    kept = [d for d in _dims(other) if d != summed]
    if len(kept) != 1 or sorted(_dims(other)) != sorted([*kept, summed]):
        return None
    renamed = [kept[0] if d == summed else d for d in _dims(moved)]
    if renamed != _dims(step.writes[0]) or compute.extents[kept[0]] != compute.extents[summed]:
        return None
    dtype = _loaded(_operands(term)[1 - added]).dtype
    diagonal = _dims(other).index(kept[0]), _dims(other).index(summed)
    return IdentityProduct(compute, added + 1, 2 - added, dtype, diagonal)


def _dims(access: Access) -> list[str]:
    return [i.name if isinstance(i, Var) else "" for i in access.indices]


def _is_product(term: Expr) -> bool:
    """Of integers that are loaded, the first operand and the second."""
    match term:
        case Apply("mul", (left, right)):
            loads = [_loaded(each) for each in (left, right)]
            numbers = [each.source for each in loads if isinstance(each, Load)]
            return sorted(numbers, key=str) == [0, 1] and all(e.dtype.is_integer for e in loads)
    return False


def _operands(term: Expr) -> list[Expr]:
    """The factors of ``term``, by number of their operand."""
    return sorted(term.children, key=lambda each: str(getattr(_loaded(each), "source", "")))


def _loaded(factor: Expr) -> Expr:
    return factor.children[0] if isinstance(factor, Cast) else factor
