"""Object files → one, as with ``ld -r``, with data blobs: no linker is needed.

* For any processor with 64-bit little-endian ELF objects with explicit addends.
* Sections of one name are concatenated. References between files are bound; only ``exports`` stay
  visible, under new names, so that two results do not conflict in one program. Undefined symbols
  are left to libc.
* ``Blob``s become read-only data. Their bytes are passed through, not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.codegen.objects import elf_file
from weft.codegen.objects.elf_file import ObjectFile, Symbol, read_object_file
from weft.ir.errors import InternalError

_ADDRSIG = 0x6FFF4C03  # LLVM's address-significance table, by symbol numbers
_LEFT_OUT = (0, elf_file.SYMBOL_TABLE, elf_file.STRINGS, elf_file.RELOCATIONS, _ADDRSIG)
_FAR_AWAY = 0x10000000  # flag of x86-64's large sections: out of reach of 32-bit offsets

_Key = tuple[int, int]  # number of a file, of a symbol in it
_BLOBS, _SECTIONS = -1, -2  # files that symbols of the result's own are said to come from

FAR = 1 << 30  # bytes of data beyond which 32-bit offsets to other sections might overflow


@dataclass(frozen=True, slots=True)
class Blob:
    """Read-only ``data`` under a symbol's name, at a multiple of ``alignment`` bytes."""

    symbol: str
    data: bytes | memoryview
    alignment: int = 64


@dataclass(slots=True)
class _Output:
    """A section of the result: pieces with their offsets, and relocations."""

    name: str
    kind: int
    flags: int
    alignment: int = 1
    size: int = 0
    pieces: list[tuple[int, bytes | memoryview]] = field(default_factory=list)
    relocations: list[bytes] = field(default_factory=list)

    def add(self, data: bytes | memoryview, size: int, alignment: int) -> int:
        """The offset of ``data`` in the section, which it is added to."""
        alignment = max(alignment, 1)
        at = _aligned(self.size, alignment)
        self.alignment = max(self.alignment, alignment)
        self.size = at + size
        if len(data):
            self.pieces.append((at, data))
        return at

    def contents(self) -> Iterator[bytes | memoryview]:
        end = 0
        for at, data in self.pieces:
            yield b"\0" * (at - end)
            yield data
            end = at + len(data)
        yield b"\0" * (self.size - end if self.kind != elf_file.ZEROS else 0)


def merge_objects(
    objects: Sequence[bytes], exports: Mapping[str, str], blobs: Sequence[Blob] = ()
) -> Iterator[bytes | memoryview]:
    """The merged object file, in pieces. ``exports``: a symbol's name → its exported name.

    Raises ``InternalError`` (WEFT-E0580) for invalid objects, symbols defined twice, and undefined
    ``exports``.
    """
    files = [_read(code) for code in objects]
    _require(len({(f.machine, f.flags) for f in files}) == 1, "objects of several machines")
    merger = _Merger()
    for number, file in enumerate(files):
        merger.place(number, file)
    merger.place_blobs(blobs, files[0].machine)
    numbers, symbols, local = merger.bind(files, exports)
    merger.relocate(files, numbers)
    return _write(files[0], list(merger.outputs.values()), symbols, local)


def _read(code: bytes) -> ObjectFile:
    try:
        file = read_object_file(code)
    except ValueError as error:
        raise _malformed(str(error)) from None
    _require(all(s.kind != elf_file.GROUP for s in file.sections), "a section group")
    return file


# ---- merging ------------------------------------------------------------------------------------


