"""ELF object files of x86-64 as data: the sections that are loaded, symbols, relocations.

(Tool Interface Standard, "Executable and Linking Format", 1.2; System V ABI, AMD64 supplement, 4.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["code", "constants", "variables"]
KINDS: tuple[Kind, ...] = ("code", "constants", "variables")

_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE, _AMD64 = 1, 62
_HEADER = struct.Struct("<16xHH20xQ12xH2x")  # type, machine, sections: where and how many
_SECTION = struct.Struct("<4xIQ8xQQIIQ8x")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_WRITE, _ALLOCATE, _EXECUTE, _THREAD_LOCAL = 1, 2, 4, 0x400
_SYMBOL_TABLE, _RELOCATIONS, _EMPTY, _UNWIND = 2, 4, 8, 0x70000001
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_LOCAL, _WEAK = 0, 2


class Relocation(NamedTuple):
    """At ``offset`` of its section the linker writes what ``kind`` makes of a symbol."""

    offset: int
    kind: int
    symbol: int
    addend: int


class Symbol(NamedTuple):
    """``section``: its number in the object; None: ``value`` is an address."""

    name: str
    section: int | None
    value: int
    defined: bool
    local: bool
    weak: bool


@dataclass(frozen=True, slots=True)
class Section:
    """``data`` and zeros after it up to ``size`` bytes, at a multiple of ``align``."""

    kind: Kind
    data: bytes
    size: int
    align: int
    relocations: tuple[Relocation, ...]


@dataclass(frozen=True, slots=True)
class ElfObject:
    """``sections`` by number: those that are loaded. Tables for unwinding are left out."""

    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]


class _Header(NamedTuple):
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


def read_object(code: bytes) -> ElfObject:
    """The object in ``code``; ``ValueError`` where it is none for x86-64, or broken."""
    if code[: len(_IDENTITY)] != _IDENTITY:
        raise ValueError("no ELF file of 64 bits")
    try:
        return _read(code)
    except (struct.error, IndexError, UnicodeError) as error:
        raise ValueError(f"a broken ELF file: {error}") from None


def _read(code: bytes) -> ElfObject:
    kind, machine, table, count = _HEADER.unpack_from(code)
    if (kind, machine) != (_RELOCATABLE, _AMD64):
        raise ValueError("no object code for x86-64")
    headers = [
        _Header(*_SECTION.unpack_from(code, table + k * _SECTION.size)) for k in range(count)
    ]
    relocations: dict[int, tuple[Relocation, ...]] = {}
    symbols: tuple[Symbol, ...] = ()
    for header in headers:
        if header.type == _RELOCATIONS:
            found = _RELOCATION.iter_unpack(_data(code, header))
            relocations[header.info] = tuple(Relocation(o, k, s, a) for o, k, s, a in found)
        elif header.type == _SYMBOL_TABLE:
            symbols = _symbols(_data(code, header), _data(code, headers[header.link]))
    sections = {
        number: _section(code, header, relocations.get(number, ()))
        for number, header in enumerate(headers)
        if header.flags & _ALLOCATE and header.type != _UNWIND
    }
    return ElfObject(sections, symbols)


def _data(code: bytes, header: _Header) -> bytes:
    if header.type == _EMPTY:
        return b""
    data = code[header.offset : header.offset + header.size]
    if len(data) != header.size:
        raise ValueError("a section outside the file")
    return data


def _section(code: bytes, header: _Header, relocations: tuple[Relocation, ...]) -> Section:
    if header.flags & _THREAD_LOCAL:
        raise ValueError("variables of single threads")
    kind: Kind = "variables" if header.flags & _WRITE else "constants"
    if header.flags & _EXECUTE:
        kind = "code"
    align = max(1, header.align)
    if align & (align - 1) or align > 4096:
        raise ValueError(f"an alignment of {align}")
    return Section(kind, _data(code, header), header.size, align, relocations)


def _symbols(entries: bytes, names: bytes) -> tuple[Symbol, ...]:
    found: list[Symbol] = []
    for name, info, _, number, value, _ in _SYMBOL.iter_unpack(entries):
        if number == _COMMON:
            raise ValueError("a symbol in no section")
        text = names[name : names.index(b"\0", name)].decode()
        section = None if number == _ABSOLUTE else number
        binding = info >> 4
        defined, local, weak = number != _UNDEFINED, binding == _LOCAL, binding == _WEAK
        found.append(Symbol(text, section, value, defined, local, weak))
    return tuple(found)
