"""Small tensor programs with awkward shapes, and running them compiled or in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.codegen.from_schedule import build_kernel
from weft.frontend.operators.registry import instantiate
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.loop_ir import Kernel
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Expr, Literal, literal, select
from weft.ir.scop import Scop
from weft.ir.scop import Tensor as ScopTensor
from weft.ir.scop_interpreter import bind_parameters
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import Program, Tensor
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.initial import initial


def arrays_for(
    program: Program, seed: int = 0, sizes: dict[str, int] | None = None
) -> list[np.ndarray]:
    """Random inputs: small integers in integer tensors, so that they can be indices."""
    rng = np.random.default_rng(seed)
    found = []
    for tensor in program.inputs:
        shape = [s if isinstance(s, int) else evaluate(s, sizes or {}) for s in tensor.shape]
        if tensor.dtype.is_float:
            found.append(rng.normal(size=shape).astype(tensor.dtype.numpy))
        else:
            found.append(rng.integers(0, 2, shape).astype(tensor.dtype.numpy))
    return found


def kernel_of(program: Program, machine: Machine | None) -> tuple[Scop, Kernel]:
    """Scheduled for ``machine``, or in the initial order if there is none."""
    scop = coalesce(lower(program, "test"))
    scheduled = initial(scop) if machine is None else schedule_loops(scop, machine)
    return scheduled.scop, build_kernel(scheduled.scop, scheduled.tree, "test")


def memory_of(
    scop: Scop, kernel: Kernel, arrays: Sequence[np.ndarray]
) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """Parameters, and every buffer of the kernel flat: inputs given, the rest full of nonsense."""
    inputs = [t for t in scop.tensors if t.role in ("input", "constant")]
    given = {t.name: _fitted(a, t) for t, a in zip(inputs, arrays, strict=True)}
    parameters = dict(bind_parameters(scop, given, {}))
    buffers = {}
    for buffer in kernel.buffers:
        shape = [evaluate(size, parameters) for size in buffer.shape]
        if buffer.name in given:
            buffers[buffer.name] = np.ascontiguousarray(given[buffer.name]).ravel().copy()
        else:
            buffers[buffer.name] = np.full(int(np.prod(shape)), 77).astype(buffer.dtype.numpy)
    return parameters, buffers


def _fitted(array: np.ndarray, tensor: ScopTensor) -> np.ndarray:
    """``array`` with the dims that coalescing has left."""
    if all(isinstance(size, Literal) for size in tensor.shape):
        return array.reshape([evaluate(size, {}) for size in tensor.shape])
    return array


def outputs_of(scop: Scop, buffers: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [buffers[t.name] for t in scop.tensors if t.role == "output"]


# ---- programs -----------------------------------------------------------------------------------


def tensor(name: str, *shape: object, dtype: str = "float32") -> Tensor:
    return w.placeholder(shape, dtype, name=name)  # type: ignore[arg-type]


def gemm(m: object, n: object, k: object) -> Program:
    a, b = tensor("a", m, k), tensor("b", k, n)
    r = w.reduce_axis((0, k), name="r")
    c = w.compute((m, n), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="c")  # type: ignore
    d = w.compute((m, n), lambda i, j: w.maximum(c[i, j], 0.0), name="d")  # type: ignore
    return Program("gemm", (a, b), (d,))


def softmax(m: object, n: object) -> Program:
    return instantiate("softmax", (tensor("x", m, n),))


def conv(size: int, stride: int = 1, pad: int = 1, group: int = 1) -> Program:
    x, f = tensor("x", 2, 4, size, size), tensor("f", 6 if group == 1 else 4, 4 // group, 3, 3)
    return instantiate("conv", (x, f, None), strides=(stride, stride), pads=(pad,) * 4, group=group)


def argmax(m: int, n: int) -> Program:
    x = tensor("x", m, n)
    r = w.reduce_axis((0, n), name="r")
    best = w.compute((m,), lambda i: w.argmax(x[i, r], r, r), name="best")
    return Program("argmax", (x,), (best,))


def gather(n: int) -> Program:
    x, at = tensor("x", n), tensor("at", 7, dtype="int64")
    y = w.compute((7,), lambda i: x[at[i]] * 2.0, name="y")
    return Program("gather", (x, at), (y,))


def shifted(n: int) -> Program:
    """A guarded read beyond both ends, of every other element."""
    x = tensor("x", n)
    y = w.compute(
        (n,), lambda i: select((i >= 3) & (i < n - 1), x[(i - 3) + 1], 5.0) + x[i], name="y"
    )
    return Program("shifted", (x,), (y,))


def triangle(n: int) -> Program:
    x = tensor("x", n, n)

    def row(i: object) -> object:
        r = w.reduce_axis((0, i + 1), name="r")  # type: ignore
        return w.sum(x[i, r], r)  # type: ignore[index]

    return Program("triangle", (x,), (w.compute((n,), row, name="y"),))  # type: ignore[arg-type]


def running_sum(n: int, m: int) -> Program:
    """Along the first axis, from its own earlier results."""
    x = tensor("x", n, m)

    def body(itself: object, i: Expr, j: Expr) -> tuple[Expr]:
        return (select(i > 0, itself(0, i - 1, j), 0.0) + x[i, j],)  # type: ignore[operator]

    (y,) = w.scan((n, m), body, dtypes_=(dtypes.float32,), name="y")
    return Program("running_sum", (x,), (y,))


def histogram(n: int, bins: int) -> Program:
    base, at = tensor("base", bins), tensor("at", n, dtype="int64")
    y = w.scatter(
        base, (n,), lambda i: ((at[i],), literal(1.0, "float32")), combine="add", name="y"
    )
    return Program("histogram", (base, at), (y,))


def transpose_add(m: int, n: int) -> Program:
    x, y = tensor("x", m, n), tensor("y", n, m)
    z = w.compute((m, n), lambda i, j: x[i, j] + y[j, i], name="z")
    return Program("transpose_add", (x, y), (z,))


def pool(size: int, stride: int) -> Program:
    return instantiate(
        "max_pool", (tensor("x", 1, 3, size, size),), kernel=(3, 3), strides=(stride, stride)
    )


def half(n: int) -> Program:
    x = tensor("x", n, dtype="float16")
    y = w.compute((n,), lambda i: (x[i] * x[i]).astype(dtypes.float32) + 1.0, name="y")
    return Program("half", (x,), (y,))
