"""Is a tensor program well-formed? The rules are those on the page of ``tensor_expr``.

Indices are checked as far as intervals and single inequalities decide; what they leave open, the
verification of affine statements decides with isl.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.scalar_affine import Affine, Range, affine_bounds, to_affine, to_expr
from weft.ir.scalar_condition import conjunction, proves
from weft.ir.scalar_expr import Expr, Load, Var, variable_names, walk
from weft.ir.scalar_paths import Guard, path_guards, walk_scalar
from weft.ir.scalar_polynomial import polynomial, product
from weft.ir.scalar_printer import scalar_text
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Itself,
    Monoid,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Size,
    Tensor,
    as_size,
    constant_size,
    operations,
)


def verify(program: Program, symbols: Iterable[str] = ()) -> None:
    """Raise ``ExpressionError`` (E0123 … E0134) for the first rule that ``program`` breaks.

    Size symbols are those in shapes, and the graph's ``symbols``.
    """
    tensors: dict[Tensor, None] = dict.fromkeys(program.inputs)
    order = operations(program)
    for operation in order:
        tensors |= dict.fromkeys(operation.reads)
    tensors |= dict.fromkeys(program.outputs)
    known = _symbols(tensors).union(symbols)
    for tensor in tensors:
        _verify_tensor(tensor, program)
    for operation in order:
        _OperationVerifier(operation, known).verify()
    _verify_in_place(program)


def _fail(code: str, where: str, what: str, why: str = "", hint: str = "") -> NoReturn:
    raise ExpressionError(f"WEFT-{code}", what, where=where, why=why, hint=hint)


def _symbols(tensors: dict[Tensor, None]) -> frozenset[str]:
    sizes = [size for t in tensors for size in t.shape if isinstance(size, Expr)]
    return frozenset(n.name for size in sizes for n in walk(size) if isinstance(n, Var))


# ---- tensors ------------------------------------------------------------------------------------


def _verify_tensor(tensor: Tensor, program: Program) -> None:
    for size in tensor.shape:
        _verify_size(size, tensor.name)
    operation = tensor.operation
    if operation is None:
        if tensor not in program.inputs:
            _fail("E0133", program.name, f"placeholder {tensor.name} is not an input")
    elif isinstance(operation, Compute):
        if not 0 <= tensor.index < len(operation.values):
            _fail("E0124", tensor.name, f"{operation.name} has no result {tensor.index}")
        _same_dtype(tensor.dtype, operation.values[tensor.index].dtype, tensor.name)
        uppers = [axis.upper for axis in operation.axes]
        if not _same_sizes(tensor.shape, uppers) or any(
            constant_size(axis.lower) != 0 for axis in operation.axes
        ):
            _fail(
                "E0124",
                tensor.name,
                f"the axes of {operation.name} do not span its shape",
                f"shape {_sizes(tensor.shape)}, axes up to {_sizes(uppers)}",
            )
    elif isinstance(operation, Scatter):
        _same_dtype(tensor.dtype, operation.base.dtype, tensor.name)
        if not _same_sizes(tensor.shape, operation.base.shape):
            _fail("E0124", tensor.name, f"{tensor.name} has not the shape of its base")
    else:
        _same_dtype(tensor.dtype, operation.source.dtype, tensor.name)
        _verify_reshape(tensor, operation)


def _verify_size(size: Size, where: str) -> None:
    nodes = list(walk(as_size(size)))
    if any(isinstance(n, Axis | Load | Reduce) or n.dtype != dtypes.int64 for n in nodes):
        _fail("E0124", where, "a size is an int64 expression over size symbols")
    names = [n.name for n in nodes if isinstance(n, Var) and n.name.startswith("{")]
    if names:  # such names are those of derived parameters
        _fail("E0124", where, f"a size symbol is named {names[0]!r}, with a brace at the beginning")
    value = constant_size(size)
    if value is not None and value < 0:
        _fail("E0124", where, f"a size is {value}", hint="sizes are not negative")


def _verify_reshape(tensor: Tensor, operation: Reshape) -> None:
    new, old = (
        product(as_size(s) for s in shape) for shape in (tensor.shape, operation.source.shape)
    )
    if all(set(p) <= {()} for p in (new, old)) and new != old:
        _fail(
            "E0132",
            tensor.name,
            f"a reshape of {_sizes(operation.source.shape)} to {_sizes(tensor.shape)}",
            f"{old.get((), 0)} elements there, {new.get((), 0)} here",
        )


def _verify_in_place(program: Program) -> None:
    for output, given in program.in_place:
        if not (0 <= output < len(program.outputs) and 0 <= given < len(program.inputs)):
            _fail("E0130", program.name, f"in_place names output {output} and input {given}")
        new, old = program.outputs[output], program.inputs[given]
        if new.dtype != old.dtype or not _same_sizes(new.shape, old.shape):
            _fail(
                "E0130",
                program.name,
                f"output {new.name} cannot share the storage of input {old.name}",
                f"{new.dtype}{_sizes(new.shape)} and {old.dtype}{_sizes(old.shape)}",
            )


def _same_dtype(left: DType, right: DType, where: str) -> None:
    if left != right:
        _fail("E0125", where, f"{where} is {left}, its value {right}")


def _same_sizes(left: Sequence[Size], right: Sequence[Size]) -> bool:
    if len(left) != len(right):
        return False
    pairs = zip(left, right, strict=True)
    return all(a is b or polynomial(as_size(a)) == polynomial(as_size(b)) for a, b in pairs)


def _sizes(shape: Sequence[Size]) -> str:
    return f"[{', '.join(scalar_text(as_size(s)) for s in shape)}]"


# ---- operations ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known where an expression is evaluated."""

    axes: tuple[Axis, ...] = ()
    guards: tuple[Guard, ...] = ()

    def inside(self, axis: Axis) -> _Scope:
        return _Scope((*self.axes, axis), self.guards)

    def where(self, guards: Iterable[Guard]) -> _Scope:
        return _Scope(self.axes, (*self.guards, *guards))

    def facts(self) -> tuple[Affine, ...]:
        """Forms that are at least 0 here."""
        facts: list[Affine] = []
        for axis in self.axes:
            name, lower, upper = (to_affine(e) for e in (axis, axis.lower, axis.upper))
            if name is not None and lower is not None:
                facts.append(name - lower)
            if name is not None and upper is not None:
                facts.append((upper - name).plus(-1))
        return (*facts, *(f for guard in self.guards for f in conjunction(*guard).facts()))

    def ranges(self, symbols: frozenset[str]) -> dict[str, Range]:
        found: dict[str, Range] = dict.fromkeys(sorted(symbols), (0, None))
        for axis in self.axes:
            lower, upper = to_affine(axis.lower), to_affine(axis.upper)
            low = affine_bounds(lower, found)[0] if lower is not None else None
            high = affine_bounds(upper, found)[1] if upper is not None else None
            found[axis.name] = (low, None if high is None else high - 1)
        return found


