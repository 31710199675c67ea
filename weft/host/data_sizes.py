"""Sizes that depend on data, between the parts of a region (``staging.py``).

A part gives results in their greatest possible sizes and says how much of them counts. That is cut
out here, and is one open size for the parts that follow: the symbol "y_count" for the first result
"y" of the node that counts, between 0 and the greatest possible size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.frontend.onnx.node_context import Counted
from weft.frontend.operators.arguments import replaced
from weft.frontend.size_symbols import SizeSymbols
from weft.ir import dtypes
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Var, variable_list
from weft.ir.tensor_expr import Size, as_size, constant_size


@dataclass(frozen=True, slots=True)
class DataSizes:
    """``numbers`` that size symbols stand for in a call, by name; their upper ``bounds``, which may
    be over other symbols; and the ``shapes`` over symbols that values have, by name."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, Size] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Size, ...]] = field(default_factory=dict)

    def among(self, names: Mapping[str, object]) -> DataSizes:
        """What is needed of all this for the values ``names``; nothing where a symbol is called as
        one of them is."""
        shapes = {n: shape for n, shape in self.shapes.items() if n in names}
        used = {v for shape in shapes.values() for size in shape for v in _symbols(size)}
        for name in reversed(list(self.bounds)):  # a bound is over symbols that came before
            if name in used:
                used.update(_symbols(self.bounds[name]))
        if any(name in names for name in used):
            return NO_SIZES
        numbers = {n: number for n, number in self.numbers.items() if n in used}
        return DataSizes(numbers, {n: self.bounds[n] for n in numbers}, shapes)

    def shape(self, name: str, array: np.ndarray) -> tuple[Size, ...]:
        """That of the value ``name``, which is ``array`` in this call."""
        return self.shapes.get(name, array.shape)

    @property
    def values(self) -> dict[str, Value]:
        """Inputs that tell the symbols: each is a shape with nothing in it."""
        return {name: Value(name, (Var(name), 0), dtypes.uint8) for name in self.numbers}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The same in this call."""
        return {name: np.empty((n, 0), np.uint8) for name, n in self.numbers.items()}

    def symbols(self) -> SizeSymbols:
        """What an import knows of the symbols."""
        known = SizeSymbols()
        for name, bound in self.bounds.items():
            known.open(name, 0, constant_size(bound))
            if constant_size(bound) is None:
                known.assume(Var(name) <= as_size(bound))
        return known

    def trimmed(
        self,
        names: Sequence[str],
        outputs: Sequence[Value],
        results: Mapping[str, np.ndarray],
        counted: Mapping[str, Counted],
    ) -> tuple[list[np.ndarray], DataSizes]:
        """As much as counts of the ``results`` that are ``outputs`` of a graph and ``names`` of a
        region, and the sizes that are known with those of ``counted`` outputs."""
        numbers, bounds, shapes = dict(self.numbers), dict(self.bounds), dict(self.shapes)
        symbols: dict[str, str] = {}  # by the scalar that says how much counts
        arrays: list[np.ndarray] = []
        for name, value in zip(names, outputs, strict=True):
            array, shape = results[value.name], value.shape
            if value.name in counted:
                count, axis = counted[value.name].count.name, counted[value.name].axis
                symbol = symbols.setdefault(count, f"{name}_count")
                numbers[symbol], bounds[symbol] = int(results[count]), shape[axis]
                array = array[(slice(None),) * axis + (slice(numbers[symbol]),)].copy()
                shape = replaced(shape, axis, Var(symbol))
            arrays.append(array)
            used = {v for size in shape for v in _symbols(size)}
            if used and used <= set(numbers):
                shapes[name] = shape
        return arrays, DataSizes(numbers, bounds, shapes)


NO_SIZES = DataSizes()


def _symbols(size: Size) -> Sequence[str]:
    return variable_list(as_size(size))
