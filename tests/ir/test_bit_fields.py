"""Bit-fields lie where a C compiler places them, and come back as they went in."""

from __future__ import annotations

import ctypes
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.ir.bit_fields import Encoding, Field, choose
from weft.ir.errors import CompileError, StreamError


def records() -> st.SearchStrategy[Encoding]:
    """Records of random fields, in instructions of three units."""

    def made(parts: list[tuple[int, bool]], unit: int) -> Encoding:
        named = (Field(f"f{k}", min(w, unit), signed) for k, (w, signed) in enumerate(parts))
        return Encoding(tuple(named), len(parts) * unit, unit)

    parts = st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=9)
    return st.builds(made, parts, st.sampled_from([32, 64]))


def values_of(encoding: Encoding, random: random.Random) -> dict[str, int]:
    return {f.name: random.choice([*f.limits, random.randint(*f.limits)]) for f in encoding.fields}


@given(records(), st.randoms(use_true_random=False))
def test_fields_lie_where_c_places_them(encoding: Encoding, random: random.Random) -> None:
    """``ctypes`` places bit-fields as the C compiler that Python was built with."""
    types = {(32, False): ctypes.c_uint32, (32, True): ctypes.c_int32,
             (64, False): ctypes.c_uint64, (64, True): ctypes.c_int64}  # fmt: skip
    unit = encoding.unit

    class Struct(ctypes.LittleEndianStructure):
        _fields_ = [(f.name, types[unit, f.signed], f.width) for f in encoding.fields]

    values = values_of(encoding, random)
    expected = bytes(Struct(**values))
    found = encoding.encode(values)
    assert found[: len(expected)] == expected and not any(found[len(expected) :])
    assert encoding.decode(found) == values


def test_a_field_that_would_straddle_begins_the_next_unit() -> None:
    encoding = Encoding((Field("a", 60), Field("b", 5), Field("c", 59)), 128)
    assert dict(encoding.places) == {"a": 0, "b": 64, "c": 69}


@pytest.mark.parametrize(
    ("field", "value"),
    [(Field("x", 3), 8), (Field("x", 3), -1), (Field("x", 3, True), 4), (Field("x", 3, True), -5),
     (Field("x", 3, value=2), 3)],
)  # fmt: skip
def test_numbers_that_do_not_fit(field: Field, value: int) -> None:
    with pytest.raises(StreamError, match=rf"WEFT-E1002: x = {value} does not fit"):
        Encoding((field,), 32).encode({"x": value})


def test_what_is_no_field() -> None:
    with pytest.raises(StreamError, match="WEFT-E1002: no field is called 'y'"):
        Encoding((Field("x", 3),), 32).encode({"y": 0})


@pytest.mark.parametrize("fields", [(Field("a", 0),), (Field("a", 65),), (Field("a", 1),) * 2])
def test_what_is_no_record(fields: tuple[Field, ...]) -> None:
    with pytest.raises(CompileError, match="WEFT-E1001: no field: a"):
        Encoding(fields, 128)


def test_more_fields_than_bits() -> None:
    with pytest.raises(
        CompileError, match="WEFT-E1001: fields of 124 bits in an instruction of 64"
    ):
        Encoding((Field("a", 60), Field("b", 60)), 64)


OPCODES = {
    "one": Encoding((Field("opcode", 3, value=1), Field("x", 8)), 64),
    "two": Encoding((Field("opcode", 3, value=2), Field("x", 8)), 64),
}


def test_fixed_fields_tell_instructions_apart() -> None:
    for name, encoding in OPCODES.items():
        assert choose(OPCODES, encoding.encode({"x": 200})) == name
    with pytest.raises(StreamError, match="WEFT-E1003: no instruction"):
        choose(OPCODES, bytes(8))


@pytest.mark.parametrize(
    ("data", "message"),
    [(bytes([1]), "1 bytes, not 8"), (bytes([2] + [0] * 7), "opcode is 2, not 1"),
     (bytes([1] + [0] * 6 + [16]), "bit 60 is set")],
)  # fmt: skip
def test_what_is_no_instruction(data: bytes, message: str) -> None:
    with pytest.raises(StreamError, match=f"WEFT-E1003: {message}"):
        OPCODES["one"].decode(data)
