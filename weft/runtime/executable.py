"""A compiled program as a callable: immutable, re-entrant, saved and loaded as one file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.codegen.objects.native_library import ForeignProgram, NativeProgram
from weft.ir.errors import ArtifactError, CallError, ExecutionError
from weft.ir.plan import Plan
from weft.ir.size_arithmetic import SizeError
from weft.runtime import artifact
from weft.runtime.arguments import (
    Out,
    Placed,
    address,
    apart,
    arrange,
    as_array,
    describe,
    empty,
    located,
    not_by_name,
)
from weft.runtime.bound_call import BoundCall, NumberedCall
from weft.runtime.call_frame import Frame
from weft.runtime.call_plan import CallPlan, Shapes, plan_call, results_of
from weft.runtime.compiled import ArraySpec, Compiled, Estimate, missing_here, sizes_of_a_model
from weft.runtime.cuda_export import write_cuda
from weft.runtime.huge_pages import on_huge_pages
from weft.runtime.library import write_library
from weft.runtime.versions import Versions

MAX_PLANS = 256  # bindings of the size symbols that are remembered
MAX_FRAMES = 8  # arenas kept between calls
MAX_THREADS = 256


def available_threads() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments and results of one call, each with where the program finds it."""

    plan: CallPlan
    inputs: list[np.ndarray]
    placed: list[Placed]
    results: list[np.ndarray]
    targets: list[Placed]


