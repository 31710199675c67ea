"""What follows from the shapes of a call's arguments: sizes, parameters, memory, results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from weft.arguments import address, listing
from weft.codegen.size_arithmetic import SizeError, bind, evaluate
from weft.compiled import ArraySpec, Compiled
from weft.errors import CallError

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """``parameters``: int64, alive for its address; ``threads`` that it is worth; ``outputs``:
    shape, dtype, bytes."""

    parameters: np.ndarray
    parameters_at: int
    threads: int
    arena_bytes: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype, int], ...]


def plan_call(
    compiled: Compiled,
    shapes: Shapes,
    values: tuple[int, ...],
    needs: Callable[[int], tuple[int, int]],
) -> Plan:
    """The plan of a call with inputs of ``shapes``, those that are parameters being ``values``.

    ``needs`` says how many threads and how much memory the program needs, given where its
    parameters lie, or raises ``SizeError``. Raises ``CallError`` where shapes contradict each
    other, or what the program was compiled for.
    """
    try:
        names = [compiled.inputs[k].name for k in compiled.scalars]
        known = dict(zip(names, values, strict=True))
        declared = [spec.shape for spec in compiled.inputs]
        called = [spec.name for spec in compiled.inputs]
        sizes = bind(declared, shapes, compiled.derived, known, called)
        for guard in compiled.guards:
            if not evaluate(guard.condition, sizes):
                raise CallError(
                    "WEFT-E0608",
                    f"{compiled.name} was compiled for {guard.text}",
                    where=_bindings(sizes),
                    hint="call or compile it with other sizes",
                )
        outputs = tuple(_output(spec, sizes) for spec in compiled.outputs)
        parameters = np.array([*(sizes[name] for name in compiled.parameters), 0], np.int64)
        at = address(parameters)
        return Plan(parameters, at, *needs(at), outputs)
    except (SizeError, KeyError) as error:
        raise CallError(
            "WEFT-E0605",
            f"sizes do not fit: {error}",
            where=", ".join(
                f"{spec.name} of shape {list(shape)}"
                for spec, shape in zip(compiled.inputs, shapes, strict=True)
            ),
            hint=f"inputs: {listing(compiled.inputs)}",
        ) from None


def _output(spec: ArraySpec, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], np.dtype, int]:
    shape = tuple(evaluate(size, sizes) for size in spec.shape)
    if any(size < 0 for size in shape):
        raise SizeError(f"output {spec.name} would have shape {list(shape)}")
    return shape, spec.dtype.numpy, prod(shape) * spec.dtype.itemsize


def _bindings(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
