"""IR 3, affine statement sets (Scop: static control part).

    Scop      ::= name, parameters, context: Constraint…, tensors: Tensor…, statements, derived
    Tensor    ::= name, shape: Expr…, dtype, role, scope, contracted
    Statement ::= name, dims, domain: Constraint…, position, writes: Access…, reads: Access…, body,
                  update, origin
    Access    ::= tensor, indices: Expr…, guard: Constraint…, may
    Body      ::= lets: (name, Expr)…, results: Expr… (one per write)
    Constraint::= expr >= 0 | expr == 0, quasi-affine

* ``Expr`` in domains, indices and shapes is quasi-affine int64 arithmetic over dims and parameters:
  Var, Literal, add, sub, neg, mul by a constant, floordiv and mod by a positive constant. Nothing
  else, and no isl: isl objects are derived (``named_isl``) and cached.
* In a body, ``Load(k, ())`` is the value of ``reads[k]``, ``Var`` a dim, a parameter or an earlier
  let. All reads of an instance come before all its writes. A read whose guard is false is not
  performed; the body selects around it. A ``may`` access has data-dependent ``body_indices`` in
  place of ``indices`` (which then say nothing beyond the tensor's box): the exact element is
  computed from earlier reads, checked against the shape at run time. Those of them that are
  quasi-affine in dims and parameters are known, so that rows of the tensor are told apart.
  A may access is performed, and so checked, only where its ``Load`` is evaluated; elsewhere in a
  lazy ``Select`` its indices may be anything.
* ``derived`` gives a parameter as an expression of earlier ones that is not quasi-affine: ``nm`` as
  ``n * m``. Whoever binds the parameters of a call computes it.
* ``update`` marks the instance as ``writes := combine(writes, contribution)``: ``results`` are the
  contributions, and the old values are read implicitly (the accesses of ``writes`` are both read
  and written). Instances of one update that differ in reduction dims only, and instances of
  two updates of one component with the same monoid, may be reordered if the monoid's laws allow
  it; this is the one freedom beyond dependences.
* Initial order: statements in list order, instances by ``Statement.position``: the 2d+1 textual
  form (constant, dim, constant, dim, …, constant), so that statements may share loops. Statements
  that a transformation of a schedule adds (copies into local memory, clones in tiles) have the
  position (): they have no initial order, the schedule tree alone says when they run, and whether
  that is right, ``validation`` finds out from the flow of values.
* ``origin`` names the statement (and gives, in terms of this statement's dims, the instance) of the
  Scop before any transformation: that is what makes validation mechanical. ``role`` 'temp' tensors
  do not outlive the Scop; what an 'inout' tensor holds before the first instance is the caller's,
  as is what it holds after the last (an 'output' holds nothing before). ``contracted`` lists the
  leading dimensions (tile indices) of a local tensor that have no storage: each tile reuses the
  same memory. A tensor in scope 'fragment' is the sums of the register tile of warps that updates
  it, or the first factor of one: each element is in the registers of the thread that the
  instruction gives it to, and block loops over its elements are shared out likewise
  (``codegen/fragment_loops.py``).
* Evaluating an instance is ``scalar_expr``'s semantics. Accesses outside a tensor are errors found
  by ``verify`` before code is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from weft.ir.dtypes import DType
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Var, variable_names
from weft.ir.tensor_expr import Monoid, constant_size

Role = Literal["input", "output", "inout", "temp", "constant"]
Scope = Literal["global", "shared", "local", "register", "fragment"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expr >= 0``, or ``expr == 0`` if ``equality``."""

    expr: Expr
    equality: bool = False

    @property
    def condition(self) -> Expr:
        """Whether it holds, as an expression."""
        return self.expr.equal(0) if self.equality else self.expr >= 0

    def map(self, change: Callable[[Expr], Expr]) -> Constraint:
        return Constraint(change(self.expr), self.equality)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Memory, ``name``, of ``shape`` and ``dtype``. ``role``: whether the caller's, or a temporary;
    ``scope``: where it lies; ``contracted``: so many leading dims have no storage of their own."""

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    role: Role = "temp"
    scope: Scope = "global"
    contracted: int = 0

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """``shape`` as numbers, None where a size is open."""
        return tuple(map(constant_size, self.shape))


@dataclass(frozen=True, slots=True)
class Access:
    """The element of ``tensor`` at ``indices``, touched where ``guard`` holds. ``may``: any element
    whose other indices are these, by data; ``body_indices``: the indices then, with operands."""

    tensor: str
    indices: tuple[Expr, ...]
    guard: tuple[Constraint, ...] = ()
    may: bool = False
    body_indices: tuple[Expr, ...] = ()

    def moves(self, *dims: str) -> bool:
        """Whether it may touch other elements along one of ``dims``."""
        return any(_varies(index, dims) for index in self.indices)

    def axis(self, dim: str) -> int | None:
        """The axis of the tensor of which ``dim`` alone is the index; None: there is none, or
        ``dim`` stands in another index as well."""
        along = [n for n, index in enumerate(self.indices) if _varies(index, (dim,))]
        own = [n for n, index in enumerate(self.indices) if index == Var(dim)]
        return own[0] if own == along and len(own) == 1 else None

    def map(self, change: Callable[[Expr], Expr]) -> Access:
        """The access with every expression of it changed."""
        return replace(
            self,
            indices=tuple(map(change, self.indices)),
            guard=tuple(c.map(change) for c in self.guard),
            body_indices=tuple(map(change, self.body_indices)),
        )


def _varies(expr: Expr, dims: Collection[str]) -> bool:
    """Whether ``expr`` may differ along ``dims``."""
    form = to_affine(expr)
    if form is None:
        return not variable_names(expr).isdisjoint(dims)
    return any(
        term in dims if isinstance(term, str) else bool(term.numerator.variables() & set(dims))
        for term, _ in form.terms
    )


@dataclass(frozen=True, slots=True)
class Body:
    """What an instance computes: ``lets``, each a name and its value, then ``results``, one for
    each write."""

    lets: tuple[tuple[str, Expr], ...]
    results: tuple[Expr, ...]

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (*(expr for _, expr in self.lets), *self.results)

    def map(self, change: Callable[[Expr], Expr]) -> Body:
        """The body with every expression of it changed."""
        lets = tuple((name, change(expr)) for name, expr in self.lets)
        return Body(lets, tuple(map(change, self.results)))


@dataclass(frozen=True, slots=True)
class Update:
    """The statement folds into its writes with ``monoid`` along ``dims``, its reduction dims."""

    monoid: Monoid
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """The statement and instance of the untransformed Scop that this instance computes; '' for one
    that computes none of them: what it stores is looked through."""

    statement: str
    instance: tuple[Expr, ...]
    source: str = ""  # in the user's terms: operator and node


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, ``name``, of an instance for each point of ``domain``, over ``dims``.

    ``position``: the 2d+1 form of the initial order, (0, "i", 1, "j", 0), or () for none.
    ``reads``, then ``body``, then ``writes``; with ``update``, ``body`` gives contributions.
    ``origin``: of which original statement and instance (None: it is one).
    """

    name: str
    dims: tuple[str, ...]
    domain: tuple[Constraint, ...]
    position: tuple[int | str, ...]
    writes: tuple[Access, ...]
    reads: tuple[Access, ...]
    body: Body
    update: Update | None = None
    origin: Origin | None = None

    @property
    def accesses(self) -> tuple[Access, ...]:
        """What it reads, then what it writes."""
        return (*self.reads, *self.writes)

    def map_accesses(self, change: Callable[[Access], Access], tensor: str = "") -> Statement:
        """The statement with ``change`` of its accesses, or of those of ``tensor`` alone."""

        def changed(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
            return tuple(change(a) if tensor in ("", a.tensor) else a for a in accesses)

        reads, writes = changed(self.reads), changed(self.writes)
        if (reads, writes) == (self.reads, self.writes):
            return self
        return replace(self, reads=reads, writes=writes)


@dataclass(frozen=True, slots=True)
class Scop:
    """A program, ``name``, as ``statements`` over ``tensors``, for all values of ``parameters`` for
    which ``context`` holds. ``derived``: parameters that are not free, with their values."""

    name: str
    parameters: tuple[str, ...]
    context: tuple[Constraint, ...]
    tensors: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    derived: tuple[tuple[str, Expr], ...] = ()

    def tensor(self, name: str) -> Tensor:
        """The tensor called ``name``, which there is."""
        return next(t for t in self.tensors if t.name == name)

    def statement(self, name: str) -> Statement:
        """The statement called ``name``, which there is."""
        return next(s for s in self.statements if s.name == name)

    def with_statement(self, statement: Statement) -> Scop:
        """The Scop with ``statement`` in place of the one of its name."""
        statements = (statement if s.name == statement.name else s for s in self.statements)
        return replace(self, statements=tuple(statements))

    def with_tensor(self, tensor: Tensor, change: Callable[[Statement, Access], Access]) -> Scop:
        """The Scop with ``tensor`` in place of the one of its name, and ``change`` of each of its
        accesses, by statement."""
        tensors = (tensor if t.name == tensor.name else t for t in self.tensors)
        statements = (s.map_accesses(partial(change, s), tensor.name) for s in self.statements)
        return replace(self, tensors=tuple(tensors), statements=tuple(statements))
