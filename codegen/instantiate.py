"""One statement at one place of the loops: its body as loop IR.

All reads come before all writes. A read under a guard is a lazy select; a data-dependent access is
checked against its tensor and left out where it would fall outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft import dtypes
from weft.codegen.loop_ir import Block, Check, If, Let, Stmt, Store, Update
from weft.frontend.scalar_expr import (
    Expr,
    Load,
    Var,
    literal,
    rewrite,
    select,
)
from weft.polyhedral.scop import Access, Constraint, Scop, Statement, Tensor


@dataclass(slots=True)
class Messages:
    """What the kernel's check codes mean: code k is ``texts[k - 1]``."""

    texts: list[str] = field(default_factory=list)

    def code(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


def instantiate(
    scop: Scop, statement: Statement, dims: Mapping[str, Expr], messages: Messages
) -> Stmt:
    """``statement`` where its dims have the values ``dims``."""
    return _Instance(scop, statement, dict(dims), messages).build()


class _Instance:
    def __init__(
        self, scop: Scop, statement: Statement, dims: dict[str, Expr], messages: Messages
    ) -> None:
        self.scop = scop
        self.statement = statement
        self.names = dims  # dims and lets -> what they are called here
        self.messages = messages
        self.values: dict[int, Expr] = {}
        self.checks: list[tuple[int, Stmt]] = []  # (number of lets before it, check)

    def build(self) -> Stmt:
        statement = self.statement
        for k, access in enumerate(statement.reads):
            self.values[k] = self._read(access)
        lets: list[tuple[str, Expr]] = []
        for name, value in statement.body.lets:
            own = f"{statement.name}.{name}"
            lets.append((own, self.expr(value)))
            self.names[name] = Var(own, value.dtype)
        body: Stmt = self._effects()
        checks = [self._check(a) for a in (*statement.reads, *statement.writes) if a.may]
        if checks:
            body = Block((*checks, body))
        for name, value in reversed(lets):
            body = Let(name, value, body)
        return body

    def _effects(self) -> Stmt:
        """The writes, of all results at once."""
        statement = self.statement
        results = [self.expr(r) for r in statement.body.results]
        if statement.update is not None:
            targets = tuple((w.tensor, self._indices(w)) for w in statement.writes)
            return self._guarded(
                statement.writes, Update(targets, statement.update.monoid, tuple(results))
            )
        if len(results) == 1:
            return self._store(statement.writes[0], results[0])
        names = [f"{statement.name}.result{k}" for k in range(len(results))]
        stores = tuple(
            self._store(w, Var(n, r.dtype))
            for w, n, r in zip(statement.writes, names, results, strict=True)
        )
        body: Stmt = Block(stores)
        for name, value in reversed(list(zip(names, results, strict=True))):
            body = Let(name, value, body)
        return body

    def _store(self, access: Access, value: Expr) -> Stmt:
        return self._guarded((access,), Store(access.tensor, self._indices(access), value))

    def _guarded(self, accesses: tuple[Access, ...], stmt: Stmt) -> Stmt:
        conditions = [self._condition(a) for a in accesses if a.may or a.guard]
        for condition in conditions:
            if condition is not None:
                stmt = If(condition, stmt)
        return stmt

    def _read(self, access: Access) -> Expr:
        tensor = self.scop.tensor(access.tensor)
        load: Expr = Load(access.tensor, self._indices(access), tensor.dtype)
        condition = self._condition(access)
        return load if condition is None else select(condition, load, literal(0, tensor.dtype))

    def _indices(self, access: Access) -> tuple[Expr, ...]:
        """Indices into storage: contracted dims have none."""
        given = access.body_indices if access.may else access.indices
        kept = given[self.scop.tensor(access.tensor).contracted :]
        return tuple(self.expr(i) for i in kept)

    def _condition(self, access: Access) -> Expr | None:
        """Where the access is performed: its guard, and its indices in range if they are data."""
        parts = [self._holds(c) for c in access.guard]
        if access.may:
            parts.append(self._in_range(access))
        result: Expr | None = None
        for part in parts:
            result = part if result is None else result & part
        return result

    def _holds(self, constraint: Constraint) -> Expr:
        value = self.expr(constraint.expr)
        return value.equal(0) if constraint.equality else value >= 0

    def _in_range(self, access: Access) -> Expr:
        result: Expr = literal(True, dtypes.bool_)
        tensor = self.scop.tensor(access.tensor)
        for index, size in zip(self._indices(access), _stored(tensor), strict=True):
            result = result & (index >= 0) & (index < size)
        return result

    def _check(self, access: Access) -> Stmt:
        """Report the first index that is out of range, where the access would be performed."""
        tensor = self.scop.tensor(access.tensor)
        source = self.statement.origin.source if self.statement.origin else ""
        where = source or self.statement.name
        checks: list[Stmt] = []
        for dim, (index, size) in enumerate(
            zip(self._indices(access), _stored(tensor), strict=True)
        ):
            code = self.messages.code(
                f"{where}: index {{0}} is out of range for dimension {dim} of "
                f"{access.tensor}, which has {{1}} elements"
            )
            checks.append(Check((index >= 0) & (index < size), code, (index, size)))
        body: Stmt = Block(tuple(checks))
        for constraint in access.guard:
            body = If(self._holds(constraint), body)
        return body

    def expr(self, expr: Expr) -> Expr:
        """``expr`` of the body or of an index, in terms of the loops around it."""

        def change(node: Expr) -> Expr | None:
            match node:
                case Var(name, _):
                    return self.names.get(name)
                case Load(int(operand), _, _):
                    return self.values[operand]
            return None

        return rewrite(expr, change)


def _stored(tensor: Tensor) -> tuple[Expr, ...]:
    return tensor.shape[tensor.contracted :]
