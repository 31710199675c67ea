"""``torch.export``'s programs → operator graphs, with what their signatures say of calls.

Parameters and buffers are constants. A buffer or an input that the model writes to is an input of
the graph that the call overwrites.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.frontend.torch.decompositions import export_decompositions
from weft.frontend.torch.export_guards import sizes_of
from weft.frontend.torch.importer import import_fx
from weft.frontend.torch.results import Imported
from weft.frontend.torch.tensors import array_of
from weft.frontend.torch.torch_module import torch
from weft.ir.errors import CallError, ModelError, UnsupportedError, WeftError

ExportedProgram = Any  # torch.export.ExportedProgram
_STATE = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")


@dataclass(frozen=True, slots=True)
class Argument:
    """An input of the user's: the placeholder ``number``, called ``name``, or ``fixed`` to the
    value that the model was exported with; ``is_size``: an integer that is an open size."""

    name: str
    number: int
    fixed: bool
    value: object
    is_size: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported program as a graph. ``state``: of what it writes to itself, by the number of the
    placeholder, the user's name for it and the data to begin with. ``returned``: which results the
    user sees. ``in_spec`` and ``out_spec`` say how arguments and results are nested."""

    imported: Imported
    arguments: tuple[Argument, ...]
    state: Mapping[int, tuple[str, np.ndarray]]
    returned: tuple[int, ...]
    in_spec: Any
    out_spec: Any

    def flat(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """The arguments of a call in the order of ``arguments``. Raises ``CallError`` (WEFT-E0632)
        where they are nested otherwise than those of the export, or differ where they are fixed."""
        tree = torch().utils._pytree
        try:
            kwargs = torch().export._tree_utils.reorder_kwargs(dict(kwargs), self.in_spec)
        except ValueError as error:
            raise CallError("WEFT-E0632", "the keyword arguments differ", why=str(error)) from None
        leaves, spec = tree.tree_flatten((tuple(args), kwargs))
        if spec != self.in_spec:
            raise CallError(
                "WEFT-E0632",
                "the arguments are not those of the export",
                why=f"they are nested as {spec}, not as {self.in_spec}",
            )
        for argument, leaf in zip(self.arguments, leaves, strict=True):
            if argument.fixed and leaf != argument.value:
                raise CallError(
                    "WEFT-E0632",
                    f"{argument.name!r} is {leaf!r}",
                    why=f"the model was exported for {argument.value!r}",
                )
        return list(leaves)

    def nested(self, results: Sequence[object]) -> Any:
        """``results``, those that the user sees, as the model returns them."""
        return torch().utils._pytree.tree_unflatten(list(results), self.out_spec)


def is_module(source: object) -> bool:
    """Whether ``source`` is a ``torch.nn.Module``."""
    return _is_one("torch.nn.modules.module", "Module", source)


def is_exported(source: object) -> bool:
    """Whether ``source`` is a ``torch.export.ExportedProgram``, or a file of one."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source).endswith(".pt2")
    return _is_one("torch.export.exported_program", "ExportedProgram", source)


def _is_one(module: str, name: str, source: object) -> bool:
    """Told by names: whoever has such an object has PyTorch, others need not."""
    return any((c.__module__, c.__name__) == (module, name) for c in type(source).__mro__)


def export(module: Any, args: Sequence[object]) -> ExportedProgram:
    """``module`` traced with the arguments ``args``. Raises ``ModelError`` (WEFT-E0274) where
    PyTorch cannot export it."""
    try:
        return torch().export.export(module, tuple(args))
    except Exception as error:  # tracing runs the user's own code
        raise _failed(f"{type(module).__name__} cannot be exported", error) from error


def _failed(what: str, error: Exception) -> ModelError:
    return ModelError(
        "WEFT-E0274",
        what,
        why=f"{type(error).__name__}: {str(error).strip()}",
        hint='torch.compile(model, backend="weft") leaves what cannot be traced to Python',
    )


def open_exported(source: ExportedProgram | str | os.PathLike[str]) -> ExportedProgram:
    """The exported program that ``source`` is, or that its file holds. Raises ``ModelError``
    (WEFT-E0275) where that cannot be read."""
    if not isinstance(source, str | os.PathLike):
        return source
    try:
        return torch().export.load(source)
    except WeftError:
        raise
    except Exception as error:  # of the file system, of archives, of what they hold
        raise ModelError(
            "WEFT-E0275", f"{os.fspath(source)!r} is no exported program", why=str(error).strip()
        ) from None


def import_exported(source: ExportedProgram | str | os.PathLike[str]) -> Exported:
    """The operator graph of ``source``, an exported program or its file.

    Raises ``ModelError``: WEFT-E0274 where PyTorch cannot take it apart into plain operators, E0275
    for a file; ``UnsupportedError`` for what Weft lacks, all at once (WEFT-E0270 to E0273).
    """
    program = open_exported(source)
    torch()
    sizes = sizes_of(program)
    try:
        program = program.run_decompositions(export_decompositions())
    except WeftError:
        raise
    except Exception as error:  # PyTorch's own definitions run
        raise _failed("the exported program cannot be decomposed", error) from error
    signature = program.graph_signature
    written = [
        (number, spec.kind.name, spec.target)
        for number, spec in enumerate(signature.output_specs)
        if spec.kind.name in _MUTATIONS
    ]
    targets = {target for _, kind, target in written if kind != "USER_INPUT_MUTATION"}
    constants: dict[str, np.ndarray] = {}
    state: dict[int, tuple[str, np.ndarray]] = {}
    arguments: list[Argument] = []
    placeholders: dict[str, str] = {}  # of what is written to, by its target
    for number, spec in enumerate(signature.input_specs):
        name, kind = spec.arg.name, spec.kind.name
        if kind == "USER_INPUT":
            kind = type(spec.arg).__name__
            fixed, is_size = kind == "ConstantArgument", kind == "SymIntArgument"
            value = spec.arg.value if fixed else None
            arguments.append(Argument(name, number, fixed, value, is_size))
            placeholders[name] = name
        elif kind in _STATE:
            data = array_of(_held(program, spec))
            placeholders[spec.target] = name
            if spec.target in targets:
                state[number] = spec.target, np.array(data)
            else:
                constants[name] = data
        else:
            raise UnsupportedError("WEFT-E0272", f"the input {name!r}, a {kind.lower()}")
    in_place = {number: placeholders[target] for number, _, target in written}
    imported = import_fx(
        program.graph_module, "model", constants=constants, in_place=in_place, sizes=sizes
    )
    shown = [n for n, s in enumerate(signature.output_specs) if s.kind.name not in _MUTATIONS]
    spec = program.call_spec
    return Exported(imported, tuple(arguments), state, tuple(shown), spec.in_spec, spec.out_spec)


def _held(program: ExportedProgram, spec: Any) -> Any:
    """The tensor that a parameter, a buffer or a constant of ``program`` is."""
    held = program.state_dict if spec.target in program.state_dict else program.constants
    return held[spec.target]
