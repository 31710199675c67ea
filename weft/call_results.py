"""Where a call's results go: to the caller's arrays, in place of arguments, or to fresh arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.arguments import Out, check_apart, check_in_place, check_target, empty, targets_of
from weft.call_plan import Plan
from weft.compiled import Compiled
from weft.errors import CallError


def results_of(
    compiled: Compiled,
    plan: Plan,
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
