"""Run loop kernels with every buffer between pages that nobody may touch.

``python -m tests.guarded_kernels THREADS FAMILY…`` runs the PolyBench kernels of each family
(``blas``, ``stencils``, …; ``programs``: a sample of the other loop programs) at their mini size
and at nasty ones, and compares the answers. THREADS: 1, 2, or ``turns``: each kernel once, for one
thread and for two by turns. An access outside any array, scalar or temporary kills the process, and
the last name printed says where.
``--mutants`` breaks kernels on purpose, each in a process of its own, and prints what became of
them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

import weft.driver.program_code
from tests.benchmarks.polybench_checks import NASTY, READ_ELEMENT_0
from tests.guarded import PAGE, Guarded, forbid
from weft.benchmarks.loop_programs.run import PROGRAMS
from weft.benchmarks.polybench import blas, datamining, kernels, medley, solvers, stencils
from weft.benchmarks.polybench.benchmark import Arguments, Benchmark
from weft.benchmarks.polybench.run import SUITE
from weft.benchmarks.polybench.verify import verify
from weft.codegen.llvm.program import emit_program
from weft.codegen.llvm.target import host_target
from weft.codegen.objects.native_library import NativeProgram
from weft.codegen.rebuild import map_children
from weft.driver.assemble import Assembly
from weft.driver.compiler import lower_loops, machine_code
from weft.driver.lowered import Lowered
from weft.driver.options import Options
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CallError
from weft.ir.loop_ir import Allocate, For, Kernel, Stmt
from weft.ir.loop_ir import Buffer as KernelBuffer
from weft.ir.program import Arena, Buffer, Program
from weft.ir.scalar_expr import Expr, Var, apply, literal
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.size_arithmetic import bind, evaluate
from weft.loop_kernel import Kernel as LoopKernel
from weft.runtime.compiled import Compiled

FAMILIES = {
    "blas": blas.BENCHMARKS,
    "datamining": datamining.BENCHMARKS,
    "kernels": kernels.BENCHMARKS,
    "medley": medley.BENCHMARKS,
    "solvers": solvers.BENCHMARKS,
    "stencils": stencils.BENCHMARKS,
}
OFF_TILES = ((33, 31, 65, 17, 9), (16, 15, 7, 32, 14))  # sizes
SAMPLE = sorted(PROGRAMS)[::9]
PROGRAM_SIZES = (0, 1, 2, 7, 13)

Change = Callable[[Program], Program]


# ---- every buffer on pages of its own -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Apart:
    """A program whose temporaries lie apart in the arena: ``rooms`` says where, as (first byte,
    bytes), each at the end of whole pages with a page before and behind that is to be forbidden."""

    program: Program
    rooms: tuple[tuple[Expr, Expr], ...]


def apart(program: Program) -> Apart:
    """``program`` with temporaries apart, none in memory that another had before."""
    found: list[tuple[Expr, Expr]] = []
    end: Expr = literal(PAGE)
    buffers: list[Buffer] = []
    for buffer in program.buffers:
        if isinstance(buffer.place, Arena):
            size: Expr = literal(buffer.dtype.itemsize)
            for extent in buffer.shape:
                size = size * apply("max", extent, literal(0))
            pages = (size + (PAGE - 1)) // PAGE * PAGE
            first = end + (pages - size) // 64 * 64
            found.append((first, size))
            buffer = replace(buffer, place=Arena(first))
            end = end + pages + PAGE
        buffers.append(buffer)
    return Apart(replace(program, buffers=tuple(buffers), arena=end), tuple(found))


def exposed(program: Program, threads: int) -> Program:
    """``program`` with the memory that its kernels allocate among its own temporaries.

    What each thread allocates for itself stays where it is, unless there is one thread; so does
    what has another size in each turn of a loop, or in another version of the loops.
    """
    scopes = ("shared", "local") if threads == 1 else ("shared",)
    made: dict[str, tuple[Kernel, list[Buffer]]] = {}
    for kernel in program.kernels:
        inside: list[KernelBuffer] = []
        body = _without(kernel.body, (scopes, kernel.parameters), inside)
        names = (f"{kernel.name}/{b.name}" for b in inside)
        named = [
            Buffer(name, b.dtype, b.shape, Arena(literal(0)))
            for name, b in zip(names, inside, strict=True)
        ]
        whole = replace(kernel, body=body, buffers=(*kernel.buffers, *inside))
        made[kernel.name] = (whole, named)
    steps = [
        replace(s, arguments=(*s.arguments, *(b.name for b in made[s.kernel][1])))
        for s in program.steps
    ]
    return replace(
        program,
        kernels=tuple(kernel for kernel, _ in made.values()),
        buffers=(*program.buffers, *(b for _, named in made.values() for b in named)),
        steps=tuple(steps),
    )


def _without(
    stmt: Stmt, which: tuple[Sequence[str], Sequence[str]], inside: list[KernelBuffer]
) -> Stmt:
    """``stmt`` without its allocations, which go to ``inside``.

    ``which``: (the scopes that they are in, the names that their sizes may depend on).
    """
    if isinstance(stmt, For) and stmt.kind == "vector":
        return stmt  # each lane has its own
    stmt = map_children(stmt, lambda part: _without(part, which, inside))
    scopes, parameters = which
    if not isinstance(stmt, Allocate) or stmt.buffer.scope not in scopes:
        return stmt
    sizes = [n for size in stmt.buffer.shape for n in walk_expr(size) if isinstance(n, Var)]
    if not all(n.name in parameters for n in sizes):
        return stmt
    buffer = replace(stmt.buffer, scope="global")
    same = [b for b in inside if b.name == buffer.name]
    if same not in ([], [buffer]):
        return stmt
    inside += [] if same else [buffer]
    return stmt.body


# ---- running ------------------------------------------------------------------------------------


def lowered_for(kernel: LoopKernel, threads: int) -> Lowered:
    """``kernel`` in loop IR for ``threads``, without falling back to serial code."""
    options = Options(cache=False, workers=0, texts=False, threads=threads)
    lowered = lower_loops(kernel.lowered, options)
    fallbacks = [code.fallback for code in lowered.distinct]
    assert not any(fallbacks), fallbacks
    return lowered


class GuardedKernel:
    """``lowered``, which is for ``threads``, to run in guarded memory."""

    def __init__(
        self, lowered: Lowered, threads: int, change: Change = lambda program: program
    ) -> None:
        found = apart(exposed(lowered.program, threads))
        self.rooms, self.threads = found.rooms, threads
        program = change(found.program)
        changed = replace(lowered, assembly=Assembly(program))
        self.compiled = machine_code(changed, host_target())
        self.native = NativeProgram(self.compiled.objects, self.compiled.entry)

    def run(self, arguments: Sequence[Any], *, at_end: bool) -> None:
        """In place, as a user calls it: ``arguments`` lie at the end of their pages or the start.

        Raises ``CallError`` for sizes that the kernel was not compiled for.
        """
        specs = self.compiled.inputs
        arrays = [np.asarray(a, s.dtype.numpy) for a, s in zip(arguments, specs, strict=True)]
        sizes = _sizes(self.compiled, arrays)
        given = [Guarded.copy(array, at_end=at_end) for array in arrays]
        results = [given[pair.input] for pair in self.compiled.in_place]
        values = np.array([*(sizes[n] for n in self.compiled.parameters), 0], np.int64)
        room = self.native.arena_bytes(values.ctypes.data, self.threads)
        arena = Guarded(room, at_end=False)
        rooms = [(evaluate(at, sizes), evaluate(size, sizes)) for at, size in self.rooms]
        for at, size in rooms:
            for page in (at // PAGE - 1, at // PAGE + -(-size // PAGE)):
                forbid(arena.address + page * PAGE)
        status = np.zeros(4, np.int64)
        tables = [np.array([*(g.address for g in part), 0]) for part in (given, results, ())]
        code = self.native.entry(
            *(table.ctypes.data for table in tables),
            arena.address, values.ctypes.data, status.ctypes.data, self.threads,
        )  # fmt: skip
        assert code == 0, f"status {status}"
        for array, argument, guarded in zip(arrays, arguments, given, strict=True):
            assert guarded.intact(), "bytes beside an argument were written"
            if isinstance(argument, np.ndarray):
                argument[...] = guarded.array(array.shape, array.dtype)
        for at, _ in rooms:
            before = arena.bytes[arena.start + at // PAGE * PAGE : arena.start + at]
            assert (before == Guarded.CANARY).all(), "bytes before a temporary were written"


def _sizes(compiled: Compiled, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """What the parameters are; ``CallError`` where the code is not for them."""
    known = {compiled.inputs[k].name: int(arrays[k]) for k in compiled.scalars}
    declared = [spec.shape for spec in compiled.inputs]
    sizes = bind(declared, [a.shape for a in arrays], compiled.derived, known)
    for guard in compiled.guards:
        if not evaluate(guard.condition, sizes):
            raise CallError("WEFT-E0608", guard.text)
    return sizes


def check_benchmark(benchmark: Benchmark, threads: int) -> None:
    """Right answers, and no access outside, from one compilation."""
    kernel = benchmark.make(as_dtype(benchmark.dtype))
    compiled = GuardedKernel(lowered_for(kernel, threads), threads)
    cases = [benchmark.sizes("mini")]
    cases += [dict(zip(benchmark.names, n)) for n in (*NASTY, *OFF_TILES)]  # noqa: B905
    for number, sizes in enumerate(cases):

        def run(arguments: Arguments, at_end: bool = number % 3 > 0) -> None:
            compiled.run(list(arguments.values()), at_end=at_end)

        try:
            verdict = verify(benchmark, benchmark.dtype, sizes, run, None, use_oracle=True)
        except CallError:
            assert 0 in sizes.values() and benchmark.name in READ_ELEMENT_0, sizes
            continue
        assert verdict.good, f"{benchmark.name} at {sizes}: {verdict}"


def check_program(name: str, threads: int) -> None:
    """No access outside: what comes out is ``test_loop_programs``' business."""
    program = PROGRAMS[name]
    compiled = GuardedKernel(lowered_for(program.kernel, threads), threads)
    for number, n in enumerate(PROGRAM_SIZES):
        try:
            compiled.run(program.make(min(n, program.large)), at_end=number % 3 > 0)
        except CallError:
            assert n <= 1


