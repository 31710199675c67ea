"""What a row of the operator-blind suite is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.frontend.operators.registry import instantiate
from weft.ir.tensor_expr import Tensor
from weft.loop_kernel import Kernel

Arrays = Sequence[np.ndarray]
Program = Sequence[Tensor] | Kernel


def the_same(arrays: Arrays) -> Arrays:
    return arrays


def as_it_is(result: np.ndarray) -> np.ndarray:
    return result


@dataclass(frozen=True, slots=True)
class Case:
    """``built_in`` and ``own`` programs with, for each, how NumPy arrays of the same data look."""

    name: str
    built_in: Program
    own: Program
    inputs: Arrays
    # inputs of the built-in → inputs of the own version
    permuted: Callable[[Arrays], Arrays] = the_same
    # output of the own version → that of the built-in
    back: Callable[[np.ndarray], np.ndarray] = as_it_is


def built_in(op: str, *inputs: Tensor | None, **attributes: object) -> tuple[Tensor, ...]:
    """The results of Weft's own definition of the operator."""
    return instantiate(op, inputs, **attributes).outputs


def random(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers of that shape, float32, the same each time."""
    return (np.random.default_rng(len(shape)).standard_normal(shape) * scale).astype(np.float32)
