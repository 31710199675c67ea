"""Random affine programs that can be run: in-place updates, triangles, strides, parameters, folds.

Six families: wild ones, where anything goes, and random variants of what people write (stencil
chains, matrix products, time loops, triangular solvers, copies and transposes), so that every
transformation finds programs that it applies to. Shapes are fitted to the accesses afterwards, and
tensors are temporaries or outputs only where nothing reads them first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import numpy as np

from tests.properties.enumeration import Array, TooLarge, column
from tests.properties.families import FAMILIES, WEIGHTS
from tests.properties.fitting import Sizes, fitted
from tests.properties.program_maker import Maker
from weft.ir import dtypes
from weft.ir.scalar_expr import Load, Var, walk
from weft.ir.scop import Constraint, Role, Scop


@dataclass(frozen=True, slots=True)
class Affine:
    """A program, the sizes to enumerate it at, and whether its context allows no others."""

    family: str
    scop: Scop
    sizes: tuple[Sizes, ...]
    closed: bool

    def close(self) -> Affine:
        """The same program for the enumerated sizes only."""
        limits = []
        for name in self.scop.parameters:
            values = [s[name] for s in self.sizes]
            limits += [Constraint(Var(name) - min(values)), Constraint(max(values) - Var(name))]
        every = [range(min(s[p] for s in self.sizes), max(s[p] for s in self.sizes) + 1)
                 for p in self.scop.parameters]  # fmt: skip
        sizes = tuple(dict(zip(self.scop.parameters, v, strict=True)) for v in product(*every))
        return Affine(self.family, replace(self.scop, context=tuple(limits)), sizes, True)


def random_affine(seed: int, attempt: int = 0) -> Affine:
    """Program number ``seed``: the same one each time."""
    random = Random(f"affine {seed} {attempt}")
    while True:
        try:
            return _make(Maker(random))
        except TooLarge:
            continue


def affine_program(
    build: Callable[[Maker], None],
    parameters: tuple[str, ...],
    sizes: Sequence[Sizes],
    roles: dict[str, Role],
) -> Affine:
    """The program that ``build`` makes, for these ``sizes`` only: all values between the least and
    the largest of each parameter must be among them."""
    m = Maker(Random(0), parameters, roles=roles)
    build(m)
    scop = fitted(m, Scop("program", parameters, (), (), ()), sizes)
    return Affine(build.__name__, scop, tuple(sizes), False).close()


def _make(m: Maker) -> Affine:
    r = m.random
    m.dtype = dtypes.int64 if r.random() < 0.75 else dtypes.int32
    m.parameters = r.choice(((), ("n",), ("n",), ("n",), ("n",), ("n", "m")))
    family = r.choices([f.__name__[1:] for f in FAMILIES], WEIGHTS)[0]
    next(f for f in FAMILIES if f.__name__ == f"_{family}")(m)
    closed = not m.parameters or r.random() < 0.5
    context, sizes = _context(m, closed)
    scop = Scop("random", m.parameters, context, (), ())
    scop = fitted(m, scop, sizes)
    return Affine(family, scop, sizes, closed)


def _context(m: Maker, closed: bool) -> tuple[tuple[Constraint, ...], tuple[Sizes, ...]]:
    r = m.random
    lows = [r.choice((0, 0, 1, 2)) for _ in m.parameters]
    span = 3 if len(m.parameters) == 1 else 2
    highs = [low + r.choice((span - 1, span)) for low in lows]
    context = []
    for name, low, high in zip(m.parameters, lows, highs, strict=True):
        context.append(Constraint(Var(name) - low))
        if closed:
            context.append(Constraint(high - Var(name)))
    if closed:
        every = product(*(range(a, b + 1) for a, b in zip(lows, highs, strict=True)))
        return tuple(context), tuple(dict(zip(m.parameters, v, strict=True)) for v in every)
    if len(m.parameters) == 1:
        chosen = [(lows[0] + k,) for k in (0, 1, 2, 3, 4)]
    else:
        a, b = lows
        chosen = [(a, b), (a + 3, b), (a, b + 3), (a + 1, b + 2), (a + 3, b + 2)]
    return tuple(context), tuple(dict(zip(m.parameters, v, strict=True)) for v in chosen)


def inputs_of(scop: Scop, sizes: Sizes, seed: int = 0) -> dict[str, Array]:
    """Arrays for all tensors that hold something before: the same for the same name and shape."""
    found, small = {}, _indices_from(scop)
    for number, t in enumerate(scop.tensors):
        if t.role in ("input", "inout", "constant"):
            extent = tuple(int(column(size, sizes)) for size in t.shape)
            rng = np.random.default_rng((seed, number))
            low, limit = (0, 4) if t.name in small else (-100, 100)
            found[t.name] = rng.integers(low, limit, extent).astype(t.dtype.numpy)
    return found


def _indices_from(scop: Scop) -> set[str]:
    """Tensors whose elements are indices."""
    accesses = ((s, a) for s in scop.statements for a in (*s.reads, *s.writes) if a.may)
    nodes = ((s, n) for s, a in accesses for i in a.body_indices for n in walk(i))
    return {s.reads[n.source].tensor for s, n in nodes
            if isinstance(n, Load) and isinstance(n.source, int)}  # fmt: skip
