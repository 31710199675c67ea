"""Loop programs on int64 arrays, in place, triangular, parametric, with bodies that compute.

``read`` takes nested ``for v in range(lo, hi)`` loops over assignments; ``+=`` and ``-=`` are
updates. ``promise`` says what every transformation of them has to keep.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from textwrap import dedent

import numpy as np

from tests.polyhedral.loop_reader import LoopReader, expr, variables
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.scalar_expr import Expr, Load, Var, literal, select
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Access, Body, Constraint, Origin, Scop, Statement, Tensor, Update
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_verifier import verify
from weft.ir.tensor_expr import Monoid
from weft.polyhedral.proof.legality import check, check_bounds
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.scheduled import Scheduled

_LEFT, _RIGHT = Var("left"), Var("right")
PLUS = Monoid("sum", (_LEFT,), (_RIGHT,), (_LEFT + _RIGHT,), (0,),
              laws=frozenset({"associative", "commutative"}))  # fmt: skip
SIZES = (0, 1, 2, 7, 8, 9)  # none, one, a prime, and one off a tile of 4 or 8


def read(text: str, parameters: str = "N", *, least: int = 0, **tensors: str) -> Scop:
    """The Scop of ``text``; a tensor is its role and shape, ``A="io N N"``."""
    roles = {"in": "input", "io": "inout", "out": "output", "tmp": "temp"}
    declared = tuple(
        Tensor(name, tuple(expr(ast.parse(s, mode="eval").body) for s in sizes.split()[1:]),
               dtypes.int64, roles[sizes.split()[0]])  # type: ignore[arg-type]
        for name, sizes in tensors.items()
    )  # fmt: skip
    reader = _Reader(set(tensors))
    reader.block(ast.parse(dedent(text)).body)
    names = tuple(parameters.split())
    context = tuple(Constraint(Var(p) - least) for p in names)
    return Scop("test", names, context, declared, tuple(reader.statements))


class _Reader(LoopReader):
    def add(
        self,
        target: ast.expr,
        value: ast.expr,
        fold: ast.Add | ast.Sub | None,
        dims: tuple[str, ...],
        domain: tuple[Constraint, ...],
        position: tuple[int | str, ...],
    ) -> None:
        reads: list[Access] = []
        result = self.value(value, reads)
        write = self.access(target)
        own = {v.name for index in write.indices for v in variables(index) if isinstance(v, Var)}
        name = f"S{len(self.statements)}"
        self.statements.append(Statement(
            name, dims, domain, position, (write,), tuple(reads),
            Body((), (-result if isinstance(fold, ast.Sub) else result,)),
            Update(PLUS, tuple(d for d in dims if d not in own)) if fold else None,
            Origin(name, tuple(map(Var, dims)), f"line {target.lineno}"),
        ))  # fmt: skip

    def value(self, node: ast.expr, reads: list[Access]) -> Expr:
        match node:
            case ast.Subscript() | ast.Name() if not (
                isinstance(node, ast.Name) and node.id not in self.tensors
            ):
                reads.append(self.access(node))
                return Load(len(reads) - 1, (), dtypes.int64)
            case ast.BinOp(left, op, right):
                a, b = self.value(left, reads), self.value(right, reads)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
            case ast.Call(ast.Name("max"), [left, right]):
                return w.maximum(self.value(left, reads), self.value(right, reads))
        return expr(node)


# ---- programs -----------------------------------------------------------------------------------


def gemm() -> Scop:
    return read(
        """
        for i in range(M):
            for j in range(N):
                for k in range(K):
                    C[i, j] += A[i, k] * B[k, j]
        """, "M N K", A="in M K", B="in K N", C="io M N",
    )  # fmt: skip


def matmul() -> Scop:
    return read(
        """
        for i in range(M):
            for j in range(N):
                C[i, j] = 3 * C[i, j]
                for k in range(K):
                    C[i, j] += A[i, k] * B[k, j]
        """, "M N K", A="in M K", B="in K N", C="io M N",
    )  # fmt: skip


def lu() -> Scop:
    """LU as it is written, with a product in place of the division."""
    return read(
        """
        for k in range(N):
            for i in range(k + 1, N):
                A[i, k] = A[i, k] * A[k, k]
            for i in range(k + 1, N):
                for j in range(k + 1, N):
                    A[i, j] -= A[i, k] * A[k, j]
        """, A="io N N",
    )  # fmt: skip


def triangular() -> Scop:
    """trmm: what row i reads of B below it is still the old one."""
    return read(
        """
        for i in range(M):
            for j in range(N):
                for k in range(i + 1, M):
                    B[i, j] += A[k, i] * B[k, j]
                B[i, j] = 5 * B[i, j]
        """, "M N", A="in M M", B="io M N",
    )  # fmt: skip


def stencil() -> Scop:
    """Two arrays, T steps."""
    return read(
        """
        for t in range(T):
            for i in range(1, N - 1):
                B[i] = A[i - 1] + 2 * A[i] - A[i + 1]
            for i in range(1, N - 1):
                A[i] = B[i - 1] - B[i] + 3 * B[i + 1]
        """, "T N", A="io N", B="io N",
    )  # fmt: skip


PROGRAMS = {"matmul": matmul, "lu": lu, "triangular": triangular, "stencil": stencil}


# ---- what holds after a transformation ----------------------------------------------------------


def arrays(scop: Scop, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for t in scop.tensors:
        if t.role in ("input", "inout", "constant"):
            found[t.name] = rng.integers(-9, 10, tuple(_size(s, sizes) for s in t.shape))
    return found


def _size(size: Expr, sizes: Mapping[str, int]) -> int:
    from weft.ir.scalar_interpreter import evaluate

    return int(evaluate(size, dict(sizes)))


Run = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]  # what was given, what comes out


def promise(now: Scheduled, *sizes: Mapping[str, int]) -> list[Run]:
    """``now`` is well-formed, legal, valid, within bounds, and computes what its original does:
    what that is, for each of ``sizes``."""
    verify(now.scop)
    check_bounds(now.scop)
    check(now.scop, now.tree)
    validate(now.original, now.scop, now.tree)
    return same(now, *sizes)


def same(now: Scheduled, *sizes: Mapping[str, int]) -> list[Run]:
    runs = []
    for values in sizes:
        given, expected = _as_written(now.original, tuple(values.items()))
        found = interpret(now.scop, given, values, tree=now.tree)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} at {values}")
        runs.append((given, expected))
    return runs


@lru_cache(maxsize=256)
def _as_written(scop: Scop, sizes: tuple[tuple[str, int], ...]) -> Run:
    """What is given and what comes out; of one program, many schedules are tried."""
    given = arrays(scop, dict(sizes))
    expected = interpret(scop, given, dict(sizes))
    for array in (*given.values(), *expected.values()):
        array.flags.writeable = False
    return given, expected


def every(scop: Scop, sizes: tuple[int, ...] = SIZES) -> list[dict[str, int]]:
    """Each of ``sizes`` for all parameters of ``scop``, and one mixture."""
    alike = [dict.fromkeys(scop.parameters, n) for n in sizes]
    return [*alike, {p: 3 + 2 * k for k, p in enumerate(scop.parameters)}]


def refusal(now: Scheduled) -> str:
    """The text of the checkers' refusal of ``now``; '' if they accept it."""
    try:
        check_bounds(now.scop)
        check(now.scop, now.tree)
        validate(now.original, now.scop, now.tree)
    except Exception as error:
        return str(error)
    return ""


__all__ = [
    "PROGRAMS", "SIZES", "Tree", "every", "literal", "lu", "matmul", "promise", "read", "refusal",
    "same", "select", "stencil", "triangular",
]  # fmt: skip
