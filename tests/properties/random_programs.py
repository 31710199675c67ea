"""Random tensor programs: graphs of pointwise operations, reductions, contractions, windows, moves,
gathers, scatters, scans and reshapes over awkward sizes, some of them symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from tests.properties.random_tensors import LARGE, SYMBOLS, Limits, TensorMaker, number
from weft.ir import build as w
from weft.ir.dtypes import as_dtype
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.tensor_expr import Program, Size, Tensor, operations


@dataclass
class Case:
    """A program, and the value of its size symbols; ``exact`` if it has no floats."""

    program: Program
    sizes: Mapping[str, int]
    exact: bool

    def arrays(self, seed: int) -> list[np.ndarray]:
        """Random inputs. Integer tensors named ``at…`` hold indices, so their range is theirs."""
        rng = np.random.default_rng(seed)
        found = []
        for t in self.program.inputs:
            shape = tuple(number(s, self.sizes) for s in t.shape)
            if t.name.startswith("at"):
                limit = int(t.name.split("_")[1])
                found.append(rng.integers(0, limit, shape).astype(t.dtype.numpy))
            elif t.dtype.is_float:
                found.append(rng.normal(size=shape).astype(t.dtype.numpy))
            else:
                found.append(rng.integers(-9, 10, shape).astype(t.dtype.numpy))
        return found


def random_case(seed: int, limits: Limits = LARGE, dtype: str | None = None) -> Case:
    """The program number ``seed``: the same one each time. ``dtype``: of most of its tensors."""
    random = Random(seed)
    symbolic = random.random() < 0.25
    sizes = {s: random.choice((0, *limits.sizes)) for s in SYMBOLS} if symbolic else {}
    chosen = random.choice(("int32", "int64", "float32"))
    maker = _Maker(random, as_dtype(dtype or chosen), sizes, limits)
    for _ in range(random.choice((1, 2, 3))):
        maker.placeholder()
    for _ in range(random.randint(1, limits.operations)):
        maker.step()
    return Case(maker.finish(), sizes, not maker.dtype.is_float)


class _Maker(TensorMaker):
    # ---- the program ---------------------------------------------------------------------------

    def finish(self) -> Program:
        """Outputs: what nobody reads, and now and then something more."""
        whole = operations(Program("fuzz", (), tuple(self.made)))
        read = {t for operation in whole for t in operation.reads}
        outputs = tuple(t for t in self.made if t not in read or self.random.random() < 0.1)
        needed = {t for op in operations(Program("fuzz", (), outputs)) for t in op.reads}
        return Program("fuzz", tuple(t for t in self.inputs if t in needed), outputs)

    def step(self) -> None:
        kinds: list[Callable[[], Tensor | None]] = [
            self.pointwise, self.pointwise, self.pointwise, self.broadcast, self.reduction,
            self.reduction, self.arg, self.transpose, self.contraction, self.window, self.pad,
            self.join, self.gather, self.scan, self.scatter, self.reshape, self.flip, self.triangle,
            self.several, self.masked, self.cell, self.normalised, self.through, self.diagonal,
            self.computed_index,
        ]  # fmt: skip
        made = self.random.choice(kinds)() or self.pointwise()
        self.made.append(made)

    # ---- operations ----------------------------------------------------------------------------

    def pointwise(self) -> Tensor:
        a = self.any()
        if self.random.random() < 0.5:
            return w.compute(a.shape, lambda *i: self.one(a[i]), name=self.name("map"))
        b = self.alike(a)
        return w.compute(a.shape, lambda *i: self.two(a[i], b[i]), name=self.name("zip"))

    def broadcast(self) -> Tensor:
        """A tensor and one that lacks some of its dims, or has size 1 there."""
        a = self.any(1)
        kept = [d for d in range(a.rank) if self.random.random() < 0.5]
        b = self.placeholder(tuple(a.shape[d] for d in kept))
        return w.compute(
            a.shape, lambda *i: self.two(a[i], b[tuple(i[d] for d in kept)]), name=self.name("bc")
        )

    def reduction(self) -> Tensor:
        a = self.any(1)
        over = {d: self.axis(a.shape[d]) for d in range(a.rank) if self.random.random() < 0.5}
        over = over or {a.rank - 1: self.axis(a.shape[-1])}
        kept = [d for d in range(a.rank) if d not in over]
        fold = self.random.choice((w.sum, w.sum, w.max_over, w.min_over))

        def value(*i: Expr) -> Expr:
            at = dict(zip(kept, i, strict=True)) | over
            element = a[tuple(at[d] for d in range(a.rank))]
            return fold(
                self.one(element) if self.random.random() < 0.3 else element, list(over.values())
            )

        return w.compute(tuple(a.shape[d] for d in kept), value, name=self.name("red"))

    def arg(self) -> Tensor | None:
        a = self.any(1)
        if self.dtype.name != "int64":
            return None
        k = self.axis(a.shape[0])
        return w.compute(a.shape[1:], lambda *i: w.argmax(a[(k, *i)], k, k), name=self.name("arg"))

    def transpose(self) -> Tensor:
        a = self.any(2)
        order = list(range(a.rank))
        self.random.shuffle(order)
        back = [order.index(d) for d in range(a.rank)]
        shape = tuple(a.shape[d] for d in order)
        return w.compute(shape, lambda *i: a[tuple(i[p] for p in back)], name=self.name("tr"))

    def contraction(self) -> Tensor | None:
        """Sum of products over one dim of ``a``, with a matrix whose dims are in either order."""
        a = self.any(1)
        d, columns = self.random.randrange(a.rank), self.random.choice(self.limits.sizes)
        if (
            self.volume(a.shape) * columns > 20 * self.limits.elements
            or self.volume(a.shape[:d] + a.shape[d + 1 :]) * columns > self.limits.elements
        ):
            return None
        turned = self.random.random() < 0.5
        b = self.placeholder((columns, a.shape[d]) if turned else (a.shape[d], columns))
        k = self.axis(a.shape[d])
        last = self.random.random() < 0.7
        rest = a.shape[:d] + a.shape[d + 1 :]

        def value(*i: Expr) -> Expr:
            c, others = (i[-1], i[:-1]) if last else (i[0], i[1:])
            element = a[(*others[:d], k, *others[d:])]
            return w.sum(element * (b[c, k] if turned else b[k, c]), k)

        shape = (*rest, columns) if last else (columns, *rest)
        return w.compute(shape, value, name=self.name("dot"))

    def window(self) -> Tensor | None:
        """Overlapping windows with a stride along one dim or two, weighted, maxed or unrolled."""
        a = self.any(1)
        dims = [d for d in range(a.rank) if isinstance(a.shape[d], int) and self.extent(a.shape[d])]
        if not dims:
            return None
        self.random.shuffle(dims)
        chosen = dims[: self.random.choice((1, 2))]
        shape, stride, axes = list(a.shape), {}, {}
        for d in chosen:
            size = self.extent(a.shape[d])
            width = self.random.randint(1, min(4, size))
            stride[d] = self.random.choice((1, 1, 2, 3))
            shape[d] = (size - width) // stride[d] + 1
            axes[d] = self.axis(width)
        how = self.random.choice(("weights", "max", "sum", "pair"))
        weights = self.placeholder(tuple(axes[d].upper.value for d in chosen))  # type: ignore[attr-defined]

        def value(*i: Expr) -> Expr:
            at = tuple(i[d] * stride[d] + axes[d] if d in axes else i[d] for d in range(a.rank))
            if how == "pair":
                here = tuple(i[d] * stride[d] if d in axes else i[d] for d in range(a.rank))
                there = tuple(
                    e + (axes[d].upper - 1) if d in axes else e for d, e in enumerate(here)
                )
                return self.two(a[here], a[there])
            folded = list(axes.values())
            if how == "weights":
                return w.sum(a[at] * weights[tuple(axes[d] for d in chosen)], folded)
            return (w.max_over if how == "max" else w.sum)(a[at], folded)

        return w.compute(tuple(shape), value, name=self.name("win"))

    def pad(self) -> Tensor:
        a = self.any(1)
        d, before, after = (
            self.random.randrange(a.rank),
            self.random.randint(0, 3),
            self.random.randint(0, 3),
        )
        shape = list(a.shape)
        shape[d] = (
            w.as_size(a.shape[d]) + (before + after)
            if not isinstance(a.shape[d], int)
            else a.shape[d] + before + after
        )
        if not isinstance(shape[d], int):
            return self.pointwise()

        def value(*i: Expr) -> Expr:
            at = tuple(e - before if k == d else e for k, e in enumerate(i))
            inside = (i[d] >= before) & (i[d] < w.as_size(a.shape[d]) + before)
            return select(inside, a[at], literal(2, self.dtype))

        return w.compute(tuple(shape), value, name=self.name("pad"))

    def join(self) -> Tensor | None:
        a = self.any(1)
        if not isinstance(a.shape[0], int) or 2 * self.volume(a.shape) > self.limits.elements:
            return None
        b, first = self.alike(a), a.shape[0]
        return w.compute(
            (2 * first, *a.shape[1:]),
            lambda *i: select(i[0] < first, a[i], b[(i[0] - first, *i[1:])]),
            name=self.name("cat"),
        )

    def index(self, count: Size, limit: int) -> Tensor:
        made = w.placeholder((count,), "int64", name=f"at{self.name('')}_{limit}")
        self.inputs.append(made)
        return made

    def gather(self) -> Tensor | None:
        a = self.any(1)
        d, count = self.random.randrange(a.rank), self.random.choice(self.limits.sizes)
        limit = self.extent(a.shape[d])
        if limit == 0 or self.volume(a.shape) // limit * count > self.limits.elements:
            return None
        at = self.index(count, limit)
        shape = (*a.shape[:d], count, *a.shape[d + 1 :])
        return w.compute(
            shape, lambda *i: a[(*i[:d], at[i[d]], *i[d + 1 :])], name=self.name("take")
        )

    def scan(self) -> Tensor:
        """A running sum or maximum along the first dim, from the tensor's own earlier elements."""
        a = self.any(1)
        op = self.random.choice((lambda x, y: x + y, w.maximum, lambda x, y: w.minimum(x - y, 99)))

        def value(itself: Callable[..., Expr], *i: Expr) -> tuple[Expr]:
            return (select(i[0] > 0, op(itself(0, i[0] - 1, *i[1:]), a[i]), a[i]),)

        names = [f"i{d}" for d in range(a.rank)]
        body = eval(f"lambda itself, {', '.join(names)}: value(itself, {', '.join(names)})",
                    {"value": value})  # fmt: skip
        return w.scan(a.shape, body, dtypes_=(self.dtype,), name=self.name("scan"))[0]

    def scatter(self) -> Tensor | None:
        base = self.any(1)
        limit = self.extent(base.shape[0])
        if limit == 0:
            return None
        count = self.random.choice(self.limits.sizes)
        at, values = self.index(count, limit), self.placeholder((count, *base.shape[1:]))
        combine = self.random.choice((None, "add", "max"))
        names = [f"i{d}" for d in range(base.rank)]
        body = eval(f"lambda {', '.join(names)}: value(({', '.join(names)},))",
                    {"value": lambda i: ((at[i[0]], *i[1:]), values[i])})  # fmt: skip
        return w.scatter(base, values.shape, body, combine=combine, name=self.name("put"))

    def reshape(self) -> Tensor | None:
        a = self.any(1)
        if not all(isinstance(s, int) for s in a.shape):
            return None
        left, shape = self.volume(a.shape), []
        while left > 1 and len(shape) < 3:
            factor = self.random.choice(
                [f for f in range(1, left + 1) if left % f == 0 and f < 40] or [left]
            )
            shape.append(factor)
            left //= factor
        return w.reshape(a, (*shape, left), name=self.name("view"))

    def flip(self) -> Tensor:
        a = self.any(1)
        d = self.random.randrange(a.rank)
        last = w.as_size(a.shape[d]) - 1
        return w.compute(
            a.shape,
            lambda *i: a[tuple(last - e if k == d else e for k, e in enumerate(i))],
            name=self.name("flip"),
        )

    def triangle(self) -> Tensor | None:
        a = self.any(1)
        if self.extent(a.shape[-1]) > 64 or self.volume(a.shape) * 64 > 20 * self.limits.elements:
            return None

        def value(*i: Expr) -> Expr:
            k = w.reduce_axis((0, i[-1] + 1), name=self.name("r"))
            return w.sum(a[(*i[:-1], k)], k)

        return w.compute(a.shape, value, name=self.name("tri"))

    def several(self) -> Tensor:
        """Two results of one operation, one of them read by nobody yet."""
        a = self.any()
        p, q = w.computes(
            a.shape, lambda *i: (self.one(a[i]), self.two(a[i], a[i])), name=self.name("both")
        )
        self.made.append(q)
        return p

    def masked(self) -> Tensor:
        """A reduction over the elements that a condition picks."""
        a = self.any(1)
        k = self.axis(a.shape[-1])
        fold = self.random.choice((w.sum, w.max_over))
        least = literal(self.random.randint(-3, 3), self.dtype)
        return w.compute(
            a.shape[:-1],
            lambda *i: fold(a[(*i, k)], k, where=a[(*i, k)] > least),
            name=self.name("mask"),
        )

    def cell(self) -> Tensor | None:
        """A recurrent cell: h[t, i] from all of h[t - 1] through a matrix, and from x[t, i]."""
        x = self.any(2)
        if x.rank != 2 or self.extent(x.shape[0]) * self.extent(x.shape[1]) ** 2 > 20_000:
            return None
        hidden = x.shape[1]
        matrix, k = self.placeholder((hidden, hidden)), self.axis(hidden)

        def value(itself: Callable[..., Expr], t: Expr, i: Expr) -> tuple[Expr]:
            before = select(t > 0, itself(0, t - 1, k), literal(0, self.dtype))
            return (self.one(w.sum(matrix[i, k] * before, k) + x[t, i]),)

        return w.scan(x.shape, value, dtypes_=(self.dtype,), name=self.name("cell"))[0]

    def normalised(self) -> Tensor:
        """Less the greatest of its row, times the sum of that: several passes over each row."""
        a = self.any(1)
        k, rows = self.axis(a.shape[-1]), a.shape[:-1]
        top = w.compute(rows, lambda *i: w.max_over(a[(*i, k)], k), name=self.name("top"))
        less = w.compute(a.shape, lambda *i: self.one(a[i] - top[i[:-1]]), name=self.name("less"))
        total = w.compute(rows, lambda *i: w.sum(less[(*i, k)], k), name=self.name("total"))
        self.made += [top, less, total]
        return w.compute(a.shape, lambda *i: less[i] + total[i[:-1]], name=self.name("norm"))

    def through(self) -> Tensor:
        """To another dtype and back."""
        a = self.any()
        other = self.random.choice(("int8", "int16", "int32", "int64", "uint8", "bool"))
        there = w.compute(a.shape, lambda *i: a[i].astype(other), name=self.name("as"))
        return w.compute(a.shape, lambda *i: there[i].astype(self.dtype), name=self.name("back"))

    def diagonal(self) -> Tensor | None:
        a = self.any(2)
        if a.shape[0] != a.shape[1]:
            return None
        return w.compute(a.shape[1:], lambda *i: a[(i[0], *i)], name=self.name("diag"))

    def computed_index(self) -> Tensor | None:
        """A gather at an index that is computed from data."""
        a, b = self.any(1), self.any(1)
        limit = self.extent(a.shape[0])
        if limit == 0 or self.dtype.is_float or a.rank != 1:
            return None
        return w.compute(
            b.shape, lambda *i: a[b[i].astype("int64") % limit], name=self.name("look")
        )
