"""Our linker: code runs as with LLVM's own, pages are protected, broken objects are refused."""

from __future__ import annotations

import ctypes
import gc
import mmap
import platform
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects import elf_linker
from weft.codegen.objects import native_library as llvm_linker

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="a linker for x86-64")

WORD = ctypes.c_int64
FUNCTION = ctypes.CFUNCTYPE(WORD, WORD)

# Constants, variables with and without contents, pointers among the data.
FIRST = """
@table = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
@count = internal global i64 100
@total = global i64 0, align 64
@where = global ptr getelementptr (i8, ptr @total, i64 0)

define i64 @prime(i64 %i) {
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @next(i64 %by) {
  %old = load i64, ptr @count
  %new = add i64 %old, %by
  store i64 %new, ptr @count
  %at = load ptr, ptr @where
  store i64 %new, ptr %at
  %seen = load i64, ptr @total
  ret i64 %seen
}
define weak i64 @chosen(i64 %x) {
  ret i64 1
}
"""
# Calls of the first object, of the caller's functions, of libc; an address from elsewhere.
SECOND = """
@total = external global i64
declare i64 @prime(i64)
declare i64 @given(i64)
declare i64 @labs(i64)
declare i64 @apply(ptr, i64)

define i64 @chosen(i64 %x) {
  ret i64 2
}
define i64 @sum(i64 %i) {
  %a = call i64 @prime(i64 %i)
  %b = call i64 @given(i64 %a)
  %c = sub i64 0, %b
  %d = call i64 @labs(i64 %c)
  ret i64 %d
}
define i64 @indirect(i64 %x) {
  %r = call i64 @through(ptr @given, i64 %x)
  %s = call i64 @through(ptr @prime, i64 %r)
  %t = load i64, ptr @total
  %u = add i64 %s, %t
  ret i64 %u
}
define internal i64 @through(ptr %f, i64 %x) noinline {
  %r = call i64 %f(i64 %x)
  ret i64 %r
}
"""


@cache
def compiled(*texts: str) -> tuple[bytes, ...]:
    return tuple(to_object(text, host_target()) for text in texts)


LESS_BY_FOUR = FUNCTION(lambda x: x - 4)
IMPORTS = {"given": ctypes.cast(LESS_BY_FOUR, ctypes.c_void_p).value or 0}


def ours(objects: tuple[bytes, ...], names: list[str], imports: Mapping[str, int]) -> Any:
    return elf_linker.link(objects, imports)


@pytest.mark.parametrize("link", [ours, llvm_linker.link])
def test_programs_of_several_objects_run(link: Callable[..., Any]) -> None:
    names = ["prime", "next", "chosen", "sum", "indirect"]
    library = link(compiled(FIRST, SECOND), names, IMPORTS)
    prime, following, chosen, total, indirect = (FUNCTION(library[name]) for name in names)
    assert [prime(k) for k in range(4)] == [3, 5, 7, 11]
    assert [following(5), following(-7)] == [105, 98]
    assert chosen(0) == 2  # the strong one
    assert [total(k) for k in range(4)] == [1, 1, 3, 7]
    assert indirect(6) == 7 + 98


def test_libraries_have_variables_of_their_own() -> None:
    one, two = (elf_linker.link(compiled(FIRST), {}) for _ in range(2))
    assert [FUNCTION(each["next"])(1) for each in (one, two, one)] == [101, 101, 102]
    assert FUNCTION(one["chosen"])(0) == 1  # the weak one, where there is no other


def test_alignment() -> None:
    image = elf_linker.link(compiled(FIRST), {})
    assert image["total"] % 64 == 0


def permissions(address: int) -> str:
    """Of the page at ``address``, as the kernel writes them; '' where nothing is mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(at, 16) for at in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1]
    return ""


def test_nothing_is_writable_and_executable() -> None:
    image = elf_linker.link(compiled(FIRST, SECOND), IMPORTS)
    assert permissions(image["prime"]) == permissions(image["sum"]) == "r-xp"
    assert permissions(image["total"]) == permissions(image["where"]) == "rw-p"
    first, last = (image[name] // mmap.PAGESIZE for name in ("prime", "total"))
    pages = {permissions(page * mmap.PAGESIZE) for page in range(first, last)}
    assert pages == {"r-xp", "r--p"}


def test_images_go_with_their_last_reference() -> None:
    image = elf_linker.link(compiled(FIRST), {})
    kept = elf_linker.link(compiled(FIRST), {})
    kept.keep()
    gone, stays = image["prime"], kept["prime"]
    del image, kept
    gc.collect()
    assert "x" not in permissions(gone)
    assert FUNCTION(stays)(3) == 11


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((FIRST, FIRST), "two objects define"),
        ((SECOND,), "nothing defines"),
        (("@v = thread_local global i64 1\n" + FIRST,), "single threads"),
    ],
)
def test_what_cannot_be_linked(objects: tuple[str, ...], why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        elf_linker.link(compiled(*objects), IMPORTS)


def test_names_that_no_object_defines() -> None:
    image = elf_linker.link(compiled(FIRST, SECOND), IMPORTS)
    for name in ("absent", "table", "given", "labs"):
        with pytest.raises(RuntimeError, match=f"no object defines {name}"):
            image[name]


def test_no_objects_for_this_processor() -> None:
    good = bytearray(compiled(FIRST)[0])
    good[18] = 183  # AArch64
    for code in (b"", b"\x7fELF", b"no object at all" * 10, bytes(good)):
        with pytest.raises(RuntimeError, match="cannot be linked"):
            elf_linker.link([code], {})


def test_truncated_objects_are_refused() -> None:
    good = compiled(FIRST)[0]
    for size in range(0, len(good), 7):
        with pytest.raises(RuntimeError):
            elf_linker.link([good[:size]], {})


@settings(max_examples=500, derandomize=True)
@given(st.data())
def test_damaged_objects_never_crash(data: st.DataObject) -> None:
    """Tables and headers lie at the end of an object, the file's header at its begin."""
    good = bytearray(compiled(FIRST, SECOND)[data.draw(st.integers(0, 1))])
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, 63) | st.integers(0x40, len(good) - 1))
        good[position] = data.draw(st.sampled_from((0, 1, 127, 128, 255)))
    try:
        elf_linker.link([bytes(good)], {**IMPORTS, "prime": 1, "total": 1, "apply": 1})
    except RuntimeError as error:
        assert str(error)
