"""Design spaces of accelerators: parameters, the machine for their values, its area.

    Space ::= name, parameters: name -> value…, machine: Point -> Accelerator, area: Point -> number
    Point ::= name -> value

``machine`` raises ``CompileError`` for values that are no machine; such points are skipped.
``area`` is in any unit: only ratios matter. ``instructions``: the parameters that change what
instructions compute, not only sizes of memories and times; machines that agree in these share
mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError

Point = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Space:
    name: str
    parameters: Mapping[str, tuple[int, ...]]
    machine: Callable[[Point], Accelerator]
    area: Callable[[Point], float]
    instructions: tuple[str, ...]

    def points(self) -> Iterator[dict[str, int]]:
        """All combinations of values, those that agree in ``instructions`` consecutively."""
        names = sorted(self.parameters, key=lambda name: name not in self.instructions)
        for values in product(*(self.parameters[name] for name in names)):
            found = dict(zip(names, values, strict=True))
            yield {name: found[name] for name in self.parameters}

    def machines(self) -> list[dict[str, int]]:
        """The points that are machines."""
        return [point for point in self.points() if self._is_machine(point)]

    def _is_machine(self, point: Point) -> bool:
        try:
            self.machine(point)
        except CompileError:
            return False
        return True

    def kind(self, point: Point) -> tuple[int, ...]:
        """Equal for points that agree in ``instructions``."""
        return tuple(point[name] for name in self.parameters if name in self.instructions)
