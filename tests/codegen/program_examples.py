"""Small host programs for the tests of this room, with kernels that compute on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.codegen.llvm.program import KernelSymbols, emit_program
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects.native_library import NativeProgram
from weft.ir import loop_ir
from weft.ir.dtypes import DType, float32
from weft.ir.loop_ir import Block, Check, For, Kernel, Stmt, Store
from weft.ir.program import Arena, Buffer, Constant, Input, Launch, Output, Program
from weft.ir.scalar_expr import Expr, Literal, Load, Var, literal

n, i = Var("n"), Var("i")


def formal(name: str, *shape: Expr, dtype: DType = float32, writable: bool = False, **more):
    return loop_ir.Buffer(name, dtype, shape, (literal(1),) * len(shape), writable=writable, **more)


def element(name: str) -> Expr:
    return Load(name, (i,), float32)


def spread(size: Expr, body: Stmt) -> Stmt:
    return For("i", literal(0), size, "parallel", body)


def chain(size: Expr = n) -> Program:
    """y = (x + bias) * 2 through one arena buffer; one size, ``n`` or a constant."""
    parameters = () if isinstance(size, Literal) else ("n",)
    x = Buffer("x", float32, (size,), Input(0))
    y = Buffer("y", float32, (size,), Output(0))
    bias = Buffer("bias", float32, (size,), Constant("b"))
    t = Buffer("t", float32, (size,), Arena(literal(0)))
    add = Kernel(
        "add",
        parameters,
        (formal("a", size), formal("b", size), formal("c", size, writable=True)),
        spread(size, Store("c", (i,), element("a") + element("b"))),
    )
    failing = Check(element("a") >= 0, 1, (i, literal(0)))
    double = Kernel(
        "double",
        parameters,
        (formal("a", size), formal("b", size, writable=True)),
        spread(size, Block((failing, Store("b", (i,), element("a") + element("a"))))),
    )
    return Program(
        "chain",
        parameters,
        (x,),
        (y,),
        (bias,),
        (x, y, bias, t),
        (size * 4 + 63) // 64 * 64,
        (Launch("add", ("x", "bias", "t")), Launch("double", ("t", "y"))),
        (add, double),
    )


def run_chain_kernel(
    kernel: Kernel, arrays: Sequence[np.ndarray], parameters: Mapping[str, int]
) -> tuple[int, int, int] | None:
    """NumPy's version of the kernels above; ``double`` fails its check on a negative number."""
    match kernel.name:
        case "add":
            np.add(arrays[0], arrays[1], out=arrays[2])
        case "double":
            np.multiply(arrays[0], 2, out=arrays[1])
            if (arrays[0] < 0).any():
                return (1, int(np.argmax(arrays[0] < 0)), 0)
    return None


# The same kernels as LLVM IR. ``double`` stores 1 and the index of a negative element in status.
KERNELS_IR = """
define void @add(ptr %buffers, ptr %params, ptr %status, ptr %scratch, i64 %begin, i64 %end) {
  %a = load ptr, ptr %buffers
  %b.p = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %b.p
  %c.p = getelementptr ptr, ptr %buffers, i64 2
  %c = load ptr, ptr %c.p
  br label %head
head:
  %i = phi i64 [ %begin, %0 ], [ %i1, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %x.p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %x.p
  %y.p = getelementptr float, ptr %b, i64 %i
  %y = load float, ptr %y.p
  %z = fadd float %x, %y
  %z.p = getelementptr float, ptr %c, i64 %i
  store float %z, ptr %z.p
  %i1 = add i64 %i, 1
  br label %head
done:
  ret void
}
define void @double(ptr %buffers, ptr %params, ptr %status, ptr %scratch, i64 %begin, i64 %end) {
  %a = load ptr, ptr %buffers
  %b.p = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %b.p
  br label %head
head:
  %i = phi i64 [ %begin, %0 ], [ %i1, %next ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %x.p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %x.p
  store volatile float %x, ptr %scratch
  %again = load volatile float, ptr %scratch
  %z = fadd float %x, %again
  %z.p = getelementptr float, ptr %b, i64 %i
  store float %z, ptr %z.p
  %negative = fcmp olt float %x, 0.0
  br i1 %negative, label %fail, label %next
fail:
  %code.p = getelementptr i64, ptr %status, i64 1
  %pair = cmpxchg ptr %code.p, i64 0, i64 1 monotonic monotonic
  %first = extractvalue { i64, i1 } %pair, 1
  br i1 %first, label %tell, label %next
tell:
  %d0 = getelementptr i64, ptr %status, i64 2
  store i64 %i, ptr %d0
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %head
done:
  ret void
}
define i64 @extent(ptr %params) {
  %n = load i64, ptr %params
  ret i64 %n
}
"""
SYMBOLS = {
    "add": KernelSymbols("add", "extent"),
    "double": KernelSymbols("double", "extent", literal(4)),
    "reverse": KernelSymbols("reverse", "reverse_extent"),
}