class _Merger:
    """The result's sections, and the places of each file's sections and symbols."""

    def __init__(self) -> None:
        self.outputs: dict[tuple[str, int, int], _Output] = {}
        self.numbers: dict[int, int] = {}  # id of an output -> its number among sections
        self.placed: dict[_Key, tuple[_Output, int]] = {}  # file, section -> place
        self.data: list[Symbol] = []

    def output(self, name: str, kind: int, flags: int) -> _Output:
        key = (name, kind, flags)
        if key not in self.outputs:
            self.outputs[key] = _Output(name, kind, flags)
            self.numbers[id(self.outputs[key])] = len(self.outputs)  # section 0 is the null one
        return self.outputs[key]

    def place(self, number: int, file: ObjectFile) -> None:
        for position, section in enumerate(file.sections):
            if section.kind in _LEFT_OUT:
                continue
            # Linkers need not merge equal strings and constants.
            flags = section.flags & ~(elf_file.MERGE | elf_file.TEXTS)
            output = self.output(section.name, section.kind, flags)
            at = output.add(section.data, section.size, section.alignment)
            self.placed[number, position] = output, at

    def place_blobs(self, blobs: Sequence[Blob], machine: int) -> None:
        if not blobs:
            return
        far = machine == elf_file.X86_64 and sum(len(blob.data) for blob in blobs) > FAR
        name, flags = (
            (".lrodata", elf_file.ALLOCATE | _FAR_AWAY)
            if far
            else (".rodata.weft", elf_file.ALLOCATE)
        )
        output = self.output(name, elf_file.PROGRAM_DATA, flags)
        for blob in blobs:
            at = output.add(blob.data, len(blob.data), blob.alignment)
            section = self.numbers[id(output)]
            self.data.append(Symbol(blob.symbol, elf_file.OBJECT, 0, section, at, len(blob.data)))

    def bind(
        self, files: Sequence[ObjectFile], exports: Mapping[str, str]
    ) -> tuple[dict[_Key, int], list[Symbol], int]:
        """((file, symbol) → number of a symbol of the result; these symbols; the number of local
        ones).

        File -1 has the blobs, file -2 the section symbols.
        """
        found = [((_BLOBS, k), symbol) for k, symbol in enumerate(self.data)]
        for section in self.numbers.values():
            found.append(
                ((_SECTIONS, section), Symbol("", elf_file.SECTION_ITSELF, 0, section, 0, 0))
            )
        for number, file in enumerate(files):
            for position, symbol in enumerate(file.symbols):
                if position and symbol.kind not in (elf_file.FILE_NAME, elf_file.SECTION_ITSELF):
                    found.append(((number, position), self.moved(number, symbol)))
        shared: dict[str, _Key] = {}  # symbols that other files may refer to
        for key, symbol in found:
            if symbol.section != elf_file.UNDEFINED and (
                symbol.binding != elf_file.LOCAL or key[0] == _BLOBS
            ):
                _require(symbol.name not in shared, f"{symbol.name!r} is defined twice")
                shared[symbol.name] = key
        missing = sorted(set(exports) - set(shared))
        _require(not missing, f"nobody defines {missing}")
        for key, symbol in found:
            if symbol.section == elf_file.UNDEFINED:
                shared.setdefault(symbol.name, key)
        kept = [(k, s) for k, s in found if s.binding == elf_file.LOCAL or shared[s.name] == k]
        kept = [(key, _visible(symbol, exports)) for key, symbol in kept]
        kept.sort(
            key=lambda pair: pair[1].binding != elf_file.LOCAL
        )  # locals first, as ELF wants it
        numbers = {key: k for k, (key, _) in enumerate(kept, 1)}
        for key, symbol in found:
            numbers.setdefault(key, numbers[shared.get(symbol.name, key)])
        symbols = [symbol for _, symbol in kept]
        return numbers, symbols, sum(symbol.binding == elf_file.LOCAL for symbol in symbols)

    def moved(self, number: int, symbol: Symbol) -> Symbol:
        """``symbol`` of file ``number`` at the new place of its section."""
        if symbol.section == elf_file.UNDEFINED or symbol.section >= elf_file.SPECIAL:
            return symbol
        output, at = self.placed[number, symbol.section]
        return symbol._replace(section=self.numbers[id(output)], value=symbol.value + at)

    def relocate(self, files: Sequence[ObjectFile], numbers: Mapping[_Key, int]) -> None:
        for number, file in enumerate(files):
            for section in file.sections:
                if section.kind != elf_file.RELOCATIONS:
                    continue
                output, at = self.placed[number, section.info]
                for offset, kind, position, addend in elf_file.RELOCATION.iter_unpack(section.data):
                    symbol, moved = self.referred(number, file, position, numbers)
                    row = elf_file.RELOCATION.pack(offset + at, kind, symbol, addend + moved)
                    output.relocations.append(row)

    def referred(
        self, number: int, file: ObjectFile, position: int, numbers: Mapping[_Key, int]
    ) -> tuple[int, int]:
        """The number of symbol ``position`` of a file in the result, and an offset from it."""
        symbol = file.symbols[position]
        if symbol.kind == elf_file.SECTION_ITSELF:
            output, at = self.placed[number, symbol.section]
            return numbers[_SECTIONS, self.numbers[id(output)]], at
        return (numbers[number, position] if position else 0), 0


