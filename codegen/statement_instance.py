"""One instance of an affine statement as loop IR: loads, stores, updates, and checks of
data-dependent indices.

* A guarded read is wrapped in a select unless the body selects it.
* Elements of tensors that the statement writes are loaded unconditionally if they are in bounds for
  certain: they are in cache, and no branch is needed. So are those that it loads anyway, and all
  others in a register tile, where one of many lanes takes a branch.
* A may access is checked if and only if it is performed; if the check fails it is skipped and reads
  as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from weft.codegen.rebuild import block, under
from weft.ir import dtypes
from weft.ir.loop_ir import Block, Check, Let, Stmt, Store, Update
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_condition import proves
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    cast,
    literal,
    rewrite,
    select,
    substitute,
    walk,
)
from weft.ir.scop import Access, Constraint, Scop, Statement, Tensor

_TRUE, _FALSE = literal(True, dtypes.bool_), literal(False, dtypes.bool_)


@dataclass(slots=True)
class Instances:
    """Makes instances of one Scop and collects the messages of their checks."""

    scop: Scop
    messages: list[str] = field(default_factory=list)
    _tensors: dict[str, Tensor] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        self._tensors = {t.name: t for t in self.scop.tensors}

    def make(self, statement: Statement, values: Sequence[Expr], *, ahead: bool = False) -> Stmt:
        """``statement`` at the point with coordinates ``values``; ``ahead``: with all loads that
        are in bounds for certain before its branches."""
        names = dict(zip(statement.dims, values, strict=True))
        return _Instance(self, statement, names, ahead).make()

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}.{self._count}"

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]

    def message(self, text: str) -> int:
        """The code of a check that reports ``text``."""
        if text not in self.messages:
            self.messages.append(text)
        return self.messages.index(text) + 1


@dataclass(slots=True)
class _Instance:
    made: Instances
    statement: Statement
    names: dict[str, Expr]  # dims and lets of the statement in loop IR's names
    ahead: bool
    lets: list[tuple[str, Expr] | Check] = field(default_factory=list)

    def make(self) -> Stmt:
        body = self.statement.body
        for name, value in body.lets:
            new = self.made.fresh(name)
            self.lets.append((new, self._body(value)))
            self.names = {**self.names, name: Var(new, value.dtype)}
        results = [self._body(result) for result in body.results]
        if len(results) > 1:  # all reads come before the first write
            results = [self._bound(result) for result in results]
        stmt = self._writes(results)
        for entry in reversed(self.lets):
            if isinstance(entry, Check):
                rest = stmt.stmts if isinstance(stmt, Block) else (stmt,)
                stmt = Block((entry, *rest))
            else:
                stmt = Let(*entry, stmt)
        return stmt

    def _bound(self, value: Expr) -> Expr:
        if isinstance(value, Literal | Var):
            return value
        name = self.made.fresh("result")
        self.lets.append((name, value))
        return Var(name, value.dtype)

    # ---- values -------------------------------------------------------------------------------

    def _body(self, expr: Expr) -> Expr:
        """A body expression in loop IR; checks of its may accesses are added first."""
        reads = self.statement.reads
        loads = [n for n in walk(expr) if isinstance(n, Load) and isinstance(n.source, int)]
        delicate = [n for n in loads if reads[_number(n)].may or reads[_number(n)].guard]
        where = _evaluated_where(expr) if delicate else {}
        values = {
            id(n): self._read(reads[_number(n)], where.get(id(n), _TRUE) != _TRUE) for n in loads
        }
        values |= self._near(expr, values)

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Var):
                return self.names.get(node.name)
            return values.get(id(node)) if isinstance(node, Load) else None

        written = [(w.tensor, w.body_indices) for w in self.statement.writes if w.may]
        for node in delicate:
            read = reads[_number(node)]
            if read.may and (read.tensor, read.body_indices) not in written:  # checked once
                self._check(reads[_number(node)], rewrite(where[id(node)], change))
        return rewrite(expr, change)

    def _near(self, expr: Expr, values: dict[int, Expr]) -> dict[int, Expr]:
        """The loads in a branch of ``expr`` that are hoisted out of it, by id."""
        if not any(isinstance(n, Select) for n in walk(expr)):
            return {}
        written = {w.tensor for w in self.statement.writes}
        where, found = _evaluated_where(expr), dict[int, Expr]()
        loads = [n for n in walk(expr) if isinstance(n, Load)]
        anyway = {_number(n) for n in loads if where[id(n)] == _TRUE}
        for node in loads:
            if where[id(node)] != _TRUE:
                read = self.statement.reads[_number(node)]
                near = self.ahead or read.tensor in written or _number(node) in anyway
                if near and not read.may and not read.guard:
                    found[id(node)] = self._bound(values[id(node)])
        return found

    def _read(self, access: Access, selected: bool) -> Expr:
        tensor = self.made.tensor(access.tensor)
        value: Expr = Load(tensor.name, self._indices(access, tensor), tensor.dtype)
        zero = literal(0, tensor.dtype)
        if access.may:
            return select(self._inside(access, tensor), value, zero)
        if access.guard and not selected:
            return select(self._holds(access.guard), value, zero)
        return value

    def _indices(self, access: Access, tensor: Tensor) -> tuple[Expr, ...]:
        """Subscripts of the storage, without contracted dimensions."""
        return tuple(self._logical(access))[tensor.contracted :]

    def _logical(self, access: Access) -> Iterator[Expr]:
        for index in access.body_indices if access.may else access.indices:
            yield cast(self._plain(index), dtypes.int64)

    def _plain(self, expr: Expr) -> Expr:
        """An expression whose own loads refer to earlier reads."""

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Var):
                return self.names.get(node.name)
            if isinstance(node, Load) and isinstance(node.source, int):
                return self._read(self.statement.reads[node.source], False)
            return None

        return rewrite(expr, change)

    def _holds(self, guard: Sequence[Constraint]) -> Expr:
        condition: Expr = _TRUE
        for c in guard:
            expr = substitute(c.expr, self.names)
            condition = condition & (expr.equal(0) if c.equality else expr >= 0)
        return condition

    # ---- data-dependent accesses --------------------------------------------------------------

    def _inside(self, access: Access, tensor: Tensor) -> Expr:
        condition: Expr = _TRUE
        for k, index in enumerate(self._logical(access)):
            if not self._certain(access, tensor, k):
                condition = condition & (index >= 0) & (index < tensor.shape[k])
        return condition

    def _certain(self, access: Access, tensor: Tensor, place: int) -> bool:
        """Whether a subscript is within bounds for all instances of the statement."""
        known = {*self.statement.dims, *self.made.scop.parameters}
        form, size = to_affine(access.body_indices[place]), to_affine(tensor.shape[place])
        if form is None or size is None or not form.variables() <= known:
            return False
        facts = [to_affine(c.expr) for c in self.statement.domain if not c.equality]
        sure = [fact for fact in facts if fact is not None]
        return all(proves(sure, {}, goal) for goal in (form, (size - form).plus(-1)))

    def _check(self, access: Access, where: Expr) -> None:
        """Check that every index is in bounds where ``where`` holds; indices that are data
        themselves first."""
        tensor = self.made.tensor(access.tensor)
        for index in access.body_indices:
            for node in walk(index):
                if isinstance(node, Load) and self.statement.reads[_number(node)].may:
                    self._check(self.statement.reads[_number(node)], where)
        source = self.statement.origin.source if self.statement.origin else ""
        for k, (index, size) in enumerate(zip(self._logical(access), tensor.shape, strict=True)):
            if self._certain(access, tensor, k):
                continue
            inside = select(where, (index >= 0) & (index < size), _TRUE)
            text = f"index {{0}} of {tensor.name} is outside dimension {k} of size {{1}}"
            code = self.made.message(f"{text}, in {source or self.statement.name}")
            self.lets.append(Check(inside, code, (_as_given(index), size)))

    # ---- writes -------------------------------------------------------------------------------

    def _writes(self, results: list[Expr]) -> Stmt:
        statement = self.statement
        targets, conditions = [], []
        for access, result in zip(statement.writes, statement.body.results, strict=True):
            tensor = self.made.tensor(access.tensor)
            condition = self._holds(access.guard)
            if access.may:
                checked, where = self._taken(access, result)
                self._check(checked, select(condition, where, _FALSE))
                condition = condition & self._inside(access, tensor)
            targets.append((tensor.name, self._indices(access, tensor)))
            conditions.append(condition)
        if statement.update is not None:
            whole: Expr = _TRUE
            for condition in conditions:
                whole = whole & condition
            update = Update(tuple(targets), statement.update.monoid, tuple(results))
            return under(whole, update)
        stores = [
            under(condition, Store(name, indices, value))
            for (name, indices), condition, value in zip(targets, conditions, results, strict=True)
        ]
        return block(stores)

    def _taken(self, access: Access, result: Expr) -> tuple[Access, Expr]:
        """``access`` with the condition for a new value applied, and that condition: otherwise
        element 0 is written with its old value."""
        if not isinstance(result, Select):
            return access, _TRUE
        indices = tuple(
            index.if_true
            if isinstance(index, Select)
            and index.condition == result.condition
            and index.if_false == literal(0, index.dtype)
            else index
            for index in access.body_indices
        )
        if indices == access.body_indices:
            return access, _TRUE
        return replace(access, body_indices=indices), self._plain(result.condition)


def _as_given(index: Expr) -> Expr:
    """``index`` as in the data, where negative numbers count from the end."""
    match index:
        case Select(Apply("lt", (data, Literal(0))), Apply("add", (moved, _)), kept):
            return data if data == moved == kept else index
    return index


def _number(load: Load) -> int:
    assert isinstance(load.source, int)
    return load.source


def _evaluated_where(expr: Expr) -> dict[int, Expr]:
    """Node id → the condition under which it is evaluated, itself lazy."""
    found: dict[int, Expr] = {id(expr): _TRUE}
    for node in reversed(list(walk(expr))):
        here = found[id(node)]
        for child in node.children:
            there = here
            if isinstance(node, Select) and child is not node.condition:
                taken = node.condition if child is node.if_true else ~node.condition
                if node.if_true is not node.if_false:
                    there = taken if here == _TRUE else select(here, taken, _FALSE)
            known = found.get(id(child), _FALSE)
            found[id(child)] = there if known == _FALSE else select(known, _TRUE, there)
            if _TRUE in (known, there):
                found[id(child)] = _TRUE
    return found
