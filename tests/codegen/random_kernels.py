"""Random, valid loop-IR kernels from a seed: nests whose turns are independent but for updates.

Values are small whole numbers, so that sums are exact in any order and results compare exactly.
"""

from __future__ import annotations

import random

import numpy as np

from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Check,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
)
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select

SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 48)
TYPES = (
    dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int8, dtypes.int64, dtypes.uint16,
    dtypes.float16,
)  # fmt: skip


class Generator:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        depth = self.r.randint(1, 3)
        self.names = ["i", "j", "k"][:depth]
        self.sizes = [self.r.choice(SIZES[:8] if depth == 3 else SIZES) for _ in self.names]
        self.symbolic = [self.r.random() < 0.5 for _ in self.names]
        self.buffers: list[Buffer] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.lets = 0

    def kernel(self) -> tuple[Kernel, dict[str, int], dict[str, np.ndarray]]:
        dtype = self.r.choice(TYPES)
        stmts = [self.statement(dtype) for _ in range(self.r.randint(1, 3))]
        body: Stmt = Block(tuple(stmts))
        kinds = [self.r.choice(("serial", "unrolled", "vector", "vector")) for _ in self.names]
        if self.r.random() < 0.4:
            kinds[0] = "parallel"
        for name, size, symbolic, kind in reversed(
            list(zip(self.names, self.sizes, self.symbolic, kinds, strict=True))
        ):
            upper = Var(f"n_{name}") if symbolic else literal(size)
            body = For(name, literal(0), upper, kind, body)  # type: ignore[arg-type]
        parameters = {f"n_{name}": s for name, s in zip(self.names, self.sizes, strict=True)}
        if kinds[0] == "parallel" and any(not self.varies_first(s) for s in stmts):
            body = For(self.names[0], body.lower, body.upper, "serial", body.body)  # type: ignore
        kernel = Kernel("random", tuple(parameters), tuple(self.buffers), body, ("a check",))
        return kernel, parameters, self.arrays

    def varies_first(self, stmt: Stmt) -> bool:
        return not self._has_update(stmt)

    def _has_update(self, stmt: Stmt) -> bool:
        match stmt:
            case Update():
                return True
            case If(then=inner) | Let(body=inner) | Allocate(body=inner) | For(body=inner):
                return self._has_update(inner)
            case Block(stmts):
                return any(self._has_update(s) for s in stmts)
        return False

    # ---- buffers ------------------------------------------------------------------------------

    def buffer(self, dtype: DType, size: int, strides: tuple[int, ...], writable: bool) -> str:
        name = f"b{len(self.buffers)}"
        low, high = (0, 9) if dtype.kind in ("uint", "bool") else (-4, 5)
        values = np.random.default_rng(self.r.getrandbits(32)).integers(low, high, size)
        self.arrays[name] = values.astype(dtype.numpy)
        shape = tuple(literal(s) for s in self.sizes)[: len(strides)]
        self.buffers.append(
            Buffer(name, dtype, shape, tuple(literal(s) for s in strides), writable=writable)
        )
        return name

    def target(self, dtype: DType, dims: list[int]) -> tuple[str, tuple[Expr, ...]]:
        """A buffer with one element per point of ``dims``, in a random layout."""
        order = dims[:]
        self.r.shuffle(order)
        strides, step = {}, self.r.choice((1, 1, 1, 2, 3, 5))
        for d in order:
            strides[d] = step
            step *= max(1, self.sizes[d])
        name = self.buffer(dtype, step, tuple(strides[d] for d in dims), True)
        return name, tuple(Var(self.names[d]) for d in dims)

    def load(self, dtype: DType) -> Expr:
        """An element of a new input, at an affine index that a guard keeps inside."""
        index: Expr = literal(self.r.randint(-3, 3))
        for name in self.names:
            index = index + Var(name) * self.r.choice((0, 0, 1, 1, 1, 2, 3, 4, -1, 7))
        if self.r.random() < 0.15:
            index = index // self.r.choice((2, 3))
        if self.r.random() < 0.15:
            index = index % self.r.choice((2, 4, 5))
        size = self.r.randint(1, 60)
        name = self.buffer(dtype, size, (1,), False)
        inside = (index >= 0) & (index < size)
        return select(inside, Load(name, (index,), dtype), literal(1, dtype))

    # ---- expressions and statements -----------------------------------------------------------

    def value(self, dtype: DType, depth: int = 2) -> Expr:
        if depth == 0 or self.r.random() < 0.3:
            choice = self.r.random()
            if choice < 0.6:
                return self.load(dtype)
            if choice < 0.8:
                return Var(self.r.choice(self.names)).astype(dtype)
            return literal(self.r.randint(0, 3), dtype)
        a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        if self.r.random() < 0.25:
            return select(self.condition(), a, b)
        return apply(self.r.choice(("add", "sub", "min", "max")), a, b)

    def condition(self) -> Expr:
        op = self.r.choice(("lt", "ge", "ne", "eq"))
        if self.r.random() < 0.5:
            name = Var(self.r.choice(self.names))
            return apply(op, name % self.r.choice((2, 3, 100)), literal(self.r.randint(0, 5)))
        return apply(op, self.load(dtypes.int32), literal(self.r.randint(-2, 2), dtypes.int32))

    def statement(self, dtype: DType, depth: int = 2) -> Stmt:
        choice = self.r.random()
        if depth and choice < 0.15:
            return If(self.condition(), self.statement(dtype, depth - 1))
        if depth and choice < 0.25:
            return If(
                self.condition(), self.statement(dtype, depth - 1), self.statement(dtype, depth - 1)
            )
        if depth and choice < 0.35:
            return self.let(dtype, depth)
        if depth and choice < 0.45:
            return self.private(dtype)
        if depth and choice < 0.5:
            return self.inner_loop(dtype)
        if choice < 0.55:
            return Check(self.condition(), 1, (Var(self.names[0]), Var(self.names[-1])))
        if choice < 0.75:
            dims = sorted(self.r.sample(range(len(self.names)), self.r.randint(0, len(self.names))))
            fold = self.r.choice(("add", "add", "min", "max"))
            return Update((self.target(dtype, dims),), monoid(fold, dtype), (self.value(dtype),))
        name, indices = self.target(dtype, list(range(len(self.names))))
        return Store(name, indices, self.value(dtype))

    def let(self, dtype: DType, depth: int) -> Stmt:
        self.lets += 1
        name = f"t{self.lets}"
        inner = self.statement(dtype, depth - 1)
        target, indices = self.target(dtype, list(range(len(self.names))))
        both = Block((inner, Store(target, indices, Var(name, dtype) + Var(name, dtype))))
        return Let(name, self.value(dtype), both)

    def private(self, dtype: DType) -> Stmt:
        """A small array of each turn's own, filled and summed."""
        size, name, var = self.r.randint(1, 4), f"p{self.lets}", f"q{self.lets}"
        self.lets += 1
        scope = self.r.choice(("local", "register"))
        kind = self.r.choice(("serial", "unrolled")) if scope == "local" else "unrolled"
        array = Buffer(name, dtype, (literal(size),), (literal(1),), scope)  # type: ignore
        q = Var(var)
        fill = For(var, literal(0), literal(size), kind, Store(name, (q,), self.value(dtype)))  # type: ignore
        target, indices = self.target(dtype, list(range(len(self.names))))
        start = Store(target, indices, literal(0, dtype))
        fold = Update(((target, indices),), monoid("add", dtype), (Load(name, (q,), dtype),))
        total = For(var, literal(0), literal(size), kind, fold)  # type: ignore[arg-type]
        return Allocate(array, Block((start, fill, total)))

    def inner_loop(self, dtype: DType) -> Stmt:
        """A serial loop with bounds that may differ from turn to turn."""
        var = f"q{self.lets}"
        self.lets += 1
        target, indices = self.target(dtype, list(range(len(self.names))))
        lower = literal(0) if self.r.random() < 0.5 else Var(self.names[-1]) - 2
        upper = Var(self.names[-1]) % 5 + 1 if self.r.random() < 0.5 else literal(3)
        value = Var(var).astype(dtype) + self.value(dtype, 1)
        fold = Update(((target, indices),), monoid("add", dtype), (value,))
        return For(var, lower, upper, "serial", fold, self.r.choice((1, 1, 2)))
