"""Sums of exponentials relative to a maximum along the same loop, found by access relations.

    m[i] = max_k x(i, k)
    S[p] = Σ_k exp(x(i(p), k) - g(m[i(p)])) * f(p, k) / t(p)

A *family* is a maximum and all such sums: the denominators of softmax, the numerators of attention,
the logarithm of a sum of exponentials. x is any expression (scaled, masked, a reduction of products
itself); g(m) is m, perhaps with a finite value for -inf. Elementwise operations in between are
inlined, so that it does not matter where a quotient is computed. Names of operators and tensors and
the order of dimensions do not matter either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from weft.graph.correlation import at_most, variables
from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Load, Select, substitute, walk
from weft.ir.tensor_expr import Axis, Compute, Monoid, Operation, Reduce, Tensor

MAX_NODES = 256  # of a body that is searched
MAX_PRODUCERS = 16  # elementwise operations inlined into one sum


@dataclass(frozen=True, slots=True)
class Maximum:
    """``operation`` is max over ``axis`` of ``x``."""

    operation: Compute
    axis: Axis
    x: Expr

    @property
    def fold(self) -> Reduce:
        fold = self.operation.values[0]
        assert isinstance(fold, Reduce)
        return fold


@dataclass(frozen=True, slots=True)
class Sum:
    """``fold`` of ``operation``: of exp(x - ``shift``) times the factors ``along`` the loop
    ``axis``, times (or, if True, divided by) the loop-invariant factors ``outside``.

    ``at``: the indices of the maximum; ``through``: operations that were inlined.
    """

    operation: Compute
    fold: Reduce
    axis: Axis
    at: tuple[Expr, ...]
    shift: Expr
    along: tuple[Expr, ...]
    outside: tuple[tuple[Expr, bool], ...]
    through: frozenset[Operation]


@dataclass(frozen=True, slots=True)
class Family:
    """A maximum, and the sums of exponentials relative to it."""

    maximum: Maximum
    sums: tuple[Sum, ...]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Those of the maximum and of the sums, without duplicates."""
        found: list[Operation] = [self.maximum.operation, *(s.operation for s in self.sums)]
        return tuple(dict.fromkeys(found))


def families(operations: Iterable[Operation]) -> list[Family]:
    """The families among ``operations``, which are in topological order."""
    found: dict[Operation, list[Sum]] = {}
    maxima: dict[Operation, Maximum] = {}
    for operation in operations:
        if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
            continue
        maximum = maximum_of(operation)
        if maximum is not None:
            maxima[operation] = maximum
            continue
        for fold in _folds(operation):
            sum_ = sum_of(operation, fold)
            if sum_ is not None:
                found.setdefault(_source(sum_), []).append(sum_)
    return [Family(maxima[o], tuple(sums)) for o, sums in found.items()]


def _source(found: Sum) -> Operation:
    (source,) = {n.source for n in walk(found.shift) if isinstance(n, Load)}
    assert isinstance(source, Tensor) and source.operation is not None
    return source.operation


def _folds(operation: Compute) -> list[Reduce]:
    nodes = at_most(operation.values[0], MAX_NODES)
    return [n for n in nodes if isinstance(n, Reduce)]


def maximum_of(operation: Operation) -> Maximum | None:
    """``operation`` as a maximum along one loop that begins at 0; None if it is none."""
    match operation:
        case Compute(values=(Reduce(monoid, (axis,), (x,), None) as fold,), scan=0):
            good = _is_max(monoid) and _is_float(fold) and axis.lower == Literal(0, dtypes.int64)
            inner = any(isinstance(n, Reduce) for n in walk(x))
            return Maximum(operation, axis, x) if good and not inner else None
    return None


def _is_max(monoid: Monoid) -> bool:
    if len(monoid.left) != 1 or not {"associative", "commutative"} <= monoid.laws:
        return False
    (left,), (right,), (combined,) = monoid.left, monoid.right, monoid.combined
    either = (Apply("max", (left, right)), Apply("max", (right, left)))
    return combined in either and monoid.identity == (-math.inf,)


def _is_float(expr: Expr) -> bool:
    return expr.dtype in (dtypes.float32, dtypes.float64)


def sum_of(operation: Compute, fold: Reduce) -> Sum | None:
    """``fold`` of ``operation`` as a sum of exponentials relative to a maximum, if it is one."""
    if fold.condition is not None or not fold.monoid.is_sum or not _is_float(fold):
        return None
    for axis in fold.axes:
        search = _Search(axis)
        factors = list(search.factors(fold.values[0]))
        powers = [f for f in factors if isinstance(f, _Power)]
        if len(powers) != 1:
            continue
        (power,) = powers
        others = [f for f in factors if isinstance(f, _Factor)]
        along = tuple(f.expr for f in others if f.moves)
        outside = tuple((f.expr, f.divides) for f in others if not f.moves)
        names = {a.name for a in fold.axes}
        fixed = (*power.at, *(e for e, _ in outside))
        if any(not names.isdisjoint(variables(e)) for e in fixed):
            continue  # the maximum depends on another reduction loop
        through = frozenset(search.through)
        return Sum(operation, fold, axis, power.at, power.shift, along, outside, through)
    return None


