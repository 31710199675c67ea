"""One loop kernel on small arrays, interpreted after every pass from its statements to its code.

A schedule of the user's is taken as it is; Weft's own is made anew, for small arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from weft.driver.compiler import lower_loops
from weft.driver.loop_front import assumed
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.frontend.loops.lower import LoopKernel
from weft.ir.errors import ExecutionError, WeftWarning
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import bind_parameters, instances_at_most, interpret
from weft.ir.scop_printer import scop_text
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.transform.scheduled import Scheduled
from weft.verify.ladder import Ladder, Setting
from weft.verify.oracle import Arrays, Expected, expected
from weft.verify.verify_program import check_program
from weft.verify.verify_scop import ScopCheck

SIZES = (6, 5, 4, 7, 3, 2, 1, 0)
MAX_INSTANCES = 50_000  # of all statements, that the slow interpreters are given


def verify_kernel(kernel: LoopKernel, options: Options, scheduled: Scheduled | None) -> None:
    """Raise ``InternalError`` (WEFT-E0920) for the first pass after which results diverge.

    Warns where there is no small instance of ``kernel``.
    """
    setting = Setting(options)
    scop = assumed(kernel.scop, Passes(setting.quiet, kernel.scop.name))
    found = _instance(kernel, scop)
    if found is None:
        warnings.warn(
            f"{scop.name}: not verified: no small sizes and data were found that it accepts",
            WeftWarning,
            stacklevel=4,
        )
        return
    arguments, wanted = found
    known, data = _values(kernel, arguments)
    ladder = Ladder(scop.name, setting, wanted, partial(scop_text, kernel.scop))
    check = ScopCheck(ladder, data, bind_parameters(scop, data, known), _results(kernel))
    check.rewritten("needed", lambda: scop)
    check.lowered(scop, scheduled)
    lower = partial(lower_loops, kernel, setting.quiet, scheduled, setting.machine)
    check_program(lower, list(arguments.values()), ladder)


def _values(
    kernel: LoopKernel, arguments: Mapping[str, np.ndarray]
) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The numbers among ``arguments`` by parameter, the others by Scop tensor."""
    known = {a.name: int(arguments[a.name]) for a in kernel.arguments if a.kind == "parameter"}
    return known, {kernel.tensors[n]: a for n, a in arguments.items() if n in kernel.tensors}


# ---- a small instance ---------------------------------------------------------------------------


def _instance(kernel: LoopKernel, scop: Scop) -> tuple[dict[str, np.ndarray], Expected] | None:
    """Arguments that the kernel accepts, and what it makes of them as written; None if none were
    found. ``scop``: its statements, for the sizes that keep them in bounds.

    How far other results may be off follows from what a change of the last bit does.
    """
    names = _results(kernel)
    for sizes in _sizes(scop):
        if instances_at_most(scop, sizes) > MAX_INSTANCES:
            continue
        for highest in (100, 1, 0):
            data = _data(kernel, scop, sizes, highest)
            nearby = {n: _next(a) for n, a in data.items()}
            try:
                with np.errstate(all="ignore"):
                    values = _interpreted(kernel, data)
                    others = _interpreted(kernel, nearby)
            except ExecutionError:  # a data-dependent index out of range
                continue
            return data, expected(names, values, others)
    return None


def _results(kernel: LoopKernel) -> list[str]:
    """The arrays that the kernel writes, in the order of its arguments."""
    written = {t.name for t in kernel.scop.tensors if t.role == "inout"}
    tensors = (kernel.tensors.get(a.name) for a in kernel.arguments)
    return [name for name in tensors if name in written]


def _interpreted(kernel: LoopKernel, arguments: Mapping[str, np.ndarray]) -> Arrays:
    known, data = _values(kernel, arguments)
    found = interpret(kernel.scop, data, known)
    return [found[name] for name in _results(kernel)]


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
