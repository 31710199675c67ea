"""What follows from the shapes of a call's arguments: sizes, parameters, memory, results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from weft.ir.errors import CallError
from weft.ir.size_arithmetic import SizeError, bind, evaluate
from weft.runtime.arguments import (
    Out,
    address,
    check_apart,
    check_in_place,
    check_target,
    empty,
    listing,
    targets_of,
)
from weft.runtime.compiled import ArraySpec, Compiled

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
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
) -> CallPlan:
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
        derived = {name for name, _ in compiled.derived}
        for guard in compiled.guards:
            if not evaluate(guard.condition, sizes):
                raise CallError(
                    "WEFT-E0608",
                    f"{compiled.name} was compiled for {guard.text}",
                    where=_bindings({n: size for n, size in sizes.items() if n not in derived}),
                    hint="call or compile it with other sizes",
                )
        outputs = tuple(_output(spec, sizes) for spec in compiled.outputs)
        parameters = np.array([*(sizes[name] for name in compiled.parameters), 0], np.int64)
        at = address(parameters)
        return CallPlan(parameters, at, *needs(at), outputs)
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


# ---- Where a call's results go: to the caller's arrays, in place of arguments, or to fresh arrays.


def results_of(
    compiled: Compiled,
    plan: CallPlan,
    given: Sequence[object],
    inputs: Sequence[np.ndarray],
    out: Out,
) -> list[np.ndarray]:
    """The arrays that a call returns: the caller's where there are any, fit to be written.

    ``inputs`` are the arguments ``given`` as arrays. Raises ``CallError``.
    """
    in_place = {pair.output: pair for pair in compiled.in_place}
    results: list[np.ndarray] = []
    written: list[tuple[str, np.ndarray]] = []
    wanted = targets_of(out, compiled.outputs)
    for number, (spec, output) in enumerate(zip(compiled.outputs, plan.outputs, strict=True)):
        place = wanted[number]
        if (pair := in_place.get(number)) is not None:
            name = compiled.inputs[pair.input].name
            if place is not None and place is not given[pair.input]:
                raise CallError(
                    "WEFT-E0606",
                    f"output {spec.name!r} is computed in place of input {name!r}",
                    hint="leave it out of out=, or pass the same array",
                )
            check_in_place(given[pair.input], inputs[pair.input], name)
            written.append((f"input {name!r}", inputs[pair.input]))
            results.append(inputs[pair.input])
        elif place is None:
            results.append(empty(*output)[0])
        else:
            results.append(check_target(place, spec, output[0]))
            written.append((f"out for {spec.name!r}", results[-1]))
    replaced = {pair.input for pair in in_place.values()}
    others = [
        (f"input {spec.name!r}", array)
        for i, (spec, array) in enumerate(zip(compiled.inputs, inputs, strict=True))
        if i not in replaced
    ]
    check_apart(written, others)
    return results
