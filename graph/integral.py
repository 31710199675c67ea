"""A floating-point tensor program in integers, by reading its expressions as fixed-point numbers.

    y[k] = max(Σ_c x[c] * w[k, c] * a[k] + b[k], 0)        x: int8 at exponent e
    →
    y[k] = int8(min(max((Σ_c int32(x[c]) * int32(v[k, c]) + d[k]) >> n, 0), 127))

v is w * a as int8 and d is b as int32 at the exponent of the sum, rounded once from float64. Which
operator it was does not matter: what is computed in integers is whatever consists of sums, products
with constants (or of two int8), min, max, selections, and moves. All else, and what int32 cannot
hold for certain, raises ``NotIntegral``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from weft.graph.exponents import fitting
from weft.graph.factors import MAX_NODES
from weft.graph.fixed_point import Fixed, TooLarge, requantised
from weft.graph.fixed_reading import Held, Reading
from weft.graph.known import Constants, NotIntegral
from weft.graph.whole_program import key_of
from weft.ir import dtypes
from weft.ir.scalar_expr import walk
from weft.ir.tensor_expr import (
    Compute,
    Operation,
    Program,
    Reshape,
    Size,
    Tensor,
    operations,
)

Shapes = Mapping[Operation, tuple[Size, ...]]
COARSER = 300  # by how much exponents of weights may exceed the best ones, until sums fit


@dataclass(frozen=True, slots=True)
class Integral:
    """``program`` computes ``result`` from int8 and ``constants``.

    ``weights``: the exponents of int8 factors; ``sums`` bounds the magnitude of what is
    accumulated, 0 where nothing is; ``shift``: by how many bits it is rounded at the end.
    """

    program: Program
    result: Held
    constants: Mapping[Tensor, np.ndarray]
    weights: tuple[int, ...]
    sums: int
    shift: int


def integral(
    program: Program,
    given: Mapping[Tensor, Held],
    constants: Mapping[Tensor, np.ndarray],
    exponent: int | None,
) -> Integral:
    """``program``, of one output, in integers.

    ``given``: placeholders and what holds them as int8; ``constants``: those whose data is known.
    ``exponent``: of the result, None for one at which it cannot saturate; a result that is int8
    anyway keeps its own. Raises ``NotIntegral``.
    """
    coarser = 0
    while coarser < COARSER:
        held = {key_of(t): h for t, h in given.items()}
        reading = Reading(Constants(constants), exponent, coarser, held)
        try:
            return _result(program, reading)
        except TooLarge as excess:
            if not reading.weights:
                break
            coarser += excess.bits
    raise NotIntegral("its sums do not fit 31 bits")


def _result(program: Program, reading: Reading) -> Integral:
    """``program`` by one attempt; ``TooLarge`` where sums are."""
    (output,) = program.outputs
    source = output
    while isinstance(source.operation, Reshape):
        source = source.operation.source
    order = operations(program)
    tensors = [output, *(t for operation in order for t in operation.reads)]
    shapes = {t.operation: t.shape for t in tensors if t.operation is not None}
    shift = 0
    for operation in order:
        if any(key_of(t) in reading.held for t in operation.reads):
            last = operation is source.operation
            held, by = _stored(operation, reading, shapes, last=last)
            reading.held[(operation, 0)] = held
            shift += by
    found = reading.held.get(key_of(output))
    if found is None or found.tensor.dtype != dtypes.int8:
        raise NotIntegral("its result does not depend on quantised values")
    made = reading.constants.made
    for array in made.values():
        array.flags.writeable = False
    new = Program(program.name, (), (found.tensor,))
    read = dict.fromkeys(t for o in operations(new) for t in o.reads if t.operation is None)
    new = replace(new, inputs=tuple(read) or (found.tensor,))
    return Integral(new, found, made, tuple(reading.weights), reading.sums, shift)


def _stored(
    operation: Operation, reading: Reading, shapes: Shapes, *, last: bool
) -> tuple[Held, int]:
    """What ``operation`` computes, and by how much it is shifted if it is the ``last``."""
    match operation:
        case Reshape(name, source):
            held = reading.held[key_of(source)]
            new = Reshape(name, held.tensor)
            tensor = Tensor(name, shapes[operation], held.tensor.dtype, new)
            return replace(held, tensor=tensor), 0
        case Compute(name, axes, (value,), 0):
            if sum(1 for _ in walk(value)) > MAX_NODES:
                raise NotIntegral("it is long")
            number, shift = reading.number(value), 0
            if last:
                number, shift = _requantised(number, reading)
            result = Compute(name, axes, (number.value,), written=operation.written)
            tensor = Tensor(name, shapes[operation], number.value.dtype, result)
            return Held(tensor, number.exponent, number.low, number.high), shift
    raise NotIntegral("it scatters, scans or has several results")


def _requantised(number: Fixed, reading: Reading) -> tuple[Fixed, int]:
    """``number`` as the int8 result, and by how much it is shifted for that."""
    if reading.exponent is None:
        exponent = number.exponent + max(0, fitting(number.peak) if number.peak else 0)
    else:
        exponent = number.exponent if number.is_int8 else reading.exponent
    return requantised(number, exponent, reading.constants.made), exponent - number.exponent
