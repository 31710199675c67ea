"""Run schedules: in tree order, in other orders that their kinds allow, as loop IR, as code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

import numpy as np

from tests.guarded import Guarded, call_guarded
from tests.properties.enumeration import Array, shape
from weft.codegen.from_schedule import build_kernel
from weft.codegen.objects.native_library import NativeProgram
from weft.codegen.optimise_kernel import optimise_kernel
from weft.driver.cluster_code import nests
from weft.driver.compiler import compile_kernel
from weft.driver.options import Options
from weft.frontend.loops.lower import LoopKernel
from weft.frontend.loops.signature import Argument
from weft.ir import dtypes
from weft.ir.errors import ExecutionError
from weft.ir.loop_interpreter import interpret as interpret_kernel
from weft.ir.loop_ir import Kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Tree, children, with_children
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.polyhedral.contributing import contributing
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.unread import unread
from weft.runtime.compiled import Compiled

Sizes = Mapping[str, int]
Arrays = Mapping[str, Array]


def run(scop: Scop, tree: Tree | None, sizes: Sizes, inputs: Arrays) -> dict[str, Array]:
    """What ``scop`` gives, its instances in the order of ``tree``."""
    return interpret(scop, inputs, sizes, tree=tree)


class Stopped(Exception):
    """The original program itself fails a check of its data."""


def run_original(scop: Scop, sizes: Sizes, inputs: Arrays) -> dict[str, Array]:
    """What ``scop`` gives in its own order. Raises ``Stopped``."""
    try:
        return run(scop, None, sizes, inputs)
    except ExecutionError as error:
        raise Stopped(str(error)) from error


def run_disturbed(scop: Scop, tree: Tree, sizes: Sizes, inputs: Arrays) -> dict[str, Array] | None:
    """The same with parallel loops in another order and vector loops in lockstep.

    None where no loop is of these kinds. Local storage is private to iterations, so here each tile
    keeps memory of its own.
    """
    disturbed = _in_lockstep(_out_of_order(tree), ())
    if disturbed == tree:
        return None
    tensors = tuple(replace(t, contracted=0) for t in scop.tensors)
    return interpret(replace(scop, tensors=tensors), inputs, sizes, tree=disturbed)


def _out_of_order(tree: Tree) -> Tree:
    """Parallel loops: first the iterations that 3 divides, and all of them descending."""
    parts = tuple(map(_out_of_order, children(tree)))
    tree = with_children(tree, parts) if parts else tree
    if not isinstance(tree, Band):
        return tree
    loops: list[Loop] = []
    for loop in tree.loops:
        if loop.kind == "parallel":
            loops.append(Loop(f"{loop.name} % 3", {s: v % 3 for s, v in loop.at.items()}))
            loops.append(Loop(loop.name, {s: literal(0) - v for s, v in loop.at.items()}))
        else:
            loops.append(loop)
    return Band(tuple(loops), tree.child)


def _in_lockstep(tree: Tree, vectors: tuple[Loop, ...], numbers: count[int] | None = None) -> Tree:
    """Vector loops innermost around each statement, descending."""
    numbers = numbers or count()
    match tree:
        case Leaf(name):
            own = tuple(
                Loop(f"lane{next(numbers)}", {name: literal(0) - loop.at[name]}) for loop in vectors
            )
            return Band(own, tree) if own else tree
        case Band(loops, child):
            found = (*vectors, *(x for x in loops if x.kind == "vector"))
            kept = tuple(x for x in loops if x.kind != "vector")
            below = _in_lockstep(child, found, numbers)
            return Band(kept, below) if kept else below
    return with_children(
        tree, tuple(_in_lockstep(part, vectors, numbers) for part in children(tree))
    )


# ---- code ---------------------------------------------------------------------------------------


def kernels(scheduled: Scheduled) -> list[Kernel]:
    """One for each top-level nest, in order, optimised and verified."""
    made = []
    for nest in nests(scheduled, "fuzz"):
        kernel = build_kernel(nest.scop, nest.tree, nest.scop.name)
        verify_kernel(kernel)
        kernel = optimise_kernel(kernel)
        verify_kernel(kernel)
        made.append(kernel)
    return made


def memory(scop: Scop, sizes: Sizes, inputs: Arrays) -> dict[str, Array]:
    """Flat buffers of all global tensors: inputs given, the rest full of what interpreters put."""
    found = {}
    for t in scop.tensors:
        if t.scope == "global":
            if t.name in inputs:
                found[t.name] = np.array(inputs[t.name]).ravel()
            else:
                extent = [max(0, n) for n in shape(scop, t.name, sizes)[t.contracted :]]
                size = int(np.prod(extent, dtype=np.int64))
                found[t.name] = np.full(size, t.dtype.highest).astype(t.dtype.numpy)
    return found


def run_loop_ir(made: list[Kernel], scop: Scop, sizes: Sizes, inputs: Arrays) -> dict[str, Array]:
    buffers = memory(scop, sizes, inputs)
    for kernel in made:
        own = {b.name: buffers[b.name] for b in kernel.buffers}
        status = interpret_kernel(kernel, _parameters(kernel, sizes), own)
        assert status.code == 0, "a check failed"
    return _visible(scop, sizes, buffers)


def compiled(scheduled: Scheduled) -> Compiled:
    """Through the whole pipeline, as a loop kernel whose arguments are its sizes and its arrays."""
    original, scop = _as_kernel(scheduled.original), _as_kernel(scheduled.scop)
    sizes = [Argument(name, "parameter", dtypes.int64) for name in scop.parameters]
    arrays = [Argument(t.name, "array", t.dtype, t.shape) for t in original.tensors
              if t.role in ("input", "inout")]  # fmt: skip
    given = Scheduled(original, scop, scheduled.tree)
    kernel = LoopKernel(original, (*sizes, *arrays), {a.name: a.name for a in arrays})
    return compile_kernel(kernel, OPTIONS, given).compiled


def is_whole(scop: Scop) -> bool:
    """Whether the compiler takes ``scop`` as it is: what nobody reads is cut first, and what is
    left has schedules of its own."""
    kernel = _as_kernel(scop)
    return unread(contributing(kernel)) == kernel


OPTIONS = Options(cache=False, workers=0, threads=2, texts=False)


def _as_kernel(scop: Scop) -> Scop:
    """Kernels have no outputs: their arrays are the caller's, before and after."""
    tensors = tuple(replace(t, role="inout") if t.role == "output" else t for t in scop.tensors)
    return replace(scop, tensors=tensors)


