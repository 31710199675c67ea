"""Is a host program well-formed? Places, liveness within the arena, kernel signatures.

Sizes and offsets may be symbolic; whatever needs numbers is checked at each of ``samples``
(parameter values), so a program with parameters should be verified at a few of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.ir.errors import InternalError
from weft.ir.loop_ir import Kernel
from weft.ir.program import (
    Aligned,
    Arena,
    Buffer,
    Constant,
    Input,
    Launch,
    Output,
    Place,
    Program,
)
from weft.ir.size_arithmetic import SizeError, evaluate, text

Sizes = Mapping[str, int]


def verify_program(program: Program, samples: Sequence[Sizes] | None = None) -> None:
    """Raise ``InternalError`` (WEFT-E0550 to E0554) at the first rule that ``program`` breaks.

    ``samples`` defaults to the one empty binding where the program has no parameters, to none
    where it has.
    """
    if samples is None:
        samples = () if program.parameters else ({},)
    try:
        _Verifier(program).run(samples)
    except SizeError as error:
        raise InternalError(
            "WEFT-E0551", f"a size of program {program.name} has no value", why=str(error)
        ) from None


@dataclass(frozen=True, slots=True)
class _Use:
    buffer: str
    writes: bool


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers = {b.name: b for b in program.buffers}
        self.kernels = {k.name: k for k in program.kernels}

    def run(self, samples: Sequence[Sizes]) -> None:
        self._names()
        self._interface()
        for number, step in enumerate(self.program.steps):
            self._signature(number, step)
        self._outputs_written()
        for sizes in samples:
            self._arena_bounds(sizes)
            self._shapes(sizes)
            self._arena_liveness(sizes)
            self._aliasing(sizes)

    def _names(self) -> None:
        program = self.program
        if len(self.buffers) != len(program.buffers):
            raise _broken("E0550", "two buffers have one name", program.name)
        if len(self.kernels) != len(program.kernels):
            raise _broken("E0550", "two kernels have one name", program.name)
        if len(set(program.parameters)) != len(program.parameters):
            raise _broken("E0550", "two parameters have one name", program.name)
        for name, _ in program.derived:
            if name not in program.parameters:
                raise _broken("E0550", f"derived size {name} is not a parameter", program.name)

    def _interface(self) -> None:
        """Inputs, outputs and constants stand in ``buffers`` and at the place of their number."""
        program = self.program
        expected: list[tuple[Buffer, Place]] = [
            *((b, Input(i)) for i, b in enumerate(program.inputs)),
            *((b, Output(i)) for i, b in enumerate(program.outputs)),
        ]
        for buffer, place in expected:
            if buffer.place != place:
                raise _broken("E0551", f"buffer {buffer.name} is not at {place}", program.name)
        constants = {b.place for b in program.constants}
        taken = {i for _, i in program.in_place}
        for buffer in program.constants:
            if not isinstance(buffer.place, Constant):
                raise _broken("E0551", f"{buffer.name} is no constant", program.name)
        for buffer in (*program.inputs, *program.outputs, *program.constants):
            if self.buffers.get(buffer.name) != buffer:
                raise _broken("E0551", f"{buffer.name} is missing from buffers", program.name)
        for buffer in program.buffers:
            match buffer.place:
                case Input(i) if i >= len(program.inputs):
                    raise _broken("E0551", f"{buffer.name}: no input {i}", program.name)
                case Aligned(i, _) if i >= len(program.inputs) or i in taken:
                    raise _broken("E0551", f"{buffer.name}: no input {i} to copy", program.name)
                case Output(i) if i >= len(program.outputs):
                    raise _broken("E0551", f"{buffer.name}: no output {i}", program.name)
                case Constant(name) if buffer.place not in constants:
                    raise _broken("E0551", f"{buffer.name}: no constant {name}", program.name)

    def _signature(self, number: int, step: Launch) -> None:
        where = f"step {number} of {self.program.name}"
        kernel = self.kernels.get(step.kernel)
        if kernel is None:
            raise _broken("E0552", f"there is no kernel {step.kernel}", where)
        if len(step.arguments) != len(kernel.buffers):
            raise _broken(
                "E0552",
                f"{kernel.name} takes {len(kernel.buffers)} buffers, got {len(step.arguments)}",
                where,
            )
        if step.parameters is None:
            if missing := [p for p in kernel.parameters if p not in self.program.parameters]:
                raise _broken("E0552", f"{kernel.name} needs parameters {missing}", where)
        elif len(step.parameters) != len(kernel.parameters):
            raise _broken("E0552", f"{kernel.name} takes {kernel.parameters}", where)
        for name, formal in zip(step.arguments, kernel.buffers, strict=True):
            actual = self.buffers.get(name)
            if actual is None:
                raise _broken("E0552", f"there is no buffer {name}", where)
            if actual.dtype != formal.dtype:  # sizes are compared in bytes, see _shapes
                raise _broken("E0552", f"{name} does not fit {kernel.name}'s {formal.name}", where)
            if formal.writable and not self._may_be_written(actual):
                raise _broken("E0552", f"{kernel.name} writes {name}, which is read-only", where)

    def _may_be_written(self, buffer: Buffer) -> bool:
        match buffer.place:
            case Input(i):
                return any(i == given for _, given in self.program.in_place)
            case Constant() | Aligned():
                return False
        return True

    def _uses(self) -> list[list[_Use]]:
        return [
            [
                _Use(name, formal.writable)
                for name, formal in zip(
                    step.arguments, self.kernels[step.kernel].buffers, strict=True
                )
            ]
            for step in self.program.steps
        ]

    def _copied(self) -> set[str]:
        """Buffers that are full before the first step."""
        return {b.name for b in self.program.buffers if isinstance(b.place, Aligned)}

    def _outputs_written(self) -> None:
        """Some step writes each output; one in the place of an input may stay what that is."""
        written = {
            self.buffers[use.buffer].place for uses in self._uses() for use in uses if use.writes
        }
        given = {Output(o) for o, _ in self.program.in_place}
        for number, buffer in enumerate(self.program.outputs):
            place = Output(number)
            empty = any(text(size) == "0" for size in buffer.shape)
            if not empty and place not in written and place not in given:
                raise _broken("E0551", f"no step writes output {buffer.name}", self.program.name)

    def _arena_bounds(self, sizes: Sizes) -> None:
        end = evaluate(self.program.arena, sizes)
        for buffer in self.program.buffers:
            if isinstance(buffer.place, Arena | Aligned):
                start, stop = _extent(buffer, buffer.place, sizes)
                if start % 64 or start < 0 or stop > end:
                    raise _broken(
                        "E0551",
                        f"buffer {buffer.name} is at {start}..{stop} of an arena of {end} bytes",
                        self.program.name,
                    )

    def _shapes(self, sizes: Sizes) -> None:
        """Each argument has as many elements as its kernel declares.

        Both are row-major, so the shapes may differ: a kernel sees merged dimensions, or a view.
        """
        for number, step in enumerate(self.program.steps):
            kernel = self.kernels[step.kernel]
            given = _kernel_sizes(kernel, step, sizes)
            for name, formal in zip(step.arguments, kernel.buffers, strict=True):
                actual = [evaluate(size, sizes) for size in self.buffers[name].shape]
                shape = [evaluate(size, given) for size in formal.shape]
                strides = [evaluate(stride, given) for stride in formal.strides]
                span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
                if prod(actual) != prod(shape) or (all(shape) and span > prod(shape)):
                    raise _broken(
                        "E0552",
                        f"{name} of shape {actual} does not fit {kernel.name}'s {formal.name}",
                        f"step {number} of {self.program.name}",
                    )

    def _arena_liveness(self, sizes: Sizes) -> None:
        """Buffers that live at the same time do not overlap, unless they are views: one place."""
        uses = self._uses()
        first = dict.fromkeys(self._copied(), 0)
        last = dict(first)
        for number, step in enumerate(uses):
            for use in step:
                first.setdefault(use.buffer, number)
                last[use.buffer] = number
        extents = {
            b.name: _extent(b, b.place, sizes)
            for b in self.program.buffers
            if isinstance(b.place, Arena | Aligned) and b.name in first
        }
        starting: dict[int, list[str]] = {}
        ending: dict[int, list[str]] = {}
        for name, (start, stop) in extents.items():
            if stop > start:
                starting.setdefault(first[name], []).append(name)
                ending.setdefault(last[name], []).append(name)
        alive: list[tuple[int, int, str]] = []
        for number in range(len(uses)):
            for name in starting.get(number, ()):
                self._no_neighbour(alive, (*extents[name], name), number)
                insort(alive, (*extents[name], name))
            for name in ending.get(number, ()):
                alive.remove((*extents[name], name))
        self._no_clobber(uses, {n: (a, b) for n, (a, b) in extents.items() if a < b})

    def _no_neighbour(
        self, alive: list[tuple[int, int, str]], new: tuple[int, int, str], number: int
    ) -> None:
        at = bisect_left(alive, new)
        for start, stop, name in alive[max(0, at - 1) : at + 1]:
            if start < new[1] and new[0] < stop and (start, stop) != new[:2]:
                raise _broken(
                    "E0553",
                    f"buffers {name} and {new[2]} overlap in the arena while both are alive",
                    f"step {number} of {self.program.name}",
                )

    def _no_clobber(self, uses: list[list[_Use]], extents: Mapping[str, tuple[int, int]]) -> None:
        """A read finds what was written last through the same name, or through the viewed one."""
        written = self._copied()
        last_writer = {extents[name]: name for name in written if name in extents}
        for number, step in enumerate(uses):
            where = f"step {number} of {self.program.name}"
            for use in step:
                if use.buffer not in extents or use.writes:
                    continue
                writer = last_writer.get(extents[use.buffer])
                if writer is None:
                    raise _broken("E0553", f"{use.buffer} is read before it is written", where)
                if writer != use.buffer and use.buffer in written:
                    raise _broken("E0553", f"{use.buffer} is read after {writer} took it", where)
            for use in step:
                if use.writes and use.buffer in extents:
                    last_writer[extents[use.buffer]] = use.buffer
                    written.add(use.buffer)

    def _aliasing(self, sizes: Sizes) -> None:
        """Arguments of one launch are apart, unless nothing is written or the kernel allows it."""
        spans: dict[str, tuple[object, int, int]] = {}
        shared: dict[Place, Place] = {Output(o): Input(i) for o, i in self.program.in_place}
        for buffer in self.program.buffers:
            place = shared.get(buffer.place, buffer.place)
            if isinstance(place, Arena | Aligned):
                spans[buffer.name] = ("arena", *_extent(buffer, place, sizes))
            else:
                spans[buffer.name] = (place, 0, _bytes(buffer, sizes))
        for number, step in enumerate(self.program.steps):
            formals = self.kernels[step.kernel].buffers
            for i, one in enumerate(formals):
                for j, other in enumerate(formals[:i]):
                    a, b = spans[step.arguments[i]], spans[step.arguments[j]]
                    apart = a[0] != b[0] or a[1] >= b[2] or b[1] >= a[2]
                    declared = other.name in one.aliases or one.name in other.aliases
                    if not apart and (one.writable or other.writable) and not declared:
                        raise _broken(
                            "E0554",
                            f"{step.kernel}'s {one.name} and {other.name} share memory",
                            f"step {number} of {self.program.name}",
                        )


def _kernel_sizes(kernel: Kernel, step: Launch, sizes: Sizes) -> Sizes:
    if step.parameters is None:
        return {name: sizes[name] for name in kernel.parameters}
    return {n: evaluate(e, sizes) for n, e in zip(kernel.parameters, step.parameters, strict=True)}


def _bytes(buffer: Buffer, sizes: Sizes) -> int:
    total = buffer.dtype.itemsize
    for size in buffer.shape:
        total *= evaluate(size, sizes)
    return total


def _extent(buffer: Buffer, place: Arena | Aligned, sizes: Sizes) -> tuple[int, int]:
    start = evaluate(place.offset, sizes)
    return start, start + _bytes(buffer, sizes)


def _broken(code: str, what: str, where: str) -> InternalError:
    return InternalError(
        f"WEFT-{code}", what, where=where, hint="this is a bug in Weft: please report it"
    )
