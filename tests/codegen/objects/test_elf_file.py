"""Object files are read as they were written, and broken ones are refused."""

from __future__ import annotations

import random

import pytest

from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects import elf_file
from weft.codegen.objects.elf_file import read_object_file

CODE = to_object(
    """
@data = global [3 x i32] [i32 1, i32 2, i32 3]
@zeros = internal global [100 x i8] zeroinitializer
declare void @other(ptr)
define void @call() {
  call void @other(ptr @data)
  call void @other(ptr @zeros)
  ret void
}
""",
    host_target(),
)


def test_sections_and_symbols() -> None:
    file = read_object_file(CODE)
    sections = {section.name: section for section in file.sections}
    assert bytes(sections[".data"].data) == b"\1\0\0\0\2\0\0\0\3\0\0\0"
    assert (sections[".bss"].kind, sections[".bss"].size) == (elf_file.ZEROS, 100)
    assert len(sections[".bss"].data) == 0
    assert sections[".text"].flags & elf_file.EXECUTE
    symbols = {symbol.name: symbol for symbol in file.symbols if symbol.name}
    assert file.sections[symbols["data"].section].name == ".data"
    assert (symbols["data"].kind, symbols["data"].size) == (elf_file.OBJECT, 12)
    assert symbols["call"].binding == elf_file.GLOBAL
    assert symbols["zeros"].binding == elf_file.LOCAL
    assert symbols["other"].section == elf_file.UNDEFINED
    assert len(sections[".rela.text"].data) // elf_file.RELOCATION.size >= 4


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"", "no ELF file"),
        (b"\x7fELF\x01\x01\x01" + bytes(100), "no ELF file of 64 bits"),
        (CODE[:16], "broken"),
        (CODE[:16] + b"\x02\x00" + CODE[18:], "no object code"),
    ],
)
def test_what_is_no_object_file(code, why) -> None:
    with pytest.raises(ValueError, match=why):
        read_object_file(code)


def test_files_cut_short() -> None:
    for size in range(len(CODE)):
        with pytest.raises(ValueError):
            read_object_file(CODE[:size])


def test_changed_bytes_never_do_more_than_be_refused() -> None:
    draw = random.Random(0)
    refused = 0
    for _ in range(2000):
        broken = bytearray(CODE)
        for _ in range(draw.randint(1, 4)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            read_object_file(bytes(broken))
        except ValueError:
            refused += 1
    assert refused > 100
