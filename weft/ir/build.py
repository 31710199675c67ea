"""How people and operator definitions write tensor expressions: the field's own notation.

m, n, h = var("m"), var("n"), var("h")
A, B = placeholder((m, h), name="A"), placeholder((n, h), name="B")
k = reduce_axis((0, h), name="k")
C = compute((m, n), lambda i, j: sum(A[i, k] * B[j, k], axis=k), name="C")
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.limits import check_tensor
from weft.ir.scalar_affine import to_affine, to_expr
from weft.ir.scalar_expr import (
    Expr,
    Load,
    Number,
    Var,
    apply,
    as_expr,
    binary,
    literal,
    not_scalar,
)
from weft.ir.scalar_expr import (
    select as select,
)
from weft.ir.scalar_polynomial import from_polynomial, polynomial
from weft.ir.tensor_expr import (
    NOWHERE,
    Axis,
    Compute,
    Itself,
    Line,
    Monoid,
    Reduce,
    Reshape,
    Scatter,
    Size,
    Tensor,
    as_size,
    constant_size,
)

Values = Expr | Number | tuple[Expr | Number, ...]


def var(name: str) -> Var:
    """A size symbol, ``name``: a non-negative int64 known when the compiled code is called."""
    return Var(name)


def shape_of(sizes: Sequence[Size]) -> tuple[Size, ...]:
    """Sizes in normal form, so that equals look equal: constants as plain integers, products of
    symbols multiplied out.

    Raises ``ExpressionError`` (WEFT-E0116) for what is no sequence of integers and expressions.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise _bad_size(sizes, "a shape is a tuple of sizes: (n,) has one dimension")
    return tuple(_normal_size(size) for size in sizes)


def _bad_size(size: object, hint: str) -> ExpressionError:
    return ExpressionError("WEFT-E0116", f"{size!r} is no size or shape", hint=hint)


def _normal_size(size: Size) -> Size:
    if not isinstance(size, Expr | int):
        try:
            return operator.index(size)  # NumPy's integers
        except TypeError:
            hint = 'sizes are integers, and symbols from weft.var("n")'
            raise _bad_size(size, hint) from None
    known = constant_size(size)
    if known is not None or isinstance(size, int | Var):
        return size if known is None else known
    form = to_affine(size)
    if form is None:
        return from_polynomial(dict(sorted(polynomial(size).items(), key=repr)))
    return form.constant if form.is_constant else to_expr(form)


def placeholder(shape: Sequence[Size], dtype: DType | str = "float32", *, name: str) -> Tensor:
    """An input of the program, called ``name``, of ``shape`` (integers and size symbols) and
    ``dtype`` (float32): ``A = weft.placeholder((weft.var("m"), 64), "float32", name="A")``.

    Raises ``ExpressionError``: WEFT-E0110 where there is no such dtype, E0116 for what is no shape;
    ``BudgetError`` where it is absurdly large.
    """
    sizes = shape_of(shape)
    check_tensor(name, sizes, dtypes.as_dtype(dtype))
    return Tensor(name, sizes, dtypes.as_dtype(dtype))


def reduce_axis(bounds: tuple[Size, Size], *, name: str) -> Axis:
    """An index variable over ``bounds[0] <= name < bounds[1]`` to reduce over. Raises
    ``ExpressionError`` (WEFT-E0116) for what are no bounds."""
    sizes = shape_of(bounds)
    if len(sizes) != 2:
        raise _bad_size(bounds, "bounds are a pair: (0, n)")
    return Axis(name, dtypes.int64, as_size(sizes[0]), as_size(sizes[1]))


def compute(
    shape: Sequence[Size],
    body: Callable[..., Values],
    *,
    name: str,
    dtype: DType | str | None = None,
) -> Tensor:
    """The tensor ``name`` of ``shape`` whose element (i, j, …) is ``body(i, j, …)``.

    ::

        C = weft.compute((m, n), lambda i, j: A[i, j] + B[j], name="C")

    Index variables, int64, take the names of the body's parameters. The element type is that of the
    body's expression, or ``dtype``, to which it is converted; a body that returns a Python number
    needs it. Raises ``ExpressionError``: WEFT-E0113 where parameters and shape disagree, E0114 for
    a body that returns a tuple, E0115 for a number without ``dtype``, E0117 for another body.
    """
    (tensor,) = computes(
        shape, lambda *a: (_scalar(body(*a), name),), name=name, like=body, dtype=dtype
    )
    return tensor


