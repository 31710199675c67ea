"""Scops with bodies that compute, from tensor expressions, and what every transformation promises:
the same results, legal, valid, in bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np

from tests.properties.random_programs import random_case
from tests.properties.random_tensors import SMALL, Limits
from weft.ir import build as w
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Leaf, Loop, Tree
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import bind_parameters, interpret
from weft.ir.scop_verifier import verify
from weft.ir.tensor_expr import Program, Tensor
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.proof.legality import check, check_bounds
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled

AWKWARD = (0, 1, 2, 7, 8, 9, 13)  # none, one, a prime, and one off a tile of 4 or 8
i, j, k = (Var(name) for name in "ijk")


def tensor(name: str, *shape: object, dtype: str = "int64") -> Tensor:
    return w.placeholder(shape, dtype, name=name)  # type: ignore[arg-type]


def lowered(*outputs: Tensor, inputs: tuple[Tensor, ...]) -> Scop:
    return lower(Program("test", inputs, outputs), "test")


# ---- small programs -----------------------------------------------------------------------------


def chain(n: object = 8) -> Scop:
    """T = 2 X, then Y = T + 1, over [n]."""
    x = tensor("X", n)
    t = w.compute((n,), lambda i: x[i] * 2, name="T")  # type: ignore[arg-type]
    y = w.compute((n,), lambda i: t[i] + 1, name="Y")  # type: ignore[arg-type]
    return lowered(y, inputs=(x,))


def matmul(m: object = 9, n: object = 7, h: object = 5, *, relu: bool = True) -> Scop:
    """C = A B, then D = max(C, 0)."""
    a, b = tensor("A", m, h), tensor("B", h, n)
    r = w.reduce_axis((0, h), name="r")  # type: ignore[arg-type]
    c = w.compute((m, n), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="C")  # type: ignore
    if not relu:
        return lowered(c, inputs=(a, b))
    d = w.compute((m, n), lambda i, j: w.maximum(c[i, j], 0), name="D")  # type: ignore[arg-type]
    return lowered(d, inputs=(a, b))


def stencil(n: object = 9, width: int = 3, stride: int = 1) -> Scop:
    """T = 2 X, then Y[i] = T[stride i] + … + T[stride i + width - 1]."""
    size: object = (n - 1) * stride + width  # type: ignore[operator]
    x = tensor("X", size)
    t = w.compute((size,), lambda i: x[i] * 2, name="T")  # type: ignore[arg-type]

    def window(i: Expr) -> Expr:
        value = t[i * stride]
        for offset in range(1, width):
            value = value + t[i * stride + offset]
        return value

    return lowered(w.compute((n,), window, name="Y"), inputs=(x,))  # type: ignore[arg-type]


# ---- what holds after a transformation ----------------------------------------------------------


def results(
    scop: Scop,
    tree: Tree | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """The outputs of ``scop`` on random integers, in the order of ``tree``."""
    values = dict(sizes or {})
    return interpret(scop, arrays or inputs_of(scop, values, seed), values, tree=tree)


def inputs_of(scop: Scop, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for t in scop.tensors:
        if t.role in ("input", "constant"):
            shape = tuple(_value(size, sizes) for size in t.shape)
            high = int(t.name.split("_")[1]) if t.name.startswith("at") else 10
            low = 0 if t.name.startswith("at") else -9
            found[t.name] = rng.integers(low, high, shape).astype(t.dtype.numpy)
    return found


def _value(size: Expr, sizes: Mapping[str, int]) -> int:
    from weft.ir.scalar_interpreter import evaluate

    return int(evaluate(size, dict(sizes)))


def promise(original: Scop, after: Scheduled | Scop, *sizes: Mapping[str, int]) -> None:
    """``after`` is well-formed, legal, valid, within bounds, and computes the same."""
    now = after if isinstance(after, Scheduled) else initial(after)
    verify(now.scop)
    check_bounds(now.scop)
    check(now.scop, now.tree)
    validate(original, now.scop, now.tree)
    for values in sizes or ({},):
        arrays = inputs_of(original, values)
        expected = results(original, None, values, arrays=arrays)
        found = results(now.scop, now.tree, values, arrays=arrays)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} at {values}")


def refusal(original: Scop, after: Scheduled | Scop) -> str:
    """The text of the checkers' refusal of ``after``; '' if they accept it."""
    now = after if isinstance(after, Scheduled) else initial(after)
    for judge in (
        lambda: check_bounds(now.scop),
        lambda: check(now.scop, now.tree),
        lambda: validate(original, now.scop, now.tree),
    ):
        try:
            judge()
        except Exception as error:
            return str(error)
    return ""


def legal(after: Scheduled) -> bool:
    try:
        check(after.scop, after.tree)
    except IllegalScheduleError:
        return False
    return True


# ---- random programs ----------------------------------------------------------------------------


@cache
def random_scop(seed: int, limits: Limits = SMALL) -> tuple[Scop, dict[str, int]]:
    """A lowered random program on integers, and the sizes of its symbols."""
    case = random_case(seed, limits, dtype="int64")
    return lower(case.program, "test"), dict(case.sizes)


def random_scops(count: int, seed: int = 0) -> Iterator[tuple[Scop, dict[str, int]]]:
    for number in range(seed, seed + count):
        scop, sizes = random_scop(number)
        free = {p for p in scop.parameters if p not in dict(scop.derived)}
        yield scop, {name: value for name, value in sizes.items() if name in free}


__all__ = [
    "AWKWARD", "Band", "Callable", "Leaf", "Loop", "bind_parameters", "chain", "i", "inputs_of",
    "j", "k", "legal", "lowered", "matmul", "promise", "random_scop", "random_scops", "refusal",
    "results", "stencil", "tensor",
]  # fmt: skip


def conv_pool(height: int = 7, width: int = 6) -> Scop:
    """T = 3×3 sums of X, then Y = 2×2 maxima of T: a reduction recomputed for another."""
    x = tensor("X", height + 3, width + 3)
    a, b = w.reduce_axis((0, 3), name="a"), w.reduce_axis((0, 3), name="b")
    t = w.compute((height + 1, width + 1), lambda i, j: w.sum(x[i + a, j + b], (a, b)), name="T")
    c, d = w.reduce_axis((0, 2), name="c"), w.reduce_axis((0, 2), name="d")
    y = w.compute((height, width), lambda i, j: w.max_over(t[i + c, j + d], (c, d)), name="Y")
    return lowered(y, inputs=(x,))
