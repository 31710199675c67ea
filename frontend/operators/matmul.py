"""Matrix products: NumPy's matmul and BLAS's gemm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.frontend.operators.broadcast import at, broadcast_shape
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import accumulator, axes_over, require, require_rank, unify
from weft.ir.build import compute, sum
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr, cast
from weft.ir.tensor_expr import Size, Tensor


@operator("matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """c[…, m, n] = Σ_k a[…, m, k] · b[…, k, n] with leading dimensions broadcast, as in NumPy.

    A one-dimensional side is a row on the left, a column on the right, and its dimension is gone
    from the result. Sums are kept in the accumulator's dtype and rounded to a's.
    """
    product = product_sums(a, b)
    if product.dtype == a.dtype:
        return product
    return compute(product.shape, lambda *i: cast(product[i], a.dtype), name="matmul")


def product_sums(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product in the accumulator's dtype."""
    require_rank(a, "the left side of a matrix product", 1)
    require_rank(b, "the right side of a matrix product", 1)
    unify(a.shape[-1], b.shape[max(b.rank - 2, 0)], "the inner sizes of a matrix product")
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]], "matmul")
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    (k,) = axes_over(a.shape[-1:], ["k"])
    acc = accumulator(a.dtype)

    def body(*index: Expr) -> Expr:
        outer = index[: len(batch)]
        row, column = index[len(batch) :][: len(rows)], index[len(batch) + len(rows) :]
        left = at_batch(a, outer, batch, (*row, k))
        right = at_batch(b, outer, batch, (k, *column))
        return sum(cast(left, acc) * cast(right, acc), k)

    return compute((*batch, *rows, *columns), body, name="matmul")


def at_batch(
    x: Tensor, outer: tuple[Expr, ...], batch: tuple[object, ...], inner: tuple[Expr, ...]
) -> Expr:
    """Element ``inner`` of the matrix of ``x`` that the batch index ``outer`` broadcasts to."""
    own = x.rank - len(inner)
    skip = len(batch) - own
    lead = [
        0 if size == 1 and batch[skip + d] != 1 else outer[skip + d]
        for d, size in enumerate(x.shape[:own])
    ]
    return x[(*lead, *inner)]


