"""A program of launches, for sizes that are known, as the launches that its host makes, in order:
what a driver is called with, by somebody who has the code of the kernels and nothing else.

    for t in 0 .. 3:                  run_0  2 blocks × 64 threads, (0, input 0, arena + 0)
      for i_t in 0 .. 2 grid: …   →   run_0  2 blocks × 64 threads, (1, input 0, arena + 0)
                                      run_0  2 blocks × 64 threads, (2, input 0, arena + 0)

The host of a kernel reads no memory (``form_launches``), so that its loops can be run here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.codegen.cuda.block_traffic import grid_nests
from weft.codegen.cuda.print_cuda import CudaKernel, LaunchForm, print_cuda
from weft.ir.gpu import Gpu
from weft.ir.loop_ir import Block, For, If, Kernel, Let, Stmt
from weft.ir.program import Aligned, Arena, Constant, Input, Launch, Output, Place, Program
from weft.ir.scalar_expr import Var
from weft.ir.size_arithmetic import evaluate

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address on the device: ``offset`` bytes behind the beginning of ``memory``, which is
    "input", "output" or "constant", the one of that ``index``, or "arena" or "status"."""

    memory: str
    index: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LaunchCall:
    """``blocks`` of ``threads`` of ``kernel``, with ``shared`` bytes of shared memory beside what
    it declares. ``arguments``: int64 numbers and addresses, 8 bytes each."""

    kernel: str
    blocks: int
    threads: int
    shared: int
    arguments: tuple[int | Pointer, ...]


def launch_calls(program: Program, gpu: Gpu, sizes: Sizes) -> tuple[LaunchCall, ...]:
    """What the host of ``program`` launches for the parameters ``sizes``. Raises as ``print_cuda``
    does, and ``SizeError`` where a number has no value."""
    kernels = {kernel.name: kernel for kernel in program.kernels}
    printed = {name: print_cuda(kernel, gpu) for name, kernel in kernels.items()}
    calls: list[LaunchCall] = []
    for number, step in enumerate(program.steps):
        host = _Host(program, kernels[step.kernel], printed[step.kernel], step, number, sizes)
        calls += host.calls()
    return tuple(calls)


@dataclass(frozen=True, slots=True)
class _Host:
    program: Program
    kernel: Kernel
    printed: CudaKernel
    step: Launch
    number: int
    sizes: Sizes

    def calls(self) -> Iterator[LaunchCall]:
        nests = grid_nests(self.kernel.body)
        forms = {id(n): form for n, form in zip(nests, self.printed.launches, strict=True)}
        names, given = self.kernel.parameters, self.step.parameters
        values = [Var(name) for name in names] if given is None else given
        known = {n: evaluate(value, self.sizes) for n, value in zip(names, values, strict=True)}
        yield from self._run([(self.kernel.body, known)], forms)

    def _run(
        self, stack: list[tuple[Stmt, Sizes]], forms: Mapping[int, LaunchForm]
    ) -> Iterator[LaunchCall]:
        while stack:
            stmt, known = stack.pop()
            if id(stmt) in forms:
                yield from self._launch(forms[id(stmt)], known)
                continue
            match stmt:
                case Block(stmts):
                    stack += [(inner, known) for inner in reversed(stmts)]
                case For():
                    low, high = evaluate(stmt.lower, known), evaluate(stmt.upper, known)
                    turns = reversed(range(low, high, stmt.step))
                    stack += [(stmt.body, {**known, stmt.var: turn}) for turn in turns]
                case If(condition, then, otherwise):
                    stack.append((then if evaluate(condition, known) else otherwise, known))
                case Let(name, value):
                    stack.append((stmt.body, {**known, name: evaluate(value, known)}))

    def _launch(self, form: LaunchForm, known: Sizes) -> Iterator[LaunchCall]:
        counts = [evaluate(count, known) for count in form.counts]
        if min(counts) <= 0:
            return
        arguments: list[int | Pointer] = []
        arguments += [Pointer("status"), self.number] if form.checks else []
        arguments += [known[name] for name in form.variables]
        arguments += counts[1:]
        arguments += [self._pointer(name) for name in form.buffers]
        yield LaunchCall(form.name, prod(counts), form.threads, form.asked, tuple(arguments))

    def _pointer(self, name: str) -> Pointer:
        """Where the kernel's buffer ``name`` lies."""
        formal = [buffer.name for buffer in self.kernel.buffers]
        passed = self.step.arguments[formal.index(name)]
        place = next(b.place for b in self.program.buffers if b.name == passed)
        return self._memory(place)

    def _memory(self, place: Place) -> Pointer:
        match place:
            case Input(index):
                return Pointer("input", index)
            case Output(index):
                shared, own = dict(self.program.in_place), Pointer("output", index)
                return Pointer("input", shared[index]) if index in shared else own
            case Constant(name):
                names: Sequence[str] = [b.name for b in self.program.constants]
                return Pointer("constant", names.index(name))
            case Arena(offset):
                return Pointer("arena", 0, evaluate(offset, self.sizes))
            case Aligned():
                raise AssertionError("no kernel of a GPU asks for aligned inputs")
