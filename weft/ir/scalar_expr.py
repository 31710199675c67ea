"""Scalar expressions: the leaf language that every IR of Weft embeds.

    Expr ::= Literal(value, dtype)
           | Var(name, dtype)                      index variable, size symbol or let-bound value
           | Load(source, indices, dtype)          element of a tensor, an operand or a buffer
           | Apply(op, args)                       op is a row of ``scalar_ops.OPS``
           | Cast(arg, dtype, saturate)
           | Bitcast(arg, dtype)                   the same bits, read as another dtype as wide
           | Select(condition, if_true, if_false)

Semantics, the same in every interpreter and back end:

* Both arguments of a binary operator have one dtype; nothing is converted silently, except that a
  Python number takes the dtype of the other side.
* Integers wrap modulo 2**bits. ``floordiv`` and ``mod`` floor: ``-7 // 2 == -4``, ``-7 % 2 == 1``.
  ``truncdiv`` and ``rem`` round towards zero, as in C. An integer divided by zero is 0, the
  remainder by zero is 0, and INT_MIN / -1 is INT_MIN. ``pow`` to a negative exponent is 1 / power
  rounded to zero: 0 but for bases 1 and -1. Nothing traps.
* ``shl`` and ``shr`` by an amount outside 0 … bits-1 give 0 (``shr`` of a negative value: -1).
* Floats follow IEEE 754 in the dtype's ``compute`` type, ties to even, then round to the dtype.
  ``min`` and ``max`` return NaN if either side is NaN. Mathematical functions are accurate to the
  bound that ``codegen`` states for each. Comparison with NaN is false, ``ne`` true. Floats have
  ``floordiv`` = floor(a / b) and ``mod`` with the sign of the divisor; ``rem`` is C's ``fmod``.
* ``Select`` is lazy: a ``Load`` in the branch that is not taken is not performed, so it may lie
  outside its tensor. ``and`` and ``or`` on bools are strict.
* ``Cast`` from float to integer truncates and saturates, NaN becomes 0; integer to narrower integer
  wraps; anything to bool is ``!= 0``; to float rounds to nearest even. To an 8-bit float, values
  beyond the largest become the largest when ``saturate``, else infinity or NaN as the type has it.
* ``int64`` is the type of indices and sizes.

An expression is immutable and compared by structure. ``source`` is a ``Tensor`` in tensor
expressions, an operand number in affine statements and a buffer name in loop IR.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import ClassVar

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.scalar_ops import INTEGER_OPERATORS, OPS

Number = int | float | bool


def _operator(op: str) -> Callable[[Expr, Expr | Number], Expr]:
    """Python's operator for ``op``."""
    return lambda self, other: binary(op, self, other)


def _reflected(op: str) -> Callable[[Expr, Number], Expr]:
    """The same with a number on the left."""
    return lambda self, other: binary(op, other, self)


class Expr:
    """A scalar expression: one number at each point of a tensor, of ``dtype``.

    Python's operators build new ones: ``+ - * / // % **``, ``& | ^ ~``, ``<< >>``, ``< <= > >=``,
    ``abs``; ``==`` and ``!=`` compare the expressions themselves (``equal``, ``not_equal``). Both
    sides have one dtype, and a Python number takes that of the other side. Raise
    ``ExpressionError``: WEFT-E0103 for dtypes that an operator does not take, E0104 for different
    ones, E0106 for what is no expression, E0101 where Python asks for a truth value.
    """

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # NumPy numbers leave arithmetic to the expression
    dtype: DType

    @property
    def children(self) -> tuple[Expr, ...]:
        """The direct operands."""
        return ()

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        """This node on other operands, constants folded again."""
        return self

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("mod"), _reflected("mod")
    __pow__, __rpow__ = _operator("pow"), _reflected("pow")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("shr")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __abs__(self) -> Expr:
        return apply("abs", self)

    def __invert__(self) -> Expr:
        return apply("not", self)

    def equal(self, other: Expr | Number) -> Expr:
        """A bool: whether both values are equal (``==`` compares the expressions themselves)."""
        return binary("eq", self, other)

    def not_equal(self, other: Expr | Number) -> Expr:
        """A bool: whether the values differ; true of NaN."""
        return binary("ne", self, other)

    def astype(self, dtype: DType | str, *, saturate: bool = True) -> Expr:
        """The value converted to ``dtype``: floats to integers towards zero, at most the largest,
        NaN to 0; integers to narrower ones modulo 2**bits; to floats to the nearest, ties to even.
        To an 8-bit float, ``saturate`` says that what is too large becomes the largest, not
        infinity or NaN. Raises ``ExpressionError`` (WEFT-E0110) where there is no such dtype."""
        return cast(self, dtypes.as_dtype(dtype), saturate=saturate)

    def __bool__(self) -> bool:
        raise ExpressionError(
            "WEFT-E0101",
            "a symbolic expression has no truth value",
            why="Python's `if`, `and`, `or` and `not` need a bool while the program is being built",
            hint="use weft.select(condition, a, b), `&`, `|` and `~`",
        )


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant, ``value``, of ``dtype``: ``weft.literal`` makes it."""

    value: Number
    dtype: DType


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A variable, ``name``, of ``dtype`` (int64): a size symbol, which ``weft.var`` makes, an index
    or a value with a name."""

    name: str
    dtype: DType = dtypes.int64


