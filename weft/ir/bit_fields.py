"""Instructions as bits: records of fields, placed as a C compiler places bit-fields.

    Encoding ::= bits, unit, fields: Field…
    Field    ::= name, width, signed, value

Fields lie one after the other from bit 0, the lowest of the first byte (little-endian), and none
straddles a unit of ``unit`` bits: one that would begins the next unit. What no field covers is 0. A
field with a ``value`` has no other: it tells the instructions of a machine apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.ir.errors import CompileError, StreamError


@dataclass(frozen=True, slots=True)
class Field:
    """``width`` bits called ``name``; ``signed``: two's complement. ``value``: the only one that it
    has, which tells operations apart (None: any)."""

    name: str
    width: int
    signed: bool = False
    value: int | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number that it holds."""
        if self.signed:
            return -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        return 0, (1 << self.width) - 1


@dataclass(frozen=True, slots=True)
class Encoding:
    """An instruction of so many ``bits``: ``fields`` one after the other from bit 0, the lowest,
    none of them across a multiple of ``unit`` bits. ``places``: field -> its first bit, which
    follows. Raises ``CompileError`` (WEFT-E1001) where the fields do not fit."""

    fields: tuple[Field, ...]
    bits: int
    unit: int = 64
    places: Mapping[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        places: dict[str, int] = {}
        end = 0
        for each in self.fields:
            if not 1 <= each.width <= self.unit or each.name in places:
                raise CompileError("WEFT-E1001", f"no field: {each.name} of {each.width} bits")
            if end // self.unit != (end + each.width - 1) // self.unit:
                end += -end % self.unit
            places[each.name] = end
            end += each.width
        if end > self.bits:
            raise CompileError(
                "WEFT-E1001",
                f"fields of {end} bits in an instruction of {self.bits}",
                why=", ".join(f"{f.name} {f.width}" for f in self.fields),
                hint="smaller memories have narrower addresses",
            )
        object.__setattr__(self, "places", places)

    @property
    def size(self) -> int:
        """Bytes of one instruction."""
        return self.bits // 8

    def encode(self, values: Mapping[str, int]) -> bytes:
        """The bytes of an instruction with these ``values``, fields that are not given 0.

        Raises ``StreamError`` (WEFT-E1002) for numbers that their fields do not hold, or of none.
        """
        unknown = values.keys() - self.places.keys()
        if unknown:
            raise StreamError("WEFT-E1002", f"no field is called {min(unknown)!r}")
        word = 0
        for each in self.fields:
            value = values.get(each.name, each.value or 0)
            low, high = each.limits if each.value is None else (each.value, each.value)
            if not low <= value <= high:
                raise StreamError(
                    "WEFT-E1002",
                    f"{each.name} = {value} does not fit",
                    why=f"its {each.width} bits hold {low} to {high}",
                )
            word |= (value & ((1 << each.width) - 1)) << self.places[each.name]
        return word.to_bytes(self.size, "little")

    def decode(self, data: bytes) -> dict[str, int]:
        """The values of all fields. Raises ``StreamError`` (WEFT-E1003) where ``data`` is no such
        instruction: of another length, with another value in a fixed field, or with bits where no
        field is, which encoding again would lose."""
        if len(data) != self.size:
            raise StreamError("WEFT-E1003", f"{len(data)} bytes, not {self.size}")
        word = int.from_bytes(data, "little")
        found: dict[str, int] = {}
        for each in self.fields:
            mask = (1 << each.width) - 1
            value = (word >> self.places[each.name]) & mask
            word &= ~(mask << self.places[each.name])
            if each.signed and value >> (each.width - 1):
                value -= 1 << each.width
            if each.value is not None and value != each.value:
                raise StreamError("WEFT-E1003", f"{each.name} is {value}, not {each.value}")
            found[each.name] = value
        if word:
            raise StreamError(
                "WEFT-E1003", f"bit {word.bit_length() - 1} is set, where no field is"
            )
        return found


def choose(encodings: Mapping[str, Encoding], data: bytes) -> str:
    """The name of the encoding whose fixed fields ``data`` has. Raises ``StreamError``
    (WEFT-E1003) where none has."""
    word = int.from_bytes(data, "little")
    for name, encoding in encodings.items():
        if len(data) == encoding.size and all(_holds(encoding, f, word) for f in encoding.fields):
            return name
    raise StreamError(
        "WEFT-E1003",
        f"no instruction of this machine begins with {data[:8].hex(' ')}",
        why=f"it has {', '.join(encodings)}",
    )


def _holds(encoding: Encoding, each: Field, word: int) -> bool:
    value = (word >> encoding.places[each.name]) & ((1 << each.width) - 1)
    return each.value is None or value == each.value
