"""Kernels → LLVM IR → object code, by compiler workers while the caller goes on.

    with ObjectCode(target, options) as code:
        kernel = code.emitted(kernel)     # LLVM IR; a worker may begin with it
        objects = code.objects(texts)     # object code of these modules, in order

While clusters are still on their way down to loops, workers compile the kernels of those before
them on all processors but the one that the caller needs; then on all. Little code is compiled in
this process: a worker takes a while to start.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType

from weft.codegen.llvm.kernel import EmittedKernel, emit_kernel
from weft.codegen.llvm.program import KernelSymbols
from weft.codegen.llvm.target import LlvmTarget, to_object
from weft.codegen.machines.host import cpu_count
from weft.driver.options import Options
from weft.ir.errors import WeftError
from weft.ir.loop_ir import Kernel
from weft.ir.machine import TYPICAL, Machine
from weft.workers.jobs import object_job
from weft.workers.worker_pool import Jobs, Result, WorkerPool

WORTH = 200_000  # characters of LLVM IR: a third of a second of one worker


class ObjectCode:
    """The code of one compilation for ``target``, whose record is ``machine``; equal modules are
    compiled once."""

    def __init__(self, target: LlvmTarget, options: Options, machine: Machine = TYPICAL) -> None:
        self.target, self.machine = target, machine
        self._options = options
        self._emitted: dict[int, tuple[Kernel, EmittedKernel]] = {}
        self._nameless: dict[str, EmittedKernel] = {}  # the first of those that are equal
        self._begun: dict[str, Future[Result]] = {}
        self._waiting: list[str] = []
        self._workers = cpu_count() if options.workers is None else options.workers
        self._jobs: Jobs | None = None
        self._open = ExitStack()

    def __enter__(self) -> ObjectCode:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def emitted(self, kernel: Kernel) -> EmittedKernel:
        """``kernel`` as LLVM IR, whose object code is begun; that of an equal one, under its name,
        if there was one."""
        _, found = self._emitted.get(id(kernel), (None, None))
        if found is None:
            made = emit_kernel(
                kernel,
                self.target,
                self.machine,
                contract=not self._options.strict,
                quick=self._options.quick,
            )
            nameless = made.text.replace(f'"{kernel.name}', '"')
            first = self._nameless.setdefault(nameless, made)
            names = first.symbols.function, first.symbols.extent
            symbols = KernelSymbols(*names, made.symbols.scratch, made.symbols.shared)
            found = EmittedKernel(first.text, symbols)
            self._emitted[id(kernel)] = (kernel, found)
            self._begin(found.text)
        return found

    def objects(self, texts: list[str]) -> list[bytes]:
        """Object code of each module. Raises the first failure."""
        for text in texts:
            self._begin(text)
        if self._jobs is None:
            made = {text: to_object(text, self.target) for text in dict.fromkeys(texts)}
            return [made[text] for text in texts]
        for _ in range(self._workers):  # nobody else needs the processors now
            self._jobs.more()
        results = [self._begun[text].result() for text in texts]
        for result in results:
            if isinstance(result, WeftError):
                raise result
        return [result for result in results if isinstance(result, bytes)]

    def _begin(self, text: str) -> None:
        if text in self._begun or text in self._waiting:
            return
        self._waiting.append(text)
        if self._jobs is None and self._workers and sum(map(len, self._waiting)) > WORTH:
            pool = self._open.enter_context(WorkerPool(self._workers))
            timeout = self._options.job_seconds
            self._jobs = self._open.enter_context(pool.jobs("object", timeout=timeout))
        if self._jobs is not None:
            for each in self._waiting:
                payload = object_job(each, self.target)
                self._begun[each] = self._jobs.add(payload, workers=max(1, self._workers - 1))
            self._waiting.clear()