# ---- kernels broken on purpose ------------------------------------------------------------------


def longer_loops(program: Program) -> Program:
    """Every loop takes one turn too many."""
    return replace(
        program, kernels=tuple(replace(k, body=_longer(k.body)) for k in program.kernels)
    )


def _longer(stmt: Stmt) -> Stmt:
    stmt = map_children(stmt, _longer)
    return replace(stmt, upper=stmt.upper + 1) if isinstance(stmt, For) else stmt


def unchanged(program: Program) -> Program:
    return program


def shorter_temporaries(program: Program) -> Program:
    """Each temporary lies a cache line too close to what is behind it."""
    return _moved(program, 64)


def early_temporaries(program: Program) -> Program:
    """Each temporary begins a line before its room, whose last bytes are left alone."""
    return _moved(program, -PAGE)


def _moved(program: Program, by: int) -> Program:
    buffers = tuple(
        replace(b, place=Arena(b.place.offset + by)) if isinstance(b.place, Arena) else b
        for b in program.buffers
    )
    return replace(program, buffers=buffers)


MUTANTS: tuple[tuple[str, Change], ...] = (
    ("jacobi-2d", unchanged),
    *((name, longer_loops) for name in ("jacobi-2d", "atax", "trmm")),
    ("symm", shorter_temporaries),
    ("symm", early_temporaries),
)


