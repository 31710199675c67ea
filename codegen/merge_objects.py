"""Object files → one, as ``ld -r`` does it, and data beside them: no linker is needed.

* Any processor whose objects are ELF of 64 bits, little-endian, with explicit addends.
* Sections of one name are laid one behind the other. What one file needs and another defines is
  bound; of all symbols only ``exports`` stay visible, so that two results never get into each
  other's way in one program. What nobody defines is left to libc.
* ``Blob``s become read-only data. Their bytes are handed on as they are, never copied.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.errors import InternalError

_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_RELOCATABLE = 1
_X86_64 = 62
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS, _GROUP = 1, 2, 3, 4, 8, 17
_ADDRSIG = 0x6FFF4C03  # LLVM's hints about symbols whose addresses matter, by their numbers
_ALLOC, _MERGE, _STRINGS, _INFO_LINK, _LARGE = 0x2, 0x10, 0x20, 0x40, 0x10000000
_LOCAL, _GLOBAL = 0, 1
_OBJECT, _SECTION_SYMBOL, _FILE_SYMBOL = 1, 3, 4
_UNDEFINED, _SPECIAL = 0, 0xFF00  # section numbers from here on mean something else

_Key = tuple[int, int]  # number of a file, of a symbol in it
_BLOBS, _SECTIONS = -1, -2  # files that symbols of the result's own are said to come from

FAR = 1 << 30  # bytes of data beyond which other sections might be out of reach of 32-bit offsets


@dataclass(frozen=True, slots=True)
class Blob:
    """Read-only ``data`` under a symbol's name, at a multiple of ``alignment`` bytes."""

    symbol: str
    data: bytes | memoryview
    alignment: int = 64


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    alignment: int
    size: int
    data: memoryview
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    info: int  # binding, type
    other: int  # visibility
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
class _Object:
    machine: int
    flags: int
    sections: tuple[_Section, ...]
    symbols: tuple[_Symbol, ...]


@dataclass(slots=True)
class _Output:
    """A section of the result: pieces with the offset of each, and relocations."""

    name: str
    kind: int
    flags: int
    alignment: int = 1
    size: int = 0
    pieces: list[tuple[int, bytes | memoryview]] = field(default_factory=list)
    relocations: list[bytes] = field(default_factory=list)

    def add(self, data: bytes | memoryview, size: int, alignment: int) -> int:
        """Where in the section ``data`` comes to lie."""
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
        yield b"\0" * (self.size - end if self.kind != _NOBITS else 0)


