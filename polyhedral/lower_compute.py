"""From one ``Compute`` or ``Scatter`` to statements: reductions become folds of their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from weft.ir.dtypes import DType
from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_affine import Affine, to_affine, to_expr
from weft.ir.scalar_condition import Conjunction, conjunction
from weft.ir.scalar_expr import Expr, Load, Var, literal, select, substitute, walk
from weft.ir.scalar_paths import Guard, Numbering, path_guards, walk_scalar
from weft.ir.scop import Access, Body, Statement, Update
from weft.ir.tensor_axes import named_apart
from weft.ir.tensor_expr import Axis, Itself, Monoid, Reduce, Tensor
from weft.polyhedral.lower_body import BodyBuilder, Place
from weft.polyhedral.lower_domain import Domain, box, extremes
from weft.polyhedral.lower_names import Symbols

NewTensor = Callable[[str, tuple[Expr, ...], DType], Place]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an expression of the operation stands: inside these axes, under these conditions."""

    axes: tuple[Axis, ...] = ()
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """The tensors that hold a reduction's components, one element for each point of ``axes``."""

    axes: tuple[Axis, ...]
    places: tuple[Place, ...]
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement without its position; ``inside``: in the scan loops of its operation."""

    statement: Statement
    inside: bool


class OperationLowering:
    """Statements of one operation over ``axes``, of which the first ``scan`` are scanned."""

    def __init__(
        self,
        name: str,
        axes: tuple[Axis, ...],
        scan: int,
        symbols: Symbols,
        place: Callable[[Hashable], Place],
        tensor: NewTensor,
        statement_name: Callable[[str], str],
    ) -> None:
        self.name, self.axes, self.scan, self.symbols = name, axes, scan, symbols
        self.place, self.tensor, self.statement_name = place, tensor, statement_name
        self.numbering = Numbering(_fold_label)
        self.folds: dict[Hashable, Fold] = {}
        self.direct: dict[Hashable, dict[int, Place]] = {}  # folds that are whole results
        self.pieces: list[Piece] = []

    # ---- results ----------------------------------------------------------------------------

    def compute(self, values: Sequence[Expr], places: Sequence[Place]) -> None:
        """Statements that write ``values`` to ``places`` at every point."""
        scope = Scope(self.axes)
        for value, place in zip(values, places, strict=True):
            if isinstance(value, Reduce):
                wanted = self.direct.setdefault(self.numbering.number(value), {})
                wanted.setdefault(value.index, place)
        rest = [
            (value, place)
            for value, place in zip(values, places, strict=True)
            if not self._is_written_by_fold(value, place, scope)
        ]
        if rest:
            at = tuple(Var(axis.name) for axis in self.axes)
            writes = tuple(Access(place.tensor, at) for _, place in rest)
            domain = self._domain(self.axes)
            builder = self._builder(domain, scope)
            results = builder.translate([value for value, _ in rest])
            inside = self.scan > 0
            self._emit(self.name, self.axes, domain, writes, builder.reads, results, inside=inside)

    def _is_written_by_fold(self, value: Expr, place: Place, scope: Scope) -> bool:
        if not isinstance(value, Reduce):
            return False
        return self.fold(value, scope).places[value.index] is place

    def scatter(
        self,
        result: Tensor,
        indices: Sequence[Expr],
        value: Expr,
        combine: Monoid | None,
        condition: Expr | None,
    ) -> None:
        """A statement that puts ``value`` at ``indices`` of ``result``, in the axes' order."""
        place = self.place(result)
        domain, scope = self._domain(self.axes), Scope(self.axes)
        if condition is not None:
            scope = Scope(self.axes, ((condition, True),))
            known = conjunction(self.symbols.normal(condition))
            domain = domain.where(domain.news(known))
            if not known.exact:  # where it is false, some element is written back as it was
                scope = Scope(self.axes)
                indices = [select(condition, index, 0) for index in indices]
                old = Load(result, tuple(indices), result.dtype)
                new = value if combine is None else _combined(combine, old, value)
                value, combine = select(condition, new, old), None
                domain = domain.where(Conjunction(tuple(_not_empty(place, self.symbols))))
        builder = self._builder(domain, scope)
        contribution, *at = builder.translate([value, *indices])
        write, dims = self._scatter_write(place, domain, at)
        update = None if combine is None else Update(combine, dims)
        self._emit(self.name, self.axes, domain, (write,), builder.reads, [contribution], update)

    def _scatter_write(
        self, place: Place, domain: Domain, given: Sequence[Expr]
    ) -> tuple[Access, tuple[str, ...]]:
        """The access, and the dims along which several points may hit one element."""
        at = tuple(self.symbols.normal(index) for index in given)
        forms = [to_affine(index, domain.ranges) for index in at]
        affine = [form for form in forms if form is not None]
        if len(affine) == len(forms):
            used = {name for form in affine for name in form.variables()}
            dims = tuple(axis.name for axis in self.axes if axis.name not in used)
            return Access(place.tensor, tuple(to_expr(form) for form in affine)), dims
        plain = tuple(literal(0) if form is None else to_expr(form) for form in forms)
        everything = tuple(axis.name for axis in self.axes)
        return Access(place.tensor, plain, (), True, at), everything

    # ---- folds ------------------------------------------------------------------------------

    def fold(self, node: Reduce, scope: Scope, guards: tuple[Guard, ...] = ()) -> Fold:
        """Where the reduction ``node``, standing in ``scope`` under ``guards``, is held.

        It does not depend on the guards unless leaving them out could make it access a tensor out
        of range; and it is computed once for all axes that it does not depend on.
        """
        number = self.numbering.number(node)
        node = named_apart(node, [axis.name for axis in scope.axes])
        around = (*scope.guards, *guards)
        kept = () if not around or self._is_safe(node, scope) else around
        key = (number, tuple((self.numbering.number(c), holds) for c, holds in kept))
        if key not in self.folds:
            conditions = tuple(condition for condition, _ in kept)
            inside = self.scan > 0 and self._reads_itself((node, *conditions))
            needed = _axis_names((node, *conditions), scope.axes)
            if inside:
                needed |= {axis.name for axis in self.axes[: self.scan]}
            free = tuple(axis for axis in scope.axes if axis.name in needed)
            direct = self.direct.get(number, {}) if not kept and free == self.axes else {}
            self.folds[key] = fold = self._held(node, free, direct)
            self._fold_statements(node, Scope(free, kept), fold, inside)
        return self.folds[key]

    def _held(self, node: Reduce, free: tuple[Axis, ...], direct: dict[int, Place]) -> Fold:
        ends = extremes(free, self.symbols, self.name)
        shape = tuple(to_expr((high - low).plus(1)) for low, high in ends.values())
        name = f"{self.name}_{node.monoid.name}"
        many = len(node.values) > 1
        places = tuple(
            direct[c] if c in direct else self.tensor(f"{name}_{c}" if many else name, shape, dtype)
            for c, dtype in enumerate(node.monoid.dtypes)
        )
        starts = [to_expr(low) for low, _ in ends.values()]
        indices = tuple(Var(axis.name) - start for axis, start in zip(free, starts, strict=True))
        return Fold(free, places, indices)

    def _fold_statements(self, node: Reduce, scope: Scope, fold: Fold, inside: bool) -> None:
        monoid = node.monoid
        identity = [literal(v, d) for v, d in zip(monoid.identity, monoid.dtypes, strict=True)]
        writes = tuple(Access(place.tensor, fold.indices) for place in fold.places)
        guards = list(scope.guards)
        if node.condition is not None:
            guards.append((node.condition, True))
        inner = (*scope.axes, *node.axes)
        domain = self._domain(inner)
        # Where a condition is not known, the values choose by it; what stands in it is under the
        # conditions before it alone, since a fold in it must not wait for itself.
        known: list[Guard] = []
        asked: list[Guard] = []
        for condition, holds in guards:
            form = conjunction(self.symbols.normal(condition), holds)
            domain = domain.where(domain.news(form))
            (known if form.exact else asked).append((condition, holds))
        values = list(node.values)
        for condition, holds in reversed(asked):
            chosen = zip(values, identity, strict=True)
            values = [select(condition, *((v, e) if holds else (e, v))) for v, e in chosen]
        builder = self._builder(domain, Scope(inner, tuple(known)))
        results = builder.translate(values)
        name = f"{self.name}_{monoid.name}"
        start = self._domain(scope.axes)
        self._emit(f"{name}_init", scope.axes, start, writes, (), identity, inside=inside)
        update = Update(monoid, tuple(axis.name for axis in node.axes))
        self._emit(name, inner, domain, writes, builder.reads, results, update, inside)

    def _is_safe(self, node: Reduce, scope: Scope) -> bool:
        """Whether every access in ``node`` is in range even where its guards do not hold."""
        domain = self._domain((*scope.axes, *node.axes))
        if node.condition is not None:
            domain = domain.where(conjunction(self.symbols.normal(node.condition)))
        guards = path_guards(*node.children)
        inner = Scope((*scope.axes, *node.axes))
        for part in walk_scalar(*node.children):
            if isinstance(part, Reduce) and not self._is_safe(part, inner):
                return False
            if isinstance(part, Load) and not self._is_in_range(part, domain, guards[id(part)]):
                return False
        return True

    def _is_in_range(self, load: Load, domain: Domain, guards: Iterable[Guard]) -> bool:
        for condition, holds in guards:
            domain = domain.where(conjunction(self.symbols.normal(condition), holds))
        place = self.place(load.source)
        at = place.indices(load.indices, self.symbols, domain.ranges)
        affine = [form for form in (to_affine(i, domain.ranges) for i in at) if form is not None]
        sizes = [to_affine(size) for size in place.shape]
        return not place.keeps_guard and len(affine) == len(at) and domain.holds(affine, sizes)

    def _reads_itself(self, exprs: Sequence[Expr]) -> bool:
        nodes = (node for expr in exprs for node in walk(expr))
        return any(isinstance(node, Load) and isinstance(node.source, Itself) for node in nodes)

    # ---- statements -------------------------------------------------------------------------

    def _domain(self, axes: Sequence[Axis]) -> Domain:
        return box(axes, self.symbols, self.name)

    def _builder(self, domain: Domain, scope: Scope) -> BodyBuilder:
        def fold(node: Expr, guards: tuple[Guard, ...]) -> tuple[Place, tuple[Expr, ...]]:
            assert isinstance(node, Reduce), type(node).__name__
            held = self.fold(node, scope, guards)
            return held.places[node.index], held.indices

        return BodyBuilder(domain, self.symbols, self.place, fold)

    def _emit(
        self,
        name: str,
        axes: Sequence[Axis],
        domain: Domain,
        writes: tuple[Access, ...],
        reads: Sequence[Access],
        results: Sequence[Expr],
        update: Update | None = None,
        inside: bool = False,
    ) -> None:
        statement = Statement(
            self.statement_name(name),
            tuple(axis.name for axis in axes),
            as_constraints(domain.known),
            (),
            writes,
            tuple(reads),
            Body((), tuple(results)),
            update,
        )
        self.pieces.append(Piece(statement, inside))

    def statements(self, position: int) -> Iterator[Statement]:
        """Every statement with its position, from ``position`` on; scanned ones share loops."""
        outside = [piece.statement for piece in self.pieces if not piece.inside]
        inside = [piece.statement for piece in self.pieces if piece.inside]
        for place, statement in enumerate(outside, position):
            yield replace(statement, position=textual(place, statement.dims))
        shared = textual(position + len(outside), tuple(a.name for a in self.axes[: self.scan]))
        for place, statement in enumerate(inside):
            rest = textual(place, statement.dims[self.scan :])
            yield replace(statement, position=(*shared[:-1], *rest))