def computes(
    shape: Sequence[Size],
    body: Callable[..., tuple[Expr | Number, ...]],
    *,
    name: str,
    like: Callable[..., object] | None = None,
    dtype: DType | str | None = None,
) -> tuple[Tensor, ...]:
    """Several tensors of one ``shape`` that are computed together, one per value of ``body``, which
    returns a tuple: ``name_0``, ``name_1`` …, or ``name`` where there is one.

    ``dtype`` as ``compute`` has it. ``like``: the function whose parameters name the indices, where
    ``body`` takes any. Raises ``ExpressionError`` as ``compute`` does: WEFT-E0113, E0115, E0117.
    """
    sizes = shape_of(shape)
    axes = _axes(sizes, like or body, name)
    given = body(*axes)
    if not isinstance(given, tuple):
        raise _bad_body(name, f"returned a {type(given).__name__}, not a tuple")
    default = dtypes.as_dtype(dtype) if dtype is not None else None
    values = tuple(_value(v, default, name) for v in given)
    return _results(Compute(name, axes, values, written=_written(like or body)), sizes)


def scan(
    shape: Sequence[Size],
    body: Callable[..., tuple[Expr | Number, ...]],
    *,
    dtypes_: Sequence[DType],
    along: int = 1,
    name: str,
) -> tuple[Tensor, ...]:
    """Tensors of ``shape`` defined by recurrence along the first ``along`` axes, of ``dtypes_`` and
    called ``name``, or ``name_0``, ``name_1`` … where there are several.

    ``body(itself, t, …)`` returns one value per result; ``itself(c, t - 1, …)`` reads element
    (t - 1, …) of result ``c``, which must come strictly earlier along the scan axes.

    ::

        (total,) = weft.scan(
            (n,),
            lambda itself, t: (weft.select(t > 0, itself(0, t - 1), 0.0) + x[t],),
            dtypes_=[weft.f32],
            name="total",
        )

    Raises ``ExpressionError``: WEFT-E0113 where parameters and shape disagree, E0117 for what is no
    function.
    """
    sizes = shape_of(shape)

    def itself(component: int, *indices: Expr | int) -> Expr:
        return Load(
            Itself(component), tuple(as_expr(i, dtypes.int64) for i in indices), dtypes_[component]
        )

    axes = _axes(sizes, body, name, skip=1)
    values = tuple(as_expr(v, d) for v, d in zip(body(itself, *axes), dtypes_, strict=True))
    return _results(Compute(name, axes, values, along, _written(body)), sizes)


def scatter(
    base: Tensor,
    extents: Sequence[Size],
    body: Callable[..., tuple[tuple[Expr | int, ...], Expr]],
    *,
    combine: str | None = None,
    condition: Callable[..., Expr] | None = None,
    name: str,
) -> Tensor:
    """``base`` with elements replaced (or combined by ``combine``) in lexicographic order.

    ``body(i, …)`` over ``extents`` returns the indices that it writes and the value; ``combine``:
    "add", "mul", "min", "max", "and", "or" or "xor" (None: replace). Points whose ``condition(i,
    …)`` is false are left out. The result is called ``name`` and is as ``base`` in shape and dtype.
    An index out of range ends the call with ``ExecutionError``.

    ::

        counts = weft.scatter(
            zeros, (n,), lambda i: ((x[i],), weft.literal(1, "int32")), combine="add", name="counts"
        )

    Raises ``ExpressionError``: WEFT-E0113 where parameters and extents disagree, E0117 for what is
    no function, E0119 for another ``combine``.
    """
    axes = _axes(shape_of(extents), body, name)
    indices, value = body(*axes)
    operation = Scatter(
        name,
        base,
        axes,
        tuple(as_expr(i, dtypes.int64) for i in indices),
        value,
        None if combine is None else monoid(combine, base.dtype),
        None if condition is None else condition(*axes),
        _written(body),
    )
    return Tensor(name, base.shape, base.dtype, operation)


def reshape(source: Tensor, shape: Sequence[Size], *, name: str) -> Tensor:
    """The elements of ``source`` in row-major order in another ``shape`` of as many, called
    ``name``; no work. Raises ``ExpressionError`` (WEFT-E0116) for what is no shape."""
    check_tensor(name, shape, source.dtype)
    return Tensor(name, shape_of(shape), source.dtype, Reshape(name, source))


