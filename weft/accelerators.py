"""Instructions of accelerators as kernels of the host: what a simulator runs."""

from __future__ import annotations

import inspect
from types import FunctionType

from weft.accel.accelerator import Accelerator, Operation
from weft.loop_kernel import Kernel
from weft.options import Options


def kernel_of(machine: Accelerator, operation: Operation) -> Kernel:
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
    return Kernel(_annotated(function, types), Options(threads=1))


def _annotated(function: FunctionType, types: dict[str, object]) -> FunctionType:
    """A copy of ``function`` with these annotations: other machines have the same one."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
    made.__annotations__, made.__module__ = types, function.__module__
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    return made
