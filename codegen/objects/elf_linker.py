"""Object code → memory of this process, without LLVM: a loader for stored programs.

    code          the objects' functions, then a jump for each symbol     read, execute
    constants     the objects' constants, then a table of addresses       read
    variables     the objects' variables                                  read, write

Objects are what ``llvm/target`` emits for x86-64: position-independent, small code model. Jumps
(PLT) and addresses (GOT) are for symbols that other objects, the caller or libc define, at any
distance. No page is ever writable and executable at once.

References: System V ABI, AMD64 supplement, 4.4.1; Levine, "Linkers and Loaders", 2000.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Literal, NamedTuple

from weft.codegen.objects import elf_file

LIMIT = 1 << 30  # bytes of one image
_ENTRY = 8  # bytes of a jump, and of an address
_JUMP = struct.Struct("<2si2x")
_OPCODE, _OPCODE_BYTES = b"\xff\x25", 6  # jmp *displacement(%rip), relative to its end
_PROTECTIONS = {
    "code": mmap.PROT_READ | mmap.PROT_EXEC,
    "constants": mmap.PROT_READ,
    "variables": mmap.PROT_READ | mmap.PROT_WRITE,
}


class _Kind(IntEnum):
    """Relocations by their numbers in table 4.9: what they are relative to, and of what."""

    ABSOLUTE = 1  # R_X86_64_64
    RELATIVE = 2  # PC32
    CALL = 4  # PLT32
    WIDE_RELATIVE = 24  # PC64
    ENTRY = 9  # GOTPCREL
    ENTRY_IN_LOAD = 41  # GOTPCRELX
    ENTRY_IN_WIDE_LOAD = 42  # REX_GOTPCRELX


class Image:
    """Linked code: ``image[name]`` is an address, valid while the image is referenced."""

    def __init__(self, at: int, size: int, addresses: Mapping[str, int]) -> None:
        self._addresses = addresses
        self._unmap = weakref.finalize(self, _libc().munmap, at, size)
        self._unmap.atexit = False  # other threads may still run it

    def __getitem__(self, name: str) -> int:
        """``RuntimeError`` where no object defines ``name``."""
        if name not in self._addresses:
            raise RuntimeError(f"no object defines {name}")
        return self._addresses[name]

    def keep(self) -> None:
        """Leave it mapped for the rest of the process."""
        self._unmap.detach()


def link(objects: Sequence[bytes], imports: Mapping[str, int]) -> Image:
    """Map ``objects`` into the process; ``imports``: addresses by name, before libc's.

    Raises ``RuntimeError`` where the bytes are no objects for x86-64, or where a symbol is defined
    twice or nowhere.
    """
    try:
        layout = _lay_out([read_object(code) for code in objects])
        at = _mapped(layout.size)
        try:
            placed = _Placed(layout, at, _definitions(layout, at))
            _fill_tables(placed, imports)
            _fill_sections(placed)
            _protect(layout, at)
        except BaseException:
            _libc().munmap(at, layout.size)
            raise
    except (ValueError, OverflowError, struct.error) as error:
        raise RuntimeError(f"the object code cannot be linked: {error}") from None
    return Image(at, layout.size, placed.definitions)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Offsets in the image: of (object, section), of each symbol's jump and address; ``spans``:
    begin and end by kind, in whole pages."""

    objects: Sequence[ElfObject]
    sections: Mapping[tuple[int, int], int]
    jumps: Mapping[str, int]
    table: Mapping[str, int]
    spans: Mapping[str, tuple[int, int]]

    @property
    def size(self) -> int:
        return max(end for _, end in self.spans.values())


def _lay_out(objects: Sequence[ElfObject]) -> _Layout:
    names = dict.fromkeys(s.name for o in objects for s in o.symbols if not s.local)
    sections: dict[tuple[int, int], int] = {}
    entries: dict[str, dict[str, int]] = {}
    spans: dict[str, tuple[int, int]] = {}
    end = 0
    for kind in KINDS:
        begin = end
        for number, each in enumerate(objects):
            for name, section in each.sections.items():
                if section.kind == kind:
                    sections[number, name] = _up(end, section.align)
                    end = sections[number, name] + section.size
        if kind != "variables":
            end = _up(end, _ENTRY)
            entries[kind] = {name: end + _ENTRY * k for k, name in enumerate(names)}
            end += _ENTRY * len(names)
        end = _up(end, mmap.PAGESIZE)
        spans[kind] = (begin, end)
        if end > LIMIT:
            raise ValueError(f"it takes {end} bytes")
    return _Layout(objects, sections, entries["code"], entries["constants"], spans)


