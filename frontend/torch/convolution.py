"""Handlers of convolutions and their gradients, which gather as well."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.operators.sizes import accumulator, axes_over
from weft.frontend.operators.window import make_window, padded
from weft.frontend.torch.context import NodeContext, Results, handler
from weft.frontend.torch.factories import filled
from weft.ir.build import compute, reshape, sum
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast
from weft.ir.tensor_expr import Tensor

Ints = Sequence[int]


@handler("aten.convolution.default")
def convolution(
    node: NodeContext, x: Value, w: Value, bias: Value | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Results:  # fmt: skip
    if 0 in node.shape:
        return filled(node, 0)
    if 0 in x.shape or 0 in w.shape:
        raise node.unsupported("without elements")
    rank = len(x.shape) - 2
    strides, pads, dilations = (
        _spread(stride, rank),
        _spread(padding, rank),
        _spread(dilation, rank),
    )
    if transposed:
        return node.call(
            "conv_transpose", x, w, bias, strides=strides, pads=(*pads, *pads),
            dilations=dilations, output_padding=_spread(output_padding, rank), group=groups,
        )  # fmt: skip
    return node.call(
        "conv", x, w, bias, strides=strides, pads=(*pads, *pads), dilations=dilations, group=groups
    )


def _spread(values: Ints, rank: int) -> tuple[int, ...]:
    """One number stands for all dimensions."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


@handler("aten.convolution_backward.default")
def convolution_backward(
    node: NodeContext, grad: Value, x: Value, w: Value, bias_sizes: Ints | None, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
    output_mask: Sequence[bool],
) -> Results:  # fmt: skip
    """The gradients of the input (a transposed convolution of ``grad``), of the weights (sums of
    products of ``grad`` and the input) and of the bias (sums of ``grad``)."""
    if 0 in grad.shape or 0 in x.shape or 0 in w.shape:
        raise node.unsupported("without elements")
    rank = len(x.shape) - 2
    strides, pads, dilations = (
        _spread(stride, rank),
        _spread(padding, rank),
        _spread(dilation, rank),
    )
    window = {"strides": strides, "pads": (*pads, *pads), "dilations": dilations}
    input_, weights, bias = output_mask
    found: list[Value | None] = [None, None, None]
    if input_ and transposed:
        found[0] = node.call("conv", grad, w, None, group=groups, **window)
    elif input_:
        sizes = zip(node.sizes(x)[2:], node.sizes(grad)[2:], node.sizes(w)[2:], strict=True)
        extra = [
            node.normal(size - ((out - 1) * s - 2 * p + d * (k - 1) + 1))
            for (size, out, k), s, p, d in zip(sizes, strides, pads, dilations, strict=True)
        ]
        found[0] = node.call(
            "conv_transpose", grad, w, None, output_padding=extra, group=groups, **window
        )
    if weights:
        sides = (grad, x) if transposed else (x, grad)
        found[1] = node.call(
            weight_gradient, *sides, kernel=node.sizes(w)[2:], pads=pads, strides=strides,
            dilations=dilations, groups=groups,
        )  # fmt: skip
    if bias:
        axes = (0, *range(2, rank + 2))
        found[2] = node.call("reduce_sum", grad, axes=axes, keepdims=False)
    return found


def weight_gradient(
    x: Tensor, grad: Tensor, *, kernel: Ints, pads: Ints, strides: Ints, dilations: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    """dw[g·K+k, c, r…] = Σ_{n, o…} grad[n, g·K+k, o…] · x[n, g·C+c, o·stride + r·dilation-pad]."""
    window = make_window(kernel, strides=strides, dilations=dilations, pads=(*pads, *pads))
    source = padded(x, window.before, window.after, 0)
    acc = accumulator(x.dtype)
    channels, filters = x.shape[1] // groups, grad.shape[1] // groups
    n, *out = axes_over(
        (grad.shape[0], *grad.shape[2:]), ["n", *(f"o{d}" for d in range(window.rank))]
    )

    def body(g: Expr | int, k: Expr, c: Expr, *taps: Expr) -> Expr:
        element = source[(n, c + g * channels, *window.read(out, taps))]
        return sum(cast(grad[(n, k + g * filters, *out)], acc) * cast(element, acc), (n, *out))

    shape = (filters, channels, *kernel)
    if groups == 1:
        sums = compute(shape, lambda *i: body(0, *i), name="weight_gradient")
    else:
        split = compute((groups, *shape), lambda *i: body(*i), name="weight_gradient")
        sums = reshape(split, (groups * filters, channels, *kernel), name="weight_gradient")
    return compute(sums.shape, lambda *i: cast(sums[i], x.dtype), name="weight_gradient")
