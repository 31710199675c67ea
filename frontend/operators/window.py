"""Sliding windows over the trailing dimensions, and padding: what convolution and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import ExpressionError
from weft.frontend.build import all_of, compute
from weft.frontend.operators.sizes import maximum_size
from weft.frontend.scalar_expr import Expr, Number, binary, select
from weft.frontend.tensor_expr import Axis, Size, Tensor, as_size, constant_size


@dataclass(frozen=True, slots=True)
class Window:
    """Per spatial dimension: tap ``r`` of output ``o`` reads ``o*stride + r*dilation - before``."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Size, ...]
    after: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def spans(self) -> tuple[int, ...]:
        """How many elements a window covers, from its first tap to its last."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def pads_something(self) -> bool:
        return any(constant_size(p) != 0 for p in (*self.before, *self.after))

    def outputs(self, sizes: Sequence[Size], *, ceil: bool = False) -> tuple[Size, ...]:
        """How many windows fit; ``ceil`` counts a last one that overhangs but starts inside.

        Raises E0155 where an output size is negative.
        """
        return tuple(self._output(d, size, ceil) for d, size in enumerate(sizes))

    def _output(self, d: int, size: Size, ceil: bool) -> Size:
        stride, before = self.strides[d], as_size(self.before[d])
        free = as_size(size) + (before + as_size(self.after[d]) + (stride - self.spans[d]))
        count = free // stride
        if ceil:
            started = (as_size(size) + (before + (stride - 1))) // stride
            count = binary("min", (free + (stride - 1)) // stride, started)
        known = constant_size(count)
        if known is not None and known < 0:
            raise ExpressionError(
                "WEFT-E0155",
                f"a window of {self.spans[d]} elements does not fit {constant_size(size)} elements",
                why=f"spatial dimension {d} would have {known} outputs",
                hint="use a smaller kernel or dilation, or more padding",
            )
        return count if known is None else known

    def read(self, outputs: Sequence[Expr], taps: Sequence[Expr]) -> tuple[Expr, ...]:
        """Indices into the *padded* input."""
        return tuple(
            o * s + t * d
            for o, t, s, d in zip(outputs, taps, self.strides, self.dilations, strict=True)
        )

    def overhang(self, sizes: Sequence[Size], outputs: Sequence[Size]) -> tuple[Size, ...]:
        """The padding after each dimension that keeps every tap of ``outputs`` inside."""
        return tuple(
            maximum_size(
                self.after[d],
                (as_size(o) - 1) * self.strides[d]
                + self.spans[d]
                - as_size(size)
                - as_size(self.before[d]),
            )
            for d, (size, o) in enumerate(zip(sizes, outputs, strict=True))
        )


def make_window(
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[Size] | None = None,
) -> Window:
    """A checked window; ``pads`` are all befores, then all afters. Raises E0154 on bad values."""
    rank = len(kernel)
    strides = tuple(strides or (1,) * rank)
    dilations = tuple(dilations or (1,) * rank)
    pads = tuple(pads or (0,) * (2 * rank))
    for what, values, count in (
        ("kernel sizes", kernel, rank),
        ("strides", strides, rank),
        ("dilations", dilations, rank),
        ("pads", pads, 2 * rank),
    ):
        if len(values) != count:
            raise ExpressionError(
                "WEFT-E0154", f"{len(values)} {what} for {rank} spatial dimensions"
            )
        least = 0 if what == "pads" else 1
        if any((v := constant_size(value)) is not None and v < least for value in values):
            raise ExpressionError("WEFT-E0154", f"{what} must be at least {least}: {list(values)}")
    return Window(tuple(kernel), strides, dilations, pads[:rank], pads[rank:])


def same_pads(
    sizes: Sequence[Size],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    lower: bool = False,
) -> tuple[Size, ...]:
    """Pads that give ceil(size / stride) outputs; an odd one goes after, or before if ``lower``."""
    before: list[Size] = []
    after: list[Size] = []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        span = (k - 1) * d + 1
        covered = (as_size(size) + (s - 1)) // s * s - as_size(size) + (span - s)
        total = as_size(span - 1) if s == 1 else as_size(maximum_size(covered, 0))
        small = total // 2
        before.append(total - small if lower else small)
        after.append(small if lower else total - small)
    return (*before, *after)


def padded(
    x: Tensor,
    before: Sequence[Size],
    after: Sequence[Size],
    value: Number,
    *,
    name: str = "padded",
) -> Tensor:
    """``x`` with its trailing dimensions surrounded by ``value``; ``x`` itself where nothing is."""
    if all(constant_size(p) == 0 for p in (*before, *after)):
        return x
    lead = x.rank - len(before)
    shape = [
        *x.shape[:lead],
        *(
            as_size(size) + (as_size(b) + as_size(a))
            for size, b, a in zip(x.shape[lead:], before, after, strict=True)
        ),
    ]

    def body(*index: Axis) -> Expr:
        where = [i - as_size(b) for i, b in zip(index[lead:], before, strict=True)]
        inside = []
        for i, size, b, a in zip(where, x.shape[lead:], before, after, strict=True):
            if constant_size(b) != 0:
                inside.append(i >= 0)
            if constant_size(a) != 0:
                inside.append(i < as_size(size))
        return select(all_of(inside), x[(*index[:lead], *where)], value)

    return compute(shape, body, name=name)
