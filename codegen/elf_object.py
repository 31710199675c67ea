"""ELF object files of x86-64 as data: the sections that are loaded, symbols, relocations.

(Tool Interface Standard, "Executable and Linking Format", 1.2; System V ABI, AMD64 supplement, 4.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from weft.codegen import elf_file

Kind = Literal["code", "constants", "variables"]
KINDS: tuple[Kind, ...] = ("code", "constants", "variables")


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


def read_object(code: bytes) -> ElfObject:
    """The object in ``code``; ``ValueError`` where it is none for x86-64, or broken."""
    file = elf_file.read_object_file(code)
    if file.machine != elf_file.X86_64:
        raise ValueError("no object code for x86-64")
    try:
        relocations = {
            section.info: tuple(
                Relocation(*row) for row in elf_file.RELOCATION.iter_unpack(section.data)
            )
            for section in file.sections
            if section.kind == elf_file.RELOCATIONS
        }
    except struct.error as error:
        raise ValueError(f"a broken ELF file: {error}") from None
    sections = {
        number: _section(section, relocations.get(number, ()))
        for number, section in enumerate(file.sections)
        if section.flags & elf_file.ALLOCATE and section.kind != elf_file.UNWIND
    }
    return ElfObject(sections, tuple(_symbols(file.symbols)))


def _section(section: elf_file.Section, relocations: tuple[Relocation, ...]) -> Section:
    if section.flags & elf_file.THREAD_LOCAL:
        raise ValueError("variables of single threads")
    kind: Kind = "variables" if section.flags & elf_file.WRITE else "constants"
    if section.flags & elf_file.EXECUTE:
        kind = "code"
    align = max(1, section.alignment)
    if align & (align - 1) or align > 4096:
        raise ValueError(f"an alignment of {align}")
    return Section(kind, bytes(section.data), section.size, align, relocations)


def _symbols(symbols: Sequence[elf_file.Symbol]) -> Iterator[Symbol]:
    for symbol in symbols:
        if symbol.section == elf_file.COMMON:
            raise ValueError("a symbol in no section")
        section = None if symbol.section == elf_file.ABSOLUTE else symbol.section
        defined, local = symbol.section != elf_file.UNDEFINED, symbol.binding == elf_file.LOCAL
        weak = symbol.binding == elf_file.WEAK
        yield Symbol(symbol.name, section, symbol.value, defined, local, weak)
