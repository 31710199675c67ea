"""From tensor expressions (IR 1) to affine statements (IR 3).

* Every reduction is a fold of its own: a statement that writes the identity and an ``Update`` that
  folds, over the axes that the reduction depends on, into a temporary, or into the result where the
  value is just the reduction. Equal reductions share one.
* A load is an ``Access`` with quasi-affine indices; the select conditions above it become its guard
  where it could be out of range without them. Minima, maxima and selects in indices split it into
  several accesses. What has no quasi-affine indices is a may access, checked when it is performed.
* A reshape is composed with the accesses through it; where that is not quasi-affine, and where it
  is an output, it is a copy.
* The statements of a scan share its loops. A scatter is a copy of its base, then ordered writes.

Tensors come in this order: inputs and outputs as in the program, one for each, then temporaries.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_affine import FloorDiv, to_affine
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.scop import Access, Body, Origin, Role, Scop, Statement
from weft.ir.scop import Tensor as ScopTensor
from weft.ir.tensor_axes import symbols_in
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Itself,
    Operation,
    Program,
    Reshape,
    Scatter,
    Tensor,
    as_size,
    operations,
)
from weft.polyhedral.lower_body import Place
from weft.polyhedral.lower_compute import OperationLowering, textual
from weft.polyhedral.lower_domain import Domain, box
from weft.polyhedral.lower_names import Names, Symbols

_Key = Tensor | tuple[Operation, int]  # a placeholder or a reshape, or else a result


def lower(program: Program, name: str, *, sources: Mapping[Operation, str] | None = None) -> Scop:
    """The statements that compute ``program``, called ``name``.

    ``sources`` says what operations are in the user's terms; by default their names. The program
    must be verified (``tensor_verifier``). Raises ``ExpressionError`` (E0141) where a bound of an
    axis is not affine in outer axes and sizes.
    """
    return _Lowering(program, sources or {}).scop(name)


class _Lowering:
    def __init__(self, program: Program, sources: Mapping[Operation, str]) -> None:
        self.program, self.sources = program, sources
        self.reads = {operation: operation.reads for operation in operations(program)}
        self.symbols = Symbols()
        self.tensor_names, self.statement_names = Names(), Names()
        self.inputs: list[ScopTensor] = []
        self.outputs: list[ScopTensor] = []
        self.temps: list[ScopTensor] = []
        self.places: dict[_Key, Place] = {}
        self.copies: list[tuple[Place, Tensor]] = []  # outputs that no operation writes itself
        self.statements: list[Statement] = []

    def scop(self, name: str) -> Scop:
        self._declare()
        read = {t for tensors in self.reads.values() for t in tensors}
        used = {_key(t) for t in (*read, *self.program.outputs)}
        reshaped: dict[Operation, dict[Tensor, None]] = {}
        for tensor in (*(t for ts in self.reads.values() for t in ts), *self.program.outputs):
            if isinstance(tensor.operation, Reshape):
                reshaped.setdefault(tensor.operation, {})[tensor] = None
        for operation in self.reads:
            match operation:
                case Compute():
                    self._compute(operation, used)
                case Scatter():
                    self._scatter(operation)
                case Reshape():
                    for tensor in reshaped[operation]:
                        self._reshape(tensor, operation, tensor in read)
        for place, tensor in self.copies:
            self._copy(place, self.places[_key(tensor)], tensor)
        tensors = (*self.inputs, *self.outputs, *self.temps)
        return Scop(
            name,
            tuple(self.symbols.ranges),
            self.symbols.context(size for tensor in tensors for size in tensor.shape),
            tensors,
            tuple(self.statements),
            tuple(self.symbols.derived.items()),
        )

    # ---- tensors ----------------------------------------------------------------------------

    def _declare(self) -> None:
        """Inputs and outputs get their names first, so that theirs stay as they are."""
        program = self.program
        everything = (t for tensors in self.reads.values() for t in tensors)
        for tensor in (*program.inputs, *program.outputs, *everything):
            self.symbols.declare(as_size(size) for size in tensor.shape)
        for operation in self.reads:
            self.symbols.declare(map(Var, symbols_in(operation)))
        for tensor in program.inputs:
            place = self._new(tensor.name, self._shape(tensor), tensor.dtype, self.inputs, "input")
            self.places.setdefault(tensor, place)
        for tensor in program.outputs:
            shape = self._shape(tensor)
            place = self._new(tensor.name, shape, tensor.dtype, self.outputs, "output")
            written = isinstance(tensor.operation, Compute | Scatter)
            if written and _key(tensor) not in self.places:
                self.places[_key(tensor)] = place
            else:
                self.copies.append((place, tensor))

    def _shape(self, tensor: Tensor) -> tuple[Expr, ...]:
        return tuple(self.symbols.size(as_size(size)) for size in tensor.shape)

    def _new(
        self,
        name: str,
        shape: tuple[Expr, ...],
        dtype: DType,
        among: list[ScopTensor],
        role: Role = "temp",
    ) -> Place:
        unique = self.tensor_names.fresh(name)
        among.append(ScopTensor(unique, shape, dtype, role))
        return Place(unique, shape)

    def _temp(self, name: str, shape: tuple[Expr, ...], dtype: DType) -> Place:
        return self._new(name, shape, dtype, self.temps)

    # ---- operations -------------------------------------------------------------------------

    def _lowering(self, operation: Compute | Scatter, scan: int = 0) -> OperationLowering:
        def place(source: Hashable) -> Place:
            if isinstance(source, Itself):
                return replace(self.places[operation, source.index], keeps_guard=True)
            assert isinstance(source, Tensor), source
            return self.places[_key(source)]

        name, fresh = operation.name, self.statement_names.fresh
        return OperationLowering(name, operation.axes, scan, self.symbols, place, self._temp, fresh)

    def _finish(self, lowering: OperationLowering, operation: Operation) -> None:
        for statement in lowering.statements(self._next_position()):
            self._append(statement, operation)

    def _append(self, statement: Statement, operation: Operation | None) -> None:
        source = "" if operation is None else self.sources.get(operation, operation.name)
        instance = tuple(Var(dim) for dim in statement.dims)
        origin = Origin(statement.name, instance, source)
        self.statements.append(replace(statement, origin=origin))

    def _next_position(self) -> int:
        return int(self.statements[-1].position[0]) + 1 if self.statements else 0

    def _compute(self, operation: Compute, used: set[_Key]) -> None:
        values = operation.values
        shape = tuple(self.symbols.size(axis.upper) for axis in operation.axes)
        wanted = [c for c in range(len(values)) if operation.scan or (operation, c) in used]
        for c in wanted:
            if (operation, c) not in self.places:
                name = f"{operation.name}_{c}" if len(values) > 1 else operation.name
                self.places[operation, c] = self._temp(name, shape, values[c].dtype)
        lowering = self._lowering(operation, operation.scan)
        lowering.compute([values[c] for c in wanted], [self.places[operation, c] for c in wanted])
        self._finish(lowering, operation)

    def _scatter(self, operation: Scatter) -> None:
        base = operation.base
        if (operation, 0) not in self.places:
            shape = self._shape(base)
            self.places[operation, 0] = self._temp(operation.name, shape, base.dtype)
        result = Tensor(operation.name, base.shape, base.dtype, operation)
        self._copy(self.places[operation, 0], self.places[_key(base)], result)
        lowering = self._lowering(operation)
        lowering.scatter(
            result, operation.indices, operation.value, operation.combine, operation.condition
        )
        self._finish(lowering, operation)

    def _reshape(self, tensor: Tensor, operation: Reshape, is_read: bool) -> None:
        """Compose it with its readers where that is affine, else with copies of it."""
        source = self.places[_key(operation.source)]
        shape, inner = self._shape(tensor), self._shape(operation.source)
        through = Place(source.tensor, source.shape, ((shape, inner), *source.reshapes))
        points = self._points(shape)
        at = through.indices(points.dims, self.symbols, points.domain.ranges)
        if is_read and _cost(at) == _NOT_AFFINE:
            place = self._temp(operation.name, shape, tensor.dtype)
            self._copy(place, through, tensor)
            through = place
        self.places[tensor] = through

    def _copy(self, target: Place, source: Place, tensor: Tensor) -> None:
        """A statement that copies ``source`` to ``target``.

        It runs over the points of the one from which the other has the simpler indices.
        """
        backwards = tuple((inner, outer) for outer, inner in reversed(source.reshapes))
        writing = self._points(source.shape)
        written = Place(target.tensor, target.shape, backwards).indices(
            writing.dims, self.symbols, writing.domain.ranges
        )
        reading = self._points(target.shape)
        read = source.indices(reading.dims, self.symbols, reading.domain.ranges)
        points = writing if _cost(written) <= min(_cost(read), _NOT_AFFINE - 1) else reading
        if points is reading:
            indices = tuple(literal(0) if to_affine(index) is None else index for index in read)
            may = _cost(read) == _NOT_AFFINE
            access = Access(source.tensor, indices, (), may, read if may else ())
            write = Access(target.tensor, points.dims)
        else:
            access, write = Access(source.tensor, points.dims), Access(target.tensor, written)
        statement = Statement(
            self.statement_names.fresh(f"{tensor.name}_copy"),
            tuple(dim.name for dim in points.dims),
            as_constraints(points.domain.known),
            textual(self._next_position(), [dim.name for dim in points.dims]),
            (write,),
            (access,),
            Body((), (Load(0, (), tensor.dtype),)),
        )
        self._append(statement, tensor.operation)

    def _points(self, shape: tuple[Expr, ...]) -> _Points:
        names = Names(self.symbols.ranges)
        axes = [
            Axis(names.fresh(f"i{d}"), dtypes.int64, literal(0), n) for d, n in enumerate(shape)
        ]
        return _Points(tuple(Var(axis.name) for axis in axes), box(axes, self.symbols, ""))


@dataclass(frozen=True, slots=True)
class _Points:
    """All points of a tensor."""

    dims: tuple[Var, ...]
    domain: Domain


_NOT_AFFINE = 1 << 30


def _cost(indices: Sequence[Expr]) -> int:
    """How many divisions the indices need."""
    forms = [to_affine(index) for index in indices]
    if None in forms:
        return _NOT_AFFINE
    terms = (term for form in forms if form is not None for term, _ in form.terms)
    return sum(isinstance(term, FloorDiv) for term in terms)


def _key(tensor: Tensor) -> _Key:
    operation = tensor.operation
    if operation is None or isinstance(operation, Reshape):
        return tensor
    return operation, tensor.index
