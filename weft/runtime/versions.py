"""Several compiled programs of one function, each for sizes of its own; the call chooses.

    {"batch": 1} and {"batch": 8, "tokens": 128}      those that fix most sizes come first

A call looks the sizes of its arguments up, in tables: well below a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from weft.ir.errors import CompileError
from weft.ir.scalar_expr import Var
from weft.runtime.compiled import ArraySpec

Place = tuple[int, int]  # number of an input, and its dimension
Sizes = Mapping[str, int]
Made = TypeVar("Made")  # what runs


def size_places(inputs: Sequence[ArraySpec]) -> dict[str, Place]:
    """Where a call's arguments say each open size of ``inputs``."""
    found: dict[str, Place] = {}
    for number, spec in enumerate(inputs):
        for dim, size in enumerate(spec.shape):
            if isinstance(size, Var):
                found.setdefault(size.name, (number, dim))
    return found


@dataclass(slots=True)
class Versions(Generic[Made]):
    """Programs of what has ``inputs`` in general, by the sizes that each is for. ``missed`` is told
    the arguments of calls that none is for."""

    inputs: Sequence[ArraySpec]
    missed: Callable[[Sequence[Any]], None] | None = None
    kept: dict[str, Made] = field(default_factory=dict)  # by "batch = 1, tokens = 128"
    single: tuple[tuple[int, int, dict[int, Made]], ...] = ()  # one size: input, dimension, which
    several: tuple[tuple[tuple[Place, ...], dict[tuple[int, ...], Made]], ...] = ()

    def add(self, sizes: Sizes, program: Made) -> None:
        """Let ``program`` serve the calls of these ``sizes``. Raises ``CompileError`` (WEFT-E0033)
        for one that no argument's dimension is."""
        places = size_places(self.inputs)
        for name in sizes:
            if name not in places:
                what = f"no dimension of an argument is {name!r}"
                raise CompileError("WEFT-E0033", what, hint=f"open sizes: {', '.join(places)}")
        names = sorted(sizes)
        at = tuple(places[name] for name in names)
        key = tuple(sizes[name] for name in names)
        self.kept[text_of(sizes)] = program
        if len(at) == 1:
            one = {(k, d): table for k, d, table in self.single}
            one[at[0]] = {**one.get(at[0], {}), key[0]: program}
            self.single = tuple((k, d, table) for (k, d), table in one.items())
        else:
            many = dict(self.several)
            many[at] = {**many.get(at, {}), key: program}
            self.several = tuple(sorted(many.items(), key=lambda group: -len(group[0])))

    def of(self, given: Sequence[Any]) -> Made | None:
        """The program for these arguments; None where it is the general one."""
        try:
            for places, table in self.several:
                key = tuple([given[k].shape[d] for k, d in places])
                if key in table:
                    return table[key]
            for number, dim, which in self.single:
                found = which.get(given[number].shape[dim])
                if found is not None:
                    return found
            if self.missed is not None:
                self.missed(given)
        except (AttributeError, IndexError):  # lists, or too few dimensions
            pass
        return None


def text_of(sizes: Sizes) -> str:
    """Sizes as people read them."""
    return ", ".join(f"{name} = {size}" for name, size in sorted(sizes.items()))
