"""What random tensor programs are made of: sizes, some of them symbols, tensors, functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from random import Random

from weft.ir import build as w
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, select
from weft.ir.tensor_expr import Axis, Size, Tensor

SYMBOLS = ("m", "n")


@dataclass(frozen=True)
class Limits:
    """Sizes to choose from; the most elements of a tensor; how many operations."""

    sizes: tuple[int, ...] = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33)
    elements: int = 40_000
    operations: int = 9


LARGE = Limits()
SMALL = Limits((1, 2, 3, 4, 5, 7, 9), 150, 5)  # for interpreters that go element by element


def number(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    return sizes[size.name]  # type: ignore[attr-defined]


@dataclass
class TensorMaker:
    """Random tensors; ``inputs`` are the placeholders, ``made`` what was computed so far."""

    random: Random
    dtype: DType
    sizes: Mapping[str, int]
    limits: Limits
    inputs: list[Tensor] = field(default_factory=list)
    made: list[Tensor] = field(default_factory=list)
    count: int = 0

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def new_shape(self, rank: int) -> tuple[Size, ...]:
        while True:
            shape: list[Size] = [self.random.choice(self.limits.sizes) for _ in range(rank)]
            for d in range(rank):
                if self.sizes and self.random.random() < 0.4:
                    shape[d] = w.var(self.random.choice(SYMBOLS))
                elif self.random.random() < 0.02:
                    shape[d] = 0
            if self.volume(shape) <= self.limits.elements:
                return tuple(shape)

    def volume(self, shape: tuple[Size, ...] | list[Size]) -> int:
        return prod(number(s, self.sizes) for s in shape)

    def extent(self, size: Size) -> int:
        return number(size, self.sizes)

    def placeholder(self, shape: tuple[Size, ...] | None = None) -> Tensor:
        if shape is None:
            shape = self.new_shape(self.random.choice((1, 2, 2, 3, 3, 4)))
        made = w.placeholder(shape, self.dtype, name=self.name("x"))
        self.inputs.append(made)
        return made

    def any(self, least: int = 0) -> Tensor:
        """A tensor of rank ``least`` or more, rather a late one, so that chains grow."""
        pool = [t for t in (*self.inputs, *self.made) if t.rank >= least and t.dtype == self.dtype]
        if not pool:
            return self.placeholder(self.new_shape(least + 1))
        return pool[max(self.random.randrange(len(pool)), self.random.randrange(len(pool)))]

    def alike(self, t: Tensor) -> Tensor:
        """Another tensor of the shape of ``t``."""
        pool = [x for x in (*self.inputs, *self.made) if x.shape == t.shape and x is not t]
        pool = [x for x in pool if x.dtype == self.dtype]
        if pool and self.random.random() < 0.8:
            return self.random.choice(pool)
        return self.placeholder(t.shape)

    # ---- scalars -------------------------------------------------------------------------------

    def one(self, a: Expr) -> Expr:
        if self.dtype.is_float:
            functions = (w.tanh, w.exp, abs, lambda x: x * 0.5, lambda x: -x, lambda x: x + 1.0)
            value = self.random.choice(functions)(a)
            return w.minimum(value, 1e3)
        functions = (abs, lambda x: x * 3, lambda x: -x, lambda x: x + 1, lambda x: x // 3,
                     lambda x: x % 5, lambda x: w.maximum(x, 0))  # fmt: skip
        return self.random.choice(functions)(a)

    def two(self, a: Expr, b: Expr) -> Expr:
        return self.random.choice(
            (lambda: a + b, lambda: a - b, lambda: a * b, lambda: w.maximum(a, b),
             lambda: w.minimum(a, b), lambda: select(a > b, a - b, b))
        )()  # fmt: skip

    def axis(self, size: Size, hint: str = "r") -> Axis:
        return w.reduce_axis((0, size), name=self.name(hint))