def merge_objects(
    objects: Sequence[bytes], exports: Collection[str], blobs: Sequence[Blob] = ()
) -> Iterator[bytes | memoryview]:
    """The merged object file, in pieces.

    Raises ``InternalError`` (WEFT-E0580) for bytes that are no such objects, symbols defined twice
    and ``exports`` that nobody defines.
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


# ---- reading ------------------------------------------------------------------------------------


def _read(code: bytes) -> _Object:
    try:
        return _parsed(memoryview(code))
    except (struct.error, IndexError, UnicodeError) as error:
        raise _malformed(f"truncated: {error}") from None


def _parsed(code: memoryview) -> _Object:
    ident, kind, machine, _, _, _, at, flags, _, _, _, each, count, names = _FILE.unpack_from(code)
    _require(ident.startswith(_IDENT) and kind == _RELOCATABLE, "no ELF64 object file")
    raw = [_SECTION.unpack_from(code, at + k * each) for k in range(count)]
    texts = code[raw[names][4] :]
    sections = tuple(
        _Section(
            _text(texts, name),
            kind,
            flags_,
            alignment,
            size,
            code[offset : offset + size] if kind != _NOBITS else code[:0],
            link,
            info,
        )
        for name, kind, flags_, _, offset, size, link, info, alignment, _ in raw
    )
    symbols: tuple[_Symbol, ...] = ()
    for section in sections:
        _require(section.kind != _GROUP, "a section group")
        if section.kind == _SYMTAB:
            strings = sections[section.link].data
            symbols = tuple(
                _Symbol(_text(strings, name), *rest)
                for name, *rest in _SYMBOL.iter_unpack(section.data)
            )
    return _Object(machine, flags, sections, symbols)


def _text(strings: memoryview, at: int) -> str:
    end = at
    while strings[end]:
        end += 1
    return bytes(strings[at:end]).decode()


# ---- merging ------------------------------------------------------------------------------------


class _Merger:
    """The result's sections, and where each file's sections and symbols have gone."""

    def __init__(self) -> None:
        self.outputs: dict[tuple[str, int, int], _Output] = {}
        self.numbers: dict[int, int] = {}  # id of an output -> its number among sections
        self.placed: dict[_Key, tuple[_Output, int]] = {}  # file, section -> place
        self.data: list[_Symbol] = []

    def output(self, name: str, kind: int, flags: int) -> _Output:
        key = (name, kind, flags)
        if key not in self.outputs:
            self.outputs[key] = _Output(name, kind, flags)
            self.numbers[id(self.outputs[key])] = len(self.outputs)  # section 0 is the null one
        return self.outputs[key]

    def place(self, number: int, file: _Object) -> None:
        for position, section in enumerate(file.sections):
            if section.kind in (0, _SYMTAB, _STRTAB, _RELA, _ADDRSIG):
                continue
            # Linkers need not look for equal strings and constants.
            flags = section.flags & ~(_MERGE | _STRINGS)
            output = self.output(section.name, section.kind, flags)
            at = output.add(section.data, section.size, section.alignment)
            self.placed[number, position] = output, at

    def place_blobs(self, blobs: Sequence[Blob], machine: int) -> None:
        if not blobs:
            return
        far = machine == _X86_64 and sum(len(blob.data) for blob in blobs) > FAR
        name, flags = (".lrodata", _ALLOC | _LARGE) if far else (".rodata.weft", _ALLOC)
        output = self.output(name, _PROGBITS, flags)
        for blob in blobs:
            at = output.add(blob.data, len(blob.data), blob.alignment)
            section = self.numbers[id(output)]
            self.data.append(_Symbol(blob.symbol, _OBJECT, 0, section, at, len(blob.data)))

    def bind(
        self, files: Sequence[_Object], exports: Collection[str]
    ) -> tuple[dict[_Key, int], list[_Symbol], int]:
        """(file, symbol) -> the number of a symbol of the result; these; how many are local.

        Of file -1 are the blobs, of file -2 the symbols of the sections themselves.
        """
        found = [((_BLOBS, k), symbol) for k, symbol in enumerate(self.data)]
        for section in self.numbers.values():
            found.append(((_SECTIONS, section), _Symbol("", _SECTION_SYMBOL, 0, section, 0, 0)))
        for number, file in enumerate(files):
            for position, symbol in enumerate(file.symbols):
                if position and symbol.kind not in (_FILE_SYMBOL, _SECTION_SYMBOL):
                    found.append(((number, position), self.moved(number, symbol)))
        shared: dict[str, _Key] = {}  # who defines what others may need
        for key, symbol in found:
            if symbol.section != _UNDEFINED and (symbol.binding != _LOCAL or key[0] == _BLOBS):
                _require(symbol.name not in shared, f"{symbol.name!r} is defined twice")
                shared[symbol.name] = key
        missing = sorted(set(exports) - set(shared))
        _require(not missing, f"nobody defines {missing}")
        for key, symbol in found:
            if symbol.section == _UNDEFINED:
                shared.setdefault(symbol.name, key)
        kept = [(k, s) for k, s in found if s.binding == _LOCAL or shared[s.name] == k]
        kept = [(key, _visible(symbol, exports)) for key, symbol in kept]
        kept.sort(key=lambda pair: pair[1].binding != _LOCAL)  # locals first, as ELF wants it
        numbers = {key: k for k, (key, _) in enumerate(kept, 1)}
        for key, symbol in found:
            numbers.setdefault(key, numbers[shared.get(symbol.name, key)])
        symbols = [symbol for _, symbol in kept]
        return numbers, symbols, sum(symbol.binding == _LOCAL for symbol in symbols)

    def moved(self, number: int, symbol: _Symbol) -> _Symbol:
        """``symbol`` of file ``number`` where its section has gone."""
        if symbol.section == _UNDEFINED or symbol.section >= _SPECIAL:
            return symbol
        output, at = self.placed[number, symbol.section]
        return replace(symbol, section=self.numbers[id(output)], value=symbol.value + at)

    def relocate(self, files: Sequence[_Object], numbers: Mapping[_Key, int]) -> None:
        for number, file in enumerate(files):
            for section in file.sections:
                if section.kind != _RELA:
                    continue
                output, at = self.placed[number, section.info]
                for offset, info, addend in _RELOCATION.iter_unpack(section.data):
                    symbol, moved = self.referred(number, file, info >> 32, numbers)
                    info = symbol << 32 | info & 0xFFFFFFFF
                    row = _RELOCATION.pack(offset + at, info, addend + moved)
                    output.relocations.append(row)

    def referred(
        self, number: int, file: _Object, position: int, numbers: Mapping[_Key, int]
    ) -> tuple[int, int]:
        """The number of symbol ``position`` of a file, and how far behind it that has gone."""
        symbol = file.symbols[position]
        if symbol.kind == _SECTION_SYMBOL:
            output, at = self.placed[number, symbol.section]
            return numbers[_SECTIONS, self.numbers[id(output)]], at
        return (numbers[number, position] if position else 0), 0


def _visible(symbol: _Symbol, exports: Collection[str]) -> _Symbol:
    """``symbol`` as others see it: what is defined here and not exported, not at all."""
    if symbol.section == _UNDEFINED:
        return symbol
    if symbol.name in exports and symbol.binding != _LOCAL:
        return replace(symbol, info=_GLOBAL << 4 | symbol.kind, other=0)
    return replace(symbol, info=_LOCAL << 4 | symbol.kind, other=0)


# ---- writing ------------------------------------------------------------------------------------


def _write(
    like: _Object, outputs: Sequence[_Output], symbols: Sequence[_Symbol], local: int
) -> Iterator[bytes | memoryview]:
    """The file's bytes: header, contents of the sections in order, table of sections."""
    names, strings = _Strings(), _Strings()
    table = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + b"".join(
        _SYMBOL.pack(strings.at(s.name), s.info, s.other, s.section, s.value, s.size)
        for s in symbols
    )
    relocated = [(k, output) for k, output in enumerate(outputs, 1) if output.relocations]
    symtab = len(outputs) + len(relocated) + 1
    rows: list[tuple[str, int, int, int, int, int, int, int, Iterable[bytes | memoryview]]] = []
    for o in outputs:
        rows.append((o.name, o.kind, o.flags, o.size, 0, 0, o.alignment, 0, o.contents()))
    for k, o in relocated:
        data = b"".join(o.relocations)
        row = (f".rela{o.name}", _RELA, _INFO_LINK, len(data), symtab, k, 8, _RELOCATION.size)
        rows.append((*row, [data]))
    rows.append(
        (".symtab", _SYMTAB, 0, len(table), symtab + 1, local + 1, 8, _SYMBOL.size, [table])
    )
    rows.append((".strtab", _STRTAB, 0, len(strings.data), 0, 0, 1, 0, [bytes(strings.data)]))
    for name in (".shstrtab", *(row[0] for row in rows)):
        names.at(name)
    rows.append((".shstrtab", _STRTAB, 0, len(names.data), 0, 0, 1, 0, [bytes(names.data)]))
    return _laid_out(like, rows, names)


def _laid_out(
    like: _Object,
    rows: list[tuple[str, int, int, int, int, int, int, int, Iterable[bytes | memoryview]]],
    names: _Strings,
) -> Iterator[bytes | memoryview]:
    headers = [bytes(_SECTION.size)]
    pieces: list[Iterable[bytes | memoryview]] = []
    end = _FILE.size
    for name, kind, flags, size, link, info, alignment, each, contents in rows:
        at = _aligned(end, alignment)
        headers.append(
            _SECTION.pack(names.at(name), kind, flags, 0, at, size, link, info, alignment, each)
        )
        pieces += [[b"\0" * (at - end)], contents]
        end = at + (size if kind != _NOBITS else 0)
    table = _aligned(end, 8)
    yield _FILE.pack(
        _IDENT.ljust(16, b"\0"), _RELOCATABLE, like.machine, 1, 0, 0, table, like.flags,
        _FILE.size, 0, 0, _SECTION.size, len(headers), len(headers) - 1,
    )  # fmt: skip
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