def textual(place: int, dims: Sequence[str]) -> tuple[int | str, ...]:
    position: list[int | str] = [place]
    for dim in dims:
        position += [dim, 0]
    return tuple(position)


def _fold_label(node: Expr) -> Hashable:
    """Components of one fold are the same fold."""
    assert isinstance(node, Reduce), type(node).__name__
    return (node.monoid, node.axes, node.condition is None)


def _axis_names(exprs: Sequence[Expr], around: Sequence[Axis]) -> set[str]:
    """The names among ``around`` that ``exprs`` depend on, through bounds of axes too: not those
    that a reduction in them gives to an axis of its own."""
    bounds = {axis.name: (axis.lower, axis.upper) for axis in around}
    found: set[str] = set()
    pending: list[tuple[Expr, frozenset[str]]] = [(expr, frozenset()) for expr in exprs]
    seen: set[tuple[int, frozenset[str]]] = set()

    def also(parts: Iterable[Expr], own: frozenset[str]) -> None:
        for part in parts:
            if (id(part), own) not in seen:
                seen.add((id(part), own))
                pending.append((part, own))

    while pending:
        expr, own = pending.pop()
        for node in walk_scalar(expr):
            if isinstance(node, Reduce):
                also((bound for axis in node.axes for bound in (axis.lower, axis.upper)), own)
                also(node.children, own | {axis.name for axis in node.axes})
            elif isinstance(node, Var) and node.name in bounds and node.name not in own | found:
                found.add(node.name)
                also(bounds[node.name], frozenset())
    return found


def _combined(monoid: Monoid, old: Expr, value: Expr) -> Expr:
    sides = {monoid.left[0].name: old, monoid.right[0].name: value}
    return substitute(monoid.combined[0], sides)


def _not_empty(place: Place, symbols: Symbols) -> Iterator[Affine]:
    """That no size of the tensor is 0, as far as sizes are affine."""
    for size in place.shape:
        form = to_affine(symbols.size(size))
        if form is not None:
            yield form.plus(-1)