def reverse_ir(size: int) -> str:
    """``reverse``: c[size - 1 - i] = a[i] + b[i]."""
    text = KERNELS_IR[: KERNELS_IR.index("define void @double")]
    text = text.replace("@add", "@reverse").replace(
        "%z.p = getelementptr float, ptr %c, i64 %i",
        f"%r = sub i64 {size - 1}, %i\n  %z.p = getelementptr float, ptr %c, i64 %r",
    )
    return f"{text}define i64 @reverse_extent(ptr %p) {{\n  ret i64 {size}\n}}\n"


def objects(program: Program) -> list[bytes]:
    """Object code of the kernels above and of ``program``'s entry point, ``run``."""
    target = host_target()
    size = program.inputs[0].shape[0] if program.inputs else literal(0)
    return [
        to_object(KERNELS_IR, target),
        to_object(reverse_ir(size.value if isinstance(size, Literal) else 0), target),
        to_object(emit_program(program, SYMBOLS, "run", grain=1), target),
    ]


class NativeCall:
    """A linked program over NumPy arrays, with nothing of ``weft.runtime.executable``."""

    def __init__(self, program: Program, code: Sequence[bytes] | None = None) -> None:
        self.program = program
        self.native = NativeProgram(code or objects(program), "run")

    def __call__(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        constants: Sequence[np.ndarray],
        sizes: Sequence[int],
        threads: int = 1,
    ) -> list[int]:
        """Runs; the return code and the status array."""
        parameters = np.array([*sizes, 0], np.int64)
        size = self.native.arena_bytes(parameters.ctypes.data, threads)
        arena = np.zeros(size + 64, np.uint8)
        start = -arena.ctypes.data % 64
        status = np.zeros(4, np.int64)
        tables = [
            np.array([*(a.ctypes.data for a in group), 0], np.uintp)
            for group in (inputs, outputs, constants)
        ]
        code = self.native.entry(
            *(table.ctypes.data for table in tables),
            arena.ctypes.data + start,
            parameters.ctypes.data,
            status.ctypes.data,
            threads,
        )
        return [code, *status.tolist()]


def long_chain(count: int, size: Expr) -> Program:
    """y = x + count, one launch per step; each reverses, so it reads what other threads wrote."""
    x = Buffer("x", float32, (size,), Input(0))
    y = Buffer("y", float32, (size,), Output(0))
    one = Buffer("one", float32, (size,), Constant("one"))
    bytes_ = (size * 4 + 63) // 64 * 64
    ping = [Buffer(f"t{i}", float32, (size,), Arena(bytes_ * i)) for i in (0, 1)]
    names = ["x", *(f"t{i % 2}" for i in range(count - 1)), "y"]
    formals = (formal("a", size), formal("b", size), formal("c", size, writable=True))
    reversing = Store("c", (size - 1 - i,), element("a") + element("b"))
    return Program(
        "long",
        (),
        (x,),
        (y,),
        (one,),
        (x, y, one, *ping),
        bytes_ * 2,
        tuple(Launch("reverse", (names[i], "one", names[i + 1])) for i in range(count)),
        (Kernel("reverse", (), formals, spread(size, reversing)),),
    )