@cache
def one_thread(name: str) -> Lowered:
    """What is broken in several ways is lowered once."""
    benchmark = SUITE[name]
    return lowered_for(benchmark.make(as_dtype(benchmark.dtype)), 1)


def fate(name: str, change: Change) -> str:
    """What becomes of a process that runs the kernel ``name`` after ``change``."""
    lowered = one_thread(name)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return (
            "killed"
            if os.WIFSIGNALED(status)
            else f"ended with {os.waitstatus_to_exitcode(status)}"
        )
    benchmark = SUITE[name]
    compiled = GuardedKernel(lowered, 1, change)
    inputs = benchmark.inputs(np.dtype(benchmark.dtype), **benchmark.sizes("mini"))
    compiled.run(list(inputs.values()), at_end=True)
    os._exit(0)


def main(threads: str, families: Sequence[str]) -> None:
    for family in families:
        programs = family == "programs"
        names = SAMPLE if programs else [benchmark.name for benchmark in FAMILIES[family]]
        for number, name in enumerate(names):
            count = 1 + number % 2 if threads == "turns" else int(threads)
            print(f"{name}, threads: {count}", flush=True)
            if programs:
                check_program(name, count)
            else:
                check_benchmark(SUITE[name], count)
    print("done", flush=True)


if __name__ == "__main__":
    # The smallest kernel is worth a second thread.
    weft.driver.program_code.emit_program = partial(emit_program, grain=1)  # type: ignore[assignment]
    if "--mutants" in sys.argv:
        for kernel, change in MUTANTS:
            print(f"{kernel}, {change.__name__}: {fate(kernel, change)}", flush=True)
    else:
        main(sys.argv[1], sys.argv[2:])
