"""``torch.export``'s programs → operator graphs, with what their signatures say of calls.

Parameters and buffers are constants. A buffer or an input that the model writes to is an input of
the graph that the call overwrites.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.frontend.torch.counted import depends_on_data
from weft.frontend.torch.decompositions import export_decompositions
from weft.frontend.torch.export_guards import sizes_of
from weft.frontend.torch.importer import import_fx, import_parts
from weft.frontend.torch.open_sizes import OpenSizes
from weft.frontend.torch.parts import in_parts
from weft.frontend.torch.results import Given, Imported
from weft.frontend.torch.tensors import array_of
from weft.frontend.torch.torch_module import torch
from weft.ir.errors import CallError, ModelError, UnsupportedError, WeftError

ExportedProgram = Any  # torch.export.ExportedProgram
_STATE = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")


@dataclass(frozen=True, slots=True)
class Argument:
    """An input of the user's: the placeholder called ``name``, or ``fixed`` to the ``value`` that
    the model was exported with; ``is_size``: an integer that is an open size."""

    name: str
    fixed: bool
    value: object
    is_size: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One of the graphs that a program becomes: the values of a call that it ``reads``, with the
    numbers of their placeholders, and those that it ``gives``, in the order of its results."""

    imported: Imported
    reads: tuple[tuple[int, str], ...]
    gives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported program as graphs: one, or ``parts`` where sizes depend on data. ``state``: of
    what it writes to itself, by the value that begins a call with it, the user's name and the data
    to begin with. ``returned``: the values that the user sees, or what is no tensor. ``written``:
    values that a call leaves in others, which no part writes in place. ``in_spec`` and ``out_spec``
    say how arguments and results are nested."""

    parts: tuple[Part, ...]
    arguments: tuple[Argument, ...]
    state: Mapping[str, tuple[str, np.ndarray]]
    returned: tuple[str | Given, ...]
    written: Mapping[str, str]
    in_spec: Any
    out_spec: Any

    @property
    def imported(self) -> Imported:
        """The one graph that there is. Raises as ``require_one`` does."""
        self.require_one()
        return self.parts[0].imported

    def require_one(self) -> None:
        """Raise ``UnsupportedError`` (WEFT-E0273) where there are several graphs."""
        if len(self.parts) > 1:
            raise UnsupportedError(
                "WEFT-E0273",
                f"the model is {len(self.parts)} programs, one after the other",
                why="sizes in it depend on data",
                hint="weft.compile takes it, without a schedule, a plan or versions",
            )

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
        program = program.run_decompositions(export_decompositions(program))
    except WeftError:
        raise
    except Exception as error:  # PyTorch's own definitions run
        raise _failed("the exported program cannot be decomposed", error) from error
    signature = program.graph_signature
    written_to = [
        (number, spec.kind.name, spec.target)
        for number, spec in enumerate(signature.output_specs)
        if spec.kind.name in _MUTATIONS
    ]
    targets = {target for _, kind, target in written_to if kind != "USER_INPUT_MUTATION"}
    constants: dict[str, np.ndarray] = {}
    state: dict[str, tuple[str, np.ndarray]] = {}
    arguments: list[Argument] = []
    placeholders: dict[str, str] = {}  # of what is written to, by its target
    for spec in signature.input_specs:
        name, kind = spec.arg.name, spec.kind.name
        if kind == "USER_INPUT":
            kind = type(spec.arg).__name__
            fixed, is_size = kind == "ConstantArgument", kind == "SymIntArgument"
            value = spec.arg.value if fixed else None
            arguments.append(Argument(name, fixed, value, is_size))
            placeholders[name] = name
        elif kind in _STATE:
            data = array_of(_held(program, spec))
            placeholders[spec.target] = name
            if spec.target in targets:
                state[name] = spec.target, np.array(data)
            else:
                constants[name] = data
        else:
            raise UnsupportedError("WEFT-E0272", f"the input {name!r}, a {kind.lower()}")
    in_place = {number: placeholders[target] for number, _, target in written_to}
    settled = {*constants, *(argument.name for argument in arguments if argument.fixed)}
    written: dict[str, str] = {}
    if any(map(depends_on_data, program.graph.nodes)):
        parts, results = _several(program.graph_module, constants, sizes, settled)
        written = {place: str(results[number]) for number, place in in_place.items()}
    else:
        part = _one(program.graph_module, constants, sizes, in_place, settled)
        parts, results = (part,), part.gives
    shown = [n for n, s in enumerate(signature.output_specs) if s.kind.name not in _MUTATIONS]
    returned = tuple(results[number] for number in shown)
    spec = program.call_spec
    return Exported(parts, tuple(arguments), state, returned, written, spec.in_spec, spec.out_spec)


def _one(
    module: Any,
    constants: Mapping[str, np.ndarray],
    sizes: OpenSizes,
    in_place: Mapping[int, str],
    settled: Container[str],
) -> Part:
    """``module`` as one graph; what it gives is called by its number."""
    imported = import_fx(module, "model", constants=constants, in_place=in_place, sizes=sizes)
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    gives = tuple(str(number) for number in range(len(imported.results)))
    return Part(imported, _read(names, settled), gives)


def _several(
    module: Any, constants: Mapping[str, np.ndarray], sizes: OpenSizes, settled: Container[str]
) -> tuple[tuple[Part, ...], Sequence[str | Given]]:
    """``module`` as parts, and what it returns: the names of what they give."""
    split = in_parts(module)
    imported = import_parts([part.module for part in split], "model", constants, sizes)
    parts = [
        Part(one, _read(part.reads, settled), part.gives)
        for one, part in zip(imported, split, strict=True)
    ]
    *_, output = module.graph.nodes
    return tuple(parts), [getattr(one, "name", Given(one)) for one in output.args[0]]


def _read(names: Sequence[str], settled: Container[str]) -> tuple[tuple[int, str], ...]:
    """Those of ``names`` that a call gives, with their numbers."""
    return tuple((k, name) for k, name in enumerate(names) if name not in settled)


def _held(program: ExportedProgram, spec: Any) -> Any:
    """The tensor that a parameter, a buffer or a constant of ``program`` is."""
    held = program.state_dict if spec.target in program.state_dict else program.constants
    return held[spec.target]