@dataclass(frozen=True, slots=True)
class Load(Expr):
    source: Hashable
    indices: tuple[Expr, ...]
    dtype: DType

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Load(self.source, children, self.dtype)


@dataclass(frozen=True, slots=True)
class Apply(Expr):
    op: str
    args: tuple[Expr, ...]
    dtype: DType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dtype = dtypes.bool_ if OPS[self.op].gives_bool else self.args[0].dtype
        object.__setattr__(self, "dtype", dtype)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return apply(self.op, *children)


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    arg: Expr
    dtype: DType
    saturate: bool = True

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return cast(children[0], self.dtype, saturate=self.saturate)


@dataclass(frozen=True, slots=True)
class Bitcast(Expr):
    arg: Expr
    dtype: DType

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return bitcast(children[0], self.dtype)


@dataclass(frozen=True, slots=True)
class Select(Expr):
    condition: Expr
    if_true: Expr
    if_false: Expr
    dtype: DType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.if_true.dtype)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.if_true, self.if_false)

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return select(*children)


def literal(value: Number, dtype: DType | str = dtypes.int64) -> Literal:
    """A constant, the number ``value``, of ``dtype`` (int64); integers wrap into its range, floats
    round on use. Raises ``ExpressionError`` (WEFT-E0110) where there is no such dtype."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.kind == "bool":
        return Literal(bool(value), dtype)
    if dtype.is_float:
        return Literal(float(value), dtype)
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind == "int" and wrapped >> (dtype.bits - 1):
        wrapped -= 1 << dtype.bits
    return Literal(wrapped, dtype)


def as_expr(value: Expr | Number, dtype: DType) -> Expr:
    """``value`` itself, or a Python or NumPy number as a literal of ``dtype``."""
    if isinstance(value, Expr):
        return value
    if not _is_number(value):
        raise not_scalar(value)
    return literal(value, dtype)


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not hasattr(value, "__len__")  # arrays have both


def not_scalar(value: object) -> ExpressionError:
    """The error for ``value`` where an expression should stand."""
    if _is_number(value):
        return ExpressionError(
            "WEFT-E0106",
            f"{value!r} is a number, and nothing says of which dtype",
            hint=f'weft.literal({value!r}, "float32"), say',
        )
    hint = "index tensors: x[i, j]" if hasattr(value, "shape") else ""
    return ExpressionError(
        "WEFT-E0106", f"a {type(value).__name__} is no scalar expression", hint=hint
    )


def apply(op: str, *args: Expr) -> Expr:
    """``op`` on ``args``, checked; index arithmetic on constants is folded."""
    row = OPS[op]
    if len(args) != row.arity:
        raise ExpressionError("WEFT-E0102", f"{op} takes {row.arity} operands, got {len(args)}")
    for arg in args:
        if not isinstance(arg, Expr):
            raise not_scalar(arg)
        if arg.dtype.kind not in row.kinds:
            raise ExpressionError(
                "WEFT-E0103",
                f"{op} does not take operands of dtype {arg.dtype}",
                hint=f"cast first; {op} takes {', '.join(sorted(row.kinds))}",
            )
        if arg.dtype is not args[0].dtype and arg.dtype != args[0].dtype:
            raise ExpressionError(
                "WEFT-E0104",
                f"{op} of {args[0].dtype} and {arg.dtype}",
                why="nothing is converted silently",
                hint="use .astype(...) on one side",
            )
    folded = _fold_index(op, args)
    return Apply(op, args) if folded is None else folded


def binary(op: str, left: Expr | Number, right: Expr | Number) -> Expr:
    """``op`` on two sides, at least one an expression; a number takes the other side's dtype."""
    side = left if isinstance(left, Expr) else right
    if not isinstance(side, Expr):
        raise not_scalar(left)
    return apply(op, as_expr(left, side.dtype), as_expr(right, side.dtype))


def cast(arg: Expr, dtype: DType, *, saturate: bool = True) -> Expr:
    if arg.dtype == dtype:
        return arg
    wide = dtype in (dtypes.float32, dtypes.float64, dtypes.int64)
    if isinstance(arg, Literal) and wide and _is_exact(arg, dtype):
        return literal(arg.value, dtype)
    return Cast(arg, dtype, saturate)


def bitcast(arg: Expr, dtype: DType) -> Expr:
    """The bits of ``arg`` read as ``dtype``, which must be as wide."""
    if arg.dtype.bits != dtype.bits:
        raise ExpressionError(
            "WEFT-E0105",
            f"bitcast of {arg.dtype} to {dtype}",
            why=f"one has {arg.dtype.bits} bits, the other {dtype.bits}",
        )
    return arg if arg.dtype == dtype else Bitcast(arg, dtype)


def _is_exact(arg: Literal, dtype: DType) -> bool:
    """Whether ``arg`` as a literal of ``dtype`` rounds once: its own rounding changes nothing."""
    if arg.dtype.is_float:
        return arg.dtype == dtypes.float64 and dtype.is_float
    return dtype.is_integer or abs(arg.value) <= 1 << 53


