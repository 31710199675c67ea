"""Models and their inputs as the command line names them."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
import onnx

import weft
from weft.accel.machines.named import MACHINES, machine_named
from weft.accel.machines.vta import Config, vta
from weft.app.user_files import beside, names_of, split
from weft.driver.options import Options
from weft.frontend.torch.exported import is_exported
from weft.frontend.zoo.registry import MODELS
from weft.host.model import Model
from weft.host.onnx_shapes import Shapes
from weft.host.torch_model import TorchModel
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CallError, CompileError, WeftError
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Var, variable_names
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import as_size
from weft.loop_kernel import Kernel
from weft.offload.accelerated import Accelerated
from weft.offload.quantization import Accuracy, Quantized, model_graph
from weft.runtime.executable import Executable

Program = Executable | Model | TorchModel | Accelerated
Inputs = Callable[[int], dict[str, np.ndarray]]  # from a seed


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that runs; ``onnx`` is its source where there is one, ``sample`` makes inputs."""

    name: str
    program: Program
    onnx: onnx.ModelProto | Path | None
    sample: Inputs | None = None


def open_program(name: str, options: Options, shapes: Shapes, plan: Path | None = None) -> Loaded:
    """The model called ``name``: of the zoo, an ONNX file, PyTorch's, a loop kernel of a Python
    file, which is run for it, or a compiled artifact; by the decisions of the file ``plan``."""
    if Path(name).suffix == ".weft":
        if plan is not None:
            raise CallError("WEFT-E0802", "--plan has no meaning for a compiled artifact")
        if shapes:
            raise CallError("WEFT-E0802", "--shape has no meaning for a compiled artifact")
        if options.seeds:
            raise CallError("WEFT-E0802", "--seeds has no meaning for a compiled artifact")
        return Loaded(Path(name).stem, weft.load(name, threads=options.threads), None)
    if split(name) is not None:
        kernel = _kernel_of(name)
        if shapes:
            raise CallError(
                "WEFT-E0802",
                "--shape has no meaning: loop kernels are for all sizes",
                hint="weft explain --size N=300 estimates for sizes",
            )
        program = weft.compile(kernel, options=options, plan=plan)
        return Loaded(kernel.__name__, program, None)
    title, source, sample = source_of(name)
    program = weft.compile(source, options=options, shapes=shapes, plan=plan)
    return Loaded(title, program, None if is_exported(source) else source, sample)


def _kernel_of(name: str) -> Kernel:
    """The loop kernel FILE.py:KERNEL, or the only one of FILE.py."""
    path, wanted = split(name) or (name, "")
    found = {k: v for k, v in names_of(path).items() if isinstance(v, Kernel)}
    if wanted in found or (not wanted and len(found) == 1):
        return found[wanted or next(iter(found))]
    raise WeftError(
        "WEFT-E0800",
        f"{name} is no loop kernel",
        why=f"the file has {', '.join(found) or 'none'}",
        hint="FILE.py:KERNEL, the name of a function under @weft.kernel",
    )


def source_of(name: str) -> tuple[str, onnx.ModelProto | Path, Inputs | None]:
    """Title, ONNX model and maker of inputs (if it has one) of the model called ``name``."""
    path = Path(name)
    if name in MODELS:
        return name, MODELS[name].build(), MODELS[name].seeded_inputs
    if not path.is_file():
        raise WeftError(
            "WEFT-E0800",
            f"there is no model {name!r}",
            why="it is neither a model that Weft can build nor a file",
            hint=f"{', '.join(MODELS)}, an .onnx, .pt2 or .weft file, or FILE.py:KERNEL",
        )
    return path.stem, path, None


def ports(program: Program) -> dict[str, Value | None]:
    """The inputs by name; None for one that is no tensor of known rank."""
    if isinstance(program, TorchModel):
        program = program.executable
    if isinstance(program, Executable):
        return {spec.name: Value(spec.name, spec.shape, spec.dtype) for spec in program.inputs}
    return program.input_values


def make_inputs(loaded: Loaded, given: Sequence[str], seed: int) -> dict[str, Any]:
    """Inputs by name: those ``given`` as ``name=@file.npy`` or ``name=value``, others random."""
    program = loaded.program
    least = (
        {n: low or 0 for n, (low, _) in program.ranges.items()}
        if isinstance(program, Model)
        else {}
    )
    return inputs_for(ports(program), loaded.sample, given, seed, least)


