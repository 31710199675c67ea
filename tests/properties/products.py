"""Random products of matrices, compiled and called, beside NumPy.

    C[z, i, j] = f(sum of A[z, i, q] * B[z, q, j] over q)      any of them turned, any size open

of every type that instructions multiply, at sizes around those of vectors, register tiles and
blocks of matrix units. Integers have to be exact, floats as near as the order of their sums lets
them be. What takes a minute to compile hangs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import ml_dtypes
import numpy as np
import numpy.typing as npt

import weft
from tests.properties.alarm import Late, alarm
from tests.properties.examine import Outcome

SECONDS = 60  # of this process, to compile and to run one
OUTER = (0, 1, 2, 3, 7, 13, 15, 16, 17, 31, 32, 33, 40, 48, 63, 64, 65, 96, 100, 128, 130, 260, 300)
STEPS = (*OUTER, 127, 129, 200, 384, 390, 1000)
INTEGERS = ("int8", "uint8")
FLOATS = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-24}  # error of one sum
ENDS = ("", "", "relu", "bias")  # what comes behind the sums

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Case:
    """A product of ``sizes`` (rows, lanes, steps): which of these are ``open`` while it compiles,
    and which operands are ``turned``; ``apart``: elements behind the begin of a line at which the
    first one begins."""

    sizes: tuple[int, int, int]
    open: tuple[bool, bool, bool]
    types: tuple[str, str]
    turned: tuple[bool, bool]
    batch: int
    end: str
    threads: int
    apart: int

    @property
    def sums(self) -> weft.DType:
        exact = {"bfloat16": weft.f32, "float32": weft.f32, "float64": weft.f64}
        return exact.get(self.types[0], weft.i32)


def random_case(seed: int) -> Case:
    pick = Random(f"product {seed}")
    sizes = (pick.choice(OUTER), pick.choice(OUTER), pick.choice(STEPS))
    same = pick.choice([*FLOATS, "", ""])
    # A size of 0 is one that only the call tells.
    hidden = tuple(not size or pick.random() < 0.3 for size in sizes)
    return Case(
        sizes,
        (hidden[0], hidden[1], hidden[2]),
        (same, same) if same else (pick.choice(INTEGERS), pick.choice(INTEGERS)),
        (pick.random() < 0.3, pick.random() < 0.4),
        pick.choice((0, 0, 0, 2, 3)),
        pick.choice(ENDS),
        pick.choice((1, 2)),
        pick.choice((0, 0, 1, 5)),
    )


def examine(seed: int) -> Outcome:
    case = random_case(seed)
    notes = Counter({" and ".join(case.types): 1, f"threads {case.threads}": 1})
    try:
        with alarm(SECONDS):
            problem = _problem(case, np.random.default_rng(seed))
    except Late as late:
        return Outcome("hang", f"{late}: {case}", notes)
    except Exception as error:
        return Outcome("crash", f"{type(error).__name__}: {error}: {case}", notes)
    return Outcome("compiled", f"{problem}: {case}" if problem else "", notes)


def _problem(case: Case, rng: np.random.Generator) -> str:
    a, b, bias = arrays(case, rng)
    program = weft.compile(expression(case), options=weft.Options(threads=case.threads))
    found = program(*((a, b, bias) if case.end == "bias" else (a, b)))
    expected, bound = oracle(case, a, b, bias)
    if found.shape != expected.shape or found.dtype != case.sums.numpy:
        return f"{found.dtype}{found.shape}"
    wrong = ~(np.abs(found.astype(expected.dtype) - expected) <= bound)
    return f"{wrong.sum()} of {wrong.size} elements are wrong" if wrong.any() else ""


def expression(case: Case) -> weft.Tensor:
    m, n, k = (
        weft.var(name) if hidden else size
        for name, hidden, size in zip("mnk", case.open, case.sizes, strict=True)
    )
    (left, right), lead = case.turned, (case.batch,) if case.batch else ()
    a = weft.placeholder((*lead, *((k, m) if left else (m, k))), dtype=case.types[0], name="A")
    b = weft.placeholder((*lead, *((n, k) if right else (k, n))), dtype=case.types[1], name="B")
    bias = weft.placeholder((n,), dtype=case.sums, name="E")
    q, wide = weft.reduce_axis((0, k), name="q"), case.sums

    def product(*at: weft.Expr) -> weft.Expr:
        *z, i, j = at
        one = a[(*z, q, i)] if left else a[(*z, i, q)]
        other = b[(*z, j, q)] if right else b[(*z, q, j)]
        return weft.sum(one.astype(wide) * other.astype(wide), axis=q)

    c = weft.compute((*lead, m, n), product, name="C")
    if case.end == "relu":
        return weft.compute((*lead, m, n), lambda *at: weft.maximum(c[at], 0), name="D")
    if case.end == "bias":
        return weft.compute((*lead, m, n), lambda *at: c[at] + bias[at[-1]], name="D")
    return c


def arrays(case: Case, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """The operands, as they are stored, and the bias."""
    (m, n, k), lead = case.sizes, (case.batch,) if case.batch else ()
    shapes = ((k, m) if case.turned[0] else (m, k)), ((n, k) if case.turned[1] else (k, n))
    a, b = (
        _random((*lead, *shape), kind, rng) for shape, kind in zip(shapes, case.types, strict=True)
    )
    held = np.zeros(a.size + case.apart, a.dtype)[case.apart :].reshape(a.shape)
    held[...] = a
    return held, b, rng.integers(-9, 9, n).astype(case.sums.numpy)


def _random(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    if kind in INTEGERS:
        ends = np.iinfo(kind)
        return rng.integers(ends.min, ends.max, shape, endpoint=True).astype(kind)
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)


def oracle(case: Case, a: Array, b: Array, bias: Array) -> tuple[Array, Array]:
    """What NumPy finds with more bits, and how far from it sums in any order may be."""
    exact = case.types[0] in INTEGERS
    wide = np.int64 if exact else np.longdouble if case.types[0] == "float64" else np.float64
    one = (a.swapaxes(-1, -2) if case.turned[0] else a).astype(wide)
    other = (b.swapaxes(-1, -2) if case.turned[1] else b).astype(wide)
    sums = np.asarray(one @ other)
    sums = sums + bias.astype(wide) if case.end == "bias" else sums
    sums = np.maximum(sums, 0) if case.end == "relu" else sums
    if exact:
        return sums, np.zeros(sums.shape, wide)
    most = np.asarray(np.abs(one) @ np.abs(other)) + np.abs(bias).max(initial=0)
    return sums, (case.sizes[2] + 2) * FLOATS[case.types[0]] * most
