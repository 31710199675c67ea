"""What transfers of boxes take: by instruction, by element and by zero.

Told from the costs of instructions of few and of many elements, so that ``tile_costs`` can rank
tilings without any of their instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.accel.abilities import Transfer
from weft.accel.accelerator import Cost
from weft.accel.tile_footprints import Footprint
from weft.accel.tile_grid import Array

RATES = 64  # elements from which the rate of a transfer is told


@dataclass(frozen=True, slots=True)
class Rates:
    """Cycles of a transfer: each instruction, each element, each zero; how much of an element's is
    the channel's."""

    queue: str
    channel: str
    instruction: float
    element: float
    zero: float
    beats: float

    def cycles(self, found: Footprint) -> Array:
        """Of a part."""
        elements = found.elements * self.element
        if self.element < 1:  # rows begin with a beat of their own
            elements = np.maximum(elements, found.rows * np.ceil(elements / found.rows))
        cycles: Array = self.instruction * found.moves + elements + self.zero * found.zeros
        return cycles

    def carried(self, found: Footprint) -> Array:
        """Beats of a part."""
        return found.elements * self.beats


def rates(transfer: Transfer) -> Rates:
    """Told from what instructions of few and of many elements take."""
    rows, columns = transfer.rows, transfer.columns
    queue = transfer.operation.queue
    long = columns if columns.size is not None else rows
    one = {} if rows.size is None else {rows.size: 1 - rows.offset}

    def takes(count: int, **more: int) -> Cost:
        size = {} if long.size is None else {long.size: count - long.offset}
        return transfer.operation.takes({**one, **size, **more})

    few, many = takes(RATES), takes(2 * RATES)
    if long.size is None:  # so many at once, and no others
        several = rows.offset * columns.offset
        whole = few.latency + few.beats + few.cycles
        return Rates(queue, few.channel, 0.0, whole / several, 0.0, few.beats / several)
    element = (many.beats + many.cycles - few.beats - few.cycles) / RATES
    zero = 0
    if columns.before is not None:
        padded = takes(RATES, **{columns.before: 1})
        zero = padded.beats + padded.cycles - few.beats - few.cycles
    return Rates(
        queue,
        few.channel,
        few.latency + few.beats + few.cycles - element * RATES,
        element,
        zero,
        (many.beats - few.beats) / RATES if few.channel else 0.0,
    )