def select(condition: Expr, if_true: Expr | Number, if_false: Expr | Number) -> Expr:
    """``if_true`` where ``condition`` (bool) holds, else ``if_false``, both of one dtype.

    Only the one that is taken is evaluated: ``select(i > 0, x[i - 1], 0.0)`` never reads at
    -1. Raises ``ExpressionError``: WEFT-E0104 for other dtypes, E0106 where both are numbers, E0107
    for a ``condition`` that is no expression.
    """
    side = if_true if isinstance(if_true, Expr) else if_false
    if not isinstance(side, Expr):
        raise not_scalar(if_true)
    if not isinstance(condition, Expr):
        raise ExpressionError(
            "WEFT-E0107",
            f"the condition of select is {condition!r}, not an expression",
            why="== and != compare expressions themselves, not the values that they will have",
            hint="a.equal(b), a.not_equal(b)",
        )
    if_true, if_false = as_expr(if_true, side.dtype), as_expr(if_false, side.dtype)
    if condition.dtype != dtypes.bool_ or if_true.dtype != if_false.dtype:
        raise ExpressionError(
            "WEFT-E0104",
            f"select({condition.dtype}, {if_true.dtype}, {if_false.dtype})",
            why="select takes a bool and two values of one dtype",
        )
    if isinstance(condition, Literal):
        return if_true if condition.value else if_false
    return Select(condition, if_true, if_false)


def _fold_index(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """Constants and units of int64 and bool arithmetic, so that index expressions stay readable."""
    dtype = args[0].dtype
    if dtype.kind == "bool":
        return _fold_bool(op, args)
    if (dtype is not dtypes.int64 and dtype != dtypes.int64) or op not in INTEGER_OPERATORS:
        return None
    left, right = args
    a = left.value if isinstance(left, Literal) else None
    b = right.value if isinstance(right, Literal) else None
    if a is not None and b is not None:
        value = INTEGER_OPERATORS[op](int(a), int(b))
        return literal(value, dtypes.bool_ if OPS[op].gives_bool else dtypes.int64)
    match op:
        case "add" if a == 0:
            return right
        case "add" | "sub" if b == 0:
            return left
        case "mul" if a == 1:
            return right
        case "mul" | "floordiv" if b == 1:
            return left
        case "mul" if a == 0 or b == 0:
            return literal(0)
        case "mod" if b == 1:
            return literal(0)
    return None


def _fold_bool(op: str, args: tuple[Expr, ...]) -> Expr | None:
    if op not in ("and", "or"):
        return None
    for this, other in (args, args[::-1]):
        if isinstance(this, Literal):
            return other if bool(this.value) == (op == "and") else this
    return None


def walk(expr: Expr) -> Iterator[Expr]:
    """Every subexpression once, operands before users (a shared node is visited once)."""
    if not expr.children:  # many are leaves: skip the bookkeeping
        yield expr
        return
    seen: set[int] = set()
    stack: list[Expr | None] = [expr]
    while stack:
        node = stack.pop()
        if node is None:  # above a node whose operands have been
            yield stack.pop()  # type: ignore[misc]
        elif id(node) not in seen:
            seen.add(id(node))
            operands = node.children
            if operands:
                stack += (node, None)
                stack += operands[::-1]
            else:
                yield node


def variable_names(expr: Expr) -> set[str]:
    """The names of the variables in ``expr``."""
    return set(variable_list(expr))


def variable_list(expr: Expr) -> list[str]:
    """The same, each once, in order."""
    return list(dict.fromkeys(node.name for node in walk(expr) if isinstance(node, Var)))


def has_loads(expr: Expr) -> bool:
    """Whether ``expr`` loads anything: it depends on data."""
    return any(isinstance(node, Load) for node in walk(expr))


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Bottom-up: each node with rewritten operands goes through ``change``; None keeps it.

    Once: where folding leaves of a node one of its operands, that has been through it.
    """
    if not expr.children:
        return expr if (changed := change(expr)) is None else changed
    done: dict[int, Expr] = {}
    for node in walk(expr):
        rebuilt, folded, children = node, False, node.children
        if children:
            operands = tuple([done[id(child)] for child in children])
            if not all(map(is_, operands, children)):
                rebuilt = node.rebuild(operands)
                folded = any(map(partial(is_, rebuilt), operands))
        changed = None if folded else change(rebuilt)
        done[id(node)] = rebuilt if changed is None else changed
    return done[id(expr)]


def substitute(expr: Expr, values: dict[str, Expr]) -> Expr:
    """``expr`` with variables replaced by name."""
    if not values:
        return expr
    done: dict[int, Expr] = {}  # what changes, by identity
    for node in walk(expr):
        children = node.children
        if children:
            operands = tuple([done.get(id(child), child) for child in children])
            if not all(map(is_, operands, children)):
                done[id(node)] = node.rebuild(operands)
        elif isinstance(node, Var) and (value := values.get(node.name, node)) is not node:
            done[id(node)] = value
    return done.get(id(expr), expr)
