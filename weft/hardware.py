"""The door for accelerators: machines that users describe, and programs compiled for them.

    from weft.hardware import Accelerator, Memory, Operation, …, compile

A machine is one value, an ``Accelerator``; ``docs/new-accelerator.md`` says what it consists of.
``compile`` gives a stream of its instructions that can be read, checked, simulated and saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weft.accel.artifact import Artifact
from weft.accel.disassembler import listing
from weft.accel.execution_order import Order
from weft.accel.normalise_scop import fold_scalar_constants
from weft.accel.place import Offloaded
from weft.accel.relocate import relocated
from weft.accel.timing import timing
from weft.api import program
from weft.ir.accelerator import (
    Accelerator,
    Channel,
    Cost,
    Memory,
    Operation,
    Queue,
    Wire,
)
from weft.ir.bit_fields import Encoding, Field
from weft.ir.errors import CallError
from weft.ir.tensor_expr import Program, Tensor, as_size
from weft.ir.tensor_verifier import verify
from weft.offload.accelerators import Semantics
from weft.offload.offload import Target, offload
from weft.offload.simulator import check_stream, run_offloaded
from weft.offload.stream_files import write_stream
from weft.polyhedral.from_tensor_expr import lower
from weft.runtime.arguments import arrange, fitting
from weft.runtime.compiled import ArraySpec

__all__ = [
    "Accelerator",
    "Channel",
    "Cost",
    "Encoding",
    "Field",
    "Memory",
    "Operation",
    "Queue",
    "Simulated",
    "Wire",
    "compile",
]

Array = np.ndarray[Any, Any]


class Simulated:
    """A stream for an accelerator, which ``weft.hardware.compile`` makes. ``str`` is its
    disassembly.

    ``simulated(*arrays, **by_name)`` runs it in the simulator, exactly, and returns the result.
    Made of what was ``offloaded``, the machine's ``semantics``, and the program's ``inputs``
    without constants.
    """

    def __init__(self, offloaded: Offloaded, semantics: Semantics, inputs: tuple[ArraySpec, ...]):
        self._offloaded, self._semantics, self._inputs = offloaded, semantics, inputs

    @property
    def artifact(self) -> Artifact:
        """The stream, main memory, and where tensors lie in it."""
        return self._offloaded.artifact

    def __call__(self, *arrays: Array, order: Order = "first", **by_name: Array) -> Array:
        """The result for the program's inputs, without those that are constants. ``order``: which
        queue runs where several can: "first", "last", "turns", or a random one by the
        seed that it is.

        Raises ``CallError`` for arrays that do not fit.
        """
        values = arrange(self._inputs, arrays, by_name)
        pairs = zip(self._inputs, values, strict=True)
        given = {spec.name: fitting(value, spec) for spec, value in pairs}
        return run_offloaded(self._offloaded, given, self._semantics, order=order)

    @cached_property
    def cycles(self) -> int:
        """Cycles that it takes by the costs of its instructions (``accel/timing.py``)."""
        return timing(self.artifact.stream).cycles

    @property
    def utilisation(self) -> float:
        """Terms of the program's sums, of those that the machine could add up in ``cycles``; 0
        where there is no sum."""
        return self._offloaded.tiling.mapped.least_cycles / self.cycles

    def check(self) -> None:
        """Refuse the stream where it might do what it should not (``accel/check.py``). Raises
        ``StreamError``."""
        check_stream(self.artifact, self._semantics)

    def save(self, path: str | Path, *, base: int = 0) -> tuple[Path, Path, Path]:
        """Write the stream to ``path``, and beside it its manifest and the image of main memory,
        which is to lie from address ``base`` on; their paths. Raises ``ArtifactError``, and
        ``StreamError`` (WEFT-E1048) where instructions cannot say such addresses."""
        return write_stream(relocated(self.artifact, self._semantics.analysed, base), path)

    def __str__(self) -> str:
        return "\n".join(listing(self.artifact.stream))


def compile(
    source: Tensor | Sequence[Tensor] | Program,
    machine: Accelerator,
    *,
    constants: Mapping[str, Array] | None = None,
    latency_hiding: bool = True,
) -> Simulated:
    """``source``, a sum or fold and what is done to its results, as a stream for ``machine``.

    ``constants``: arrays of placeholders by name, which are part of what is compiled; one number
    alone may be a field of an instruction, such as a shift.
    ``latency_hiding``: whether something is loaded before it is needed.

    Raises ``CompileError``: WEFT-E1030 where the machine cannot compute it, which says why, and
    what of the machine is not understood; WEFT-E1031 and WEFT-E1032 for what is no machine;
    ``KernelError`` where semantics are no loop kernels; ``CallError`` for constants that do not
    fit.
    """
    target = Target.of(machine)
    whole = source if isinstance(source, Program) else program(source)
    verify(whole)
    specs = [ArraySpec(t.name, t.dtype, tuple(map(as_size, t.shape))) for t in whole.inputs]
    fixed = {}
    for name, array in (constants or {}).items():
        spec = next((s for s in specs if s.name == name), None)
        if spec is None:
            known = ", ".join(s.name for s in specs)
            raise CallError("WEFT-E0601", f"there is no input {name!r}", hint=f"inputs: {known}")
        fixed[name] = fitting(array, spec)
    named = isinstance(source, Program)
    name = whole.name if named else ", ".join(t.name for t in whole.outputs)
    scop = fold_scalar_constants(lower(whole, name), fixed)
    found = offload(scop, target, fixed, buffers=2 if latency_hiding else 1)
    return Simulated(found, target.semantics, tuple(s for s in specs if s.name not in fixed))
