"""In-place, triangular and time-iterated programs, written as loops, as Scops without the frontend.

``parse`` reads nested ``for v in range(lo, hi)`` loops over assignments to array elements. Every
assignment is a statement; ``+=`` and ``-=`` are updates. Bodies compute nothing: the checks of this
room do not look at them.
"""

from __future__ import annotations

import ast
from textwrap import dedent

from tests.polyhedral.loop_reader import LoopReader, expr, variables
from tests.polyhedral.scops import SUM, Constraint, Origin, Scop, Statement, Var, literal
from weft.ir import dtypes
from weft.ir.scop import Access, Body, Role, Tensor, Update
from weft.ir.tensor_expr import Monoid

_LEFT, _RIGHT = Var("left", dtypes.float32), Var("right", dtypes.float32)
PLUS = Monoid("sum", (_LEFT,), (_RIGHT,), (_LEFT + _RIGHT,), (0.0,),
              laws=frozenset({"associative", "commutative"}))  # fmt: skip


def parse(name: str, text: str, parameters: str, tensors: dict[str, str], context: int = 1) -> Scop:
    """The Scop of ``text``. ``tensors`` maps a name to its shape, ``"in N M"``; parameters are at
    least ``context``."""
    reader = _Reader(set(tensors))
    reader.block(ast.parse(dedent(text)).body)
    names = tuple(parameters.split())
    return Scop(
        name, names, tuple(Constraint(Var(p) - context) for p in names),
        tuple(_tensor(t, shape) for t, shape in tensors.items()), tuple(reader.statements),
    )  # fmt: skip


def _tensor(name: str, text: str) -> Tensor:
    kind, *sizes = text.split()
    role: Role = {"in": "input", "io": "inout", "out": "output", "tmp": "temp"}[kind]  # type: ignore
    shape = tuple(expr(ast.parse(size, mode="eval").body) for size in sizes)
    return Tensor(name, shape, dtypes.float64, role)


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
        write = self.access(target)
        own = {v for index in write.indices for v in variables(index)}
        name = f"S{len(self.statements)}"
        self.statements.append(Statement(
            name, dims, domain, position, (write,), tuple(self.reads(value)),
            Body((), (literal(0.0, dtypes.float64),)),
            Update(PLUS, tuple(d for d in dims if Var(d) not in own)) if fold else None,
            Origin(name, tuple(map(Var, dims)), f"line {target.lineno}"),
        ))  # fmt: skip

    def reads(self, node: ast.expr) -> list[Access]:
        if isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Name) and node.id in self.tensors
        ):
            return [self.access(node)]
        found = [a for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
                 for a in self.reads(child)]  # fmt: skip
        return list(dict.fromkeys(found))


# ---- the programs -------------------------------------------------------------------------------

_TEXTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "gemm": ("I J K", """
        for i in range(I):
            for j in range(J):
                C[i, j] *= beta
            for k in range(K):
                for j in range(J):
                    C[i, j] += alpha * A[i, k] * B[k, j]
        """, {"A": "in I K", "B": "in K J", "C": "io I J", "alpha": "in", "beta": "in"}),
    "lu": ("N", """
        for i in range(N):
            for j in range(i):
                for k in range(j):
                    A[i, j] -= A[i, k] * A[k, j]
                A[i, j] /= A[j, j]
            for j in range(i, N):
                for k in range(i):
                    A[i, j] -= A[i, k] * A[k, j]
        """, {"A": "io N N"}),
    "cholesky": ("N", """
        for i in range(N):
            for j in range(i):
                for k in range(j):
                    A[i, j] -= A[i, k] * A[j, k]
                A[i, j] /= A[j, j]
            for k in range(i):
                A[i, i] -= A[i, k] * A[i, k]
            A[i, i] = sqrt(A[i, i])
        """, {"A": "io N N"}),
    "ludcmp": ("N", """
        for i in range(N):
            for j in range(i):
                w = A[i, j]
                for k in range(j):
                    w -= A[i, k] * A[k, j]
                A[i, j] = w / A[j, j]
            for j in range(i, N):
                w = A[i, j]
                for k in range(i):
                    w -= A[i, k] * A[k, j]
                A[i, j] = w
        for i in range(N):
            w = b[i]
            for j in range(i):
                w -= A[i, j] * y[j]
            y[i] = w
        for i in range(N):
            w = y[N - 1 - i]
            for j in range(N - i, N):
                w -= A[N - 1 - i, j] * x[j]
            x[N - 1 - i] = w / A[N - 1 - i, N - 1 - i]
        """, {"A": "io N N", "b": "in N", "x": "io N", "y": "io N", "w": "tmp"}),
    "gramschmidt": ("M N", """
        for k in range(N):
            nrm = 0.0
            for i in range(M):
                nrm += A[i, k] * A[i, k]
            R[k, k] = sqrt(nrm)
            for i in range(M):
                Q[i, k] = A[i, k] / R[k, k]
            for j in range(k + 1, N):
                R[k, j] = 0.0
                for i in range(M):
                    R[k, j] += Q[i, k] * A[i, j]
                for i in range(M):
                    A[i, j] -= Q[i, k] * R[k, j]
        """, {"A": "io M N", "R": "io N N", "Q": "io M N", "nrm": "tmp"}),
    "durbin": ("N", """
        y[0] = -r[0]
        beta = 1.0
        alpha = -r[0]
        for k in range(1, N):
            beta = (1 - alpha * alpha) * beta
            total = 0.0
            for i in range(k):
                total += r[k - i - 1] * y[i]
            alpha = -(r[k] + total) / beta
            for i in range(k):
                z[i] = y[i] + alpha * y[k - i - 1]
            for i in range(k):
                y[i] = z[i]
            y[k] = alpha
        """, {"r": "in N", "y": "io N", "z": "tmp N", "alpha": "tmp", "beta": "tmp",
              "total": "tmp"}),
    "jacobi-1d": ("T N", """
        for t in range(T):
            for i in range(1, N - 1):
                B[i] = A[i - 1] + A[i] + A[i + 1]
            for i in range(1, N - 1):
                A[i] = B[i - 1] + B[i] + B[i + 1]
        """, {"A": "io N", "B": "io N"}),
    "jacobi-2d": ("T N", """
        for t in range(T):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    B[i, j] = A[i, j] + A[i, j - 1] + A[i, 1 + j] + A[1 + i, j] + A[i - 1, j]
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    A[i, j] = B[i, j] + B[i, j - 1] + B[i, 1 + j] + B[1 + i, j] + B[i - 1, j]
        """, {"A": "io N N", "B": "io N N"}),
    "heat-3d": ("T N", """
        for t in range(1, T + 1):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    for k in range(1, N - 1):
                        B[i, j, k] = (A[i + 1, j, k] + A[i, j, k] + A[i - 1, j, k]
                          + A[i, j + 1, k] + A[i, j - 1, k] + A[i, j, k + 1] + A[i, j, k - 1])
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    for k in range(1, N - 1):
                        A[i, j, k] = (B[i + 1, j, k] + B[i, j, k] + B[i - 1, j, k]
                          + B[i, j + 1, k] + B[i, j - 1, k] + B[i, j, k + 1] + B[i, j, k - 1])
        """, {"A": "io N N N", "B": "io N N N"}),
    "seidel-2d": ("T N", """
        for t in range(T):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    A[i, j] = (A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1] + A[i, j - 1]
                      + A[i, j] + A[i, j + 1] + A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1])
        """, {"A": "io N N"}),
    "fdtd-2d": ("T X Y", """
        for t in range(T):
            for j in range(Y):
                ey[0, j] = fict[t]
            for i in range(1, X):
                for j in range(Y):
                    ey[i, j] = ey[i, j] - (hz[i, j] - hz[i - 1, j])
            for i in range(X):
                for j in range(1, Y):
                    ex[i, j] = ex[i, j] - (hz[i, j] - hz[i, j - 1])
            for i in range(X - 1):
                for j in range(Y - 1):
                    hz[i, j] = hz[i, j] - (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
        """, {"ex": "io X Y", "ey": "io X Y", "hz": "io X Y", "fict": "in T"}),
    "adi": ("T N", """
        for t in range(1, T + 1):
            for i in range(1, N - 1):
                v[0, i] = 1.0
                p[i, 0] = 0.0
                q[i, 0] = v[0, i]
                for j in range(1, N - 1):
                    p[i, j] = 1 / p[i, j - 1]
                    q[i, j] = (u[j, i - 1] + u[j, i] + u[j, i + 1] + q[i, j - 1]) / p[i, j - 1]
                v[N - 1, i] = 1.0
                for j in range(1, N - 1):
                    v[N - 1 - j, i] = p[i, N - 1 - j] * v[N - j, i] + q[i, N - 1 - j]
            for i in range(1, N - 1):
                u[i, 0] = 1.0
                p[i, 0] = 0.0
                q[i, 0] = u[i, 0]
                for j in range(1, N - 1):
                    p[i, j] = 1 / p[i, j - 1]
                    q[i, j] = (v[i - 1, j] + v[i, j] + v[i + 1, j] + q[i, j - 1]) / p[i, j - 1]
                u[i, N - 1] = 1.0
                for j in range(1, N - 1):
                    u[i, N - 1 - j] = p[i, N - 1 - j] * u[i, N - j] + q[i, N - 1 - j]
        """, {"u": "io N N", "v": "tmp N N", "p": "tmp N N", "q": "tmp N N"}),
    "nussinov": ("N", """
        for i in range(N):
            for j in range(N - i, N):
                table[N - 1 - i, j] = max(table[N - 1 - i, j], table[N - 1 - i, j - 1])
                if i > 0:
                    table[N - 1 - i, j] = max(table[N - 1 - i, j], table[N - i, j])
                if i > 0:
                    if j > N - i:
                        table[N - 1 - i, j] = max(table[N - 1 - i, j], table[N - i, j - 1]
                                                  + match(s[N - 1 - i], s[j]))
                if i > 0:
                    if j <= N - i:
                        table[N - 1 - i, j] = max(table[N - 1 - i, j], table[N - i, j - 1])
                for k in range(N - i, j):
                    table[N - 1 - i, j] += table[N - 1 - i, k] + table[k + 1, j]
        """, {"table": "io N N", "s": "in N"}),
    "floyd-warshall": ("N", """
        for k in range(N):
            for i in range(N):
                for j in range(N):
                    path[i, j] = min(path[i, j], path[i, k] + path[k, j])
        """, {"path": "io N N"}),
    "trmm": ("M N", """
        for i in range(M):
            for j in range(N):
                for k in range(i + 1, M):
                    B[i, j] += A[k, i] * B[k, j]
                B[i, j] = alpha * B[i, j]
        """, {"A": "in M M", "B": "io M N", "alpha": "in"}),
    "symm": ("M N", """
        for i in range(M):
            for j in range(N):
                temp = 0.0
                for k in range(i):
                    C[k, j] += alpha * B[i, j] * A[i, k]
                    temp += B[k, j] * A[i, k]
                C[i, j] = beta * C[i, j] + alpha * B[i, j] * A[i, i] + alpha * temp
        """, {"A": "in M M", "B": "in M N", "C": "io M N", "temp": "tmp", "alpha": "in",
              "beta": "in"}),
    "correlation": ("M N", """
        for j in range(M):
            mean[j] = 0.0
            for i in range(N):
                mean[j] += data[i, j]
            mean[j] /= n
        for j in range(M):
            stddev[j] = 0.0
            for i in range(N):
                stddev[j] += (data[i, j] - mean[j]) * (data[i, j] - mean[j])
            stddev[j] = sqrt(stddev[j] / n)
        for i in range(N):
            for j in range(M):
                data[i, j] -= mean[j]
                data[i, j] /= stddev[j]
        for i in range(M - 1):
            corr[i, i] = 1.0
            for j in range(i + 1, M):
                corr[i, j] = 0.0
                for k in range(N):
                    corr[i, j] += data[k, i] * data[k, j]
                corr[j, i] = corr[i, j]
        corr[M - 1, M - 1] = 1.0
        """, {"data": "io N M", "corr": "io M M", "mean": "io M", "stddev": "io M", "n": "in"}),
}  # fmt: skip


def program(name: str) -> Scop:
    """One of ``PROGRAMS``."""
    parameters, text, tensors = _TEXTS[name]
    return parse(name, text, parameters, tensors, context=3)


PROGRAMS = tuple(_TEXTS)
__all__ = ["PROGRAMS", "SUM", "parse", "program"]
