"""What a stream computes, exactly: the semantics of its instructions, one after the other.

In any order in which its queues may run (``accel/execution_order.py``). Memories begin with noise,
so that what depends on it shows; main memory is one image of bytes, which each of the machine's
main memories is a view of. An access that leaves its memory is refused before it happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.accel.artifact import Artifact
from weft.accel.check import check
from weft.accel.execution_order import Order, execution_order
from weft.accel.memory_accesses import Array
from weft.accel.place import Offloaded
from weft.accel.relocate import relocated
from weft.ir.accelerator import Memory
from weft.ir.errors import ExecutionError, StreamError
from weft.ir.instruction_stream import Issue, Stream
from weft.offload.accelerators import Semantics
from weft.runtime.arguments import empty
from weft.runtime.bound_call import NumberedCall


def simulate(
    stream: Stream,
    image: Array,
    *,
    order: Order = "first",
    poison: bool = True,
    semantics: Semantics | None = None,
) -> Array:
    """Main memory after ``stream``, of which ``image`` is what it holds before, as bytes.

    ``order``: which queue runs where several can: the first, the last, each in turn, or any, by a
    seed. ``poison``: memories begin with noise, not with zeros. ``semantics``: those of the
    stream's machine, where there are more streams than one.

    Raises ``StreamError``: WEFT-E1005 where some instruction never runs, or a token is one too many
    for its counter; WEFT-E1040 where an access leaves its memory.
    """
    machine = Simulator(semantics or Semantics(stream.accelerator), image, poison=poison)
    for number in execution_order(stream, order):
        machine.run(number, stream.issues[number])
    return machine.image


def run_artifact(
    artifact: Artifact, inputs: Mapping[str, Array], *, order: Order = "first"
) -> dict[str, Array]:
    """The outputs of ``artifact`` for these ``inputs``. Raises ``StreamError``."""
    semantics = Semantics(artifact.stream.accelerator)
    plain = relocated(artifact, semantics.analysed, 0)
    image = simulate(plain.stream, plain.filled(inputs), order=order, semantics=semantics)
    return plain.outputs(image)


def run_offloaded(
    made: Offloaded,
    tensors: Mapping[str, Array],
    semantics: Semantics,
    *,
    order: Order = "first",
) -> Array:
    """The result of ``made`` for these ``tensors`` of its program. Raises ``StreamError``."""
    image = made.artifact.filled(made.prepared(tensors))
    return made.results(simulate(made.artifact.stream, image, order=order, semantics=semantics))


def check_stream(
    artifact: Artifact, semantics: Semantics | None = None, *, blank: bool = False
) -> None:
    """Refuse ``artifact`` where its stream might do what it should not: ``accel/check.py``.
    ``blank``: nobody knows what is in its image. Main memory is counted from its begin."""
    semantics = semantics or Semantics(artifact.stream.accelerator)
    artifact = relocated(artifact, semantics.analysed, 0)
    stream = artifact.stream
    machine = Simulator(semantics, artifact.image)
    given = [each for each in artifact.tensors if each.role == "input"]
    check(
        stream,
        semantics.footprints(len(artifact.image)),
        machine.memories,
        lambda number: machine.run(number, stream.issues[number]),
        tuple(range(each.address, each.address + each.nbytes) for each in given),
        blank=blank,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """An operation on the memories. ``fields`` that it takes, and what they are where they are not
    given; ``copies``: of memories that it writes to by one argument and reads by another, which
    sees what was there before."""

    call: NumberedCall
    fields: tuple[tuple[str, int], ...]
    copies: Mapping[str, Array]


class Simulator:
    """A machine with its memories, by name in ``memories``, and a copy of ``image``."""

    def __init__(self, semantics: Semantics, image: Array, *, poison: bool = True) -> None:
        self._semantics = semantics
        self._machine = semantics.machine
        if image.dtype != np.uint8 or image.ndim != 1:
            raise StreamError("WEFT-E1021", "an image is an array of bytes in a row")
        self.image, _ = empty(image.shape, image.dtype, image.nbytes)
        self.image[:] = image
        noise = np.random.default_rng(0) if poison else None
        self.memories = {m.name: self._memory(m, noise) for m in self._machine.memories}
        self._footprints = semantics.footprints(len(image))
        self._calls: dict[str, _Call] = {}

    def _memory(self, memory: Memory, noise: np.random.Generator | None) -> Array:
        if memory.depth is None:
            size = memory.nbytes
            whole = self.image[: len(self.image) // size * size]
            return whole.view(memory.dtype.numpy).reshape(-1, *memory.shape)
        count = memory.depth * memory.nbytes
        data, _ = empty((count,), np.dtype(np.uint8), count)
        data[:] = noise.integers(0, 256, count, np.uint8) if noise is not None else 0
        return data.view(memory.dtype.numpy).reshape(memory.depth, *memory.shape)

    def run(self, number: int, issue: Issue) -> None:
        """Run ``issue``, instruction ``number``. Raises ``StreamError`` (WEFT-E1040)."""
        operation = issue.operation
        try:
            touched = self._footprints.of(issue, self.memories)
            if not any(each.writes for each in touched):
                return
            if operation not in self._calls:
                self._calls[operation] = self._bound(operation)
            bound = self._calls[operation]
            for each in touched if bound.copies else ():
                if not each.writes and each.memory in bound.copies:
                    at = each.pattern.at(each.base)
                    bound.copies[each.memory][at] = self.memories[each.memory][at]
            get = issue.fields.get
            bound.call([get(name, default) for name, default in bound.fields])
        except (StreamError, ExecutionError) as error:
            code = error.code if isinstance(error, StreamError) else "WEFT-E1040"
            what = f"instruction {number} ({operation}): {error.what}"
            raise StreamError(code, what, why=error.why) from None

    def _bound(self, name: str) -> _Call:
        operation, executable = (
            self._machine.operation(name),
            self._semantics.kernels[name].executable,
        )
        written = {pair.input for pair in executable.compiled.in_place}
        names = [operation.memories.get(spec.name, spec.name) for spec in executable.inputs]
        spaces = {self._space(names[k]) for k in written}
        arrays: dict[str, Array] = {}
        copies: dict[str, Array] = {}
        for number, spec in enumerate(executable.inputs):
            if spec.shape:
                array = self.memories[names[number]]
                if number not in written and self._space(names[number]) in spaces:
                    array = copies.setdefault(names[number], np.zeros_like(array))
                arrays[spec.name] = array
        values = {each.name: each.value or 0 for each in operation.encoding.fields}
        fields = tuple((s.name, values[s.name]) for s in executable.inputs if not s.shape)
        return _Call(executable.bind_arrays(arrays), fields, copies)

    def _space(self, memory: str) -> str:
        """All main memories are one."""
        return memory if self._machine.memory(memory).depth is not None else ""
