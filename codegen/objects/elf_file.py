"""ELF object files as they stand, for any processor: 64 bits, little-endian, explicit addends.

(Tool Interface Standard, "Executable and Linking Format", 1.2; System V ABI, generic part, 4.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
RELOCATABLE, X86_64 = 1, 62

FILE = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QIIq")  # offset, kind, symbol, addend

PROGRAM_DATA, SYMBOL_TABLE, STRINGS, RELOCATIONS, ZEROS, GROUP = 1, 2, 3, 4, 8, 17
UNWIND = 0x70000001  # of x86-64
WRITE, ALLOCATE, EXECUTE, MERGE, TEXTS, INFO_LINK, THREAD_LOCAL = 1, 2, 4, 0x10, 0x20, 0x40, 0x400
UNDEFINED, SPECIAL, ABSOLUTE, COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2  # in place of a section's number
LOCAL, GLOBAL, WEAK = 0, 1, 2  # bindings
OBJECT, SECTION_ITSELF, FILE_NAME = 1, 3, 4  # kinds of symbols


class Section(NamedTuple):
    """``data``: empty for ``ZEROS``, which have ``size`` bytes in memory."""

    name: str
    kind: int
    flags: int
    size: int
    link: int
    info: int
    alignment: int
    data: memoryview


class Symbol(NamedTuple):
    """``info``: binding and kind; ``other``: visibility; ``section``: a number, or ``SPECIAL``."""

    name: str
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        return self.info >> 4

    @property
    def kind(self) -> int:
        return self.info & 15


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """Sections and symbols by number; number 0 of each is null."""

    machine: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]


def read_object_file(code: bytes) -> ObjectFile:
    """The contents of ``code``; ``ValueError`` if it is no valid object file."""
    if code[: len(IDENTITY)] != IDENTITY:
        raise ValueError("no ELF file of 64 bits")
    try:
        return _read(memoryview(code))
    except (struct.error, IndexError, UnicodeError) as error:
        raise ValueError(f"a broken ELF file: {error}") from None


def _read(code: memoryview) -> ObjectFile:
    _, kind, machine, _, _, _, table, flags, _, _, _, _, count, names = FILE.unpack_from(code)
    if kind != RELOCATABLE:
        raise ValueError("no object code")
    rows = [SECTION.unpack_from(code, table + k * SECTION.size) for k in range(count)]
    texts = bytes(_data(code, *rows[names][4:6]))
    sections = tuple(
        Section(
            _text(texts, name),
            kind,
            flags_,
            size,
            link,
            info,
            alignment,
            _data(code, offset, 0 if kind == ZEROS else size),
        )
        for name, kind, flags_, _, offset, size, link, info, alignment, _ in rows
    )
    symbols: list[Symbol] = []
    for section in sections:
        if section.kind == SYMBOL_TABLE:
            texts = bytes(sections[section.link].data)
            rows = [*SYMBOL.iter_unpack(section.data)]
            symbols += [Symbol(_text(texts, name), *rest) for name, *rest in rows]
    return ObjectFile(machine, flags, sections, tuple(symbols))


def _data(code: memoryview, offset: int, size: int) -> memoryview:
    data = code[offset : offset + size]
    if len(data) != size:
        raise ValueError("a section outside the file")
    return data


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.index(b"\0", at)].decode()