def _up(offset: int, align: int) -> int:
    return -(-offset // align) * align


@dataclass(frozen=True, slots=True)
class _Placed:
    """A layout at its address, with the addresses of the symbols that its objects define."""

    layout: _Layout
    at: int
    definitions: Mapping[str, int]

    def value(self, number: int, symbol: Symbol) -> int:
        """The address of ``symbol`` of an object: its jump's, if it is external."""
        if symbol.local:
            return _value(self.layout, self.at, number, symbol)
        if symbol.name in self.definitions:
            return self.definitions[symbol.name]
        return self.at + self.layout.jumps[symbol.name]

    def entry(self, symbol: Symbol) -> int:
        """The address of the GOT entry of ``symbol``."""
        if symbol.local:
            raise ValueError(f"{symbol.name!r} has no entry in the table")
        return self.at + self.layout.table[symbol.name]


def _definitions(layout: _Layout, at: int) -> dict[str, int]:
    """Strong definitions before weak ones."""
    strong: dict[str, int] = {}
    weak: dict[str, int] = {}
    for number, each in enumerate(layout.objects):
        for symbol in each.symbols:
            if symbol.local or not symbol.defined:
                continue
            if not symbol.weak and symbol.name in strong:
                raise ValueError(f"two objects define {symbol.name}")
            found = weak if symbol.weak else strong
            found.setdefault(symbol.name, _value(layout, at, number, symbol))
    return {**weak, **strong}


def _value(layout: _Layout, at: int, number: int, symbol: Symbol) -> int:
    if symbol.section is None:
        return symbol.value
    place = layout.sections.get((number, symbol.section))
    if place is None:
        raise ValueError(f"{symbol.name!r} lies in no section that is loaded")
    return at + place + symbol.value


def _fill_tables(placed: _Placed, imports: Mapping[str, int]) -> None:
    """Fill in the addresses of all symbols, and jumps there."""
    known = {**imports, **placed.definitions}
    for name, entry in placed.layout.table.items():
        address = known[name] if name in known else _from_process(name)
        jump = placed.layout.jumps[name]
        code = _JUMP.pack(_OPCODE, entry - jump - _OPCODE_BYTES)
        ctypes.memmove(placed.at + jump, code, _ENTRY)
        ctypes.memmove(placed.at + entry, struct.pack("<Q", address), _ENTRY)


def _from_process(name: str) -> int:
    try:
        return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise ValueError(f"nothing defines {name}") from None


def _fill_sections(placed: _Placed) -> None:
    for (number, name), offset in placed.layout.sections.items():
        each, at = placed.layout.objects[number], placed.at + offset
        section = each.sections[name]
        data = bytearray(section.data)
        for relocation in section.relocations:
            if relocation.symbol >= len(each.symbols):
                raise ValueError("a relocation to no symbol")
            symbol = each.symbols[relocation.symbol]
            form, value = _relocated(placed, at, number, symbol, relocation)
            struct.pack_into(form, data, relocation.offset, value)
        ctypes.memmove(at, bytes(data), len(data))


def _relocated(
    placed: _Placed, at: int, number: int, symbol: Symbol, relocation: Relocation
) -> tuple[str, int]:
    """(value, format) to write at ``relocation.offset`` of a section at address ``at``."""
    place = at + relocation.offset - relocation.addend
    match relocation.kind:
        case _Kind.ABSOLUTE:
            return "<Q", placed.value(number, symbol) + relocation.addend
        case _Kind.RELATIVE | _Kind.CALL:
            return "<i", placed.value(number, symbol) - place
        case _Kind.WIDE_RELATIVE:
            return "<q", placed.value(number, symbol) - place
        case _Kind.ENTRY | _Kind.ENTRY_IN_LOAD | _Kind.ENTRY_IN_WIDE_LOAD:
            return "<i", placed.entry(symbol) - place
    raise ValueError(f"relocations of kind {relocation.kind}")


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _mapped(size: int) -> int:
    """Writable zeros."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    at = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if at is None or at == ctypes.c_void_p(-1).value:
        raise ValueError(f"{size} bytes cannot be mapped: {os.strerror(ctypes.get_errno())}")
    return int(at)


def _protect(layout: _Layout, at: int) -> None:
    for kind, (begin, end) in layout.spans.items():
        if begin < end and _libc().mprotect(at + begin, end - begin, _PROTECTIONS[kind]):
            raise ValueError(f"{kind} cannot be protected: {os.strerror(ctypes.get_errno())}")


# ---- ELF object files of x86-64: loaded sections, symbols, relocations.
#
# (Tool Interface Standard, "Executable and Linking Format", 1.2; System V ABI, AMD64 supplement,
# 4.)


Kind = Literal["code", "constants", "variables"]
KINDS: tuple[Kind, ...] = ("code", "constants", "variables")


class Relocation(NamedTuple):
    """The linker writes at ``offset`` of its section a function, ``kind``, of a symbol's
    address."""

    offset: int
    kind: int
    symbol: int
    addend: int


class Symbol(NamedTuple):
    """``section``: its number in the object; None: ``value`` is an absolute address."""

    name: str
    section: int | None
    value: int
    defined: bool
    local: bool
    weak: bool


@dataclass(frozen=True, slots=True)
class Section:
    """``data``, padded with zeros to ``size`` bytes, aligned to ``align``."""

    kind: Kind
    data: bytes
    size: int
    align: int
    relocations: tuple[Relocation, ...]


@dataclass(frozen=True, slots=True)
class ElfObject:
    """``sections``, by number, that are loaded. Unwinding tables are left out."""

    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]


def read_object(code: bytes) -> ElfObject:
    """The object in ``code``; ``ValueError`` if it is no valid one for x86-64."""
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
    if align & (align - 1) or align > mmap.PAGESIZE:
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
