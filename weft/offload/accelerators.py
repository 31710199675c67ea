"""Instructions of accelerators as kernels of the host: what a simulator runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from types import FunctionType

from weft.accel.accelerator_verifier import source_of, verify
from weft.accel.footprints import Footprints
from weft.accel.memory_accesses import Analysed, analyse
from weft.driver.options import Options
from weft.ir.accelerator import Accelerator, Operation
from weft.ir.errors import CompileError
from weft.loop_kernel import Kernel


class Semantics:
    """What the instructions of ``machine`` do: a kernel for each operation that does anything.

    Raises ``CompileError``: WEFT-E1032 where the record is none, WEFT-E1031 where addresses are not
    understood, and ``KernelError`` where semantics are no loop kernel.
    """

    def __init__(self, machine: Accelerator, options: Options | None = None) -> None:
        verify(machine)
        self.machine = machine
        self.kernels: Mapping[str, Kernel] = {
            operation.name: kernel_of(machine, operation, options)
            for operation in machine.operations
            if operation.semantics is not None
        }

        self._footprints: Footprints | None = None
        self._image_bytes = -1

    @cached_property
    def analysed(self) -> Mapping[str, Analysed]:
        """What their addresses are made of, by the operation's name."""
        return {name: self._analysed(name, kernel) for name, kernel in self.kernels.items()}

    def _analysed(self, name: str, kernel: Kernel) -> Analysed:
        operation = self.machine.operation(name)
        try:
            found = analyse(kernel.lowered.scop)
            spaces = [_space(self.machine, operation, t) for t in _written(kernel)]
            if len(set(spaces)) != len(spaces):
                raise CompileError("WEFT-E1031", f"{name} writes to one memory by two arguments")
            return found
        except CompileError as error:
            where = source_of(operation)
            error.where = f"{where}: {error.where}" if error.where else where
            raise

    def footprints(self, image_bytes: int) -> Footprints:
        """What instructions touch, with a main memory of so many bytes."""
        if self._footprints is None or self._image_bytes != image_bytes:
            main = [memory for memory in self.machine.memories if memory.depth is None]
            sizes = {memory.name: image_bytes // memory.nbytes for memory in main}
            self._footprints = Footprints(self.machine, self.analysed, sizes)
            self._image_bytes = image_bytes
        return self._footprints


def _written(kernel: Kernel) -> list[str]:
    """Tensors, which have the names of the arguments that they are."""
    return [t.name for t in kernel.lowered.scop.tensors if t.role == "inout"]


def _space(machine: Accelerator, operation: Operation, argument: str) -> str:
    """The memory; all main memories are one."""
    name = operation.memories.get(argument, argument)
    return name if machine.memory(name).depth is not None else ""


def kernel_of(machine: Accelerator, operation: Operation, options: Options | None = None) -> Kernel:
    """The semantics of ``operation`` on the memories of ``machine``, whose arguments have types
    from there: fields are integers, memories arrays; those of main memory have any number of
    elements. Raises ``KernelError`` where they are no loop kernel."""
    function = operation.semantics
    assert isinstance(function, FunctionType), f"{operation.name} does nothing"
    fields = {each.name for each in operation.encoding.fields}
    types: dict[str, object] = {}
    for name in inspect.signature(function).parameters:
        if name in fields:
            types[name] = int
        else:
            memory = machine.memory(operation.memories.get(name, name))
            types[name] = memory.dtype[(memory.depth or f"{name}_elements", *memory.shape)]
    return Kernel(_annotated(function, types), options or Options(threads=1))


def _annotated(function: FunctionType, types: dict[str, object]) -> FunctionType:
    """A copy of ``function`` with these annotations: other machines have the same one."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
    made.__annotations__, made.__module__ = types, function.__module__
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    return made