class Executable:
    """A compiled program: what ``weft.compile`` and ``weft.load`` give; ``compiled`` is its record.

    ``executable(*arrays, **by_name)`` takes one array for each input (NumPy arrays, or anything
    with ``__dlpack__`` or ``__array__``), in order or by name, and returns one fresh array, or a
    tuple where the program has several outputs. ``out=`` gives places for results: an array, a
    sequence with None for "allocate", or a mapping by name. An input that is declared in place is
    overwritten and returned. Raises ``CallError`` for unfit arguments, before anything is written,
    and ``ExecutionError`` where the data break a rule of the program (an index out of range); the
    contents of results are then undefined.

    Calls may run at the same time in several Python threads; the GIL is released. A call uses up
    to ``threads`` threads of the process's one pool, or only its own while another call has it.
    """

    __slots__ = (
        "_alignments", "_compiled", "_constants", "_constants_at", "_frames", "_in_place",
        "_names", "_native", "_overwritten", "_plans", "_scalars", "_target_alignments", "_threads",
        "_versions",
    )  # fmt: skip

    def __init__(self, compiled: Compiled, *, threads: int | None = None) -> None:
        self._compiled = compiled
        self._native: NativeProgram | ForeignProgram
        if missing_here(compiled):
            self._native = ForeignProgram(compiled.target)
        else:
            self._native = NativeProgram(compiled.objects, compiled.entry, compiled.pool)
        # Kernels rely on the alignment of constants; an array from the user may have any.
        held = [located(array, 64) for _, array in compiled.constants]
        for array, _ in held:
            on_huge_pages(array)
        self._constants = ([array for array, _ in held], np.array([*(at for _, at in held), 0]))
        self._constants_at = address(self._constants[1])
        self._alignments = [max(s.alignment, s.dtype.itemsize) for s in compiled.inputs]
        self._target_alignments = [max(s.alignment, s.dtype.itemsize) for s in compiled.outputs]
        self._names = [spec.name for spec in compiled.outputs]
        self._in_place = {pair.output: pair for pair in compiled.in_place}
        self._scalars = compiled.scalars
        pairs = [self._in_place.get(number) for number in range(len(compiled.outputs))]
        shared = [pair.input for pair in pairs if pair is not None and pair.shared]
        # If that is all outputs, and none is a number, which may come by value.
        plain = len(shared) == len(pairs) and all(compiled.inputs[k].shape for k in shared)
        self._overwritten = shared if plain else []
        self._plans: dict[tuple[Shapes, tuple[int, ...]], CallPlan] = {}
        self._frames: deque[Frame] = deque(maxlen=MAX_FRAMES)
        self._threads = _thread_count(threads)
        self._versions: Versions[Executable] | None = None

    def __call__(self, /, *arrays: object, out: Out = None, **by_name: object) -> Any:
        given = arrays
        if by_name or len(arrays) != len(self._compiled.inputs):
            given = tuple(arrange(self._compiled.inputs, arrays, by_name))
        chosen = self if self._versions is None else self._versions.of(given) or self
        results = chosen._run(given, out)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, arrays: Mapping[str, object], *, out: Out = None) -> dict[str, np.ndarray]:
        """The outputs by name, from the inputs by name: ``arrays`` and ``out`` as in a call. Raises
        ``CallError``: WEFT-E0602 for what is no mapping, and as a call does."""
        if not isinstance(arrays, Mapping):
            raise not_by_name(arrays)
        given = arrange(self._compiled.inputs, (), arrays)
        chosen = self if self._versions is None else self._versions.of(given) or self
        return dict(zip(self._names, chosen._run(given, out), strict=True))

    def bind(self, /, *arrays: object, out: Out = None, **by_name: object) -> BoundCall:
        """A call of these arguments to make again and again, at the cost of the program alone.

        ``arrays``, ``out`` and ``by_name`` as in a call. Arrays are used where they lie, so they
        have to be contiguous and aligned to their elements; results that are not given places are
        allocated once. Raises ``CallError`` as a call does, and (WEFT-E0612) for arrays that cannot
        be used so.

        ::

            call = matmul.bind(a, b)
            c = call()  # again for what a and b contain by then
        """
        given = arrange(self._compiled.inputs, arrays, by_name)
        if self._versions is not None and (chosen := self._versions.of(given)) is not None:
            return chosen.bind(*given, out=out)
        frame = self._new_frame()
        call = self._prepare(given, out)
        specs, arrays_of = (*self.inputs, *self.outputs), (*call.inputs, *call.results)
        places = (*call.placed, *call.targets)
        for spec, array, (place, _) in zip(specs, arrays_of, places, strict=True):
            if array is not place:
                raise _misplaced(spec.name)
        frame.fill([at for _, at in call.placed], [at for _, at in call.targets])
        native = self._native_call(call.plan, frame)
        return BoundCall(native, partial(self._failed, frame), call.results, (call, self))

    def bind_arrays(self, arrays: Mapping[str, np.ndarray]) -> NumberedCall:
        """A call on these ``arrays``, which are all that have dimensions, to make again and again
        with numbers for the rest. They are used where they lie; what is written is written there.

        Raises ``CallError`` as ``bind`` does, and (WEFT-E0613) for code of another processor.
        """
        held: dict[int, Placed] = {}
        for number, spec in enumerate(self.inputs):
            if spec.shape:
                array = as_array(arrays[spec.name], spec)
                held[number] = located(array, self._alignments[number])
                if held[number][0] is not array:
                    raise _misplaced(spec.name)
        if not isinstance(self._native, NativeProgram):
            raise CallError("WEFT-E0613", f"{self.name} is for another processor")
        assert all(pair.shared for pair in self._in_place.values()), "no results apart"
        frame = self._new_frame()
        return NumberedCall(self._compiled, self._native, frame, self._constants_at, held)

    def _run(self, given: Sequence[object], out: Out) -> list[np.ndarray]:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self._new_frame()
        try:
            results = self._run_plain(frame, given, out)
            return self._run_any(frame, given, out) if results is None else results
        finally:
            self._frames.append(frame)

    def _run_plain(
        self, frame: Frame, given: Sequence[object], out: Out
    ) -> list[np.ndarray] | None:
        """The short way of a call like one before it; None where this one is not."""
        if self._in_place and (out is not None or not self._overwritten):
            return None
        taken = frame.take(given)
        if taken is None:
            return None
        shapes, places = taken
        scalars = self._scalars
        values = tuple([int(given[k]) for k in scalars]) if scalars else ()  # type: ignore[call-overload]
        plan = self._plans.get((shapes, values))
        if plan is None or not (
            frame.held == (plan, places) or self._hold(frame, plan, given, places)
        ):
            return None
        if self._overwritten:
            self._enter(frame)
            return [given[k] for k in self._overwritten]  # type: ignore[misc]
        targets = (
            [empty(*output) for output in plan.outputs]
            if out is None
            else frame.take_targets(out, plan, given, places)
        )
        if targets is None:
            return None
        for number, (_, at) in enumerate(targets):
            frame.outputs[number] = at
        self._enter(frame)
        return [target for target, _ in targets]

    def _hold(
        self, frame: Frame, plan: CallPlan, given: Sequence[object], places: tuple[int, ...]
    ) -> bool:
        """Fill the tables, where arguments at ``places`` are aligned and, if written, apart."""
        if any(at % align for at, align in zip(places, self._alignments, strict=True)):
            return False
        if self._overwritten:
            sizes = [getattr(value, "nbytes", 8) for value in given]
            if not apart([(at, at + size) for at, size in zip(places, sizes, strict=True)]):
                return False
        frame.fill(places, [places[k] for k in self._overwritten])
        frame.native = self._native_call(plan, frame)
        frame.held = (plan, places)
        return True

    def _run_any(self, frame: Frame, given: Sequence[object], out: Out) -> list[np.ndarray]:
        call = self._prepare(given, out)
        frame.fill([at for _, at in call.placed], [at for _, at in call.targets])
        frame.native = self._native_call(call.plan, frame)
        self._enter(frame)
        for result, (target, _) in zip(call.results, call.targets, strict=True):
            if result is not target:
                np.copyto(result, target)
        return call.results

    def _prepare(self, given: Sequence[object], out: Out) -> _Call:
        """Everything about a call, checked."""
        specs = self._compiled.inputs
        inputs = [as_array(v, spec) for v, spec in zip(given, specs, strict=True)]
        shapes = tuple([array.shape for array in inputs])
        values = tuple([int(inputs[k]) for k in self._scalars])
        plan = self._plan(shapes, values)
        placed = [located(a, align) for a, align in zip(inputs, self._alignments, strict=True)]
        results = results_of(self._compiled, plan, given, inputs, out)
        targets = [self._target(k, result, placed) for k, result in enumerate(results)]
        return _Call(plan, inputs, placed, results, targets)

    def _new_frame(self) -> Frame:
        return Frame(self._compiled, self._target_alignments)

    def _native_call(self, plan: CallPlan, frame: Frame) -> partial[int]:
        """The program on the tables of ``frame``, its arguments converted once."""
        frame.reserve(plan.arena_bytes)
        inputs_at, outputs_at, status_at = frame.tables
        tables_at = (inputs_at, outputs_at, self._constants_at, frame.arena_at)
        places = map(c_void_p, (*tables_at, plan.parameters_at, status_at))
        return partial(self._native.entry, *places, c_int(plan.threads))

    def _enter(self, frame: Frame) -> None:
        """One native call, on a frame that is filled."""
        if frame.native():
            raise self._failed(frame)

    def _failed(self, frame: Frame) -> ExecutionError:
        """What went wrong in a native call."""
        return self._compiled.failure(*frame.status)

    def _plan(self, shapes: Shapes, values: tuple[int, ...]) -> CallPlan:
        """``values``: of the inputs that are parameters."""
        plan = self._plans.get((shapes, values))
        if plan is None:
            plan = plan_call(self._compiled, shapes, values, self._needs)
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            self._plans[shapes, values] = plan
        return plan

    def _needs(self, parameters_at: int) -> tuple[int, int]:
        """Threads and bytes of memory that a call needs."""
        threads = int(self._native.threads(parameters_at, self._threads))
        arena_bytes = int(self._native.arena_bytes(parameters_at, threads))
        if arena_bytes < 0:
            raise SizeError("intermediates would be too large")
        return threads, arena_bytes

    def _target(self, number: int, result: np.ndarray, inputs: Sequence[Placed]) -> Placed:
        """Where output ``number`` is computed: ``result`` itself, or an array to copy from."""
        pair = self._in_place.get(number)
        if pair is not None and pair.shared:
            return inputs[pair.input]
        if pair is None and result.flags.c_contiguous:
            at = address(result)
            if at % self._target_alignments[number] == 0:
                return result, at
        return empty(result.shape, result.dtype, result.nbytes)

    # ---- looking at it ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """That of the program, model or kernel."""
        return self._compiled.name

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """Name, dtype and shape of each input, in the order of positional arguments."""
        return self._compiled.inputs

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        """Name, dtype and shape of each output, in order."""
        return self._compiled.outputs

    @property
    def compiled(self) -> Compiled:
        """The record behind this executable."""
        return self._compiled

    @property
    def threads(self) -> int:
        """The most threads that one call uses, the caller's own included."""
        return self._threads

    def with_threads(self, threads: int | None) -> Executable:
        """The same program on another number of threads (None: all processors). Raises
        ``CallError`` (WEFT-E0611) for what is no number of threads."""
        made = Executable(self._compiled, threads=threads)
        made._versions = self._versions
        return made

    def with_versions(self, versions: Versions[Executable]) -> Executable:
        """The same program with ``versions`` for some of its sizes, which calls of these sizes are
        served by."""
        made = Executable(self._compiled, threads=self._threads)
        made._versions = versions
        return made

    @property
    def versions(self) -> Mapping[str, Executable]:
        """The programs for some sizes alone that calls of these sizes are served by, by the sizes:
        "batch = 1"."""
        return MappingProxyType({} if self._versions is None else dict(self._versions.kept))

    @property
    def stats(self) -> Mapping[str, object]:
        """Counts of the compilation; "seconds" by stage where it happened in this process, and
        "from_cache" where it did not."""
        made, stats = self._compiled, dict(self._compiled.stats)
        if made.seconds:
            stats["seconds"] = {stage: round(s, 4) for stage, s in made.seconds.items()}
        if made.from_cache:
            stats["from_cache"] = True
        return MappingProxyType(stats)

    @property
    def plan(self) -> Plan:
        """What was decided and could be decided otherwise: ``weft.compile(x, plan=…)`` takes it
        again."""
        return self._compiled.plan

    def explain(self, *, details: bool = False, sizes: Mapping[str, int] | None = None) -> str:
        """What was fused, tiled and scheduled, and why.

        Of a loop kernel that was compiled in this process: with ``details``, each decision has the
        estimate of the program that its alternatives lead to, which is scheduled for that (which
        may take a minute), and what does not apply, and why; estimates are for ``sizes``, by name,
        and 1000 of each that is not given. Raises ``CallError`` (WEFT-E0609) for sizes that the
        program does not have."""
        weighed = self._compiled.weighed
        if weighed is not None and (details or sizes):
            return weighed(details, sizes or {})
        if sizes:
            raise sizes_of_a_model()
        return self._compiled.explain()

    def estimate(self, sizes: Mapping[str, int] | None = None) -> Estimate:
        """What a call takes on one thread by the cost model, as ``explain`` prints it, in seconds.

        ``sizes`` of a loop kernel, by name, and 1000 of each that is not given. Raises
        ``CallError`` (WEFT-E0609) for sizes that the program does not have, where some of it has no
        estimate, and where nobody knows any more: artifacts and the cache keep no costs of models.
        """
        estimate = self._compiled.estimate
        if estimate is None:
            raise CallError(
                "WEFT-E0609",
                f"{self.name} was not compiled in this process, and its costs were not kept",
                hint="compile it with weft.Options(cache=False)",
            )
        return estimate(sizes or {})

    def as_text(self, stage: str) -> str:
        """The program after ``stage``. Raises ``CallError`` (WEFT-E0609), which lists the stages
        there are."""
        return self._compiled.text(stage)

    def source(self, language: str) -> str:
        """The generated code: "llvm" as emitted, "asm" for the target. Raises ``CallError``
        (WEFT-E0609) for another language, or where the texts were not saved."""
        return self._compiled.source(language)

    def save(
        self, path: str | os.PathLike[str], *, texts: bool = True, certificate: bool = True
    ) -> None:
        """Write ``path``, one file that ``weft.load`` runs without compiling, atomically; equal
        compilations give equal bytes. Without ``texts`` it is smaller, and ``as_text`` and
        ``source`` have nothing to show; without ``certificate``, ``weft check`` has nothing to
        prove. Who loads it has to trust it like a shared library: see
        ``weft.load``. ``versions`` are not in it. Raises ``ArtifactError`` where it cannot be
        written."""
        artifact.write(self._compiled, Path(path), texts=texts, certificate=certificate)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        header: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write ``path``, a library that C programs call: ``NAME.o``, or ``NAME.so`` where there is
        a linker; of a GPU's twin ``NAME.cu``, its kernels with a main that checks itself.

        It holds everything, constants included, and needs libc alone. ``header``: where its
        declarations go, and how to use them. ``name``: what its functions' names start with.
        Raises ``ArtifactError``.
        """
        if Path(path).suffix == ".cu":
            write_cuda(self._compiled, self.run, Path(path))
            return
        write_library(
            self._compiled, Path(path), header=None if header is None else Path(header), name=name
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """As its artifact, which is read back: no code of Python's is pickled."""
        threads = None if self._threads == _thread_count(None) else self._threads
        return _from_bytes, (b"".join(artifact.encode(self._compiled)), threads)

    def __copy__(self) -> Executable:
        return self  # which never changes but for its versions

    def __deepcopy__(self, _: object) -> Executable:
        return self

    def __repr__(self) -> str:
        inputs = ", ".join(map(describe, self.inputs))
        outputs = ", ".join(map(describe, self.outputs))
        return f"<weft.Executable {self.name}({inputs}) -> ({outputs})>"


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> Executable:
    """The executable in ``path``, a file that ``Executable.save`` wrote, on so many ``threads``
    (None: one per processor).

    Raises ``ArtifactError`` (WEFT-E0700 to E0705) where there is no such file, it is damaged or
    made by another version, or this processor lacks what it needs; ``CallError`` (WEFT-E0611) for
    ``threads`` that are no number.

    The file holds machine code, which runs with all that this process may do: load what you would
    run as a program, and nothing else. Its checksum and the checks of its header are against
    accidents (a file cut off, a flipped bit, another format, another processor), not against
    somebody who changes the code and the checksum with it. Whether a file is the one that somebody
    vouches for, a signature beside it has to say: equal compilations give equal bytes.
    """
    return _linked(artifact.read(Path(path)), str(path), threads)


def _from_bytes(data: bytes, threads: int | None) -> Executable:
    """The executable of an artifact in memory. On a processor that lacks what it needs it is there,
    as one for another target is, and cannot be called."""
    return _linked(artifact.decode(memoryview(data), "a pickle"), "a pickle", threads)


def _linked(compiled: Compiled, where: str, threads: int | None) -> Executable:
    try:
        return Executable(compiled, threads=threads)
    except RuntimeError as error:  # LLVM's linker
        raise ArtifactError(
            "WEFT-E0704", "the object code cannot be linked", where=where, why=str(error)
        ) from None


def _misplaced(name: str) -> CallError:
    return CallError(
        "WEFT-E0612",
        f"{name!r} cannot be bound where it lies",
        why="it is not contiguous, or not aligned to its elements",
        hint="bind numpy.ascontiguousarray of it, or call the program instead",
    )


def _thread_count(threads: int | None) -> int:
    """The caller's number, at most one per processor."""
    if threads is None:
        return min(available_threads(), MAX_THREADS)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise CallError("WEFT-E0611", f"threads={threads!r} is not a positive integer")
    return min(threads, available_threads(), MAX_THREADS)