@operator("gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """alpha · a @ b + beta · c of matrices, ``c`` broadcast to the result."""
    require_rank(a, "the left side of a gemm", 2, 2)
    require_rank(b, "the right side of a gemm", 2, 2)
    m, inner = a.shape[::-1] if transpose_a else a.shape
    other, n = b.shape[::-1] if transpose_b else b.shape
    unify(inner, other, "the inner sizes of a gemm")
    if c is not None:
        fits = broadcast_shape([(m, n), c.shape], "gemm") == (m, n)
        require(fits, "the addend of a gemm is larger than its product")
    (k,) = axes_over([inner], ["k"])
    acc = accumulator(a.dtype)

    def body(i: Expr, j: Expr) -> Expr:
        left, right = a[(k, i) if transpose_a else (i, k)], b[(j, k) if transpose_b else (k, j)]
        value = _times(sum(cast(left, acc) * cast(right, acc), k), alpha)
        if c is not None and beta != 0.0:
            value = value + _times(cast(at(c, (i, j), (m, n)), acc), beta)
        return cast(value, a.dtype)

    return compute((m, n), body, name="gemm")


@operator("linear")
def linear(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[…, n] = Σ_k x[…, k] · w[n, k] + bias[n]: dimensions before the last are rows."""
    require_rank(x, "the input of a linear map", 1)
    require_rank(w, "the weights of a linear map", 2, 2)
    unify(x.shape[-1], w.shape[1], "the inner sizes of a linear map")
    (k,) = axes_over(x.shape[-1:], ["k"])
    acc = accumulator(x.dtype)
    if bias is not None:
        require_rank(bias, "the bias of a linear map", 1, 1)
        unify(bias.shape[0], w.shape[0], "the bias and the results of a linear map")

    def body(*index: Expr) -> Expr:
        value = sum(cast(x[(*index[:-1], k)], acc) * cast(w[index[-1], k], acc), k)
        if bias is not None:
            value = value + cast(bias[index[-1]], acc)
        return cast(value, x.dtype)

    return compute((*x.shape[:-1], w.shape[0]), body, name="linear")


def _times(value: Expr, factor: float) -> Expr:
    if factor == 1.0:
        return value
    if value.dtype.is_integer:
        require(float(factor).is_integer(), f"an integer gemm cannot be scaled by {factor}")
        return value * int(factor)
    return value * factor


# ---- Einstein summation: every letter is a dimension; letters that the result lacks are summed.


ELLIPSIS = "..."
Labels = tuple[str, ...]  # one letter per dimension; '0', '1', … for those of the ellipsis


@dataclass(frozen=True, slots=True)
class Equation:
    inputs: tuple[Labels, ...]
    output: Labels


@operator("einsum")
def einsum(*operands: Tensor, equation: str) -> Tensor:
    """NumPy's ``einsum(equation, *operands)``, contracted two operands at a time, left to right.

    An ellipsis stands for the same dimensions everywhere, broadcast. Repeated letters in one
    operand take its diagonal. Raises ``ExpressionError`` E0156 where equation and operands
    disagree.
    """
    parsed = parse(equation, [t.rank for t in operands])
    sizes = _letter_sizes(parsed, operands, equation)
    dtype, acc = operands[0].dtype, accumulator(operands[0].dtype)
    tensor, labels = operands[0], parsed.inputs[0]
    rest = list(zip(operands[1:], parsed.inputs[1:], strict=True))
    if not rest:
        tensor = _contract([(tensor, labels)], parsed.output, sizes)
    while rest:
        other, other_labels = rest.pop(0)
        later = {letter for _, remaining in rest for letter in remaining} | set(parsed.output)
        kept = parsed.output
        if rest:
            kept = tuple(dict.fromkeys(c for c in labels + other_labels if c in later))
        tensor = _contract([(tensor, labels), (other, other_labels)], kept, sizes)
        labels = kept
    if acc == dtype:
        return tensor
    return compute(tensor.shape, lambda *i: cast(tensor[i], dtype), name="einsum")


def _contract(
    factors: Sequence[tuple[Tensor, Labels]], kept: Labels, sizes: dict[str, Size]
) -> Tensor:
    """The product of ``factors`` summed over every letter that is not ``kept``."""
    acc = accumulator(factors[0][0].dtype)
    letters = dict.fromkeys(c for _, labels in factors for c in labels)
    summed = [c for c in letters if c not in kept]
    taps = dict(zip(summed, axes_over([sizes[c] for c in summed], [f"k_{c}" for c in summed]),
                    strict=True))  # fmt: skip

    def body(*index: Expr) -> Expr:
        at = dict(zip(kept, index, strict=True)) | taps
        product: Expr | None = None
        for tensor, labels in factors:
            element = cast(tensor[_index(tensor, labels, at, sizes)], acc)
            product = element if product is None else product * element
        assert product is not None
        return sum(product, tuple(taps.values())) if taps else product

    return compute([sizes[c] for c in kept], body, name="einsum")


def _index(
    tensor: Tensor, labels: Labels, at: dict[str, Expr], sizes: dict[str, Size]
) -> tuple[Expr | int, ...]:
    return tuple(
        0 if own == 1 and sizes[letter] != 1 else at[letter]
        for own, letter in zip(tensor.shape, labels, strict=True)
    )


def _letter_sizes(parsed: Equation, operands: Sequence[Tensor], equation: str) -> dict[str, Size]:
    """The size of every letter, a 1 stretching to what it meets."""
    sizes: dict[str, Size] = {}
    for tensor, labels in zip(operands, parsed.inputs, strict=True):
        for letter, size in zip(labels, tensor.shape, strict=True):
            known = sizes.get(letter, 1)
            where = f"einsum {equation!r}, dimension {letter!r}"
            (sizes[letter],) = broadcast_shape([(known,), (size,)], where)
    return sizes


def parse(equation: str, ranks: Sequence[int]) -> Equation:
    """The labels of every operand's dimensions and of the result's; E0156 where they do not fit."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise _bad(equation, f"{len(terms)} terms for {len(ranks)} operands")
    for term in (*terms, right):
        letters = term.replace(ELLIPSIS, "", 1)
        if not all(c.isascii() and c.isalpha() for c in letters):
            raise _bad(equation, f"the term {term!r} is not letters with at most one ellipsis")
    hidden = {
        rank - len(term.replace(ELLIPSIS, ""))
        for term, rank in zip(terms, ranks, strict=True)
        if ELLIPSIS in term
    }
    if any(h < 0 for h in hidden):
        raise _bad(equation, f"a term has more letters than its operand's rank, of {list(ranks)}")
    dots = tuple(str(d) for d in range(max(hidden, default=0)))
    inputs = tuple(_labels(term, rank, dots) for term, rank in zip(terms, ranks, strict=True))
    for term, labels, rank in zip(terms, inputs, ranks, strict=True):
        if len(labels) != rank:
            raise _bad(equation, f"the term {term!r} labels {len(labels)} of {rank} dimensions")
    if not arrow:
        counts = left.replace(ELLIPSIS, "").replace(",", "")
        once = sorted(c for c in set(counts) if counts.count(c) == 1)
        return Equation(inputs, (*dots, *once))
    output = _labels(right, len(right.replace(ELLIPSIS, "")) + len(dots), dots)
    if len(set(output)) < len(output) or not {c for c in output if c not in dots} <= set(left):
        raise _bad(equation, f"the result {right!r} repeats a letter or invents one")
    return Equation(inputs, output)


def _labels(term: str, rank: int, dots: Labels) -> Labels:
    """One label per dimension; an ellipsis covers the last of ``dots`` that ``rank`` leaves it."""
    if ELLIPSIS not in term:
        return tuple(term)
    before, _, after = term.partition(ELLIPSIS)
    hidden = rank - len(before) - len(after)
    return (*before, *dots[len(dots) - hidden :], *after)


def _bad(equation: str, why: str) -> ExpressionError:
    return ExpressionError("WEFT-E0156", f"einsum cannot read {equation!r}", why=why)