def inputs_for(
    declared: Mapping[str, Value | None],
    sample: Inputs | None,
    given: Sequence[str],
    seed: int,
    least: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The same for inputs that are ``declared``; ``sample`` makes them where there is one. Open
    sizes that nothing settles are 1, or the ``least`` that they may be."""
    inputs = dict(_parsed(text, declared) for text in given)
    missing = [name for name in declared if name not in inputs]
    if missing and sample is not None:
        return {**sample(seed), **inputs}
    sizes = {
        **{n: max(1, low) for n, low in (least or {}).items()},
        **_known_sizes(declared, inputs),
    }
    generator = np.random.default_rng(seed)
    for name in missing:
        value = declared[name]
        if value is None:
            raise CallError("WEFT-E0801", f"input {name!r} is missing", hint=f"--input {name}=...")
        inputs[name] = _random(value, sizes, generator)
    return {name: inputs[name] for name in declared}


def _parsed(text: str, declared: Mapping[str, Value | None]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in declared:
        raise CallError(
            "WEFT-E0801",
            f"--input {text!r} names no input",
            hint=f"NAME=@FILE.npy or NAME=VALUE with NAME one of {', '.join(declared)}",
        )
    if value.startswith("@"):
        return name, read_array(Path(value[1:]))
    port = declared[name]
    try:
        data = np.array(json.loads(value))
        array = data.astype(port.dtype.numpy) if port is not None else data
    except (ValueError, TypeError, OverflowError) as error:
        raise CallError(
            "WEFT-E0801", f"--input {text!r} is no number or JSON array", why=str(error)
        ) from None
    if port is not None and not array.ndim and port.shape:
        array = np.full(_shape(port, {}), array)  # one number fills the declared shape
    return name, array


def read_array(path: Path) -> np.ndarray:
    """The array in a .npy file; ``CallError`` where there is none. Pickled objects are refused."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CallError("WEFT-E0803", f"{str(path)!r} is no .npy file", why=str(error)) from None
    if not isinstance(array, np.ndarray):
        raise CallError("WEFT-E0803", f"{str(path)!r} is an archive, not one .npy array")
    return array


def _known_sizes(declared: Mapping[str, Value | None], inputs: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the symbols that the given inputs settle."""
    sizes: dict[str, int] = {}
    for name, array in inputs.items():
        value = declared.get(name)
        if value is not None and isinstance(array, np.ndarray):
            for size, extent in zip(value.shape, array.shape, strict=False):
                if isinstance(size, Var):
                    sizes.setdefault(size.name, extent)
    return sizes


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape with symbols replaced: 1 where nothing settles one."""
    expressions = [as_size(size) for size in value.shape]
    names = {name for e in expressions for name in variable_names(e)}
    known = {name: sizes.get(name, 1) for name in sorted(names)}
    return tuple(evaluate(e, known) for e in expressions)


def _random(value: Value, sizes: Mapping[str, int], generator: np.random.Generator) -> np.ndarray:
    """Standard normal floats; integers 0 and 1, which are in range of most tables; booleans."""
    shape = _shape(value, sizes)
    if value.dtype.is_float:
        return generator.standard_normal(shape).astype(value.dtype.numpy)
    return generator.integers(0, 2, shape).astype(value.dtype.numpy)


# ---- Accelerators as the command line names them.


Made = TypeVar("Made")


def accelerator_named(target: str | None, config: Path | None) -> Accelerator | None:
    """The accelerator that ``--target`` names, by its name or as FILE.py:FUNCTION; None where it is
    a processor. ``config``: the file of VTA's configuration.

    Raises ``CompileError`` (WEFT-E1010, WEFT-E1027).
    """
    if config is not None and target != "vta":
        raise click.UsageError("--config is a configuration of --target vta")
    if config is not None:
        try:
            text = config.read_text("utf-8", "replace")
        except OSError as error:
            raise click.UsageError(f"--config {config}: {error.strerror}") from None
        return vta(Config.read(text))
    if target is not None and target in MACHINES:
        return machine_named(target, {})
    if target is not None and ".py:" in target:
        return made_by(target, Accelerator, "--target")
    return None


def made_by(text: str, kind: type[Made], option: str) -> Made:
    """What the function of ``option FILE.py:FUNCTION`` makes, one of ``kind``.

    Raises ``CompileError`` (WEFT-E1027) where it makes nothing of the kind.
    """
    path, _, name = text.rpartition(":")
    if not path or not name.isidentifier():
        raise click.UsageError(f"{option} {text}: not of the form FILE.py:FUNCTION")
    what = f"{text} makes no {kind.__name__}"
    try:
        with beside(path):
            found = runpy.run_path(path)[name]()
    except Exception as error:  # a user's file may raise anything
        why = f"{type(error).__name__}: {error}"
        raise CompileError("WEFT-E1027", what, why=why) from None
    if not isinstance(found, kind):
        raise CompileError("WEFT-E1027", what, why=f"it returns a {type(found).__name__}")
    return found


# ---- ``weft run --quantize``: a model calibrated with random inputs, its accuracy on others.


CALIBRATED, COMPARED = 4, 8  # calls


@dataclass(frozen=True, slots=True)
class QuantizedRun:
    """A model that was quantised, and how accurate it is."""

    quantized: Quantized
    accuracy: Accuracy

    def data(self) -> dict[str, object]:
        """All of it as JSON data."""
        outputs = [asdict(output) for output in self.accuracy.outputs]
        for output in outputs:  # JSON has no infinity
            output["decibels"] = None if output["largest"] == 0 else output["decibels"]
        layers = [asdict(layer) for layer in self.quantized.layers]
        return {"layers": layers, "calls": self.accuracy.calls, "accuracy": outputs}

    def __str__(self) -> str:
        return f"{self.quantized}\n\n{self.accuracy}\n"


def open_quantized(
    name: str,
    options: Options,
    shapes: Shapes,
    given: Sequence[str],
    seed: int,
    machine: Accelerator | None = None,
) -> tuple[Loaded, QuantizedRun]:
    """The model called ``name`` in 8-bit integers, for the ``machine`` if there is one.

    Inputs ``given`` on the command line are the same in all calls; others are random, from the
    seeds after ``seed``. Raises as ``weft.quantize`` does, WEFT-E0809 for a compiled artifact.
    """
    if Path(name).suffix == ".weft":
        raise CallError(
            "WEFT-E0809",
            f"{name!r} is compiled already",
            why="quantisation needs the operators",
            hint="--quantize takes a model of Weft's own or an .onnx file",
        )
    title, source, sample = source_of(name)
    declared = {value.name: value for value in model_graph(source, shapes).inputs}
    seeds = range(seed + 1, seed + 1 + CALIBRATED + COMPARED)
    calls = [inputs_for(declared, sample, given, s) for s in seeds]
    made = weft.quantize(source, calls[:CALIBRATED], options=options, shapes=shapes)
    accuracy = made.accuracy(calls[CALIBRATED:], options=options)
    loaded = Loaded(title, weft.compile(made, target=machine, options=options), None, sample)
    return loaded, QuantizedRun(made, accuracy)
