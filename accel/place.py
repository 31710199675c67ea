"""A tiling as an artifact: tensors placed in main memory, and the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

import numpy as np

from weft.accel.artifact import Artifact, Layout, Placed, Role
from weft.accel.banks import in_banks
from weft.accel.capabilities import Capabilities
from weft.accel.emit import Arranged, emit
from weft.accel.mapping import Mapping as Mapped
from weft.accel.mapping import View
from weft.accel.micro_operations import with_lists
from weft.accel.split_moves import needs_rows
from weft.accel.tiling import Tiling, views
from weft.accel.tokens import with_tokens
from weft.accel.work import Gather
from weft.ir.accelerator import Accelerator
from weft.ir.scalar_interpreter import evaluate

Array = np.ndarray[Any, Any]
ALIGNMENT = 64  # bytes


@dataclass(frozen=True, slots=True)
class Offloaded:
    """``artifact``, and the meaning of its tensors: ``given``: views of the program's tensors, by
    name. ``bytes``: main-memory traffic. ``prices``: estimated cycles of each way to compute it."""

    tiling: Tiling
    artifact: Artifact
    given: Mapping[str, View]
    result: View
    bytes: int
    prices: Mapping[str, float] = field(default_factory=dict)

    def with_constants(self, constants: Mapping[str, Array]) -> Offloaded:
        """The same with other data for its constants, by the program's names."""
        image = self.artifact.image.copy()
        for each in self.artifact.tensors:
            if each.role == "constant":
                view = self.given[each.name]
                known = constants[view.tensor] if view.value is None else _filled(view, view.value)
                each.write(image, stored(view, known))
        return replace(self, artifact=replace(self.artifact, image=image))

    def prepared(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of the artifact, from the program's ``tensors`` by name."""
        inputs = {t.name for t in self.artifact.tensors if t.role == "input"}
        return {name: stored(self.given[name], tensors[self.given[name].tensor]) for name in inputs}

    def results(self, image: Array) -> Array:
        """The program's result, from the image after the stream."""
        gather = self.tiling.mapped.work.gather
        found = self._stored(image)
        return found if gather is None else gathered(found, gather)

    def _stored(self, image: Array) -> Array:
        found = self.artifact.tensor(self.result.name).read(image)
        whole = found.reshape(self.planes, -1, *found.shape[len(found.shape) - self._rank :])[:, 0]
        if self.planes == 1:
            single: Array = whole[0]
            return single
        # The last part is signed.
        bits = 8 * found.itemsize
        parts = whole.astype(np.int64)
        low = sum((parts[n] & ((1 << bits) - 1)) << (bits * n) for n in range(self.planes - 1))
        joined: Array = (low + (parts[-1] << (bits * (self.planes - 1)))).astype(
            np.dtype(f"int{bits * self.planes}")
        )
        return joined

    @property
    def planes(self) -> int:
        """Parts in which the result is stored."""
        return self.tiling.mapped.planes

    @property
    def _rank(self) -> int:
        return len(self.result.layout.shape) - len(self.result.expand)


def gathered(array: Array, gather: Gather) -> Array:
    """The elements of ``array`` that form the result."""
    rank = len(gather.extents)
    points: dict[str, Array] = {}
    for n, (dim, size) in enumerate(gather.extents.items()):
        points[dim] = np.arange(size).reshape([-1 if k == n else 1 for k in range(rank)])
    found: Array = array[tuple(evaluate(index, points) for index in gather.indices)]
    return found


def stored(view: View, array: Array) -> Array:
    """``array`` as it is in main memory, before it is blocked."""
    if view.made is not None:
        array = view.made.of(array)
    shape = (*view.expand, *array.shape)
    whole: Array = np.broadcast_to(array, shape).astype(view.dtype.numpy)
    return whole


def _filled(view: View, value: float) -> Array:
    """``value`` where the constant ``view`` has it."""
    if view.diagonal is None:
        return np.full(view.layout.shape, value)
    rank = len(view.layout.inner)
    row, column = (np.indices(view.layout.shape)[n - rank] for n in view.diagonal)
    found: Array = np.where(row == column, value, 0)
    return found


def place(
    machine: Accelerator,
    plain: Accelerator,
    found: Capabilities,
    tiling: Tiling,
    constants: Mapping[str, Array],
    arranged: Arranged,
) -> Offloaded:
    """The stream of ``tiling`` with ``constants`` in place, planned for ``plain``: ``machine`` with
    flat memories. Raises ``Refusal``."""
    mapped = tiling.mapped
    placed, main, end = _placed(machine, mapped, constants)
    blanks, end = _blanks(machine, mapped, end)
    issues = emit(plain, tiling, main, blanks, arranged)
    at = _aligned(end, _word_bytes(machine, found))
    issues, words = with_lists(machine, found, issues, at // _word_bytes(machine, found))
    size = at + len(words) * _word_bytes(machine, found)
    image = np.zeros(_aligned(size, ALIGNMENT), np.uint8)
    given = {view.name: view for view in _in_main(mapped)}
    image[at:size] = np.array(words, np.uint32).view(np.uint8)
    stream = with_tokens(machine, [in_banks(machine, plain, d) for d in issues], len(image))
    artifact = Artifact(stream, image, tuple(placed))
    moved = sum(issue.moved for issue in issues)
    return Offloaded(tiling, artifact, given, mapped.write, moved).with_constants(constants)


def _in_main(mapped: Mapped) -> list[View]:
    """The views that are loaded."""
    found = [view for view in views(mapped) if view.transfer is not None]
    return [*found, mapped.start] if isinstance(mapped.start, View) else found


def _placed(
    machine: Accelerator, mapped: Mapped, constants: Mapping[str, Array]
) -> tuple[list[Placed], dict[str, int], int]:
    """(tensors, one after the other; their begins in elements, by name; the end in bytes)."""
    placed: dict[str, Placed] = {}
    main: dict[str, int] = {}
    end = machine.reserved
    for view in (*_in_main(mapped), mapped.write):
        if view.name in placed:
            continue
        assert view.transfer is not None, "it is moved"
        size = machine.memory(view.transfer.main.memory).nbytes
        end = _aligned(end, size)
        role: Role = "output" if view is mapped.write else "input"
        if view.value is not None or view.tensor in constants:
            role = "constant"
        placed[view.name] = _one(machine, mapped, view, role, end)
        main[view.name] = end // size
        end = _aligned(end + placed[view.name].nbytes, ALIGNMENT)
    return list(placed.values()), main, end


def _blanks(machine: Accelerator, mapped: Mapped, end: int) -> tuple[dict[str, int], int]:
    """(an element of zeros, from byte ``end`` on, of each main memory whose padding must surround
    elements that are read; the end in bytes)."""
    found: dict[str, int] = {}
    for view in _in_main(mapped):
        if view.padded and view.transfer is not None and needs_rows(view.transfer):
            memory = machine.memory(view.transfer.main.memory)
            if memory.name not in found:
                at = _aligned(end, memory.nbytes)
                found[memory.name], end = at // memory.nbytes, at + memory.nbytes
    return found, end


def _one(machine: Accelerator, mapped: Mapped, view: View, role: Role, at: int) -> Placed:
    """``view`` from byte ``at`` on; results in planes are one array of all planes."""
    if mapped.planes == 1 or view is not mapped.write:
        return Placed(view.name, role, view.dtype, view.layout, at)
    assert view.transfer is not None, "it is stored"
    inner = tuple((axis + 1, block) for axis, block in view.layout.inner)
    layout = Layout((mapped.planes, *view.layout.shape), inner)
    return Placed(view.name, role, machine.memory(view.memory).dtype, layout, at)


def _word_bytes(machine: Accelerator, found: Capabilities) -> int:
    for compute in found.computes:
        if compute.words is not None:
            return machine.memory(compute.words.memory).nbytes
    return 1


def _aligned(place: int, size: int) -> int:
    unit = lcm(size, ALIGNMENT)
    return -(-place // unit) * unit
