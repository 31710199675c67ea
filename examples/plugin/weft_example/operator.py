"""An operator: a function of tensor expressions. How to loop is for the compiler to find out."""

import weft


@weft.operator
def hard_mish(x: weft.Tensor, *, scale: float = 1.0) -> weft.Tensor:
    """x · min(max(x + 2, 0), 2) / 2, times ``scale``."""

    def element(*i: weft.Axis) -> weft.Expr:
        return x[i] * weft.minimum(weft.maximum(x[i] + 2, 0), 2) * (scale / 2)

    return weft.compute(x.shape, element, name="hard_mish")
