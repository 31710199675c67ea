"""An exported PyTorch program as a callable: one ``Executable`` between tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.frontend.torch.exported import Argument, Exported, Part
from weft.frontend.torch.results import Computed, Counted, Given, Input, Result, SizeInput
from weft.frontend.torch.tensors import Place, array_of, is_tensor, placing, tensor_of
from weft.host.model import total_stats
from weft.ir.errors import ArtifactError, CallError
from weft.ir.operator_graph import Graph
from weft.ir.plan import Plan
from weft.ir.scalar_expr import Expr
from weft.ir.scalar_printer import scalar_text
from weft.ir.size_arithmetic import evaluate
from weft.runtime.arguments import Out
from weft.runtime.executable import Executable
from weft.runtime.pickling import StaysHere


def compile_exported(exported: Exported, compiler: Callable[[Graph], Executable]) -> TorchModel:
    """``exported`` with its graphs compiled by ``compiler``; of several, those that compute
    something."""
    graphs = [part.imported.graph for part in exported.parts]
    return TorchModel(
        exported,
        [compiler(graph) if graph.outputs or len(graphs) == 1 else None for graph in graphs],
    )


class TorchModel(StaysHere):
    """A PyTorch model, compiled: ``weft.compile`` makes it of ``exported``.

    ``model(*args, **kwargs)`` takes what the model took when it was exported and returns what it
    returned: tensors, or NumPy arrays where all that it is given are arrays. Inputs that the model
    writes to are overwritten; buffers are those of the export to begin with, and ``state`` has what
    calls have made of them. Calls of a model with state are made one at a time.

    ``executable`` computes it, of arguments and state by name: what is saved runs without PyTorch.
    Where sizes depend on data there are several ``executables``: what follows such a size is
    compiled once for all of them. Raises ``CallError``: WEFT-E0632 for arguments that are not those
    of the export, E0608 for sizes that it excludes, and as ``Executable`` does.
    """

    __slots__ = ("_exported", "_parts", "_state")
    _elsewhere = "save it: weft.load runs the file, without PyTorch too"

    def __init__(self, exported: Exported, executables: Sequence[Executable | None]) -> None:
        self._exported = exported
        self._parts = [_Part(*pair) for pair in zip(exported.parts, executables, strict=True)]
        self._state = dict(exported.state.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self._exported.flat(args, kwargs)
        given: dict[str, Any] = {
            value: self._state[name] for value, (name, _) in self._exported.state.items()
        }
        tensors = False
        for argument, leaf in zip(self._exported.arguments, leaves, strict=True):
            if not argument.fixed:
                tensors |= is_tensor(leaf)
                given[argument.name] = _given(argument, leaf)
        values = self._values(given)
        found = [r.value if isinstance(r, Given) else values[r] for r in self._exported.returned]
        return self._exported.nested(found if tensors else [_array(value) for value in found])

    def _values(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the parts make of ``given``, by name; what the model writes to is overwritten."""
        if len(self._parts) == 1 and not self._exported.written:
            return self._parts[0](given)
        values = dict(given)
        for part in self._parts:
            values.update({name: _array(value) for name, value in part(values).items()})
        for place, value in self._exported.written.items():
            np.copyto(given[place], values[value])
        return {n: tensor_of(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}

    def run(self, arrays: Mapping[str, object], *, out: Out = None) -> dict[str, np.ndarray]:
        """What ``executable`` makes of ``arrays`` by name: arguments and state; ``out`` as there.
        Raises ``CallError`` as it does."""
        return self.executable.run(arrays, out=out)

    # ---- looking at it ------------------------------------------------------------------------

    @property
    def executable(self) -> Executable:
        """The compiled program. Raises ``ArtifactError`` (WEFT-E0706) where there are several."""
        found = self.executables
        if len(found) == 1:
            return found[0]
        raise ArtifactError(
            "WEFT-E0706",
            f"{self.name!r} is {len(found)} programs, one after the other",
            why="sizes in it depend on data",
            hint="compile what comes before such a size and what comes after it on their own, or"
            " keep the size: torch.where(mask, x, 0) for x[mask]",
        )

    @property
    def executables(self) -> tuple[Executable, ...]:
        """The compiled programs, in the order of a call."""
        found = (part.executable for part in self._parts)
        return tuple(executable for executable in found if executable is not None)

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """The buffers that calls write to, by the user's names for them."""
        return MappingProxyType(self._state)

    @property
    def name(self) -> str:
        """That of the program."""
        return "model"

    @property
    def stats(self) -> Mapping[str, object]:
        """Counts of the compilation, as ``Executable.stats`` has them; of all programs."""
        found = self.executables
        return found[0].stats if len(found) == 1 else total_stats(found)

    @property
    def versions(self) -> Mapping[str, Executable]:
        """The programs for some sizes alone, as ``Executable.versions`` has them."""
        return self.executable.versions

    @property
    def plan(self) -> Plan:
        """What was decided, as ``Executable.plan`` has it."""
        return self.executable.plan

    def explain(self) -> str:
        """What was fused, tiled and scheduled, and why, of the user's modules and source lines."""
        return self._texts(lambda executable: executable.explain())

    def as_text(self, stage: str) -> str:
        """The program after ``stage``. Raises ``CallError`` (WEFT-E0609), which lists the stages
        there are."""
        return self._texts(lambda executable: executable.as_text(stage))

    def source(self, language: str) -> str:
        """The generated code: "llvm" as emitted, "asm" for the target. Raises ``CallError``
        (WEFT-E0609) for another ``language``."""
        return self._texts(lambda executable: executable.source(language))

    def _texts(self, of: Callable[[Executable], str]) -> str:
        found = self.executables
        if len(found) == 1:
            return of(found[0])
        return "\n".join(f"---- {executable!r}\n{of(executable)}" for executable in found)

    def save(
        self, path: str | os.PathLike[str], *, texts: bool = True, certificate: bool = True
    ) -> None:
        """Write ``path``, one file that ``weft.load`` runs, with or without ``texts`` and
        ``certificate``, as ``Executable.save`` does; state is given to its calls."""
        self.executable.save(path, texts=texts, certificate=certificate)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        header: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write a library that C programs call: ``path``, ``header`` and ``name`` as
        ``Executable.export`` has them. Raises ``ArtifactError`` as it does."""
        self.executable.export(path, header=header, name=name)

    def __repr__(self) -> str:
        return f"<weft.TorchModel {', '.join(map(repr, self.executables))}>"


class _Part:
    """``part`` of a model, computed by ``executable``; None: it checks sizes alone."""

    __slots__ = ("_part", "_placing", "executable")

    def __init__(self, part: Part, executable: Executable | None) -> None:
        self.executable = executable
        self._part, self._placing = part, placing(part.imported.layouts)

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What it gives, by name, of ``values``, arrays and open sizes by name."""
        part, imported = self._part, self._part.imported
        given = {number: values[name] for number, name in part.reads}
        if self.executable is None:
            _check(imported.graph, imported.sizes_of(given))
            computed: Sequence[np.ndarray] = ()
        else:
            found = self.executable(*[_input(i, given) for i in imported.inputs])
            computed = (found,) if isinstance(found, np.ndarray) else found
        sizes = imported.sizes_of(given)  # which the program has checked
        places = self._placing(sizes)
        results = [_result(result, computed, places, sizes) for result in imported.results]
        return dict(zip(part.gives, results, strict=True))


def _input(source: Input | SizeInput, given: Mapping[int, Any]) -> np.ndarray:
    if isinstance(source, Input):
        return given[source.number].transpose(source.order)  # type: ignore[no-any-return]
    size = source.place.of(given)
    if size < 0:
        raise _excluded(f"{scalar_text(source.place.declared)} >= 0", f"it is {size}")
    return np.empty((size, 0), np.uint8)


def _result(
    result: Result,
    computed: Sequence[np.ndarray],
    places: Sequence[Place],
    sizes: Mapping[str, int],
) -> Any:
    match result:
        case Computed(number):
            return places[number](computed[number])
        case Given(Expr() as size):
            return evaluate(size, sizes)
        case Given(value):
            return value
        case Counted(None, count):
            return computed[count].item()
        case Counted(number, count):
            assert number is not None
            return tensor_of(computed[number][: int(computed[count])].copy())
    raise AssertionError(result)


def _check(graph: Graph, sizes: Mapping[str, int]) -> None:
    """What ``graph`` takes for granted of ``sizes`` holds."""
    for condition in graph.assumptions:
        if not evaluate(condition, sizes):
            told = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise _excluded(scalar_text(condition), told)


def _excluded(condition: str, told: str) -> CallError:
    return CallError("WEFT-E0608", f"the model was exported for {condition}", where=told)


def _array(value: Any) -> Any:
    """A tensor as an array, anything else as it is."""
    return array_of(value) if is_tensor(value) else value


def _given(argument: Argument, leaf: object) -> np.ndarray | int:
    """``leaf`` as the array, or the open size, that ``argument`` is."""
    if argument.is_size:
        if isinstance(leaf, int | np.integer) and not isinstance(leaf, bool):
            return int(leaf)
        wanted = "an integer"
    else:
        if isinstance(leaf, np.ndarray):
            return leaf
        if is_tensor(leaf):
            return array_of(leaf)
        wanted = "a tensor or an array"
    raise CallError("WEFT-E0632", f"{argument.name!r} is a {type(leaf).__name__}, not {wanted}")