def _axes(
    sizes: tuple[Size, ...], body: Callable[..., object], name: str, skip: int = 0
) -> tuple[Axis, ...]:
    if not callable(body):
        raise _bad_body(name, "is no function")
    parameters = list(inspect.signature(body).parameters.values())[skip:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names = [f"i{d}" for d in range(len(sizes))]
    else:
        names = [p.name for p in parameters]
    if len(names) != len(sizes):
        raise ExpressionError(
            "WEFT-E0113",
            f"the body of {name} takes {len(names)} indices, its shape has {len(sizes)}",
            where=name,
        )
    return tuple(
        Axis(n, dtypes.int64, literal(0), as_size(s)) for n, s in zip(names, sizes, strict=True)
    )


def _written(body: Callable[..., object]) -> Line:
    code = getattr(body, "__code__", None)
    return NOWHERE if code is None else Line(code.co_filename, code.co_firstlineno)


def _scalar(value: Values, name: str) -> Expr | Number:
    if isinstance(value, tuple):
        raise ExpressionError(
            "WEFT-E0114",
            f"the body of {name} returned a tuple",
            where=name,
            hint="use weft.computes for several results",
        )
    return value


def _bad_body(name: str, what: str) -> ExpressionError:
    return ExpressionError(
        "WEFT-E0117", f"the body of {name} {what}", where=name, hint="lambda i, j: a[i, j] + b[j]"
    )


def _value(value: Expr | Number, default: DType | None, name: str) -> Expr:
    if isinstance(value, Expr):
        return value if default is None else value.astype(default)
    if not isinstance(value, int | float):
        raise _bad_body(name, f"returned a {type(value).__name__}, not an expression")
    if default is None:
        raise ExpressionError(
            "WEFT-E0115", f"the body of {name} is a plain number", where=name, hint="pass dtype="
        )
    return literal(value, default)


def _results(operation: Compute, sizes: tuple[Size, ...]) -> tuple[Tensor, ...]:
    many = len(operation.values) > 1
    for value in operation.values:
        check_tensor(operation.name, sizes, value.dtype)
    return tuple(
        Tensor(f"{operation.name}_{c}" if many else operation.name, sizes, v.dtype, operation, c)
        for c, v in enumerate(operation.values)
    )


# ---- scalar functions ---------------------------------------------------------------------------


def _unary(op: str, meaning: str, name: str = "", takes: str = "a float") -> Callable[[Expr], Expr]:
    """The function of one scalar that ``op`` is, called ``name`` (default: ``op``)."""

    def function(value: Expr) -> Expr:
        return apply(op, value)

    function.__name__ = function.__qualname__ = name or op
    function.__doc__ = (
        f"{meaning}; ``value`` is {takes}.\n\n"
        "Raises ``ExpressionError``: WEFT-E0103 for other dtypes, E0106 for what is no expression."
    )
    return function


exp = _unary("exp", "e to the power of ``value``, in its dtype")
expm1 = _unary("expm1", "``exp(value) - 1``, accurate near 0, in its dtype")
log = _unary("log", "The natural logarithm of ``value``, in its dtype; NaN below 0")
log1p = _unary("log1p", "``log(1 + value)``, accurate near 0, in its dtype")
sqrt = _unary("sqrt", "The square root of ``value``, in its dtype; NaN below 0")
erf = _unary("erf", "The error function of ``value``, in its dtype")
sin = _unary("sin", "The sine of ``value`` radians, in its dtype")
cos = _unary("cos", "The cosine of ``value`` radians, in its dtype")
tan = _unary("tan", "The tangent of ``value`` radians, in its dtype")
asin = _unary("asin", "The arcsine of ``value`` in radians, in its dtype; NaN outside -1 … 1")
acos = _unary("acos", "The arccosine of ``value`` in radians, in its dtype; NaN outside -1 … 1")
atan = _unary("atan", "The arctangent of ``value`` in radians, in its dtype")
sinh = _unary("sinh", "The hyperbolic sine of ``value``, in its dtype")
cosh = _unary("cosh", "The hyperbolic cosine of ``value``, in its dtype")
tanh = _unary("tanh", "The hyperbolic tangent of ``value``, in its dtype")
asinh = _unary("asinh", "The inverse of ``sinh`` at ``value``, in its dtype")
acosh = _unary("acosh", "The inverse of ``cosh`` at ``value``, in its dtype; NaN below 1")
atanh = _unary("atanh", "The inverse of ``tanh`` at ``value``, in its dtype; NaN outside -1 … 1")
floor = _unary("floor", "The largest whole number up to ``value``, in its dtype")
ceil = _unary("ceil", "The smallest whole number from ``value`` on, in its dtype")
trunc = _unary("trunc", "``value`` rounded to a whole number towards 0, in its dtype")
round_even = _unary(
    "round", "``value`` rounded to the nearest whole number, ties to even", "round_even"
)
sign = _unary("sign", "-1, 0 or 1 in the dtype of ``value``", takes="an integer or a float")
isnan = _unary("isnan", "A bool: whether ``value`` is NaN")
isinf = _unary("isinf", "A bool: whether ``value`` is infinite, of either sign")


def minimum(left: Expr | Number, right: Expr | Number) -> Expr:
    """The lesser of ``left`` and ``right``, which have one dtype or are a number; NaN if either is.
    Raises ``ExpressionError``: WEFT-E0104 for two dtypes, E0106 for two numbers."""
    return binary("min", left, right)


def maximum(left: Expr | Number, right: Expr | Number) -> Expr:
    """The greater of ``left`` and ``right``, which have one dtype or are a number; NaN if either
    is. Raises ``ExpressionError``: WEFT-E0104 for two dtypes, E0106 for two numbers."""
    return binary("max", left, right)


def power(base: Expr | Number, exponent: Expr | Number) -> Expr:
    """``base`` to the power of ``exponent``, which have one dtype or are a number; ``base ** 2``
    says the same. Integers wrap, and to a negative exponent round 1 / power towards 0. Raises
    ``ExpressionError``: WEFT-E0104 for two dtypes, E0106 for two numbers."""
    return binary("pow", base, exponent)


def all_of(conditions: Sequence[Expr]) -> Expr:
    """Whether all of ``conditions``, bools, hold; true where there are none."""
    result: Expr = literal(True, dtypes.bool_)
    for condition in conditions:
        result = result & condition
    return result


# ---- Reductions, as people write them: sums, extrema, folds over any monoid.


Axes = Axis | Sequence[Axis]


def monoid(name: str, dtype: DType) -> Monoid:
    """A monoid on one scalar: 'add', 'mul', 'min', 'max', 'and', 'or' or 'xor'."""
    identities: dict[str, Number] = {
        "add": 0,
        "mul": 1,
        "min": dtype.highest,
        "max": dtype.lowest,
        "and": True if dtype.kind == "bool" else -1,
        "or": 0,
        "xor": 0,
    }
    if name not in identities:
        raise ExpressionError(
            "WEFT-E0119", f"there is no monoid {name!r}", hint=f"monoids: {', '.join(identities)}"
        )
    left, right = Var("left", dtype), Var("right", dtype)
    return Monoid(name, (left,), (right,), (apply(name, left, right),), (identities[name],))


def _fold(name: str, value: Expr, axis: Axes, where: Expr | None) -> Expr:
    if not isinstance(value, Expr):
        raise not_scalar(value)
    return Reduce(monoid(name, value.dtype), _reduced(axis), (value,), where)


def _reduced(axis: Axes) -> tuple[Axis, ...]:
    """The axes that ``axis=`` names."""
    axes = (axis,) if isinstance(axis, Axis) else axis
    if not isinstance(axes, Sequence) or not all(isinstance(a, Axis) for a in axes):
        raise ExpressionError(
            "WEFT-E0118",
            f"axis={axis!r} is no reduction axis",
            hint='k = weft.reduce_axis((0, n), name="k"), then axis=k',
        )
    return tuple(axes)


def sum(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """The sum of ``value`` over ``axis``, one or several, in its dtype; 0 over none.

    ``where``, a bool: points where it is false are left out. The order of additions may change
    unless ``Options(strict=True)``.

    ::

        k = weft.reduce_axis((0, h), name="k")
        C = weft.compute((m, n), lambda i, j: weft.sum(A[i, k] * B[j, k], axis=k), name="C")

    Raises ``ExpressionError``: WEFT-E0106 where ``value`` is no expression, E0118 where ``axis`` is
    no reduction axis, E0103 where its dtype has no such fold.
    """
    return _fold("add", value, axis, where)


def prod(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """The product of ``value`` over ``axis``, where ``where`` holds, in its dtype; 1 over none.
    Raises ``ExpressionError`` as ``sum`` does."""
    return _fold("mul", value, axis, where)


def min_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """The least ``value`` over ``axis``, where ``where`` holds; NaN if one is, and over none the
    greatest that its dtype has. Raises ``ExpressionError`` as ``sum`` does."""
    return _fold("min", value, axis, where)


def max_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """The greatest ``value`` over ``axis``, where ``where`` holds; NaN if one is, and over none the
    least that its dtype has. Raises ``ExpressionError`` as ``sum`` does."""
    return _fold("max", value, axis, where)


def all_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """Whether ``value``, a bool, holds all over ``axis``, where ``where`` does; of integers, their
    bits. True over none. Raises ``ExpressionError`` as ``sum`` does."""
    return _fold("and", value, axis, where)


def any_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """Whether ``value``, a bool, holds anywhere over ``axis``, where ``where`` does; of integers,
    their bits. False over none. Raises ``ExpressionError`` as ``sum`` does."""
    return _fold("or", value, axis, where)


def reduce(
    monoid_: Monoid, values: Sequence[Expr], axis: Axes, *, where: Expr | None = None
) -> tuple[Expr, ...]:
    """The components of the fold of ``values``, one for each component of ``monoid_``, over
    ``axis``, where ``where`` holds; ``examples/04_own_reduction.py`` has one. Raises
    ``ExpressionError`` (WEFT-E0118) where ``axis`` is no reduction axis."""
    axes = _reduced(axis)
    return tuple(Reduce(monoid_, axes, tuple(values), where, c) for c in range(len(values)))


def argmax(value: Expr, index: Expr, axis: Axes, *, last: bool = False) -> Expr:
    """``index`` at the greatest ``value`` over ``axis``, the first (or ``last``) such; NaN counts
    as greatest; -1 over none. Raises ``ExpressionError`` (WEFT-E0118) where ``axis`` is no
    reduction axis."""
    return _arg("gt", "argmax", value.dtype.lowest, value, index, axis, last)[1]


def max_with_index(
    value: Expr, index: Expr, axis: Axes, *, where: Expr | None = None
) -> tuple[Expr, Expr]:
    """The greatest ``value`` over ``axis`` and ``index`` there, the first such, where ``where``
    holds; -1 where nothing is left to choose from. Raises ``ExpressionError`` (WEFT-E0118) where
    ``axis`` is none."""
    found = _arg("gt", "argmax", value.dtype.lowest, value, index, axis, False, where)
    return found[0], found[1]


def argmin(value: Expr, index: Expr, axis: Axes, *, last: bool = False) -> Expr:
    """``index`` at the least ``value`` over ``axis``, the first (or ``last``) such; NaN counts as
    least; -1 over none. Raises ``ExpressionError`` (WEFT-E0118) where ``axis`` is no reduction
    axis."""
    return _arg("lt", "argmin", value.dtype.highest, value, index, axis, last)[1]


def _arg(
    better: str,
    name: str,
    worst: Number,
    value: Expr,
    index: Expr,
    axis: Axes,
    last: bool,
    where: Expr | None = None,
) -> tuple[Expr, ...]:
    lv, rv = Var("left_value", value.dtype), Var("right_value", value.dtype)
    li, ri = Var("left_index", index.dtype), Var("right_index", index.dtype)
    none = -1  # index of the identity, which loses every tie
    wins = apply(better, rv, lv)
    tie = rv.equal(lv)
    if value.dtype.is_float:
        left_nan, right_nan = apply("isnan", lv), apply("isnan", rv)
        wins = wins | (right_nan & ~left_nan)
        tie = tie | (left_nan & right_nan)
    earlier = (ri > li) if last else (ri < li)
    wins = li.equal(none) | (wins | (tie & earlier)) & ri.not_equal(none)
    m = Monoid(
        f"{name}_last" if last else name,
        (lv, li),
        (rv, ri),
        (select(wins, rv, lv), select(wins, ri, li)),
        (worst, none),
    )
    return reduce(m, (value, index), axis, where=where)
