"""Sliding windows over the trailing dimensions, and padding: what convolution and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.frontend.operators.sizes import maximum_size
from weft.ir.build import all_of, compute
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr, Number, binary, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size, constant_size

Pads = Sequence[Size] | str | None  # all befores, then all afters; or 'same_upper', 'same_lower'


@dataclass(frozen=True, slots=True)
class Window:
    """Per spatial dimension: tap ``r`` of output ``o`` reads ``o*stride + r*dilation - before``."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Size, ...]
    after: tuple[Size, ...]
    same: bool = False  # padded so that every stride begins one window: ceil(size / stride)

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def spans(self) -> tuple[int, ...]:
        """How many elements a window covers, from its first tap to its last."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def outputs(self, sizes: Sequence[Size], *, ceil: bool = False) -> tuple[Size, ...]:
        """How many windows fit; ``ceil`` counts a last one that overhangs but starts inside.

        Raises E0155 where an output size is negative.
        """
        return tuple(self._output(d, size, ceil) for d, size in enumerate(sizes))

    def _output(self, d: int, size: Size, ceil: bool) -> Size:
        stride, before, after = self.strides[d], as_size(self.before[d]), as_size(self.after[d])
        overhang = after + (stride - self.spans[d])
        if self.same:
            count = (as_size(size) + (stride - 1)) // stride
        elif ceil:
            # ceil((size + before + after - span) / stride) + 1, and the last one starts inside
            inside = binary("min", overhang, literal(0))
            count = (as_size(size) + (before + inside + (stride - 1))) // stride
        else:
            count = (as_size(size) + (before + overhang)) // stride
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
    pads: Pads = None,
    sizes: Sequence[Size] = (),
) -> Window:
    """A checked window over spatial ``sizes``. Raises E0154 on bad values."""
    rank = len(kernel)
    strides = tuple(strides or (1,) * rank)
    dilations = tuple(dilations or (1,) * rank)
    same = pads if isinstance(pads, str) else ""
    pads = tuple((not isinstance(pads, str) and pads) or (0,) * (2 * rank))
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
    window = Window(tuple(kernel), strides, dilations, pads[:rank], pads[rank:])
    return _same(window, same, sizes) if same else window


def _same(window: Window, mode: str, sizes: Sequence[Size]) -> Window:
    """Padded for ceil(size / stride) outputs; an odd one goes after, or before if 'same_lower'."""
    if mode not in ("same_upper", "same_lower") or len(sizes) != window.rank:
        raise ExpressionError("WEFT-E0154", f"unknown pads {mode!r}")
    before: list[Size] = []
    after: list[Size] = []
    for size, span, s in zip(sizes, window.spans, window.strides, strict=True):
        covered = (as_size(size) + (s - 1)) // s * s - as_size(size) + (span - s)
        total = as_size(span - 1) if s == 1 else as_size(maximum_size(covered, 0))
        small = total // 2
        before.append(total - small if mode == "same_lower" else small)
        after.append(small if mode == "same_lower" else total - small)
    return replace(window, before=tuple(before), after=tuple(after), same=True)


def padded(
    x: Tensor,
    before: Sequence[Size],
    after: Sequence[Size],
    value: Number | Expr,
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
