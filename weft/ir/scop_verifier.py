"""Is a Scop well-formed? The rules on the page of ``scop`` that need no isl.

That accesses stay inside their tensors, ``legality.check_bounds`` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import InternalError
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Load, Var, walk
from weft.ir.scalar_paths import SCALAR
from weft.ir.scalar_printer import scalar_text
from weft.ir.scop import Access, Scop, Statement, Tensor

Scope = dict[str, DType]  # the variables that may be mentioned


def verify(scop: Scop) -> None:
    """Raise ``InternalError`` (E0941 … E0946) for the first rule that ``scop`` breaks."""
    _verify_names(scop)
    parameters: Scope = dict.fromkeys(scop.parameters, dtypes.int64)
    _verify_derived(scop)
    for constraint in scop.context:
        _is_affine(constraint.expr, parameters, "the context")
    tensors = {tensor.name: tensor for tensor in scop.tensors}
    for tensor in scop.tensors:
        for size in tensor.shape:
            _is_affine(size, parameters, f"the shape of {tensor.name}")
        if not 0 <= tensor.contracted <= len(tensor.shape):
            _fail("E0942", tensor.name, f"{tensor.contracted} dimensions are contracted")
    for statement in scop.statements:
        _verify_statement(statement, parameters, tensors)
    sources: dict[tuple[int | str, ...], str] = {}
    for s in scop.statements:
        if s.position and sources.setdefault(s.position, _source(s)) != _source(s):
            _fail("E0943", scop.name, "two statements have one position")


def _source(statement: Statement) -> str:
    """Parts of one original statement may share its position: they run in list order."""
    origin = statement.origin
    return origin.statement if origin is not None and origin.statement else statement.name


def _fail(code: str, where: str, what: str) -> NoReturn:
    raise InternalError(f"WEFT-{code}", what, where=where)


def _verify_names(scop: Scop) -> None:
    kinds: Iterable[tuple[str, Sequence[str]]] = (
        ("parameters", scop.parameters),
        ("tensors", [t.name for t in scop.tensors]),
        ("statements", [s.name for s in scop.statements]),
    )
    for kind, names in kinds:
        if len(set(names)) < len(names):
            _fail("E0941", scop.name, f"two {kind} have one name")
        wrong = [
            n for n in names if kind != "parameters" and not (n.isidentifier() and n.isascii())
        ]
        if wrong:
            _fail("E0941", scop.name, f"{wrong[0]!r} is not an identifier")


def _verify_derived(scop: Scop) -> None:
    derived = [name for name, _ in scop.derived]
    known: Scope = dict.fromkeys((p for p in scop.parameters if p not in derived), dtypes.int64)
    for name, value in scop.derived:
        if name not in scop.parameters:
            _fail("E0942", scop.name, f"{name} is derived but not a parameter")
        _verify_expr(value, known, (), (), f"derived parameter {name}")
        known[name] = dtypes.int64


def _is_affine(expr: Expr, scope: Scope, where: str) -> None:
    for node in walk(expr):
        if isinstance(node, Var) and node.name not in scope:
            _fail("E0944", where, f"{node.name} is not in scope")
    if to_affine(expr) is None:
        _fail("E0944", where, f"{scalar_text(expr)} is not quasi-affine")


def _verify_statement(statement: Statement, parameters: Scope, tensors: dict[str, Tensor]) -> None:
    name, dims = statement.name, statement.dims
    if len({*dims, *parameters}) < len(dims) + len(parameters):
        _fail("E0943", name, "a dim has the name of another or of a parameter")
    _verify_position(statement)
    scope: Scope = parameters | dict.fromkeys(dims, dtypes.int64)
    for constraint in statement.domain:
        _is_affine(constraint.expr, scope, f"the domain of {name}")
    for access in statement.accesses:
        _verify_access(access, scope, tensors, name)
    types = [tensors[access.tensor].dtype for access in statement.reads]
    for number, access in enumerate(statement.reads):
        _verify_body_indices(access, scope, types[:number], name)
    for access in statement.writes:
        if tensors[access.tensor].role in ("input", "constant"):
            _fail("E0945", name, f"it writes {access.tensor}, which is an input")
        _verify_body_indices(access, scope, types, name)
    _verify_body(statement, scope, types, tensors)
    _verify_update(statement)


def _verify_position(statement: Statement) -> None:
    if not statement.position:  # the schedule tree places it
        return
    constants, loops = statement.position[::2], statement.position[1::2]
    alternates = all(isinstance(p, int) for p in constants) and len(constants) == len(loops) + 1
    if not alternates or sorted(map(str, loops)) != sorted(statement.dims):
        text = ", ".join(map(str, statement.position))
        _fail("E0943", statement.name, f"({text}) is no position over {statement.dims}")


def _verify_access(access: Access, scope: Scope, tensors: dict[str, Tensor], name: str) -> None:
    if access.tensor not in tensors:
        _fail("E0945", name, f"there is no tensor {access.tensor}")
    rank = len(tensors[access.tensor].shape)
    if len(access.indices) != rank or len(access.body_indices) != (rank if access.may else 0):
        _fail("E0945", name, f"an access to {access.tensor} does not have {rank} indices")
    for index in access.indices:
        _is_affine(index, scope, f"an index of {access.tensor} in {name}")
    for constraint in access.guard:
        _is_affine(constraint.expr, scope, f"a guard of {access.tensor} in {name}")


def _verify_body_indices(
    access: Access, scope: Scope, operands: Sequence[DType], name: str
) -> None:
    for index in access.body_indices:
        _verify_expr(index, scope, operands, (dtypes.int64,), name)


def _verify_body(
    statement: Statement, scope: Scope, operands: Sequence[DType], tensors: dict[str, Tensor]
) -> None:
    name, known = statement.name, dict(scope)
    for let, value in statement.body.lets:
        if let in known:
            _fail("E0946", name, f"{let} is bound twice")
        _verify_expr(value, known, operands, (), name)
        known[let] = value.dtype
    if len(statement.body.results) != len(statement.writes) or not statement.writes:
        _fail("E0946", name, "it does not have one result for each write, and one at least")
    for access, result in zip(statement.writes, statement.body.results, strict=True):
        _verify_expr(result, known, operands, (tensors[access.tensor].dtype,), name)


def _verify_expr(
    expr: Expr, scope: Scope, operands: Sequence[DType], dtype: tuple[DType, ...], where: str
) -> None:
    """``operands``: dtypes of the reads that may be used; ``dtype``: what ``expr`` must be of."""
    for node in walk(expr):
        match node:
            case Var(name) if scope.get(name) != node.dtype:
                _fail("E0946", where, f"{name} of dtype {node.dtype} is not in scope")
            case Load(source, indices):
                known = isinstance(source, int) and 0 <= source < len(operands) and not indices
                if not known or operands[int(str(source))] != node.dtype:
                    _fail("E0946", where, f"{source!r} is not an operand of dtype {node.dtype}")
        if not isinstance(node, SCALAR):
            _fail("E0946", where, f"{type(node).__name__} in the body of a statement")
    if dtype and expr.dtype != dtype[0]:
        _fail("E0946", where, f"{scalar_text(expr)} is {expr.dtype}, not {dtype[0]}")


def _verify_update(statement: Statement) -> None:
    update, name = statement.update, statement.name
    if update is None:
        return
    types = tuple(result.dtype for result in statement.body.results)
    if update.monoid.dtypes != types:
        _fail("E0946", name, f"the components of {update.monoid.name} are not those of its writes")
    if not set(update.dims) <= set(statement.dims):
        _fail("E0943", name, "it folds along what is no dim")
