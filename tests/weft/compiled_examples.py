"""Small compiled programs for the tests of this room, straight from loop IR."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.program import emit_program
from weft.codegen.llvm.target import host_target, to_object
from weft.ir import loop_ir
from weft.ir.dtypes import DType, float32, int32
from weft.ir.loop_ir import Block, Check, For, Kernel, Store
from weft.ir.program import Arena, Buffer, Constant, Input, Launch, Output, Program
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.runtime.compiled import Compiled, Guard, InPlace, array_specs

i, j, m, n = Var("i"), Var("j"), Var("m"), Var("n")
ONE = literal(1)


def formal(name: str, shape: tuple[Expr, ...], dtype: DType = float32, *, writable: bool = False):
    strides: list[Expr] = [ONE]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return loop_ir.Buffer(name, dtype, shape, tuple(strides), alignment=4, writable=writable)


def compiled(program: Program, constants=(), messages=None, **more) -> Compiled:
    """``program`` compiled for this machine."""
    target = host_target()
    kernels = {k.name: emit_kernel(k, target) for k in program.kernels}
    symbols = {name: kernel.symbols for name, kernel in kernels.items()}
    llvm = (
        *(kernel.text for kernel in kernels.values()),
        emit_program(program, symbols, "entry", grain=1),
    )
    by_name = {k.name: k.messages for k in program.kernels}
    names = [[b.name for b in group] for group in (program.inputs, program.outputs)]
    return Compiled(
        name=program.name,
        inputs=array_specs(program, program.inputs, tuple(names[0])),
        outputs=array_specs(program, program.outputs, tuple(names[1])),
        parameters=program.parameters,
        target=target,
        entry="entry",
        objects=tuple(to_object(text, target) for text in llvm),
        constants=tuple(constants),
        derived=program.derived,
        checks=tuple(by_name[step.kernel] for step in program.steps),
        llvm=llvm,
        texts={"program": "the program", "loops": "the loops"},
        stats={"kernels": len(program.kernels), "share": np.float64(0.25)},
        explain=lambda: "nothing was fused",
        **more,
    )


def elementwise(name: str, size: Expr, value, inputs: int, dtype: DType = float32) -> Kernel:
    """out[i] = value(in0[i], …), where in0[i] < -1000 fails a check."""
    names = [f"in{k}" for k in range(inputs)]
    loads = [Load(name_, (i,), dtype) for name_ in names]
    body = Block(
        (
            Check(loads[0] >= -1000, 1, (i, literal(7))),
            Store("out", (i,), value(*loads)),
        )
    )
    return Kernel(
        name,
        ("n",),
        (
            *(formal(name_, (size,), dtype) for name_ in names),
            formal("out", (size,), dtype, writable=True),
        ),
        For("i", literal(0), size, "parallel", body),
        messages=("element {0} of in0 is below -1000 ({1})",),
    )


def chain_program() -> Program:
    """y = (x + b) * 2, with x + b in the arena."""
    x = Buffer("x", float32, (n,), Input(0))
    y = Buffer("y", float32, (n,), Output(0))
    b = Buffer("b", float32, (literal(1),), Constant("b"))
    t = Buffer("t", float32, (n,), Arena(literal(0)))
    add = Kernel(
        "add",
        ("n",),
        (formal("x", (n,)), formal("b", (ONE,)), formal("t", (n,), writable=True)),
        For(
            "i",
            literal(0),
            n,
            "parallel",
            Store("t", (i,), Load("x", (i,), float32) + Load("b", (literal(0),), float32)),
        ),
    )
    double = elementwise("double", n, lambda v: v + v, 1)
    return Program(
        "chain",
        ("n",),
        (x,),
        (y,),
        (b,),
        (x, y, b, t),
        (n * 4 + 63) // 64 * 64,
        (Launch("add", ("x", "b", "t")), Launch("double", ("t", "y"))),
        (add, double),
    )


@cache
def chain() -> Compiled:
    return compiled(chain_program(), [("b", np.array([3], np.float32))])


@cache
def two_outputs() -> Compiled:
    """sum = x + y, difference = x - y, over int32, one size."""
    names = ("x", "y", "sum", "difference")
    places = (Input(0), Input(1), Output(0), Output(1))
    buffers = tuple(Buffer(k, int32, (n,), p) for k, p in zip(names, places, strict=True))
    return compiled(
        Program(
            "two",
            ("n",),
            buffers[:2],
            buffers[2:],
            (),
            buffers,
            literal(0),
            (Launch("plus", ("x", "y", "sum")), Launch("minus", ("x", "y", "difference"))),
            (
                elementwise("plus", n, lambda a, b: a + b, 2, int32),
                elementwise("minus", n, lambda a, b: a - b, 2, int32),
            ),
        )
    )


@cache
def transpose() -> Compiled:
    """y[j, i] = x[i, j] over float32[m, n], with m * n as a derived parameter and a guard."""
    x = Buffer("x", float32, (m, n), Input(0))
    y = Buffer("y", float32, (n, m), Output(0))
    body = For(
        "i",
        literal(0),
        m,
        "parallel",
        For("j", literal(0), n, "serial", Store("y", (j, i), Load("x", (i, j), float32))),
    )
    kernel = Kernel(
        "flip", ("m", "n"), (formal("x", (m, n)), formal("y", (n, m), writable=True)), body
    )
    return compiled(
        Program(
            "transpose",
            ("m", "n", "mn"),
            (x,),
            (y,),
            (),
            (x, y),
            literal(0),
            (Launch("flip", ("x", "y")),),
            (kernel,),
            derived=(("mn", m * n),),
        ),
        guards=(Guard(Var("mn") < 1_000_000, "less than 1,000,000 elements"),),
    )


@cache
def update(shared: bool) -> Compiled:
    """state = state + step, in place of the input."""
    state = Buffer("state", float32, (n,), Input(0))
    step = Buffer("step", float32, (n,), Input(1))
    new = Buffer("new", float32, (n,), Output(0))
    kernel = elementwise("advance", n, lambda a, b: a + b, 2)
    out = replace(kernel.buffers[2], aliases=("in0",))
    kernel = replace(kernel, buffers=(*kernel.buffers[:2], out))
    return compiled(
        Program(
            "update",
            ("n",),
            (state, step),
            (new,),
            (),
            (state, step, new),
            literal(0),
            (Launch("advance", ("state", "step", "new")),),
            (kernel,),
        ),
        in_place=(InPlace(0, 0, shared),),
    )
