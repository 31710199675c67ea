"""An ONNX model as a callable with the surface of an ``Executable``.

A model of fixed shapes and no control flow *is* one ``Executable``. One of open shapes is one
program for all of them where that can be (``open_sizes.py``); any other is compiled for the shapes
and data of its calls. ``Model`` shows what that has made so far.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.driver.options import Options
from weft.driver.specialized import Specialize, specialized
from weft.frontend.onnx.importer import declared_value
from weft.frontend.onnx.onnx_graph import Port, Region
from weft.frontend.onnx.open_model import Source
from weft.host.onnx_model import OnnxModel, load_model
from weft.host.onnx_shapes import Shapes, describe
from weft.ir.errors import ArtifactError, CallError, CompileError, PlanError, UnsupportedError
from weft.ir.operator_graph import Graph, Value
from weft.ir.plan import Plan
from weft.ir.scalar_affine import Range
from weft.ir.tensor_expr import constant_size
from weft.runtime.arguments import check_writable, not_by_name
from weft.runtime.executable import Executable
from weft.runtime.pickling import StaysHere
from weft.verify.verify_full import compile_and_verify

Data = Any  # an array, or a list (a sequence) or None (an empty optional)
Out = np.ndarray | Sequence[np.ndarray | None] | Mapping[str, np.ndarray] | None


def compile_model(
    source: Source,
    options: Options,
    shapes: Shapes | None = None,
    plan: Plan | None = None,
    wanted: Specialize | None = None,
) -> Executable | Model:
    """The ONNX model ``source``: one ``Executable`` where its shapes are fixed, by the decisions of
    ``plan``; ``wanted``: versions for some of its open sizes. Raises ``PlanError`` (WEFT-E0029) for
    a plan of what is no one executable, ``CompileError`` (WEFT-E0035) for versions of such."""
    made: list[Executable] = []
    graphs: list[Graph] = []

    def compiler(graph: Graph) -> Executable:
        made.append(compile_and_verify(graph, options, plan=None if made else plan))
        if wanted is not None and not graphs:
            graphs.append(graph)
        return made[-1]

    onnx = load_model(source, compiler, shapes, once=True)
    whole = _whole(onnx)
    # An initializer that is also an input may be overridden by a call, which only a Model can do.
    overridable = len(onnx.input_names) < len(onnx.region.inputs)
    if whole is not None and not overridable and onnx.open is None:
        return whole
    if plan and onnx.open is None:
        raise _not_one()
    if wanted is not None and onnx.open is not None:
        made[0] = specialized(
            made[0], graphs.pop(), wanted, lambda graph: compile_and_verify(graph, options)
        )
        onnx.executable, onnx.open = made[0], replace(onnx.open, executable=made[0])
    elif wanted and wanted != "background":
        raise CompileError(
            "WEFT-E0035",
            "specialize is for what is compiled once for its open sizes",
            why=onnx.why_closed or "no size of this model is open",
            hint="give shapes, weft.compile(model, shapes=…)",
        )
    return Model(onnx, made)


def _not_one() -> PlanError:
    return PlanError(
        "WEFT-E0029",
        "a plan is for what becomes one executable",
        why="this model is compiled in parts, or for the shapes of its calls",
        hint="give shapes, weft.compile(model, shapes=…, plan=…)",
    )


def _whole(onnx: OnnxModel) -> Executable | None:
    """The one executable that computes all of the model, if there is one."""
    whole = onnx.executable
    if not isinstance(whole, Executable):
        return None
    inputs, outputs = (tuple(s.name for s in side) for side in (whole.inputs, whole.outputs))
    same = inputs == onnx.input_names and outputs == onnx.output_names
    return whole if same else None


class Model(StaysHere):
    """An ONNX model with open shapes, control flow or data that is no tensor.

    ``model(*arrays, **by_name)``, in order or by name, returns the output, or a tuple of them;
    ``out=`` as ``Executable`` has it. Where one program serves all open sizes that keep its
    ``conditions``, nothing is compiled after it. Else the first call with new shapes compiles for
    them; 64 are remembered for each part of the model. Calls may run at the same time.
    ``weft.compile`` makes it of the imported model, ``onnx``; ``made`` are the executables, which
    calls add to.

    Raises ``CallError`` for unfit inputs (WEFT-E0600 to E0606), ``CompileError`` where these shapes
    or data make the model ill-formed, ``ExecutionError`` as compiled code does.
    """

    __slots__ = ("_made", "_onnx", "_open")
    _elsewhere = (
        "compile the ONNX model there, or give its sizes, weft.compile(model, shapes=...): what is"
        " one Executable is saved, loaded and pickled"
    )

    def __init__(self, onnx: OnnxModel, made: list[Executable]) -> None:
        self._onnx = onnx
        self._made = made  # grows as calls compile
        self._open = _whole(onnx) if onnx.open is not None else None

    def __call__(self, /, *arrays: Data, out: Out = None, **by_name: Data) -> Any:
        if self._open is not None:
            try:
                return self._open(*arrays, out=out, **by_name)
            except CallError:
                pass  # the long way knows why, in ONNX's terms, or has code for these sizes
        outputs = self._onnx.outputs(*arrays, **by_name)
        placed = self._placed(dict(zip(self.output_names, outputs, strict=True)), out)
        results = tuple(placed.values())
        return results[0] if len(results) == 1 else results

    def run(self, arrays: Mapping[str, Data], *, out: Out = None) -> dict[str, Data]:
        """The outputs by name, from the inputs by name: ``arrays`` and ``out`` as in a call. Raises
        ``CallError``: WEFT-E0602 for what is no mapping, and as a call does."""
        if not isinstance(arrays, Mapping):
            raise not_by_name(arrays)
        return self._placed(self._onnx.run(arrays), out)

    def _placed(self, results: dict[str, Data], out: Out) -> dict[str, Data]:
        """``results``, those with a place copied there once all places are known to fit."""
        places = self._places(out)
        for name, place in places.items():
            _check_place(name, place, results[name])
        for name, place in places.items():
            np.copyto(place, results[name])
        return {**results, **places}

    def _places(self, out: Out) -> dict[str, np.ndarray]:
        names = self.output_names
        match out:
            case None:
                return {}
            case Mapping():
                if unknown := [name for name in out if name not in names]:
                    raise CallError(
                        "WEFT-E0601",
                        f"there is no output {unknown[0]!r}",
                        hint=f"outputs: {', '.join(names)}",
                    )
                return dict(out)
            case tuple() | list():
                given = list(out)
            case _:
                given = [out]
        if len(given) != len(names):
            raise CallError(
                "WEFT-E0606",
                f"out has {len(given)} arrays for {len(names)} outputs",
                hint=f"outputs, in order: {', '.join(names)}",
            )
        return {n: place for n, place in zip(names, given, strict=True) if place is not None}

    # ---- looking at it ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """That of the ONNX graph."""
        return self._onnx.region.name

    @property
    def input_names(self) -> tuple[str, ...]:
        """Inputs that a call must give, in the model's order."""
        return self._onnx.input_names

    @property
    def output_names(self) -> tuple[str, ...]:
        """Outputs, in the model's order."""
        return self._onnx.output_names

    @property
    def input_values(self) -> dict[str, Value | None]:
        """Shape and dtype of each input, open sizes as symbols; None where there is no rank."""
        ports = {port.name: port for port in self._onnx.region.inputs}
        return {name: _declared(ports[name]) for name in self.input_names}

    @property
    def executables(self) -> tuple[Executable, ...]:
        """What has been compiled so far, in order."""
        return tuple(self._made)

    @property
    def stats(self) -> Mapping[str, object]:
        """Sums over what has been compiled, and "host": nodes that run on the host."""
        return MappingProxyType({**total_stats(self._made), **self._onnx.stats})

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The least and the greatest that open sizes may be, by name, where these were given."""
        return self._onnx.ranges

    @property
    def versions(self) -> Mapping[str, Executable]:
        """The programs for some sizes alone, as ``Executable.versions`` has them."""
        return {} if self._open is None else self._open.versions

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the one program for open sizes takes for granted of them, "batch >= 1" say, in the
        model's names; () where there is none. Sizes that break one have code of their own, made at
        the call, where ONNX allows them."""
        return () if self._onnx.open is None else self._onnx.open.conditions

    @property
    def plan(self) -> Plan:
        """The decisions of the one program for open sizes, as ``Executable.plan`` has them. Raises
        ``PlanError`` (WEFT-E0029) where there is no one program."""
        if self._open is None:
            raise _not_one()
        return self._open.plan

    def explain(self) -> str:
        """What was fused, tiled and scheduled, and why, for each thing compiled so far; before it,
        for which sizes, or why each call's have code of their own. Raises ``CallError``
        (WEFT-E0620) where nothing is."""
        text = self._texts(lambda executable: executable.explain())
        if self._onnx.open is not None:
            return f"compiled once for {', '.join(self.conditions) or 'all sizes'}\n{text}"
        why = self._onnx.why_closed
        return f"compiled for the sizes of each call: {why}\n{text}" if why else text

    def as_text(self, stage: str) -> str:
        """What has been compiled, after ``stage``. Raises ``CallError``: WEFT-E0609, which lists
        the stages there are, E0620 where nothing is compiled yet."""
        return self._texts(lambda executable: executable.as_text(stage))

    def source(self, language: str) -> str:
        """The generated code: "llvm" as emitted, "asm" for the target. Raises ``CallError``:
        WEFT-E0609 for another language, E0620 where nothing is compiled yet."""
        return self._texts(lambda executable: executable.source(language))

    def _texts(self, of: Callable[[Executable], str]) -> str:
        if not self._made:
            raise CallError(
                "WEFT-E0620",
                f"nothing of {self.name!r} is compiled yet",
                why=self._why_apart() or "it runs on the host",
                hint="call it once, or give its sizes: weft.compile(model, shapes=...)",
            )
        return "\n".join(f"---- {executable!r}\n{of(executable)}" for executable in self._made)

    def save(
        self, path: str | os.PathLike[str], *, texts: bool = True, certificate: bool = True
    ) -> None:
        """Write ``path``, one file that ``weft.load`` runs without compiling, with or without
        ``texts`` and ``certificate``, as ``Executable.save`` does; open sizes stay open.
        Raises ``ArtifactError`` (WEFT-E0706) where the model is more than one compiled program."""
        self._one().save(path, texts=texts, certificate=certificate)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        header: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write a library that C programs call: ``path``, ``header`` and ``name`` as
        ``Executable.export`` has them. Raises ``ArtifactError`` (WEFT-E0706) where the model is
        more than one compiled program."""
        self._one().export(path, header=header, name=name)

    def _one(self) -> Executable:
        """The one compiled program that this is."""
        whole = _whole(self._onnx)
        if whole is None:
            raise ArtifactError(
                "WEFT-E0706",
                f"{self.name!r} cannot be saved as one artifact",
                why=self._why_apart() or "parts run on the host or depend on data",
                hint="give open sizes: weft.compile(model, shapes={'x': (1, 3, 224, 224)}), or"
                " weft compile --shape x=1,3,224,224",
            )
        return whole

    def _why_apart(self) -> str:
        """Why there is no one program, in words."""
        return "; ".join(filter(None, (_open_sizes(self._onnx.region), self._onnx.why_closed)))

    @property
    def _inputs(self) -> str:
        wanted = self.input_names
        ports = [port for port in self._onnx.region.inputs if port.name in wanted]
        return "inputs: " + ", ".join(f"{port.name}: {describe(port)}" for port in ports)

    def __repr__(self) -> str:
        return f"<weft.Model {self.name}({self._inputs.removeprefix('inputs: ')})>"


def _open_sizes(region: Region) -> str:
    """The inputs whose shapes the model leaves open, in words; '' where there are none."""
    names = [f"{port.name}: {describe(port)}" for port in region.inputs if _is_open(port)]
    return f"sizes are open: {', '.join(names)}" if names else ""


def _is_open(port: Port) -> bool:
    value = _declared(port)
    return value is None or any(constant_size(size) is None for size in value.shape)


def _declared(port: Port) -> Value | None:
    try:
        return declared_value(port)
    except UnsupportedError:  # no rank, or no tensor
        return None


def _check_place(name: str, place: object, result: Data) -> None:
    if not isinstance(place, np.ndarray) or not isinstance(result, np.ndarray):
        raise CallError("WEFT-E0606", f"out for {name!r}: only arrays can be given places")
    if place.dtype != result.dtype or place.shape != result.shape:
        raise CallError(
            "WEFT-E0606",
            f"out for {name!r} is {place.dtype}{list(place.shape)},"
            f" not {result.dtype}{list(result.shape)}",
        )
    check_writable(place, f"out for {name!r}")


def total_stats(executables: Iterable[Executable]) -> dict[str, object]:
    """The sums of ``stats``."""
    counts: dict[str, object] = {}
    for executable in executables:
        _add(counts, executable.stats)
    return counts


def _add(counts: dict[str, object], stats: Mapping[str, object]) -> None:
    """Add the numbers of ``stats`` to ``counts``, nested ones too; None where one is unknown."""
    for key, value in stats.items():
        if isinstance(value, Mapping):
            inner = counts.setdefault(key, {})
            assert isinstance(inner, dict)
            _add(inner, value)
        elif isinstance(value, bool):
            counts[key] = counts.get(key, True) and value
        elif isinstance(value, int | float):
            before = counts.get(key, 0)
            counts[key] = before + value if isinstance(before, int | float) else None
        else:
            counts[key] = None