# ---- factors of a term ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Power:
    """exp(x - ``shift``), with the maximum read at ``at``."""

    shift: Expr
    at: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Factor:
    expr: Expr
    moves: bool
    divides: bool


@dataclass(slots=True)
class _Search:
    """The search for a factor exp(x - g(m)) along ``axis``, inlining producers."""

    axis: Axis
    through: set[Operation] = field(default_factory=set)
    left: int = MAX_PRODUCERS

    def factors(self, term: Expr, divides: bool = False) -> Iterator[_Power | _Factor]:
        if not divides:
            match term:
                case Apply("mul", (left, right)):
                    yield from self.factors(left)
                    yield from self.factors(right)
                    return
                case Apply("div", (left, right)) if not self.moves(right):
                    yield from self.factors(left)
                    yield from self.factors(right, divides=True)
                    return
                case Apply("exp", (exponent,)):
                    power = self.power(exponent)
                    if power is not None:
                        yield power
                        return
                case Load() | Cast() if self.moves(term):
                    known, inner = set(self.through), self.inside(term)
                    found = [] if inner is None else list(self.factors(inner))
                    if any(isinstance(f, _Power) for f in found):
                        yield from found
                        return
                    self.through = known
        yield _Factor(term, self.moves(term), divides)

    def moves(self, expr: Expr) -> bool:
        return self.axis.name in variables(expr)

    def inside(self, term: Load | Cast) -> Expr | None:
        """What ``term`` reads or rounds: sums in blocks have more precision than single terms."""
        if isinstance(term, Load):
            return self.opened(term)
        return term.arg if term.dtype.is_float and term.arg.dtype.is_float else None

    def opened(self, load: Load) -> Expr | None:
        """The value that ``load`` reads, if its producer is elementwise."""
        operation = load.source.operation if isinstance(load.source, Tensor) else None
        if not self.left or not isinstance(operation, Compute) or operation.scan:
            return None
        nodes = at_most(operation.values[0], MAX_NODES)
        if len(operation.values) > 1 or not nodes or any(isinstance(n, Reduce) for n in nodes):
            return None
        self.left -= 1
        self.through.add(operation)
        places = zip(operation.axes, load.indices, strict=True)
        return substitute(operation.values[0], {a.name: i for a, i in places})

    def power(self, exponent: Expr) -> _Power | None:
        match exponent:
            case Apply("sub", (x, shift)) if self.moves(x) and not self.moves(shift):
                return self.relative(x, shift)
            case Load() if self.moves(exponent):
                inner = self.opened(exponent)
                return None if inner is None else self.power(inner)
        return None

    def relative(self, x: Expr, shift: Expr) -> _Power | None:
        """exp(x - shift), if ``shift`` is the maximum of x."""
        known = _greatest(shift)
        while known is None and isinstance(shift, Load):
            inner = self.opened(shift)
            if inner is None:
                return None
            shift, known = inner, _greatest(inner)
        if known is None:
            return None
        load, maximum = known
        if any(isinstance(n, Load) for index in load.indices for n in walk(index)):
            return None  # data-dependent
        at = {a.name: i for a, i in zip(maximum.operation.axes, load.indices, strict=True)}
        same = substitute(maximum.x, {**at, maximum.axis.name: self.axis}) == x
        alike = maximum.axis.extent == self.axis.extent and self.axis.lower == maximum.axis.lower
        return _Power(shift, load.indices) if same and alike else None


def _greatest(shift: Expr) -> tuple[Load, Maximum] | None:
    """The maximum in ``shift``, perhaps with a finite value for -inf."""
    match shift:
        case Select(Apply("eq", (Load() as load, Literal(low))), Literal(instead), same):
            good = low == -math.inf and math.isfinite(instead) and same == load
        case Select(Apply("ne" | "gt", (Load() as load, Literal(low))), same, Literal(instead)):
            good = low == -math.inf and math.isfinite(instead) and same == load
        case Apply("max", (Load() as load, Literal(least))):
            good = math.isfinite(least)
        case Load() as load:
            good = True
        case _:
            return None
    operation = load.source.operation if isinstance(load.source, Tensor) else None
    maximum = None if operation is None or not good else maximum_of(operation)
    return None if maximum is None else (load, maximum)


def reads_maximum(shift: Expr) -> Load:
    """The load of the maximum in ``shift``."""
    return next(n for n in walk(shift) if isinstance(n, Load))
