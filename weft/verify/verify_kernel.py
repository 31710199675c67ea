"""``WEFT_VERIFY=full`` for loop kernels: every IR interpreted on small arrays, and the code run.

    affine statements as written, scheduled     Scop interpreter
    host program of kernels in loop IR          program interpreter
    machine code                                the processor

Small arrays are scheduled anew, for a machine of short vectors and few registers, so that tiles and
their tails exist on them; a schedule of the user's is taken as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from weft.codegen.llvm.target import host_target
from weft.codegen.target import machine_of
from weft.driver.kernel_code import LoweredKernel, compile_kernel, kernel_machine_code, lower_loops
from weft.driver.options import Options
from weft.frontend.loops.lower import LoopKernel
from weft.ir.errors import ExecutionError, WeftWarning
from weft.ir.program_interpreter import interpret_program
from weft.ir.program_printer import print_program
from weft.ir.schedule_printer import print_schedule
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_printer import scop_text
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.executable import Executable
from weft.verify.ladder import Ladder
from weft.verify.oracle import Arrays, Expected, expected
from weft.verify.verify_full import FEW_REGISTERS, SHORT_VECTORS

SIZES = (6, 5, 4, 7, 3, 2, 1, 0)


def compile_and_verify_kernel(
    kernel: LoopKernel, options: Options, scheduled: Scheduled | None = None
) -> Executable:
    """``compile_kernel``, and all of the above where ``options.verify`` is "full".

    Raises ``InternalError`` (WEFT-E0920) naming the first pass after which results diverge.
    """
    if options.verify == "full":
        _verify(kernel, options, scheduled)
    return compile_kernel(kernel, options, scheduled)


def _verify(kernel: LoopKernel, options: Options, scheduled: Scheduled | None) -> None:
    target = replace(host_target(), vector_bytes=SHORT_VECTORS)
    machine = replace(machine_of(target), vector_registers=FEW_REGISTERS)
    quiet = replace(
        options, verify="normal", cache=False, workers=0, texts=False, dump=None, print_after=(),
        logs=(),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)
        lowered = lower_loops(kernel, quiet, scheduled, machine)
    scop = lowered.scheduled.original
    found = _instance(kernel, scop)
    if found is None:
        warnings.warn(
            f"{scop.name}: not verified: no small sizes and data were found that it accepts",
            WeftWarning,
            stacklevel=5,
        )
        return
    arguments, wanted = found
    ladder = Ladder(scop.name, options, wanted, partial(scop_text, scop))
    tree = lowered.scheduled.tree
    ladder.step(
        "schedule",
        lambda: scop_text(lowered.scheduled.scop) + print_schedule(tree),
        lambda: _interpreted(kernel, lowered.scheduled.scop, arguments, lowered),
    )
    ladder.step(
        "program",
        lambda: print_program(lowered.program),
        lambda: interpret_program(lowered.program, [np.array(a) for a in arguments.values()], {}),
    )
    compiled = ladder.make("llvm", lambda: kernel_machine_code(lowered, target))
    ladder.step(
        "llvm", lambda: "\n".join(compiled.llvm), lambda: _run(Executable(compiled), arguments)
    )


def _run(executable: Executable, arguments: Mapping[str, np.ndarray]) -> Arrays:
    results = executable(*(np.array(a) for a in arguments.values()))
    return results if isinstance(results, tuple) else (results,)


def _interpreted(
    kernel: LoopKernel,
    scop: Scop,
    arguments: Mapping[str, np.ndarray],
    lowered: LoweredKernel | None = None,
) -> Arrays:
    """The arrays that the kernel writes, in order; in the order of ``lowered``'s schedule."""
    known = {a.name: int(arguments[a.name]) for a in kernel.arguments if a.kind == "parameter"}
    given = {kernel.tensors[n]: a for n, a in arguments.items() if n in kernel.tensors}
    tree = None if lowered is None else lowered.scheduled.tree
    results = interpret(scop, given, known, tree=tree)
    return [results[name] for name in given if name in results]


# ---- a small instance ---------------------------------------------------------------------------


def _instance(kernel: LoopKernel, scop: Scop) -> tuple[dict[str, np.ndarray], Expected] | None:
    """Arguments that the kernel accepts, and what it makes of them; None if none were found.

    How far other results may be off follows from what a change of the last bit does.
    """
    names = [t.name for t in scop.tensors if t.role == "inout"]
    for sizes in _sizes(scop):
        for highest in (100, 1, 0):
            data = _data(kernel, scop, sizes, highest)
            nearby = {n: _next(a) for n, a in data.items()}
            try:
                with np.errstate(all="ignore"):
                    values = _interpreted(kernel, scop, data)
                    others = _interpreted(kernel, scop, nearby)
            except ExecutionError:  # a data-dependent index out of range
                continue
            return data, expected(names, values, others)
    return None


def _sizes(scop: Scop) -> Iterator[dict[str, int]]:
    """Small values of the parameters that meet the context."""
    free = [name for name in scop.parameters if name not in dict(scop.derived)]
    for size in SIZES:
        for apart in (1, 0):
            known = {name: max(0, size - apart * k) for k, name in enumerate(free)}
            for name, value in scop.derived:
                known[name] = evaluate(value, known)
            values = [(evaluate(c.expr, known), c.equality) for c in scop.context]
            if all(v == 0 if equality else v >= 0 for v, equality in values):
                yield known


def _data(
    kernel: LoopKernel, scop: Scop, sizes: Mapping[str, int], highest: int
) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for argument in kernel.arguments:
        if argument.kind == "parameter":
            found[argument.name] = np.array(sizes[argument.name])
            continue
        shape = [evaluate(n, sizes) for n in scop.tensor(kernel.tensors[argument.name]).shape]
        top = min(highest, int(min(argument.dtype.highest, 100)))
        values: np.ndarray = random.uniform(0.25, 2.0, shape)
        if not argument.dtype.is_float:
            values = random.integers(0, top, shape, "int64", endpoint=True)
        found[argument.name] = np.asarray(values).astype(argument.dtype.numpy)
    return found


def _next(array: np.ndarray) -> np.ndarray:
    """``array`` with every float one bit larger."""
    return np.nextafter(array, array.dtype.type(np.inf)) if array.dtype.kind == "f" else array
