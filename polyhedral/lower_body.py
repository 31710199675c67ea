"""From a scalar expression over tensors to the reads and the body of a statement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_affine import Affine, Ranges, to_affine, to_expr
from weft.ir.scalar_condition import Conjunction, conjunction
from weft.ir.scalar_expr import Apply, Expr, Load, Select, Var, literal, rewrite, select, walk
from weft.ir.scalar_paths import SCALAR, Guard, Path, path_guards, walk_scalar
from weft.ir.scalar_reshape import reshape_indices
from weft.ir.scalar_simplify import simplify
from weft.ir.scop import Access
from weft.ir.tensor_expr import Axis
from weft.polyhedral.lower_domain import Domain
from weft.polyhedral.lower_names import Symbols

MAX_PIECES = 8  # accesses into which min, max and select in indices may split one load


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of something are: in ``tensor``, through reshapes from the outside in."""

    tensor: str
    shape: tuple[Expr, ...]  # of the tensor itself
    reshapes: tuple[tuple[tuple[Expr, ...], tuple[Expr, ...]], ...] = ()  # (shape, source's shape)
    keeps_guard: bool = False  # elements outside the guard may not exist yet

    def indices(self, outer: Sequence[Expr], symbols: Symbols, ranges: Ranges) -> tuple[Expr, ...]:
        """The indices into ``tensor`` of element ``outer``."""
        found = tuple(symbols.normal(index) for index in outer)
        for shape, source in self.reshapes:
            moved = reshape_indices(found, shape, source, ranges)
            found = tuple(symbols.normal(index) for index in moved)
        return found


class BodyBuilder:
    """Collects the reads of one statement while its expressions are rewritten over operands."""

    def __init__(
        self,
        domain: Domain,
        symbols: Symbols,
        place: Callable[[Hashable], Place],
        fold: Callable[[Expr, tuple[Guard, ...]], tuple[Place, tuple[Expr, ...]]],
    ) -> None:
        """``place`` locates what a load names; ``fold`` the element that holds a reduction."""
        self.domain, self.symbols, self.place, self.fold = domain, symbols, place, fold
        self.reads: list[Access] = []
        self._numbers: dict[Access, int] = {}
        self._facts: dict[Path, Conjunction] = {}

    def translate(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        """``exprs`` with loads and reductions replaced by operands, axes by dims."""
        guards = path_guards(*exprs)
        done: dict[int, Expr] = {}
        for node in walk_scalar(*exprs):
            if isinstance(node, Axis):
                done[id(node)] = Var(node.name, node.dtype)
            elif isinstance(node, Load):
                place = self.place(node.source)
                outer = tuple(done[id(index)] for index in node.indices)
                indices = place.indices(outer, self.symbols, self.domain.ranges)
                known = self._known(guards[id(node)], done)
                done[id(node)] = self._load(place, indices, known, node.dtype, MAX_PIECES)
            elif not isinstance(node, SCALAR):
                place, indices = self.fold(node, tuple(guards[id(node)]))
                known = self._known(guards[id(node)], done)
                done[id(node)] = self._load(place, indices, known, node.dtype, 1)
            else:
                operands = tuple(done[id(child)] for child in node.children)
                same = all(a is b for a, b in zip(operands, node.children, strict=True))
                done[id(node)] = node if same else node.rebuild(operands)
        return tuple(done[id(expr)] for expr in exprs)

    def _known(self, path: Path, done: dict[int, Expr]) -> Conjunction:
        """What follows from the conditions on ``path``; of parallel inequalities the tightest."""
        steps: list[Path] = []
        while path not in self._facts and path.parent is not None:
            steps.append(path)
            path = path.parent
        known = self._facts.get(path, Conjunction())
        for step in reversed(steps):
            if step.guard is not None:
                # On the way by which the walk came here, a node equal to the condition was done.
                condition = next(done[id(node)] for node in step.equals if id(node) in done)
                known = known & conjunction(self.symbols.normal(condition), step.guard[1])
            known = _tightest(known, step.exact)
            self._facts[step] = known
        return known

    def _load(
        self, place: Place, indices: tuple[Expr, ...], known: Conjunction, dtype: DType, pieces: int
    ) -> Expr:
        """The operand for an element; several, selected, where an index has cases."""
        forms = [to_affine(index, self.domain.ranges) for index in indices]
        if None in forms and pieces > 1:
            found = _split(indices, self.domain.ranges)
            if found is not None:
                condition, yes, no = found
                left, right = known & conjunction(condition), known & conjunction(condition, False)
                if self.domain.where(left).is_empty:
                    return self._load(place, no, known, dtype, pieces)
                if self.domain.where(right).is_empty:
                    return self._load(place, yes, known, dtype, pieces)
                return select(
                    condition,
                    self._load(place, yes, left, dtype, pieces // 2),
                    self._load(place, no, right, dtype, pieces // 2),
                )
        return Load(self._read(self._access(place, indices, forms, known)), (), dtype)

    def _access(
        self,
        place: Place,
        indices: tuple[Expr, ...],
        forms: Sequence[Affine | None],
        known: Conjunction,
    ) -> Access:
        affine = [form for form in forms if form is not None]
        guard = as_constraints(self.domain.news(known))
        plain = tuple(literal(0) if form is None else to_expr(form) for form in forms)
        if len(affine) == len(forms):
            sizes = [to_affine(size) for size in place.shape]
            if not place.keeps_guard and self.domain.holds(affine, sizes):
                return Access(place.tensor, plain)
            if known.exact or self.domain.where(known).holds(affine, sizes):
                return Access(place.tensor, plain, guard)
        return Access(place.tensor, plain, guard, True, indices)

    def _read(self, access: Access) -> int:
        if not access.may:
            number = self._numbers.setdefault(access, len(self.reads))
            if number < len(self.reads):
                return number
        self.reads.append(access)
        return len(self.reads) - 1


def _tightest(known: Conjunction, exact: bool) -> Conjunction:
    least: dict[object, Affine] = {}
    for form in known.at_least:
        least[form.terms] = min(form, least.get(form.terms, form), key=lambda f: f.constant)
    return Conjunction(tuple(least.values()), known.equal, known.exact and exact)


Case = tuple[Expr, tuple[Expr, ...], tuple[Expr, ...]]  # condition, indices where true and false


def _split(indices: tuple[Expr, ...], ranges: Ranges) -> Case | None:
    """The first case distinction on quasi-affine values in ``indices``, if there is one."""
    for index in indices:
        for node in walk(index):
            if node.dtype != dtypes.int64 or isinstance(node, Load):
                continue
            match node:
                case Apply("min", (a, b)):
                    cases = (a <= b, a, b)
                case Apply("max", (a, b)):
                    cases = (a >= b, a, b)
                case Apply("abs", (a,)):
                    cases = (a >= 0, a, -a)
                case Select(condition, a, b):
                    cases = (condition, a, b)
                case _:
                    continue
            if _is_comparison(cases[0]):
                yes = tuple(_replaced(i, node, cases[1], ranges) for i in indices)
                return cases[0], yes, tuple(_replaced(i, node, cases[2], ranges) for i in indices)
    return None


def _is_comparison(condition: Expr) -> bool:
    return conjunction(condition).exact and conjunction(condition, False).exact


def _replaced(expr: Expr, old: Expr, new: Expr, ranges: Ranges) -> Expr:
    return simplify(rewrite(expr, lambda node: new if node == old else None), ranges)
