"""Each way in which an accelerator computes a program, beside the result that is wanted."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tests.accel.targets import target
from weft.accel.execution_order import ORDERS
from weft.accel.machines.vta import Config
from weft.accel.mapping import Mapping
from weft.accel.place import place
from weft.accel.rank_tilings import tilings
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, ways
from weft.offload.simulator import check_stream, simulate
from weft.polyhedral.from_tensor_expr import lower

Arrays = dict[str, np.ndarray]


def check_each_way(
    program: Program,
    data: Arrays,
    machine: Config | Target,
    want: np.ndarray,
    constants: Collection[str] = ("w", "bias"),
) -> tuple[Mapping, ...]:
    """The ways; the best stream of each leaves what is wanted, in all orders of the queues.
    ``machine``: VTA's configuration, or another machine."""
    to = target(machine) if isinstance(machine, Config) else machine
    known = {name: array for name, array in data.items() if name in constants}
    every = ways(lower(program, "p"), to)
    for way in every:
        tiling = next(tilings(way, to.plain, 1))
        made = place(to.machine, to.plain, to.capabilities, tiling, known, {})
        check_stream(made.artifact, to.semantics)
        image = made.artifact.filled(made.prepared(data))
        for order in ORDERS:
            after = simulate(made.artifact.stream, image, order=order, semantics=to.semantics)
            np.testing.assert_array_equal(made.results(after), want)
    return every
