"""An exported PyTorch program as a callable: one ``Executable`` between tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.frontend.torch.exported import Argument, Exported
from weft.frontend.torch.results import Computed, Given, Input
from weft.frontend.torch.tensors import Place, array_of, is_tensor, placing
from weft.ir.errors import CallError
from weft.ir.operator_graph import Graph
from weft.ir.plan import Plan
from weft.ir.scalar_expr import Expr
from weft.ir.size_arithmetic import evaluate
from weft.runtime.arguments import Out
from weft.runtime.executable import Executable
from weft.runtime.pickling import StaysHere


def compile_exported(exported: Exported, compiler: Callable[[Graph], Executable]) -> TorchModel:
    """``exported`` with its graph compiled by ``compiler``."""
    return TorchModel(exported, compiler(exported.imported.graph))


class TorchModel(StaysHere):
    """A PyTorch model, compiled: ``weft.compile`` makes it of ``exported``.

    ``model(*args, **kwargs)`` takes what the model took when it was exported and returns what it
    returned: tensors, or NumPy arrays where all that it is given are arrays. Inputs that the model
    writes to are overwritten; buffers are those of the export to begin with, and ``state`` has what
    calls have made of them. Calls of a model with state are made one at a time.

    ``executable`` computes it, of arguments and state by name: what is saved runs without PyTorch.
    Raises ``CallError``: WEFT-E0632 for arguments that are not those of the export, and as
    ``Executable`` does.
    """

    __slots__ = ("_executable", "_exported", "_placing", "_state")
    _elsewhere = "save it: weft.load runs the file, without PyTorch too"

    def __init__(self, exported: Exported, executable: Executable) -> None:
        self._exported, self._executable = exported, executable
        self._state = dict(exported.state.values())
        self._placing = placing(exported.imported.layouts)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self._exported.flat(args, kwargs)
        given: dict[int, Any] = {
            number: self._state[name] for number, (name, _) in self._exported.state.items()
        }
        tensors = False
        for argument, leaf in zip(self._exported.arguments, leaves, strict=True):
            if not argument.fixed:
                tensors |= is_tensor(leaf)
                given[argument.number] = _given(argument, leaf)
        arrays = [
            given[i.number].transpose(i.order)
            if isinstance(i, Input)
            else np.empty((i.place.of(given), 0), np.uint8)
            for i in self._exported.imported.inputs
        ]
        found = self._executable(*arrays)
        sizes = self._exported.imported.sizes_of(given)
        places = self._placing(sizes)
        computed = (found,) if isinstance(found, np.ndarray) else found
        return self._exported.nested(
            [
                result if tensors or not is_tensor(result) else array_of(result)
                for result in (
                    self._result(n, computed, places, sizes) for n in self._exported.returned
                )
            ]
        )

    def _result(
        self,
        number: int,
        computed: Sequence[np.ndarray],
        places: Sequence[Place],
        sizes: Mapping[str, int],
    ) -> Any:
        result = self._exported.imported.results[number]
        if isinstance(result, Given):
            value = result.value
            return evaluate(value, sizes) if isinstance(value, Expr) else value
        assert isinstance(result, Computed)
        return places[result.number](computed[result.number])

    def run(self, arrays: Mapping[str, object], *, out: Out = None) -> dict[str, np.ndarray]:
        """What ``executable`` makes of ``arrays`` by name: arguments and state; ``out`` as there.
        Raises ``CallError`` as it does."""
        return self._executable.run(arrays, out=out)

    # ---- looking at it ------------------------------------------------------------------------

    @property
    def executable(self) -> Executable:
        """The compiled program."""
        return self._executable

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """The buffers that calls write to, by the user's names for them."""
        return MappingProxyType(self._state)

    @property
    def name(self) -> str:
        """That of the program."""
        return self._executable.name

    @property
    def stats(self) -> Mapping[str, object]:
        """Counts of the compilation, as ``Executable.stats`` has them."""
        return self._executable.stats

    @property
    def versions(self) -> Mapping[str, Executable]:
        """The programs for some sizes alone, as ``Executable.versions`` has them."""
        return self._executable.versions

    @property
    def plan(self) -> Plan:
        """What was decided, as ``Executable.plan`` has it."""
        return self._executable.plan

    def explain(self) -> str:
        """What was fused, tiled and scheduled, and why, of the user's modules and source lines."""
        return self._executable.explain()

    def as_text(self, stage: str) -> str:
        """The program after ``stage``. Raises ``CallError`` (WEFT-E0609), which lists the stages
        there are."""
        return self._executable.as_text(stage)

    def source(self, language: str) -> str:
        """The generated code: "llvm" as emitted, "asm" for the target. Raises ``CallError``
        (WEFT-E0609) for another ``language``."""
        return self._executable.source(language)

    def save(
        self, path: str | os.PathLike[str], *, texts: bool = True, certificate: bool = True
    ) -> None:
        """Write ``path``, one file that ``weft.load`` runs, with or without ``texts`` and
        ``certificate``, as ``Executable.save`` does; state is given to its calls."""
        self._executable.save(path, texts=texts, certificate=certificate)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        header: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write a library that C programs call: ``path``, ``header`` and ``name`` as
        ``Executable.export`` has them. Raises ``ArtifactError`` as it does."""
        self._executable.export(path, header=header, name=name)

    def __repr__(self) -> str:
        return f"<weft.TorchModel {self._executable!r}>"


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