@dataclass(slots=True)
class _OperationVerifier:
    operation: Operation
    symbols: frozenset[str]
    names: dict[str, Axis] = field(default_factory=dict)
    pending: list[tuple[Expr, _Scope]] = field(default_factory=list)

    def verify(self) -> None:
        match self.operation:
            case Compute(name, axes, values, scan):
                if not 0 <= scan <= len(axes):
                    _fail("E0126", name, f"{name} has {len(axes)} axes, {scan} of them to scan")
                scope = self._bind(_Scope(), axes)
                self.pending = [(value, scope) for value in reversed(values)]
            case Scatter():
                self._verify_scatter(self.operation)
        while self.pending:
            self._verify_expr(*self.pending.pop())

    def _verify_scatter(self, operation: Scatter) -> None:
        name, base = operation.name, operation.base
        if len(operation.indices) != base.rank:
            _fail(
                "E0134",
                name,
                f"{base.name} has {base.rank} dimensions, not {len(operation.indices)}",
            )
        _same_dtype(base.dtype, operation.value.dtype, name)
        if operation.combine is not None:
            self._verify_monoid(operation.combine, [operation.value])
        scope = self._where(operation.condition, self._bind(_Scope(), operation.axes))
        self.pending += [(expr, scope) for expr in (*operation.indices, operation.value)]
        for dim, index in enumerate(operation.indices):
            self._verify_index(index, as_size(base.shape[dim]), scope, name, dim)

    def _bind(self, scope: _Scope, axes: Sequence[Axis]) -> _Scope:
        """``scope`` inside ``axes``, whose names must be new there and mean one axis everywhere."""
        for axis in axes:
            bound = {a.name for a in scope.axes}
            if axis.name in self.symbols or axis.name in bound:
                _fail(
                    "E0123",
                    self.operation.name,
                    f"the name {axis.name} is taken where an axis of that name begins",
                    hint="give every axis of an operation a name of its own",
                )
            if self.names.setdefault(axis.name, axis) != axis:
                _fail("E0123", self.operation.name, f"two different axes are named {axis.name}")
            for bound_expr in (axis.lower, axis.upper):
                for node in walk(bound_expr):
                    if isinstance(node, Load):
                        _fail("E0129", self.operation.name, f"a bound of axis {axis.name} loads")
                    self._is_known(node, bound)
            scope = scope.inside(axis)
        return scope

    def _is_known(self, node: Expr, bound: set[str]) -> None:
        if isinstance(node, Var) and node.name not in bound and node.name not in self.symbols:
            _fail(
                "E0131",
                self.operation.name,
                f"{node.name} is neither a size symbol nor an axis in scope",
                hint="reduction axes are known only inside their reduction",
            )

    def _verify_expr(self, expr: Expr, scope: _Scope) -> None:
        guards = path_guards(expr)
        bound = {axis.name for axis in scope.axes}
        for node in walk_scalar(expr):
            self._is_known(node, bound)
            if isinstance(node, Load):
                self._verify_load(node, scope.where(guards[id(node)]))
            elif isinstance(node, Reduce):
                self._verify_reduce(node, scope.where(guards[id(node)]))

    def _verify_reduce(self, node: Reduce, scope: _Scope) -> None:
        self._verify_monoid(node.monoid, node.values)
        inner = self._where(node.condition, self._bind(scope, node.axes))
        self.pending += [(value, inner) for value in reversed(node.values)]

    def _where(self, condition: Expr | None, scope: _Scope) -> _Scope:
        """The part of ``scope`` where ``condition``, which is still to be verified, holds."""
        if condition is None:
            return scope
        self._is_bool(condition)
        self.pending.append((condition, scope))
        return scope.where([(condition, True)])

    def _is_bool(self, condition: Expr) -> None:
        if condition.dtype != dtypes.bool_:
            _fail("E0125", self.operation.name, f"a condition is {condition.dtype}, not bool")

    def _verify_monoid(self, monoid: Monoid, values: Sequence[Expr]) -> None:
        where, count = self.operation.name, len(values)
        parts = (monoid.left, monoid.right, monoid.combined, monoid.identity)
        variables = (*monoid.left, *monoid.right)
        if any(len(part) != count for part in parts):
            _fail("E0128", where, f"monoid {monoid.name} does not have {count} components")
        if len({v.name for v in variables}) != 2 * count:
            _fail("E0128", where, f"monoid {monoid.name} uses one name twice")
        for c, value in enumerate(values):
            types = {monoid.left[c].dtype, monoid.right[c].dtype, monoid.combined[c].dtype}
            if types != {value.dtype}:
                _fail("E0128", where, f"component {c} of monoid {monoid.name} is not {value.dtype}")
            for node in walk(monoid.combined[c]):
                if isinstance(node, Load | Reduce) or (
                    isinstance(node, Var) and node not in variables
                ):
                    _fail("E0128", where, f"monoid {monoid.name} uses more than its two sides")
        if not monoid.laws <= {"associative", "commutative"}:
            _fail("E0128", where, f"monoid {monoid.name} declares unknown laws")

    # ---- accesses ---------------------------------------------------------------------------

    def _verify_load(self, node: Load, scope: _Scope) -> None:
        where = self.operation.name
        match node.source:
            case Tensor(name, shape, dtype):
                sizes = [as_size(size) for size in shape]
            case Itself(index):
                sizes, dtype = self._verify_itself(node, index, scope)
                name = f"{where} itself"
            case _:
                _fail("E0126", where, f"a load from {node.source!r}, which is no tensor")
        if len(node.indices) != len(sizes):
            _fail("E0127", where, f"{name} has {len(sizes)} dimensions, not {len(node.indices)}")
        _same_dtype(node.dtype, dtype, where)
        for dim, (given, size) in enumerate(zip(node.indices, sizes, strict=True)):
            self._verify_index(given, size, scope, name, dim)

    def _verify_index(self, index: Expr, size: Expr, scope: _Scope, name: str, dim: int) -> None:
        """Fail where the least or greatest value of ``index`` is reached and lies outside."""
        form, extent = to_affine(index), to_affine(size)
        boxed = all(
            to_affine(a.upper) is not None and not _depends(a, scope.axes) for a in scope.axes
        )
        if form is None or extent is None or scope.guards or not boxed:
            return
        if any(not isinstance(term, str) for term, _ in form.terms) or self._is_empty(scope):
            return
        known = dict.fromkeys(sorted(self.symbols), (0, None))
        least, greatest = _corner(form, scope.axes, False), _corner(form, scope.axes, True)
        _, below = affine_bounds(least, known)
        _, room = affine_bounds(extent - greatest, known)
        if (below is not None and below < 0) or (room is not None and room <= 0):
            text = scalar_text(index)
            _fail(
                "E0127",
                self.operation.name,
                f"index {dim} of {name} is out of range",
                f"{text} goes from {_form_text(least)} to {_form_text(greatest)}; "
                f"the size is {scalar_text(size)}",
                "guard the access with weft.select",
            )

    def _is_empty(self, scope: _Scope) -> bool:
        ranges = scope.ranges(self.symbols)
        return any(
            low is not None and high is not None and low > high
            for low, high in (ranges[axis.name] for axis in scope.axes)
        )

    def _verify_itself(self, node: Load, index: int, scope: _Scope) -> tuple[list[Expr], DType]:
        """The sizes and dtype of result ``index``, after proving that the element comes earlier."""
        operation = self.operation
        if not isinstance(operation, Compute) or not 0 <= index < len(operation.values):
            _fail("E0126", operation.name, f"a load from result {index} of the operation itself")
        if len(node.indices) == len(operation.axes) and not self._is_earlier(node, scope):
            access = f"itself({index})[{', '.join(scalar_text(i) for i in node.indices)}]"
            _fail(
                "E0126",
                operation.name,
                f"{access} is not proved to come earlier than the element that reads it",
                f"{operation.name} may read itself at strictly earlier indices of its first "
                f"{operation.scan} axes",
                "read at t - 1, guarded by weft.select(t > 0, …)",
            )
        return [axis.upper for axis in operation.axes], operation.values[index].dtype

    def _is_earlier(self, node: Load, scope: _Scope) -> bool:
        assert isinstance(self.operation, Compute)
        ranges, facts = scope.ranges(self.symbols), scope.facts()
        for axis, index in zip(
            self.operation.axes[: self.operation.scan], node.indices, strict=False
        ):
            form = to_affine(index, ranges)
            if form is None:
                return False
            distance = Affine(((axis.name, 1),)) - form
            if proves(facts, ranges, distance.plus(-1)):
                return True
            if not distance.is_constant or distance.constant != 0:
                return False
        return False


def _depends(axis: Axis, others: Sequence[Axis]) -> bool:
    bounds = variable_names(axis.lower) | variable_names(axis.upper)
    return not bounds.isdisjoint(other.name for other in others)


def _corner(form: Affine, axes: Sequence[Axis], greatest: bool) -> Affine:
    """``form`` where it is greatest (or least) over a box of ``axes``."""
    for axis in axes:
        weight = form.coefficient(axis.name)
        if not weight:
            continue
        lower, upper = to_affine(axis.lower), to_affine(axis.upper)
        assert lower is not None and upper is not None
        value = upper.plus(-1) if (weight > 0) == greatest else lower
        form = form - Affine(((axis.name, weight),)) + value.scaled(weight)
    return form


def _form_text(form: Affine) -> str:
    return scalar_text(to_expr(form))