def _visible(symbol: Symbol, exports: Mapping[str, str]) -> Symbol:
    """``symbol`` as visible to others: definitions that are not exported are local."""
    if symbol.section == elf_file.UNDEFINED:
        return symbol
    if symbol.name in exports and symbol.binding != elf_file.LOCAL:
        info = elf_file.GLOBAL << 4 | symbol.kind
        return symbol._replace(name=exports[symbol.name], info=info, other=0)
    taken = symbol.name in exports.values()  # some linkers look for local symbols by name, too
    name = f"{symbol.name}.local" if taken else symbol.name
    return symbol._replace(name=name, info=elf_file.LOCAL << 4 | symbol.kind, other=0)


# ---- writing ------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A section and its header. ``entry``: bytes of an entry, in a table."""

    name: str
    kind: int
    size: int
    contents: Iterable[bytes | memoryview]
    flags: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry: int = 0


def _write(
    like: ObjectFile, outputs: Sequence[_Output], symbols: Sequence[Symbol], local: int
) -> Iterator[bytes | memoryview]:
    """The file's bytes: header, contents of the sections in order, table of sections."""
    rows = [
        _Row(o.name, o.kind, o.size, o.contents(), o.flags, alignment=o.alignment) for o in outputs
    ]
    relocated = [(k, output) for k, output in enumerate(outputs, 1) if output.relocations]
    symtab = len(outputs) + len(relocated) + 1
    for number, output in relocated:
        data = b"".join(output.relocations)
        place = (elf_file.INFO_LINK, symtab, number, 8, elf_file.RELOCATION.size)
        name = f".rela{output.name}"
        rows.append(_Row(name, elf_file.RELOCATIONS, len(data), [data], *place))
    names, strings = _Strings(), _Strings()
    table = elf_file.SYMBOL.pack(0, 0, 0, 0, 0, 0) + b"".join(
        elf_file.SYMBOL.pack(strings.at(symbol.name), *symbol[1:]) for symbol in symbols
    )
    place = (0, symtab + 1, local + 1, 8, elf_file.SYMBOL.size)
    rows.append(_Row(".symtab", elf_file.SYMBOL_TABLE, len(table), [table], *place))
    rows.append(_Row(".strtab", elf_file.STRINGS, len(strings.data), [bytes(strings.data)]))
    for name in (".shstrtab", *(row.name for row in rows)):
        names.at(name)
    rows.append(_Row(".shstrtab", elf_file.STRINGS, len(names.data), [bytes(names.data)]))
    return _laid_out(like, rows, names)


def _laid_out(
    like: ObjectFile, rows: Sequence[_Row], names: _Strings
) -> Iterator[bytes | memoryview]:
    headers = [bytes(elf_file.SECTION.size)]
    pieces: list[Iterable[bytes | memoryview]] = []
    end = elf_file.FILE.size
    for row in rows:
        at = _aligned(end, row.alignment)
        place = (row.flags, 0, at, row.size, row.link, row.info, row.alignment, row.entry)
        headers.append(elf_file.SECTION.pack(names.at(row.name), row.kind, *place))
        pieces += [[b"\0" * (at - end)], row.contents]
        end = at + (row.size if row.kind != elf_file.ZEROS else 0)
    table = _aligned(end, 8)
    what = (elf_file.RELOCATABLE, like.machine, 1, 0, 0, table, like.flags)
    sizes = (elf_file.FILE.size, 0, 0, elf_file.SECTION.size, len(headers), len(headers) - 1)
    yield elf_file.FILE.pack(elf_file.IDENTITY.ljust(16, b"\0"), *what, *sizes)
    for piece in pieces:
        yield from piece
    yield b"\0" * (table - end)
    yield from headers


class _Strings:
    """A table of texts, each ended by a zero byte."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self.places: dict[str, int] = {"": 0}

    def at(self, text: str) -> int:
        if text not in self.places:
            self.places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.places[text]


def _aligned(size: int, alignment: int) -> int:
    return -(-size // max(alignment, 1)) * max(alignment, 1)


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise _malformed(why)


def _malformed(why: str) -> InternalError:
    return InternalError("WEFT-E0580", "object code cannot be merged", why=why)