def run_native(
    program: Compiled, scop: Scop, sizes: Sizes, inputs: Arrays, at_end: bool
) -> dict[str, Array]:
    """On two threads, every array and the arena between pages that nobody may touch."""
    native = NativeProgram(program.objects, program.entry)
    buffers = memory(scop, sizes, inputs)
    arrays = {
        spec.name: np.array(sizes[spec.name]) if spec.name in sizes else buffers[spec.name]
        for spec in program.inputs
    }
    given = [Guarded.copy(arrays[spec.name], at_end=at_end) for spec in program.inputs]
    results = [given[pair.input] for pair in sorted(program.in_place, key=lambda p: p.output)]
    constants = [Guarded.copy(array, at_end=at_end) for _, array in program.constants]
    parameters = [sizes[name] for name in program.parameters]
    call_guarded(native, (given, results, constants), parameters, at_end=at_end)
    for spec, memory_of in zip(program.inputs, given, strict=True):
        if spec.name in buffers:
            buffers[spec.name] = np.array(memory_of.array((-1,), spec.dtype.numpy))
    return _visible(scop, sizes, buffers)


def _parameters(kernel: Kernel, sizes: Sizes) -> dict[str, int]:
    return {name: sizes[name] for name in kernel.parameters}


def _visible(scop: Scop, sizes: Sizes, buffers: Arrays) -> dict[str, Array]:
    return {
        t.name: buffers[t.name].reshape(shape(scop, t.name, sizes))
        for t in scop.tensors
        if t.role in ("output", "inout")
    }


def difference(found: Arrays, expected: Arrays) -> str:
    """Where two results differ, or ''."""
    for name, value in expected.items():
        if found[name].tobytes() != value.tobytes():
            at = np.argwhere(found[name] != value)
            place = tuple(int(k) for k in at[0]) if len(at) else ()
            return f"{name}{list(place)} is {found[name][place]}, not {value[place]}"
    return ""
